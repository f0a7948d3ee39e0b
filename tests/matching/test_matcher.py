"""Palio's own matcher beside matching: results, look-up, replacement, saving."""

from __future__ import annotations

import copy
import pickle
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest

import palio
from palio.filters.filter import Filter
from palio.matching import index_file
from palio.matching.catalogue import BLOCK_SUBSCRIPTIONS, Block
from palio.matching.matcher import Matcher


@pytest.fixture
def thousands() -> Matcher:
    matcher = Matcher()
    matcher.add_many([f"subscription {n}" for n in range(5_000)], [f"x = {n}" for n in range(5_000)])
    return matcher


class TestResults:
    def test_few_matches_carry_few_ids(self, thousands: Matcher) -> None:
        found = thousands.match_batch([{"x": 7}, {"x": 4_999}, {"x": 7}, {"x": -1}])
        assert found.column("row").to_pylist() == [0, 1, 2]
        names = ["subscription 7", "subscription 4999", "subscription 7"]
        assert found.column("subscription").to_pylist() == names
        assert len(found.column("subscription").chunk(0).dictionary) == 2
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema) as writer:
            writer.write_table(found)
        assert len(sink.getvalue()) < 2_000

    def test_all_pieces_of_a_large_batch_share_a_dictionary(self, thousands: Matcher) -> None:
        found = thousands.match_batch(pa.table({"x": [n if n % 8_000 == 0 else -1 for n in range(20_000)]}))
        assert found.column("subscription").to_pylist() == ["subscription 0"]
        found = thousands.match_batch(pa.table({"x": [n % 5_000 if n % 1_000 == 0 else -1 for n in range(20_000)]}))
        assert len(found) == 20
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, found.schema) as writer:  # which takes one dictionary only
            writer.write_table(found)

    def test_many_matches_carry_all(self, thousands: Matcher) -> None:
        found = thousands.match_batch(pa.table({"x": list(range(5_000))}))
        assert found.column("subscription").to_pylist() == [f"subscription {n}" for n in range(5_000)]

    def test_none_carry_none(self, thousands: Matcher) -> None:
        for events in ([], [{"x": -1}], pa.table({"x": [-1] * 9_000})):
            found = thousands.match_batch(events)
            assert found.num_rows == 0
            assert found.schema.field("subscription").type == pa.dictionary(pa.int32(), pa.string())


class TestReplacing:
    def test_what_is_not_given_stays(self, tmp_path: Path) -> None:
        matcher = Matcher()
        matcher.add("a", "x > 1", subscriber="ops", metadata={"k": 1})
        matcher.add_many(["b"], ["x > 1"])
        matcher.replace("a", "x > 2")
        assert matcher["a"] == palio.Subscription("a", "x > 2", "sql", "ops", {"k": 1})
        matcher.save(tmp_path / "wants.palio")
        matcher = Matcher.open(tmp_path / "wants.palio")
        matcher.replace("a", "x > 3", subscriber="desk")
        assert matcher["a"] == palio.Subscription("a", "x > 3", "sql", "desk", {"k": 1})
        matcher.replace("a", "x > 4", metadata={"m": 2})
        assert matcher["a"] == palio.Subscription("a", "x > 4", "sql", "desk", {"m": 2})
        matcher.replace("a", "x > 5", subscriber=None, metadata=None)
        assert matcher["a"] == palio.Subscription("a", "x > 5")
        matcher.replace("b", "x > 2")
        assert matcher["b"] == palio.Subscription("b", "x > 2")

    def test_what_cannot_be_read_changes_nothing(self) -> None:
        matcher = Matcher()
        matcher.add("a", "x > 1", subscriber="ops")
        with pytest.raises(palio.InvalidSubscription):
            matcher.replace("a", "x >")
        with pytest.raises(palio.UnknownSubscription):
            matcher.replace("b", "x > 1")
        assert matcher["a"] == palio.Subscription("a", "x > 1", "sql", "ops")


class TestLooking:
    def test_one_subscription_is_found_without_reading_thousands(
        self, thousands: Matcher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unpacked: list[int] = []
        unpack = Block.unpack
        monkeypatch.setattr(Block, "unpack", lambda block: unpacked.append(len(block.ids)) or unpack(block))
        assert thousands["subscription 3210"].where == "x = 3210"
        assert len(unpacked) == 1
        assert unpacked[0] <= BLOCK_SUBSCRIPTIONS <= 512

    def test_it_says_what_it_is(self) -> None:
        matcher = Matcher()
        assert repr(matcher) == "<Matcher of 0 subscriptions>"
        matcher.add("a", "x > 1")
        assert repr(matcher) == "<Matcher of 1 subscription>"

    @pytest.mark.parametrize("carry", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_it_is_saved_and_opened_rather_than_pickled(self, carry: Any) -> None:
        with pytest.raises(palio.PalioError, match=r"save\(\).*open\(\)"):
            carry(Matcher())

    def test_many_may_be_none(self) -> None:
        matcher = Matcher()
        matcher.add_many([], [])
        matcher.add_many(["a"], ["x > 1"])
        matcher.add_many([], [])
        matcher.remove_many([])
        assert matcher.match({"x": 2}) == {"a"}

    def test_many_may_be_read_in_another_zone(self) -> None:
        matcher = Matcher()
        wheres = [f"t = TIMESTAMP'2024-01-{day:02} 09:00:00'" for day in range(1, 21)]
        matcher.add_many(map(str, range(1, 21)), wheres, timezone="Asia/Tokyo")
        assert matcher.match({"t": datetime(2024, 1, 3, tzinfo=UTC)}) == {"3"}
        assert matcher["3"].timezone == "Asia/Tokyo"


class TestMapping:
    """A matcher is used like a dict of ids and conditions."""

    def test_it_is_made_of_a_mapping_or_of_pairs(self) -> None:
        wheres = {"a": "x > 3", "b": Filter.parse("x > 5")}
        for made in (Matcher(wheres), Matcher(wheres.items()), Matcher(list(wheres.items()))):
            assert made.match({"x": 4}) == {"a"}
            assert made.match({"x": 6}) == {"a", "b"}
        assert len(Matcher({})) == len(Matcher([])) == 0

    def test_assignment_adds_and_replaces(self) -> None:
        matcher = Matcher()
        matcher["a"] = "x > 3"
        assert matcher.match({"x": 4}) == {"a"}
        matcher["a"] = "x > 5"
        assert matcher.match({"x": 4}) == set()
        assert len(matcher) == 1
        with pytest.raises(palio.InvalidSubscription):
            matcher["a"] = "x >"
        assert matcher["a"].where == "x > 5"

    def test_assignment_of_a_subscription_brings_all_it_has(self) -> None:
        one, two = Matcher(), Matcher({"b": "x > 1"})
        one.add("a", '{"x": [4]}', language="eventbridge", subscriber="ann", metadata={"n": 1})
        two["a"] = two["b"] = one["a"]
        assert two["a"] == one["a"]
        assert (two["b"].id, two["b"].subscriber, two["b"].metadata) == ("b", "ann", {"n": 1})
        assert two.match({"x": 4}) == {"a", "b"}
        two["b"] = palio.Subscription("b", "x > 1")
        assert two["b"] == palio.Subscription("b", "x > 1")

    def test_deletion_and_discarding(self) -> None:
        matcher = Matcher({"a": "x > 3", "b": "x > 5"})
        del matcher["a"]
        matcher.discard("a")
        matcher.discard("b")
        assert list(matcher) == []
        with pytest.raises(KeyError):
            del matcher["a"]

    def test_get_is_that_of_a_dict(self) -> None:
        matcher = Matcher({"a": "x > 3"})
        assert matcher.get("a") == matcher["a"]
        assert (matcher.get("b"), matcher.get("b", 7)) == (None, 7)

    def test_items_are_ids_and_subscriptions_and_make_a_copy(self) -> None:
        matcher = Matcher({"a": "x > 3", "b": "x > 5"})
        matcher.add("c", "x > 4", metadata={"n": 1})
        matcher.remove("a")
        assert list(matcher.items()) == [(id, matcher[id]) for id in ("b", "c")]
        assert list(Matcher(matcher.items()).items()) == list(matcher.items())
        dict(matcher.items())["c"].metadata["n"] = 2  # type: ignore[index]
        assert matcher["c"].metadata == {"n": 1}

    def test_clearing_leaves_nothing(self, thousands: Matcher) -> None:
        thousands.add("live", "x = 7")
        thousands.clear()
        assert (len(thousands), list(thousands), thousands.match({"x": 7})) == (0, [], set())
        assert thousands.match_batch([{"x": 7}]).num_rows == 0
        thousands["live"] = "x = 8"
        assert thousands.match({"x": 8}) == {"live"}

    def test_many_are_added_of_a_mapping_or_pairs_in_a_language(self) -> None:
        matcher = Matcher()
        matcher.add_many({"a": '{"x": [4]}'}, language="eventbridge")
        matcher.add_many([("b", "x = 4"), ("c", "x = 5")])
        assert matcher.match({"x": 4}) == {"a", "b"}

    @pytest.mark.parametrize(
        "given",
        [
            ("a", "x > 3"),
            (["a"], "x"),
            ("a", ["x > 3"]),
            (["a"], Filter.everything),
            (["a"], {"x": [1]}),
            ("ab",),
            (["ab"],),
            ([("a", "x > 3", "y")],),
            (5,),
            (["a"], 5),
        ],
    )
    def test_what_is_not_many_is_refused(self, given: Any) -> None:
        matcher = Matcher()
        with pytest.raises(palio.InvalidArgument, match=r"add_many takes|pair of an id"):
            matcher.add_many(*given)
        assert len(matcher) == 0


class TestSaving:
    def test_two_may_save_to_one_place_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "wants.palio"
        matchers = []
        for id in ("a", "b"):
            matcher = Matcher()
            matcher.add_many([f"{id}{n}" for n in range(300)], [f"x = {n}" for n in range(300)])
            matchers.append(matcher)
        failures: list[BaseException] = []

        def save(matcher: Matcher) -> None:
            try:
                for _ in range(20):
                    matcher.save(path)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=save, args=(matcher,)) for matcher in matchers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(Matcher.open(path)) == 300
        assert [each.name for each in tmp_path.iterdir()] == ["wants.palio"]

    def test_a_failure_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        matcher = Matcher()
        matcher.add("a", "x > 1")

        def fail(*_: Any) -> None:
            raise MemoryError

        monkeypatch.setattr(index_file, "_write_catalogue", fail)
        with pytest.raises(MemoryError):
            matcher.save(tmp_path / "wants.palio")
        assert list(tmp_path.iterdir()) == []


def test_new_conditions_that_are_all_asked_together_are_indexed_sooner_than_those_told_apart() -> None:
    together, apart = Matcher(), Matcher()
    for number in range(600):
        together.add(str(number), f"price > {number} AND symbol = 'ACME'")
        apart.add(str(number), f"price > {number} AND symbol = 's{number}'")
    assert together.statistics().segments == 1
    assert apart.statistics().segments == 0
    assert together.match({"price": 3, "symbol": "ACME"}) == {"0", "1", "2"}
    assert apart.match({"price": 3, "symbol": "s2"}) == {"2"}


def test_one_element_of_an_array_satisfies_all_conditions_on_it_before_and_after_indexing() -> None:
    wants = Matcher()
    for number in range(3):
        wants.add(str(number), f"temperature BETWEEN {20 + number} AND 30 AND status <> 'off' AND NOT muted")
    for temperature, expected in (([5, 40], set()), ([5, 21, 40], {"0", "1"})):
        event = {"temperature": temperature, "status": "on", "muted": False, "tags": ["a", "b"]}
        assert wants.match(event) == expected
        assert set(wants.match_batch([event])["subscription"].to_pylist()) == expected
        assert wants.match(event) == expected


def test_batches_of_whatever_exports_an_arrow_stream() -> None:
    wants = Matcher()
    wants.add("a", "x > 1")
    table = pa.table({"x": [1, 2, 3]})
    for batch in (table, table.to_reader(), polars.from_arrow(table)):
        assert wants.match_batch(batch)["row"].to_pylist() == [1, 2]


def test_metadata_is_found_by_number(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add("a", "x > 1", metadata={"level": 3})
    matcher.add("b", "x > 1")
    matcher.add("c", "x > 1", metadata={"level": None, "other": 1})
    matcher.replace("a", "x > 2", metadata={"level": 4})
    matcher.save(tmp_path / "index.palio")
    for each in (matcher, Matcher.open(tmp_path / "index.palio")):
        by_number = zip(each.numbered_ids().to_pylist(), each.numbered_metadata(), strict=True)
        # A replaced one has its latest number last.
        assert dict(by_number) == {"a": {"level": 4}, "b": {}, "c": {"level": None, "other": 1}}


def test_metadata_is_found_by_number_across_blocks(thousands: Matcher) -> None:
    thousands.add("one more", "x = 1", metadata={"level": 3})
    thousands.add_many([f"last {n}" for n in range(5_000)], ["x = 2"] * 5_000)
    found = list(thousands.numbered_metadata())
    assert len(found) == len(thousands.numbered_ids()) == 10_001
    assert [number for number, each in enumerate(found) if each] == [5_000]
