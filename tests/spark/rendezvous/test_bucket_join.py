"""Join within buckets: all matches, each once; the plan without the shuffle, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.subscription import Subscription
from palio.peers.event_keys import EventKeys
from palio.peers.mapping_choice import MAPPINGS, MappingChoice, Samples, choose_mapping
from palio.spark.record_batches import OutputColumns, group_into_lists
from palio.spark.rendezvous import bucket_join
from palio.spark.rendezvous.bucket_join import (
    RANGES,
    BucketIndex,
    BucketJoin,
    JoinColumns,
    palio_rendezvous_lists,
    palio_rendezvous_pairs,
)
from palio.spark.rendezvous.shuffle_plan import _key_subscriptions  # the step before the shuffle, without Spark
from palio.spark.subscription_frame import SUBSCRIPTION_SCHEMA
from tests.strategies import readable_conditions


def subscription_batch(subscriptions: list[Subscription]) -> pa.RecordBatch:
    columns: list[Any] = [
        range(len(subscriptions)),
        [each.id for each in subscriptions],
        [each.where for each in subscriptions],
        [False] * len(subscriptions),
        ["sql"] * len(subscriptions),
        [each.subscriber for each in subscriptions],
        ["UTC"] * len(subscriptions),
    ]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SUBSCRIPTION_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SUBSCRIPTION_SCHEMA)


class Shuffle:
    """Both sides, keyed and brought to their buckets, as the plan does it."""

    def __init__(
        self, choice: MappingChoice, subscriptions: list[Subscription], events: pa.RecordBatch, some: bool
    ) -> None:
        self.choice = choice
        self._some = some
        self.events = events
        self._subscriptions = pa.Table.from_batches(
            [*_key_subscriptions(choice, iter([subscription_batch(subscriptions)]))]
        )
        keyed = EventKeys(choice.mapping).of_columns(
            dict(zip(events.schema.names, events.columns, strict=True)), len(events)
        )
        rows, buckets = choice.placement.of_events(keyed, len(events), all_somewhere=some)
        self._buckets = group_into_lists(rows, pa.array(buckets), len(events))

    def batches(self, bucket: int, step: int) -> Iterator[pa.RecordBatch]:
        own = self._subscriptions.filter(pa.compute.equal(self._subscriptions["place"], 2 * bucket)).combine_chunks()
        here = [row for row, found in enumerate(self._buckets.to_pylist()) if bucket in found]
        chosen = self.events.take(pa.array(here, pa.int64()))
        subscription = pa.StructArray.from_arrays(
            [_single_chunk(own[name]) for name in (*SUBSCRIPTION_SCHEMA.names, RANGES)],
            [*SUBSCRIPTION_SCHEMA.names, RANGES],
        )
        event = pa.StructArray.from_arrays(chosen.columns, [f"c{i}" for i in range(chosen.num_columns)])
        elsewhere = pa.array([self._some and self._buckets[row].as_py()[0] != bucket for row in here], pa.bool_())
        keep = pa.StructArray.from_arrays([pa.array(here, pa.int64())], ["k0"], mask=elsewhere)
        both = len(subscription), len(event)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([2 * bucket] * both[0] + [2 * bucket + 1] * both[1], pa.int32()),
                pa.concat_arrays([subscription, pa.nulls(both[1], subscription.type)]),
                pa.concat_arrays([pa.nulls(both[0], event.type), event]),
                pa.concat_arrays([pa.nulls(both[0], keep.type), keep]),
                pa.concat_arrays(
                    [pa.nulls(both[0], self._buckets.type), self._buckets.take(pa.array(here, pa.int64()))]
                ),
                pa.concat_arrays([pa.nulls(both[0], pa.int64()), pa.array(here, pa.int64())]),
            ],
            ["place", "subscription", "event", "keep", "buckets", "row"],
        )
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def _single_chunk(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])


def met(shuffle: Shuffle, step: int) -> list[tuple[int, str]]:
    meeting = BucketJoin(JoinColumns(tuple(shuffle.events.schema.names), (), ("k0",)), OutputColumns("who"))
    found: list[tuple[int, str]] = []
    for bucket in range(shuffle.choice.placement.buckets):
        for batch in palio_rendezvous_pairs(meeting, shuffle.batches(bucket, step)):
            found += zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    return found


def gathered(shuffle: Shuffle, step: int) -> tuple[list[tuple[int, str]], list[int]]:
    meeting = BucketJoin(JoinColumns(tuple(shuffle.events.schema.names), (), ("k0",)), OutputColumns("who"))
    found, kept = [], []
    for bucket in range(shuffle.choice.placement.buckets):
        for batch in palio_rendezvous_lists(meeting, shuffle.batches(bucket, step)):
            for row in batch.to_pylist():
                found += [(row["row"], who) for who in row["who"]]
                kept += [row["row"]] if row["keep"] is not None else []
    return found, kept


NUMBERS = pa.list_(pa.int64())
columns = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-3, 12),
        "b": st.none() | st.sampled_from(["", "a", "ab", "b", "ba", "1"]),
        "c": st.none() | st.lists(st.none() | st.integers(0, 5), max_size=4),
        "`d`": st.none() | st.floats(-2, 5),
    }
)
EVENT_SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", NUMBERS), ("d", pa.float64())])


@given(
    st.lists(readable_conditions(["a", "b", "c", "d"]), min_size=1, max_size=10),
    st.lists(columns, min_size=1, max_size=12),
    st.sampled_from([None, *MAPPINGS]),
    st.integers(1, 6),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_the_buckets_together_find_what_filters_do(
    conditions: list[str], rows: list[dict[str, Any]], mapping: str | None, buckets: int, step: int, choice: Random
) -> None:
    subscriptions = [Subscription(str(number), where) for number, where in enumerate(conditions)]
    events = pa.RecordBatch.from_pylist([{**row, "d": row["`d`"]} for row in rows], EVENT_SCHEMA)
    some = pa.array(choice.sample(range(len(rows)), choice.randrange(len(rows) + 1)), pa.int64())
    sampled = dict(zip(EVENT_SCHEMA.names, events.take(some).columns, strict=True))
    samples = Samples(choice.sample(subscriptions, choice.randrange(len(subscriptions) + 1)), sampled, len(some))
    chosen = choose_mapping(
        samples, len(subscriptions), buckets, len(subscriptions), mapping if samples.attributes else None
    )
    filters = {each.id: each.filter for each in subscriptions}
    expected = sorted(
        (row, id)
        for row, event in enumerate(Event.from_arrow(events))
        for id, filter in filters.items()
        if filter.matches_attributes(event.attributes)
    )
    assert sorted(met(Shuffle(chosen, subscriptions, events, False), step)) == expected
    found, kept = gathered(Shuffle(chosen, subscriptions, events, True), step)
    assert sorted(found) == expected
    assert sorted(kept) == list(range(len(rows)))


def test_a_popular_value_is_divided_and_still_meets_once() -> None:
    """Nearly all events and subscriptions have one value in common, and some subscriptions have no key."""
    choice = Random(5)
    wheres = ["x = 'hot'" + f" AND n > {number}" * (number % 3 > 0) for number in range(300)]
    wheres += [f"x = 'cold{number}'" for number in range(30)] + ["n > 990", "x = 'hot' OR n < 5", "TRUE"]
    subscriptions = [Subscription(str(number), where) for number, where in enumerate(wheres)]
    values = [choice.choice(["hot"] * 9 + ["cold1", "cold2", None]) for _ in range(200)]
    events = pa.RecordBatch.from_pydict({"x": values, "n": [choice.randrange(1000) for _ in values]})
    samples = Samples(subscriptions, dict(zip(["x", "n"], events.columns, strict=True)), 200)
    expected = sorted(
        (row, each.id)
        for row, event in enumerate(Event.from_arrow(events))
        for each in subscriptions
        if each.filter.matches_attributes(event.attributes)
    )
    divided = set()
    for mapping in MAPPINGS:
        chosen = choose_mapping(samples, len(subscriptions), 8, 50, mapping)
        if any((axis.rows > 1).any() for axis in chosen.placement.axes):
            divided.add(mapping)
        assert sorted(met(Shuffle(chosen, subscriptions, events, False), 64)) == expected
    assert "selective-attribute" in divided


def test_where_nothing_can_be_keyed_subscriptions_are_split_and_events_copied() -> None:
    subscriptions = [Subscription(str(number), f"a + b > {number}") for number in range(100)]
    events = pa.RecordBatch.from_pydict({"a": list(range(50)), "b": list(range(50))})
    samples = Samples(subscriptions, dict(zip("ab", events.columns, strict=True)), 50)
    chosen = choose_mapping(samples, 100, 4, 25)
    found = met(Shuffle(chosen, subscriptions, events, False), 20)
    assert len(found) == len(set(found)) == sum(2 * row > number for row in range(50) for number in range(100))


def test_equality_on_a_varied_attribute_is_keyed_by_it() -> None:
    choice = Random(2)
    subscriptions = [
        Subscription(str(number), f"user = 'u{choice.randrange(5_000)}' AND kind = 'k{number % 3}'")
        for number in range(2_000)
    ]
    users = pa.array([f"u{choice.randrange(5_000)}" for _ in range(1_000)])
    samples = Samples(subscriptions, {"user": users, "kind": pa.array(["k1"] * 1_000)}, 1_000)
    chosen = choose_mapping(samples, 1_000_000, 16, 100_000)
    assert "user" in chosen.mapping.histograms
    assert chosen.event_copies < 1.1
    assert chosen.subscription_copies < 1.1
    assert 14 <= chosen.placement.buckets <= 26
    assert "user: " in str(chosen)


@given(st.data())
def test_only_the_first_seen_here_speaks(data: st.DataObject) -> None:
    # Its result is visible through a job only as the absence of repeats.
    from palio.spark.rendezvous.bucket_join import _first_seen_here

    count = data.draw(st.integers(1, 9))
    of_subscription = [sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1))) for _ in range(4)]
    of_event = [sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1))) for _ in range(4)]
    told: list[tuple[int, int]] = []
    for bucket in range(count):
        numbers = [n for n, own in enumerate(of_subscription) if bucket in own]
        rows = [r for r, own in enumerate(of_event) if bucket in own]
        if not numbers or not rows:
            continue
        ranges = [[end for each in of_subscription[n] for end in (each, each)] for n in numbers]
        names = pa.array([""] * len(numbers))
        index = BucketIndex(bucket, None, names, names, pa.array(numbers), pa.array(ranges, pa.list_(pa.int32())))  # type: ignore[arg-type]
        pairs = [(r, n) for r in range(len(rows)) for n in range(len(numbers))]
        here = _first_seen_here(
            index,
            pa.array([of_event[r] for r in rows], pa.list_(pa.int32())),
            np.array([r for r, _ in pairs]),
            np.array([n for _, n in pairs]),
        )
        told += [(rows[pairs[at][0]], numbers[pairs[at][1]]) for at in here]
    expected = [(r, n) for r in range(4) for n in range(4) if set(of_event[r]) & set(of_subscription[n])]
    assert sorted(told) == expected


def test_an_index_is_kept_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Outside of Spark, and with fewer subscriptions than are worth a cache.
    monkeypatch.setattr(bucket_join, "_folder", lambda: tmp_path)
    monkeypatch.setattr(bucket_join, "_MIN_CACHED_SUBSCRIPTIONS", 1)
    subscriptions = [Subscription(f"s{number}", f"x = {number}") for number in range(20)]
    table = pa.Table.from_batches([subscription_batch(subscriptions)])
    assert bucket_join.open_index(table).match({"x": 3}) == {"s3"}
    (kept,) = tmp_path.iterdir()
    made = kept.stat().st_ino
    assert bucket_join.open_index(pa.concat_tables([table.slice(0, 7), table.slice(7)])).match({"x": 4}) == {"s4"}
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_ino == made
    other = pa.Table.from_batches([subscription_batch(subscriptions[1:])])
    assert bucket_join.open_index(other).match({"x": 0}) == set()
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(bucket_join, "_MAX_CACHE_BYTES", 0)
    bucket_join.open_index(pa.Table.from_batches([subscription_batch(subscriptions[2:])]))
    assert len(list(tmp_path.iterdir())) == 1


def test_subscriptions_that_can_never_match_are_in_no_bucket() -> None:
    samples = Samples([Subscription("a", "x = 1")], {"x": pa.array([1, 2])}, 2)
    chosen = choose_mapping(samples, 1, 2, 10, "selective-attribute")
    (batch,) = _key_subscriptions(
        chosen, iter([subscription_batch([Subscription("n", "x = 1 AND x = 2"), Subscription("b", "x >")])])
    )
    assert batch.num_rows == 0
    assert Filter.parse("x = 1 AND x = 2") == Filter.nothing
