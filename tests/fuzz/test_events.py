"""Fuzz tests of events: any bytes are an event or an EventError; no event breaks a filter."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palio import Event, EventError, Filter, Matcher
from tests.oracles.generate import Generator

_NAMES = st.sampled_from(
    [*"x s num big dbl dec flag str digits clock day ts bin rec nums a.b `".split(), "", "é"],
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(exclude_categories=()), max_size=20),
    st.sampled_from(["10", "2024-01-01", "NaN", "a%", "\\", "true", "1e400", " "]),
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_VALUES = _SCALARS | st.one_of(
    st.decimals(allow_nan=True),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.binary(max_size=8),
    st.just(Decimal("1e-50")),
    st.just(date.min),
    st.just(datetime.max.replace(tzinfo=UTC)),
    st.just(object()),
    st.lists(st.integers(), max_size=3),
)


def _filters() -> list[Filter]:
    generator = Generator("events")
    wanted: list[Filter] = []
    while len(wanted) < 60:
        try:
            wanted.append(Filter.parse(generator.condition().text))
        except Exception:
            continue
    return wanted


_FILTERS = _filters()


def _meets_filters(event: Event) -> None:
    for wanted in _FILTERS:
        wanted.matches(event)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_an_event_error(content: bytes) -> None:
    try:
        event = Event.from_json(content)
    except EventError as error:
        assert str(error)
        return
    _meets_filters(event)


@given(st.text('{}[]",:0123456789.eE+-truefalsnN\\ud"x\n\x00 é\ud800', max_size=60))
def test_any_text_is_an_event_or_an_event_error(content: str) -> None:
    try:
        event = Event.from_json(content)
    except EventError:
        return
    _meets_filters(event)


@given(st.dictionaries(_NAMES, _JSON, max_size=5))
def test_any_json_object_is_an_event_or_an_event_error(content: dict[str, Any]) -> None:
    text = json.dumps(content)
    try:
        event = Event.from_json(text)
    except EventError:
        return
    _meets_filters(event)
    assert Event.from_json(text.encode()).attributes.keys() == event.attributes.keys()


@given(st.dictionaries(_NAMES, _VALUES, max_size=6))
def test_any_mapping_is_an_event_or_an_event_error(content: dict[str, Any]) -> None:
    try:
        event = Event.from_dict(content)
    except EventError:
        return
    _meets_filters(event)


@given(st.lists(st.dictionaries(_NAMES, _JSON, max_size=5), max_size=4))
def test_a_matcher_agrees_with_its_filters_on_any_events(contents: list[dict[str, Any]]) -> None:
    events = []
    for content in contents:
        try:
            events.append(Event.from_dict(content))
        except EventError:
            continue
    matcher = _matcher()
    found = matcher.match_batch(events)
    pairs = set(zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True))
    for row, event in enumerate(events):
        expected = {str(number) for number, wanted in enumerate(_FILTERS) if wanted.matches(event)}
        assert {id for at, id in pairs if at == row} == expected
        assert matcher.match(event) == expected


_MATCHERS: list[Matcher] = []


def _matcher() -> Matcher:
    if not _MATCHERS:
        made = Matcher()
        made.add_many(map(str, range(len(_FILTERS))), _FILTERS)
        _MATCHERS.append(made)
    return _MATCHERS[0]
