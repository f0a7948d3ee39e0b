"""Suite for every matcher: errors, sorts of filter, agreement with brute force.

A matcher is right if it answers as its filters do when they are asked one by one. `MATCHERS` has every
structure behind the protocol, and Palio's own several times over: event by event, as batches of rows and of
columns, after it was merged, after it was saved and opened again.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.covering.classical.posets import ForestMatcher, PosetMatcher
from palio.errors import DuplicateSubscription, EventError, InvalidSubscription, UnknownSubscription
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.classical.brute_force import BruteForceMatcher
from palio.matching.classical.counting import CountingMatcher
from palio.matching.classical.kdtree import KdTreeMatcher
from palio.matching.matcher import Matcher
from tests.strategies import attributes, readable_conditions


class MatcherProtocol(Protocol):
    """Holds subscriptions; tells which of them want an event."""

    def add(self, id: str, where: Any, *, language: str = "sql") -> None:
        """Add a subscription; `DuplicateSubscription` where the id is known."""

    def remove(self, id: str) -> None:
        """Take a subscription out; `UnknownSubscription` where the id is not known."""

    def replace(self, id: str, where: Any, *, language: str = "sql") -> None:
        """Change the condition of a subscription; `UnknownSubscription` where the id is not known."""

    def match(self, event: Event | Mapping[str, Any] | str | bytes) -> set[str]:
        """The ids of all subscriptions that want an event."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, id: object) -> bool: ...


Make = Callable[[], MatcherProtocol]


class InOneSegment:
    """Palio's matcher, brought into one segment before every match."""

    def __init__(self) -> None:
        self.inner = Matcher()

    def add(self, id: str, where: Any, *, language: str = "sql") -> None:
        self.inner.add(id, where, language=language)

    def remove(self, id: str) -> None:
        self.inner.remove(id)

    def replace(self, id: str, where: Any, *, language: str = "sql") -> None:
        self.inner.replace(id, where, language=language)

    def match(self, event: Any) -> set[str]:
        self.inner.merge()
        return self.inner.match(event)

    def __len__(self) -> int:
        return len(self.inner)

    def __contains__(self, id: object) -> bool:
        return id in self.inner


class InBatches(InOneSegment):
    """Asked with a batch of one row: an event in a list."""

    def match(self, event: Any) -> set[str]:
        return ids_by_row(self.inner.match_batch([event]), 1)[0]


class InColumns(InOneSegment):
    """Asked with a table of one row, where Arrow has a type for it."""

    def match(self, event: Any) -> set[str]:
        table = as_table([Event.read(event)])
        return ids_by_row(self.inner.match_batch([event] if table is None else table), 1)[0]


class Reopened(InOneSegment):
    """Saved and opened again before it is asked."""

    def match(self, event: Any) -> set[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "wants.palio"
            self.inner.save(path)
            self.inner = Matcher.open(path)
            return self.inner.match(event)


MATCHERS: dict[str, Make] = {
    "brute force": BruteForceMatcher,
    "counting": CountingMatcher,
    "k-d tree": KdTreeMatcher,
    "Siena poset": PosetMatcher,
    "poset-derived forest": ForestMatcher,
    "palio": Matcher,
    "palio in one segment": InOneSegment,
    "palio in batches": InBatches,
    "palio in columns": InColumns,
    "palio reopened": Reopened,
}


def as_table(events: Sequence[Event]) -> pa.Table | None:
    """Events as Arrow columns; None where an attribute has values of several types, which no column can hold."""
    types: dict[str, set[type]] = {}
    for event in events:
        for name, value in event.attributes.items():
            elements = value if isinstance(value, tuple) else (value,)
            types.setdefault(name, set()).update(map(type, elements))
    if not types or any(len(each - {type(None)}) > 1 for each in types.values()):
        return None
    rows = [event.to_dict() for event in events]
    try:
        return pa.table({name: [row.get(name) for row in rows] for name in dict.fromkeys(chain(*rows))})
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None


def ids_by_row(matches: pa.Table, count: int) -> list[set[str]]:
    """The ids of every row; fails where one is there twice or out of order."""
    assert matches.schema.names == ["row", "subscription"]
    assert matches.schema.field("row").type == pa.int64()
    assert matches.schema.field("subscription").type == pa.dictionary(pa.int32(), pa.string())
    rows = matches.column("row").to_pylist()
    assert rows == sorted(rows)
    found: list[list[str]] = [[] for _ in range(count)]
    for row, id in zip(rows, matches.column("subscription").to_pylist(), strict=True):
        found[row].append(id)
    assert all(len(ids) == len(set(ids)) for ids in found)
    return [set(ids) for ids in found]


def wait_for_merges(matcher: Matcher) -> None:
    """Wait until nothing is merged in the background. Not public: only tests need a moment without merges."""
    # Merges run in the background; only the merger itself can be waited for.
    matcher._segments.join_merger()


def filled(make: Make, wheres: Mapping[str, Any]) -> MatcherProtocol:
    matcher = make()
    for id, where in wheres.items():
        matcher.add(id, where)
    return matcher


def check(matcher: MatcherProtocol, filters: Mapping[str, Filter], events: Iterable[Event]) -> None:
    """The matcher answers as the filters do, asked one by one."""
    for event in events:
        expected = {id for id, each in filters.items() if each.matches(event)}
        assert matcher.match(event) == expected, event


SORTS: dict[str, str] = {
    "always": "TRUE",
    "never": "FALSE",
    "unknown": "NULL",
    "contradiction": "a > 5 AND a < 3",
    "conjunction": "a = 1 AND b > 2 AND c LIKE 'x%'",
    "range": "a BETWEEN 2 AND 8",
    "one end": "a > 5",
    "float": "a >= 2.5D AND a < 1e9D",
    "decimal": "a = 0.1",
    "strings": "c IN ('x', 'y', '10')",
    "string range": "c >= 'm' AND c < 'q'",
    "string as number": "a = '10'",
    "disjunction": "a = 1 OR b = 2",
    "several conjunctions": "(a = 1 AND b = 2) OR (a = 2 AND c = 'x') OR b IS NULL",
    "deep": " AND ".join(f"(a = {i} OR b = {i + 1} OR c = 'x{i}' OR d.e > {i})" for i in range(8)),
    "deep, likely": " AND ".join(f"(a > {i} OR b > {i} OR c LIKE '%x%')" for i in range(8)),
    "negation": "NOT (a > 5 AND c = 'x')",
    "not equal": "a <> 5",
    "not in": "a NOT IN (1, 2, 3)",
    "null": "a IS NULL",
    "present": "a IS NOT NULL",
    "null or more": "a IS NULL OR a > 5",
    "null safe": "a <=> 5",
    "distinct": "a IS DISTINCT FROM 5",
    "not known": "(a > 5) IS NULL",
    "not true": "(a > 5) IS NOT TRUE",
    "boolean": "flag",
    "not boolean": "NOT flag",
    "like": "c LIKE '%x%'",
    "not like": "c NOT LIKE '%x%'",
    "like suffix": "c LIKE '%z'",
    "like general": "c LIKE 'x_%z'",
    "ilike": "c ILIKE '%X%'",
    "rlike": "c RLIKE '^x+'",
    "not rlike": "c NOT RLIKE 'z$'",
    "like any": "c LIKE ANY ('%x%', 'y%')",
    "computed": "a * 2 > 10",
    "computed text": "upper(c) = 'XYZ'",
    "computed null": "coalesce(a, 7) > 6",
    "two attributes": "a > b",
    "arithmetic of two": "a + b > 10 AND c = 'x'",
    "residual or": "a > b OR c = 'x'",
    "array": "array_contains(tags, 'x')",
    "size": "size(tags) = 2",
    "element": "tags = 'x' AND tags <> 'y'",
    "date": "day >= DATE'2024-01-01'",
    "timestamp": "at < TIMESTAMP'2024-06-01 00:00:00'",
    "bytes": "raw = X'00FF'",
    "nested": "d.e = 1",
    "quoted": "`f.g` = 1",
    "case": "CASE WHEN a > 5 THEN c = 'x' ELSE flag END",
    "typeof": "typeof(a) = 'string'",
    "long list": f"a IN ({', '.join(str(3 * i) for i in range(200))})",
}

EVENTS: list[dict[str, Any]] = [
    {},
    {"a": None},
    {"a": 1, "b": 2, "c": "x"},
    {"a": 1, "b": 3, "c": "xyz", "flag": True},
    {"a": 2, "b": 2, "c": "x", "flag": False},
    {"a": 7, "b": 9, "c": "XXL", "d": {"e": 1}},
    {"a": 5, "b": None, "c": "y"},
    {"a": 5.0, "b": 1.5, "c": ""},
    {"a": float("nan"), "b": float("inf")},
    {"a": -0.0, "b": 0},
    {"a": Decimal("0.1"), "b": Decimal("100")},
    {"a": 0.1},
    {"a": 10},
    {"a": "10", "c": "10"},
    {"a": True, "b": False},
    {"a": 2**53 + 1, "b": 2**63 - 1},
    {"a": [1, 6], "b": [2, 9], "c": ["x", "zz"]},
    {"tags": ["x"]},
    {"tags": ["x", "y"]},
    {"tags": ["y", "y"]},
    {"day": date(2024, 1, 1), "at": datetime(2024, 5, 31, 23, 59, 59, tzinfo=UTC)},
    {"day": date(1, 1, 1), "at": datetime.max.replace(tzinfo=UTC)},
    {"raw": b"\x00\xff"},
    {"f.g": 1, "f": {"g": 2}},
    {"c": "no", "other": 1},
    {"c": "p\x00q"},
]


class MatcherSuite:
    """Run against every matcher; `make` gives an empty one."""

    def test_an_empty_matcher_matches_nothing(self, make: Make) -> None:
        matcher = make()
        assert matcher.match({}) == set()
        assert matcher.match({"a": 1}) == set()
        assert len(matcher) == 0
        assert "x" not in matcher

    def test_ids_come_and_go(self, make: Make) -> None:
        matcher = make()
        matcher.add("one", "a > 1")
        matcher.add("two", "a > 2")
        assert (len(matcher), "one" in matcher, "three" in matcher) == (2, True, False)
        assert matcher.match({"a": 3}) == {"one", "two"}
        matcher.remove("one")
        assert (len(matcher), "one" in matcher) == (1, False)
        assert matcher.match({"a": 3}) == {"two"}
        matcher.replace("two", "a < 0")
        assert len(matcher) == 1
        assert matcher.match({"a": 3}) == set()
        assert matcher.match({"a": -1}) == {"two"}
        matcher.add("one", "a = -1")
        assert matcher.match({"a": -1}) == {"one", "two"}
        matcher.remove("one")
        matcher.remove("two")
        assert len(matcher) == 0
        assert matcher.match({"a": -1}) == set()

    def test_a_known_id_is_not_added_and_an_unknown_one_not_removed(self, make: Make) -> None:
        matcher = filled(make, {"x": "a > 1"})
        with pytest.raises(DuplicateSubscription, match="'x'"):
            matcher.add("x", "a > 2")
        with pytest.raises(UnknownSubscription, match="'y'"):
            matcher.remove("y")
        with pytest.raises(UnknownSubscription, match="'y'"):
            matcher.replace("y", "a > 2")
        assert matcher.match({"a": 2}) == {"x"}
        matcher.remove("x")
        with pytest.raises(UnknownSubscription):
            matcher.remove("x")

    def test_a_condition_that_cannot_be_read_changes_nothing(self, make: Make) -> None:
        matcher = filled(make, {"x": "a > 1"})
        for change in (matcher.add, matcher.replace):
            with pytest.raises(InvalidSubscription, match=r"'[xy]'"):
                change("y" if change == matcher.add else "x", "a >")
        assert len(matcher) == 1
        assert matcher.match({"a": 2}) == {"x"}

    def test_a_filter_may_be_given_instead_of_text(self, make: Make) -> None:
        wanted = Filter.parse("a > 1") | Filter.parse("b LIKE '%x%'")
        matcher = filled(make, {"x": wanted, "y": ~wanted})
        assert matcher.match({"a": 2}) == {"x"}
        assert matcher.match({"a": 1, "b": "y"}) == {"y"}
        assert matcher.match({"a": 1}) == set()

    def test_an_event_may_come_in_any_form(self, make: Make) -> None:
        matcher = filled(make, {"x": "a.b > 1"})
        for event in ({"a": {"b": 2}}, '{"a": {"b": 2}}', b'{"a": {"b": 2}}', Event({"a.b": 2})):
            assert matcher.match(event) == {"x"}
        with pytest.raises(EventError):
            matcher.match("[1]")

    def test_an_id_may_be_any_text(self, make: Make) -> None:
        ids = [" ", "a b", "é", "𝄞", "a\0b", "\n", "'; --", "x" * 1000, "نعم"]
        matcher = filled(make, dict.fromkeys(ids, "a = 1"))
        assert matcher.match({"a": 1}) == set(ids)
        for id in ids:
            matcher.remove(id)
        assert len(matcher) == 0

    @pytest.mark.parametrize("sort", SORTS)
    def test_every_sort_of_filter_alone(self, make: Make, sort: str) -> None:
        check(filled(make, {sort: SORTS[sort]}), {sort: Filter.parse(SORTS[sort])}, map(Event.from_dict, EVENTS))

    def test_every_sort_of_filter_together(self, make: Make) -> None:
        filters = {sort: Filter.parse(where) for sort, where in SORTS.items()}
        check(filled(make, SORTS), filters, map(Event.from_dict, EVENTS))

    def test_every_sort_of_filter_as_others_come_and_go(self, make: Make) -> None:
        matcher = filled(make, SORTS)
        filters = {sort: Filter.parse(where) for sort, where in SORTS.items()}
        for at, sort in enumerate(SORTS):
            if at % 3 == 0:
                matcher.remove(sort)
                del filters[sort]
            elif at % 3 == 1:
                matcher.replace(sort, f"NOT ({SORTS[sort]})")
                filters[sort] = ~filters[sort]
        check(matcher, filters, map(Event.from_dict, EVENTS))
        for sort in list(filters):
            matcher.remove(sort)
        assert len(matcher) == 0
        assert matcher.match({"a": 1, "b": 2, "c": "x"}) == set()

    @settings(max_examples=max(5, settings.default.max_examples // 4) if settings.default else 25)
    @given(
        wheres=st.lists(readable_conditions(), min_size=1, max_size=12),
        events=st.lists(attributes(), min_size=1, max_size=6),
    )
    def test_it_agrees_with_brute_force(self, make: Make, wheres: list[str], events: list[dict[str, Any]]) -> None:
        filters = {str(number): Filter.parse(where) for number, where in enumerate(wheres)}
        matcher = filled(make, {str(number): where for number, where in enumerate(wheres)})
        check(matcher, filters, map(Event, events))


def random_subscriptions(count: int, seed: int) -> list[str]:
    """Conditions of many sorts with enough in common that events match some of them."""
    chance = random.Random(seed)
    words = [f"w{number}" for number in range(50)]

    def condition() -> str:
        name = f"n{chance.randrange(6)}"
        low = chance.randrange(1000)
        text = f"t{chance.randrange(4)}"
        return chance.choice(
            [
                f"{name} > {low}",
                f"{name} <= {low}",
                f"{name} = {low}",
                f"{name} BETWEEN {low} AND {low + chance.randrange(300)}",
                f"{name} NOT BETWEEN {low} AND {low + chance.randrange(300)}",
                f"{name} >= {low}.5",
                f"{text} = '{chance.choice(words)}'",
                f"{text} IN ('{chance.choice(words)}', '{chance.choice(words)}')",
                f"{text} LIKE '{chance.choice(words)}%'",
                f"{text} LIKE '%{chance.randrange(10)}'",
                f"{text} <> '{chance.choice(words)}'",
                f"{name} IS NULL",
                f"{name} IS NOT NULL",
                f"{name} + n1 > {low}",
            ]
        )

    def subscription() -> str:
        parts = [condition() for _ in range(chance.randint(1, 4))]
        text = " AND ".join(parts)
        if chance.random() < 0.2:
            text = f"({text}) OR ({condition()} AND {condition()})"
        return f"NOT ({text})" if chance.random() < 0.05 else text

    return [subscription() for _ in range(count)]


def random_events(count: int, seed: int) -> list[Event]:
    chance = random.Random(seed)

    def event() -> Event:
        numbers = {f"n{n}": chance.choice([chance.randrange(1000), chance.random() * 1000]) for n in range(6)}
        texts = {f"t{n}": f"w{chance.randrange(50)}" for n in range(4)}
        present = {name: value for name, value in {**numbers, **texts}.items() if chance.random() < 0.7}
        if chance.random() < 0.1:
            present["n1"] = tuple(chance.randrange(1000) for _ in range(3))
        return Event(present)

    return [event() for _ in range(count)]
