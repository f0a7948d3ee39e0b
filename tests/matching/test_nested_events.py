"""Agreement of every matcher with the filters, for events with objects in arrays."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from tests.matching.suite import MATCHERS, Make, filled, ids_by_row
from tests.nested_events import NAMES, nested_events
from tests.strategies import readable_conditions

CONDITIONS = st.lists(readable_conditions(NAMES), min_size=1, max_size=6)


@pytest.mark.parametrize("make", MATCHERS.values(), ids=MATCHERS.keys())
class TestObjectsInArrays:
    @given(conditions=CONDITIONS, events=st.lists(nested_events(), min_size=1, max_size=4))
    def test_every_matcher_answers_as_the_filters_do(
        self, make: Make, conditions: list[str], events: list[dict[str, Any]]
    ) -> None:
        wanted = {str(number): Filter.parse(condition) for number, condition in enumerate(conditions)}
        matcher = filled(make, wanted)
        for event in map(Event.from_dict, events):
            assert matcher.match(event) == {id for id, each in wanted.items() if each.matches(event)}


def test_rows_of_an_arrow_table_are_read_as_the_same_events() -> None:
    rows = [
        {"items": [{"sku": "x", "size": 1}, {"sku": "y", "size": 2}]},
        {"items": [{"sku": "x", "size": 2}, {"sku": None, "size": 3}]},
        {"items": []},
    ]
    matcher = Matcher()
    for id, condition in {
        "both": "items.sku = 'x' AND items.size = 2",
        "one": "items.size > 1",
        "null": "items.sku IS NULL AND items.size = 3",
    }.items():
        matcher.add(id, condition)
    expected = [{"one"}, {"both", "one", "null"}, set()]
    assert ids_by_row(matcher.match_batch(pa.Table.from_pylist(rows)), 3) == expected
    assert ids_by_row(matcher.match_batch(rows), 3) == expected
    assert ids_by_row(matcher.match_batch(rows * 100), 300) == expected * 100
