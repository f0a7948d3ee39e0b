"""Events that come as a list are matched as columns, and mean what they mean one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching import batch_match
from palio.matching.columnar import event_cells, transposition
from palio.matching.columnar.event_cells import read_events
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


@pytest.fixture(params=["as usual", "cells", "few columns", "few choices"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "cells":
        monkeypatch.setattr(transposition, "MAX_LOOKED_UP", 0)
    elif request.param == "few columns":
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


@pytest.mark.parametrize("share", [0.0, 1.0])
@given(events=st.lists(attributes(), min_size=1, max_size=8))
def test_contents_are_read_together_as_they_are_one_by_one(share: float, events: list[dict[str, Any]]) -> None:
    """Whether one odd event in many is read by itself, or is the reason to read all by themselves."""
    contents = [*events, *({"plain": row} for row in range(8))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_cells, "_MAX_CONVERTED_SHARE", share)
        found, _ = read_events(contents)
    expected = [Event.read(each).attributes for each in contents]
    assert [_exactly(each) for each in found] == [_exactly(each) for each in expected]


def _exactly(attributes: Any) -> list[tuple[str, type, str]]:
    return [(name, type(value), repr(value)) for name, value in attributes.items()]


@pytest.mark.parametrize(
    "odd",
    [
        {"x": 2**64},
        {"x": "\ud800"},
        {3: 1},
        {"a.b": 1},
        {"x": object()},
        {"x" * 2_000: 1},
        "[]",
        '{"x": 7}',
        {"x": (1, 2)},
    ],
)
def test_a_batch_refuses_and_takes_what_an_event_does(odd: Any) -> None:
    contents = [{"x": row} for row in range(8)] + [odd]
    try:
        expected = [Event.read(each).attributes for each in contents]
    except EventError as error:
        with pytest.raises(EventError, match=re.escape(str(error))):
            read_events(contents)
    else:
        assert list(read_events(contents)[0]) == expected


def test_events_that_lack_most_attributes_are_matched_as_cells() -> None:
    """With every kind of value on one attribute, arrays, nulls, and attributes that nobody reads."""
    values: list[Any] = [
        3,
        -3,
        2.5,
        "v3",
        "é",
        True,
        None,
        b"x",
        Decimal("2.50"),
        date(2024, 1, 2),
        [1, 3],
        [],
        "",
        2**70,
    ]
    wheres = [f"a{n} {test}" for n in range(40) for test in ("> 2", "= 'v3'", "IS NULL", "= 2.5", "<> 3", "LIKE '%3'")]
    wheres += [f"a{n} = true AND a{n + 1} < 10" for n in range(39)] + [f"a{n} > a{n + 1}" for n in range(39)]
    events = [{f"a{(7 * row + 3 * k) % 50}": values[(row + k) % len(values)] for k in range(5)} for row in range(60)]
    matcher = Matcher()
    matcher.add_many(wheres, wheres)
    check(matcher, [(where, Filter.parse(where)) for where in wheres], events)


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
