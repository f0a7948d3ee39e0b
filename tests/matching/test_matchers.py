"""Agreement of every matcher with brute force."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import palio
from palio.errors import DuplicateSubscription, EventError, UnknownSubscription
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching import compaction, live_segment, segments
from palio.matching.classical.counting import CountingMatcher
from palio.matching.classical.interval_tree import IntervalIndex
from palio.matching.classical.kdtree import KdTreeMatcher
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from tests.filters.set_strategies import intervals
from tests.matching.suite import (
    EVENTS,
    MATCHERS,
    SORTS,
    Make,
    MatcherSuite,
    as_table,
    check,
    filled,
    ids_by_row,
    random_events,
    random_subscriptions,
)
from tests.strategies import NAMES, OF_KIND, POOLS, Kind, readable_conditions

SINGLE = ["brute force", "counting", "k-d tree", "palio", "palio in one segment"]


@pytest.mark.parametrize("make", MATCHERS.values(), ids=MATCHERS.keys())
class TestEveryMatcher(MatcherSuite):
    """The shared suite."""


@pytest.fixture(scope="module")
def subscriptions() -> dict[str, Filter]:
    return {f"s{number}": Filter.parse(text) for number, text in enumerate(random_subscriptions(10_000, seed=1))}


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return random_events(20, seed=2)


@pytest.fixture(scope="module")
def expected(subscriptions: dict[str, Filter], events: list[Event]) -> list[set[str]]:
    return [{id for id, each in subscriptions.items() if each.matches(event)} for event in events]


class TestTenThousandSubscriptions:
    @pytest.mark.parametrize("make", [CountingMatcher, KdTreeMatcher, Matcher])
    def test_one_by_one(
        self, make: Make, subscriptions: dict[str, Filter], events: list[Event], expected: list[set[str]]
    ) -> None:
        matcher = filled(make, subscriptions)
        assert [matcher.match(event) for event in events] == expected
        for id in list(subscriptions)[::2]:
            matcher.remove(id)
        left = [{id for id in ids if int(id[1:]) % 2} for ids in expected]
        assert [matcher.match(event) for event in events] == left

    def test_at_once(self, subscriptions: dict[str, Filter], events: list[Event], expected: list[set[str]]) -> None:
        matcher = Matcher()
        matcher.add_many(subscriptions, random_subscriptions(10_000, seed=1))
        assert [matcher.match(event) for event in events] == expected
        assert ids_by_row(matcher.match_batch(events), len(events)) == expected
        plain = [event for event in events if as_table([event]) is not None]
        table = as_table(plain)
        if table is not None:
            assert ids_by_row(matcher.match_batch(table), len(plain)) == [
                ids for ids, event in zip(expected, events, strict=True) if event in plain
            ]


class TestEarlyStopping:
    """Counting and the k-d tree may be asked for some matches only (Shen §3.4.3)."""

    @pytest.mark.parametrize("make", [CountingMatcher, KdTreeMatcher])
    def test_some_are_found_among_all_and_as_many_as_there_are(self, make: Any) -> None:
        matcher = make()
        for number, text in enumerate(random_subscriptions(500, seed=3)):
            matcher.add(f"s{number}", text)
        for event in random_events(20, seed=4):
            everything = matcher.match(event)
            some = matcher.find_any(event)
            assert some in everything or (some is None and not everything)
            for limit in (0, 1, 3, 10_000):
                found = matcher.find_up_to(event, limit)
                assert found <= everything
                assert len(found) == min(limit, len(everything))
            assert matcher.match(event) == everything

    def test_a_tree_is_made_anew_when_half_of_it_is_gone(self) -> None:
        matcher = KdTreeMatcher()
        for number in range(1000):
            matcher.add(str(number), f"x BETWEEN {number} AND {number + 10}")
        for number in range(900):
            matcher.remove(str(number))
        # The bound is on the trees themselves; no public figure shows them.
        assert sum(len(tree) for tree in matcher._trees) + len(matcher._new) <= 2 * len(matcher) + 32
        assert matcher.match({"x": 950}) == {str(number) for number in range(940, 951)}


class TestStabbing:
    @pytest.mark.parametrize("kind", [Kind.INTEGER, Kind.FLOAT, Kind.STRING, Kind.DECIMAL])
    def test_it_finds_the_sets_that_contain_a_value(self, kind: Kind) -> None:
        from palio.filters.kinds import position_of

        @given(st.lists(intervals(kind), max_size=60), st.sets(st.integers(0, 59)), OF_KIND[kind])
        def run(sets: list[Any], gone: set[int], other: Any) -> None:
            index = IntervalIndex(kind)
            places = [position_of(kind, value) for value in (*POOLS[kind], other)]
            for number, part in enumerate(sets):
                index.add(number, part)
            for place in places[:3]:
                assert sorted(index.find(place)) == [n for n, part in enumerate(sets) if part.contains(place)]
            for number in gone:
                if number < len(sets):
                    index.remove(number, sets[number])
            for place in places:
                assert sorted(index.find(place)) == [
                    n for n, part in enumerate(sets) if n not in gone and part.contains(place)
                ]

        run()


# Columns of every type that has the values of a kind.
COLUMNS: dict[Kind, list[pa.DataType]] = {
    Kind.BOOLEAN: [pa.bool_()],
    Kind.INTEGER: [pa.int64(), pa.int32(), pa.int8(), pa.uint16(), pa.uint64()],
    Kind.FLOAT: [pa.float64(), pa.float32()],
    Kind.DECIMAL: [pa.decimal128(38, 2), pa.decimal128(10, 0)],
    Kind.STRING: [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()],
    Kind.DATE: [pa.date32(), pa.date64()],
    Kind.TIMESTAMP: [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.timestamp("s", "Europe/Paris")],
    Kind.BYTES: [pa.binary(), pa.large_binary()],
    Kind.NULL: [pa.null()],
}


@st.composite
def tables(draw: Any) -> pa.Table:
    """A table with a column of some type for some attributes, nulls in it, perhaps in several chunks."""
    count = draw(st.integers(0, 12))
    columns: dict[str, pa.Array] = {}
    for name in ("a", "b", "c", "f.g"):
        kind = draw(st.none() | st.sampled_from(list(COLUMNS)))
        if kind is not None:
            column = draw(st.sampled_from(COLUMNS[kind]))
            columns[name] = pa.array([_fitting(draw, kind, column) for _ in range(count)], column)
    if draw(st.booleans()):
        columns["d"] = pa.array(
            [draw(st.none() | st.just({"e": n})) for n in range(count)], pa.struct([("e", pa.int64())])
        )
    if not columns:
        columns["other"] = pa.nulls(count)
    table = pa.table(columns)
    at = draw(st.integers(0, count))
    return pa.concat_tables([table.slice(0, at), table.slice(at)]) if draw(st.booleans()) else table


def _fitting(draw: Any, kind: Kind, column: pa.DataType) -> Any:
    """A value of a kind that a column can hold, or None."""
    value = draw(st.none() | OF_KIND[kind])
    inner = column.value_type if pa.types.is_dictionary(column) else column
    try:
        pa.array([value], inner)
    except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError):
        return None
    return value


class TestBatches:
    @given(st.lists(readable_conditions(), min_size=1, max_size=12), tables())
    def test_columns_mean_what_their_rows_do(self, wheres: list[str], table: pa.Table) -> None:
        matcher = Matcher()
        matcher.add_many(map(str, range(len(wheres))), wheres)
        filters = {str(number): Filter.parse(where) for number, where in enumerate(wheres)}
        events = list(Event.from_arrow(table))
        expected = [{id for id, each in filters.items() if each.matches(event)} for event in events]
        assert ids_by_row(matcher.match_batch(table), table.num_rows) == expected
        for batch in table.to_batches():
            assert len(ids_by_row(matcher.match_batch(batch), batch.num_rows)) == batch.num_rows
        assert ids_by_row(matcher.match_batch(events), len(events)) == expected
        assert [matcher.match(event) for event in events] == expected

    @given(st.lists(readable_conditions(), min_size=1, max_size=6), st.lists(st.sampled_from(EVENTS), max_size=8))
    def test_rows_are_events(self, wheres: list[str], events: list[dict[str, Any]]) -> None:
        matcher = Matcher()
        matcher.add_many(map(str, range(len(wheres))), wheres)
        found = ids_by_row(matcher.match_batch(events), len(events))
        assert found == [matcher.match(event) for event in events]

    def test_a_batch_of_many_rows_is_the_rows_one_by_one(self) -> None:
        matcher = filled(Matcher, SORTS)
        rows = [{"a": number % 17, "b": number % 5, "c": f"x{number % 11}z"} for number in range(20_000)]
        table = pa.table({name: [row[name] for row in rows] for name in "abc"})
        found = ids_by_row(matcher.match_batch(table), len(rows))
        for number in range(0, len(rows), 997):
            assert found[number] == matcher.match(rows[number])

    def test_an_empty_batch_has_no_matches(self) -> None:
        matcher = filled(Matcher, SORTS)
        for batch in ([], pa.table({"a": pa.array([], pa.int64())})):
            assert matcher.match_batch(batch).num_rows == 0
        assert Matcher().match_batch([{"a": 1}]).num_rows == 0

    def test_one_event_is_no_batch(self) -> None:
        for event in ({"a": 1}, '{"a": 1}', Event({"a": 1})):
            with pytest.raises(EventError):
                Matcher().match_batch(event)


class TestManyThreads:
    def test_matching_goes_on_while_others_add_and_remove(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What stays is always matched, what is gone never again, whatever is merged meanwhile."""
        monkeypatch.setattr(live_segment, "_MAX_SUBSCRIPTIONS", 16)
        for name, value in (("MAX_LIVE_WHEN_SETTLED", 2), ("_QUIET_MATCHES", 4), ("QUIET_SECONDS", 0.001)):
            monkeypatch.setattr(segments, name, value)
        monkeypatch.setattr(compaction, "_MERGE_FACTOR", 3)
        matcher = Matcher()
        staying = {f"stays {number}" for number in range(50)}
        for id in staying:
            matcher.add(id, "a = 1 AND b LIKE '%x%' AND c > d")
        matcher.add("gone", "a = 1")
        matcher.remove("gone")
        event = {"a": 1, "b": "xyz", "c": 2, "d": 1}
        stop = threading.Event()

        def change(worker: int) -> None:
            for round in range(60):
                ids = [f"{worker} {round} {number}" for number in range(8)]
                matcher.add_many(ids, [f"a = {number % 3} AND c > {number}" for number in range(8)])
                matcher.replace(ids[0], "a > 0 OR b RLIKE 'z$'")
                matcher.add(f"{worker} {round}", f"a = {round % 3}")
                for id in ids:
                    matcher.remove(id)

        def ask() -> int:
            asked = 0
            while not stop.is_set():
                found = matcher.match(event) if asked % 2 else ids_by_row(matcher.match_batch([event]), 1)[0]
                assert staying <= found
                assert "gone" not in found
                asked += 1
            return asked

        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(2)]
            changing = [pool.submit(change, worker) for worker in range(2)]
            try:
                for each in changing:
                    each.result(timeout=300)
            finally:
                stop.set()
            assert all(each.result(timeout=60) > 0 for each in asking)
        left = {f"{worker} {round}" for worker in range(2) for round in range(60) if round % 3 == 1}
        matcher.merge()
        assert matcher.match(event) == staying | left
        assert len(matcher) == 50 + 120

    def test_what_is_replaced_is_never_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(live_segment, "_MAX_SUBSCRIPTIONS", 16)
        matcher = filled(Matcher, {"x": "a = 1", **{f"o{number}": "b + c > 5 AND a = 1" for number in range(40)}})
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                assert matcher.match({"a": 1}) == {"x"}
                assert ids_by_row(matcher.match_batch([{"a": 1}]), 1) == [{"x"}]

        with ThreadPoolExecutor(2) as pool:
            asking = [pool.submit(ask) for _ in range(2)]
            try:
                for round in range(500):
                    matcher.replace("x", "a > 0" if round % 2 else "a = 1")
            finally:
                stop.set()
            for each in asking:
                each.result(timeout=60)

    def test_a_batch_is_matched_by_many_threads_at_once(self) -> None:
        matcher = filled(Matcher, SORTS)
        rows = [{"a": number % 17, "b": number % 5, "c": f"x{number % 11}z"} for number in range(2_000)]
        table = pa.table({name: [row[name] for row in rows] for name in "abc"})
        expected = ids_by_row(matcher.match_batch(table), len(rows))
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(matcher.match_batch, [table] * 12):
                assert ids_by_row(found, len(rows)) == expected


class TestPalio:
    def test_many_are_added_or_none(self) -> None:
        matcher = filled(Matcher, {"x": "a > 1"})
        with pytest.raises(DuplicateSubscription):
            matcher.add_many(["y", "x"], ["a > 2", "a > 3"])
        with pytest.raises(DuplicateSubscription):
            matcher.add_many(["y", "y"], ["a > 2", "a > 3"])
        with pytest.raises(palio.InvalidSubscription, match="'z'"):
            matcher.add_many(["y", "z"], ["a > 2", "a >"])
        with pytest.raises(palio.InvalidArgument, match="2 ids and 1"):
            matcher.add_many(["y", "z"], ["a > 2"])
        assert list(matcher) == ["x"]
        assert matcher.match({"a": 5}) == {"x"}

    def test_many_are_removed_or_none(self) -> None:
        matcher = filled(Matcher, {"x": "a > 1", "y": "a > 2"})
        with pytest.raises(UnknownSubscription):
            matcher.remove_many(["x", "nobody"])
        assert matcher.match({"a": 5}) == {"x", "y"}
        matcher.remove_many(["x", "y"])
        assert len(matcher) == 0

    def test_removing_one_twice_in_a_call_is_an_error_and_counts_once(self) -> None:
        matcher = filled(Matcher, {"x": "a > 1", "y": "a > 2"})
        with pytest.raises(UnknownSubscription):
            matcher.remove_many(["x", "x"])
        assert len(matcher) == 2

    def test_a_subscription_is_given_back_with_all_it_came_with(self, tmp_path: Any) -> None:
        matcher = Matcher()
        matcher.add("x", "a > 1", subscriber="me", metadata={"level": 3})
        matcher.add("f", Filter.parse("b LIKE '%z%'"))
        matcher.add_subscriptions([Subscription("y", "a > 2", "sql", "you", {"k": ["v"]})])
        matcher.save(tmp_path / "wants.palio")
        for each in (matcher, Matcher.open(tmp_path / "wants.palio")):
            assert (each["x"].where, each["x"].subscriber, each["x"].metadata) == (
                "a > 1",
                "me",
                {"level": 3},
            )
            assert each["y"].metadata == {"k": ["v"]}
            assert each["f"].filter == Filter.parse("b LIKE '%z%'")
            assert list(each) == ["x", "f", "y"]
            with pytest.raises(UnknownSubscription):
                each["nobody"]

    def test_a_filter_keeps_its_time_zone_when_saved(self, tmp_path: Any) -> None:
        wanted = Filter.parse("hour(t) = 3 AND u > v", timezone="Asia/Tokyo")
        matcher = filled(Matcher, {"x": wanted})
        event = {"t": datetime(2024, 1, 1, 18, 30, tzinfo=UTC), "u": 2, "v": 1}
        assert wanted.matches(event)
        assert matcher.match(event) == {"x"}
        matcher.save(tmp_path / "wants.palio")
        opened = Matcher.open(tmp_path / "wants.palio")
        assert opened.match(event) == {"x"}
        assert ids_by_row(opened.match_batch([event]), 1) == [{"x"}]

    def test_what_was_saved_while_others_had_been_removed_opens_the_same(self, tmp_path: Any) -> None:
        matcher = filled(Matcher, SORTS)
        for sort in list(SORTS)[::2]:
            matcher.remove(sort)
        matcher.save(tmp_path / "wants.palio")
        opened = Matcher.open(tmp_path / "wants.palio")
        assert len(opened) == len(matcher)
        filters = {sort: Filter.parse(SORTS[sort]) for sort in list(SORTS)[1::2]}
        check(opened, filters, map(Event.from_dict, EVENTS))
        opened.merge()
        check(opened, filters, map(Event.from_dict, EVENTS))
        opened.add("always", "TRUE")
        assert "always" in opened.match({})

    @given(st.lists(st.tuples(st.sampled_from(NAMES[:3]), st.integers(-3, 3)), min_size=1, max_size=5))
    def test_plain_texts_read_in_bulk_mean_what_the_parser_says(self, parts: list[tuple[str, int]]) -> None:
        texts = [
            " AND ".join(f"{name} {operator} {number}" for name, number in parts)
            for operator in ("=", "<", "<=", ">", ">=", "<>")
        ]
        texts += [" AND ".join(f"{name} BETWEEN {number} AND {number + 1}" for name, number in parts)]
        texts += [" AND ".join(f"{name} = '{word}'" for name, _ in parts) for word in ("x", "t", "nan", "e1", "no", "")]
        matcher = Matcher()
        matcher.add_many(map(str, range(len(texts))), texts)
        filters = {str(number): Filter.parse(text) for number, text in enumerate(texts)}
        values: list[Any] = [*range(-4, 5), 0.5, True, False, None, "x", "t", "nan", float("nan"), ""]
        check(matcher, filters, [Event(dict.fromkeys(NAMES[:3], value)) for value in values])
