"""Filter index: it finds the filters that match, after any additions and removals."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.forwarding.filter_index import FilterIndex
from tests.strategies import attributes, filters

EVENTS = [Event.read({"x": x, "y": str(x % 3)}) for x in range(-5, 45)]


def found(numbered: FilterIndex, events: list[Event]) -> list[list[int]]:
    return [sorted(array("i", each)) for each in numbered.find_each(events)]


def foretold(live: dict[int, Filter], events: list[Event]) -> list[list[int]]:
    return [sorted(number for number, wanted in live.items() if wanted.matches(event)) for event in events]


@given(st.lists(st.integers(-2, 40), max_size=60), st.sampled_from([1, 20, len(EVENTS)]))
def test_filters_that_come_and_go_are_those_that_are_found(steps: list[int], asked: int) -> None:
    numbered, live = FilterIndex(), dict[int, Filter]()
    for step in steps:
        if step < 0 and live:
            number = sorted(live)[step % len(live)]
            numbered.remove(number)
            del live[number]
        else:
            wanted = Filter.parse(f"x > {step}" if step % 2 else f"x = {step} OR y = '{step % 3}'")
            number = numbered.add(wanted)
            assert number not in live
            live[number] = wanted
        assert len(numbered) == len(live)
        assert found(numbered, EVENTS[:asked]) == foretold(live, EVENTS[:asked])


@given(st.lists(filters(), min_size=1, max_size=12), st.lists(attributes(), min_size=1, max_size=5))
def test_whatever_filters_and_events_are(wanted: list[Filter], events: list[dict[str, object]]) -> None:
    numbered = FilterIndex()
    live = {numbered.add(each): each for each in wanted}
    made = [Event._made(each) for each in events]  # type: ignore[arg-type]
    assert found(numbered, made) == foretold(live, made)
