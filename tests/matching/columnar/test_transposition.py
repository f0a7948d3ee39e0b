"""Events that come as a list are matched as columns, and mean what they mean one by one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching import batch_match
from palio.matching.columnar import transposition
from palio.matching.columnar.segment import Segment
from palio.matching.columnar.transposition import TransposedEvents, choices_of
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from tests.matching.suite import EVENTS, SORTS, ids_by_row
from tests.strategies import attributes, readable_conditions

SEARCHES = {
    "search": "any_value_like('%x%')",
    "search of numbers": "any_value_like('%1%')",
    "search and more": "any_value_ilike('X%') AND a > 1",
    "no search": "NOT any_value_rlike('y')",
    "search beside an array": "any_value_like('%y%') AND tags = 'x'",
}
PATTERNS: list[dict[str, Any]] = [
    {"a": [{"exists": False}]},
    {"a": [{"exists": True}]},
    {"a": [None]},
    {"c": [{"anything-but": ["x"]}]},
    {"c": [None, "x", {"prefix": "y"}]},
    {"d": {"e": [1, {"exists": False}]}},
]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the events are, columns are made of them."""
    monkeypatch.setattr(batch_match, "MIN_TRANSPOSED_EVENTS", 1)
    monkeypatch.setattr(batch_match, "_MIN_EVENTS_PER_COLUMN", 0)


@pytest.fixture(params=["as usual", "few columns", "few choices"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "few columns":
        monkeypatch.setattr(transposition, "MAX_COLUMNS", 2)
    elif request.param == "few choices":
        monkeypatch.setattr(transposition, "MAX_CHOICES", 1)


def check(matcher: Matcher, filters: Sequence[tuple[str, Filter]], events: Sequence[Any]) -> None:
    """A list of events gives what the filters say of each."""
    expected = [{id for id, each in filters if each.matches(event)} for event in events]
    assert ids_by_row(matcher.match_batch(events), len(events)) == expected
    matcher.merge()
    assert ids_by_row(matcher.match_batch(events), len(events)) == expected


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("wheres", [SORTS, {**SORTS, **SEARCHES}, SEARCHES], ids=["plain", "all", "searches"])
def test_every_sort_of_filter_and_of_event(wheres: dict[str, str]) -> None:
    matcher = Matcher()
    matcher.add_many(wheres, wheres.values())
    check(matcher, [(id, Filter.parse(where)) for id, where in wheres.items()], [*EVENTS, *EVENTS[::-1]])
    check(matcher, [(id, Filter.parse(where)) for id, where in wheres.items()], EVENTS[2:6])


@pytest.mark.usefixtures("limits")
def test_null_is_told_from_missing_where_a_language_does() -> None:
    wanted = [Subscription(str(at), pattern, "eventbridge") for at, pattern in enumerate(PATTERNS)]
    matcher = Matcher()
    matcher.add_subscriptions([*wanted, Subscription("sql", "a IS NULL")])
    filters = [(each.id, each.filter) for each in [*wanted, Subscription("sql", "a IS NULL")]]
    check(matcher, filters, [*EVENTS, {"a": None, "c": None}, {"c": None}, {"a": [None, 1]}, {"c": ["x", "z"]}])


@pytest.mark.usefixtures("limits")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    wheres=st.lists(readable_conditions() | st.sampled_from(list(SEARCHES.values())), min_size=1, max_size=8),
    events=st.lists(attributes(), min_size=1, max_size=8),
)
def test_any_events_and_conditions(wheres: list[str], events: list[dict[str, Any]]) -> None:
    matcher = Matcher()
    half = len(wheres) // 2
    matcher.add_many(map(str, range(half)), wheres[:half])  # two segments
    matcher.add_many(map(str, range(half, len(wheres))), wheres[half:])
    check(
        matcher, [(str(at), Filter.parse(where)) for at, where in enumerate(wheres)], [Event(each) for each in events]
    )


def test_no_event_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Segment, "match_event", refuse)
    matcher = Matcher()
    matcher.add_many(["a", "b", "c"], ["x > 1", "y LIKE '%b%'", "tags = 't' AND x > 1"])
    events = [{"x": 1, "y": "abc"}, {"x": "no", "y": 5}, {"x": Decimal("1.5")}, {"x": 2, "tags": ["s", "t"]}, {}]
    assert ids_by_row(matcher.match_batch(events), 5) == [{"b"}, set(), {"a"}, {"a", "c"}, set()]


def test_a_decimal_that_floats_confuse_is_asked_of_the_filters() -> None:
    near = [f"x > 0.1000000000000000000{digit}" for digit in range(1, 9)]
    matcher = Matcher()
    matcher.add_many(near, near)
    events = [{"x": Decimal("0.10000000000000000005")}, {"x": 0.1}, {"x": 1}]
    check(matcher, [(each, Filter.parse(each)) for each in near], events)


class TestTransposed:
    def test_values_of_one_kind_are_a_column(self) -> None:
        moment = datetime(2024, 1, 2, 3, tzinfo=UTC)
        rows = [
            {"i": 1, "f": 1.5, "s": "é", "b": True, "r": b"\0", "d": date(2024, 1, 2), "t": moment, "n": None},
            {"i": -(2**63), "s": None},
        ]
        made = TransposedEvents(rows, (), searched=True)
        assert made.column("i").equals(pa.array([1, -(2**63)], pa.int64()))
        assert made.column("f").equals(pa.array([1.5, None], pa.float64()))
        assert made.column("s").equals(pa.array(["é", None], pa.large_string()))
        assert made.column("b").equals(pa.array([True, None]))
        assert made.column("r").equals(pa.array([b"\0", None], pa.large_binary()))
        assert made.column("d").equals(pa.array([date(2024, 1, 2), None], pa.date32()))
        assert made.column("t").equals(pa.array([moment, None], pa.timestamp("us", "UTC")))
        assert made.column("n").equals(pa.nulls(2))
        assert dict(made.values("s")) == {0: "é", 1: None}

    def test_others_are_not(self) -> None:
        rows: list[dict[str, Any]] = [{"m": 1, "d": Decimal(1), "o": 2**64}, {"m": 1.0}, {"m": True, "b": 1}]
        made = TransposedEvents(rows, {"m", "d", "o"})
        assert [made.column(name) for name in ("m", "d", "o")] == [None, None, None]
        assert list(made.names) == ["d", "m", "o"]
        assert list(made.values("m")) == [(0, 1), (1, 1.0), (2, True)]

    def test_thousands_of_attributes_take_no_column_each(self) -> None:
        made = TransposedEvents([{f"a{row}-{at}": row for at in range(200)} for row in range(50)], (), searched=True)
        assert sum(made.column(name) is not None for name in made.names) == transposition.MAX_COLUMNS
        assert len(made.names) == 10_000
        assert made.column("a49-199") is None
        assert list(made.values("a49-199")) == [(49, 49)]

    def test_an_event_with_arrays_is_one_for_every_choice(self) -> None:
        event = {"a": (1, 2), "b": ("x", "y"), "c": 3, "d": (4, 5)}
        assert choices_of(event, {"a", "b", "c"}) == [{"c": 3, "a": a, "b": b} for a in (1, 2) for b in ("x", "y")]
        assert choices_of({"a": tuple(range(33))}, {"a"}) is None
