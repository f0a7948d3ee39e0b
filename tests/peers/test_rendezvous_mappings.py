"""The mapping intersection rule: an event and a subscription that it matches have a key in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.tree import Leaf, leaves
from palio.peers.histograms import Histogram, on_ring
from palio.peers.key_space import KeySpace
from palio.peers.rendezvous_mappings import (
    AnyAttribute,
    Arc,
    AttributeSplit,
    Key,
    KeyMapping,
    KeySpaceSplit,
    MappingError,
    SelectiveAttribute,
    alternatives,
)
from palio.peers.ring import Ring
from tests.strategies import NAMES, attributes, filters, scalars


def mappings(scales: Mapping[str, Histogram]) -> list[KeyMapping]:
    few = dict(list(scales.items())[:3])
    return [
        AttributeSplit(scales),
        *(AttributeSplit(scales, name) for name in scales),
        KeySpaceSplit(few),
        SelectiveAttribute(scales),
        AnyAttribute(),
    ]


def size_of(mapping: KeyMapping, axis: int) -> int:
    return KeySpace(Ring(), mapping).axis_size(axis)


def meet(arcs: list[Arc], keys: list[Key]) -> bool:
    return any(key in arc for arc in arcs for key in keys)


@st.composite
def several_scales(draw: Any, wanted: Filter) -> dict[str, Histogram]:
    """Scales from samples that may have nothing to do with the events to come, as samples do."""
    conditions = [leaf for leaf in leaves(wanted.tree) if isinstance(leaf, Leaf)]
    return {
        name: Histogram.of(
            draw(st.lists(scalars(), max_size=6)),
            draw(st.integers(1, 6)),
            [leaf.values for leaf in conditions if leaf.attribute == name and draw(st.booleans())],
            hashed=draw(st.booleans()),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    }


@given(st.data(), filters(), st.lists(attributes(), min_size=1, max_size=12))
def test_an_event_meets_every_subscription_that_it_matches(
    data: st.DataObject, wanted: Filter, events: list[dict[str, Any]]
) -> None:
    scales = data.draw(several_scales(wanted))
    said = alternatives(wanted)
    for mapping in mappings(scales):
        arcs = mapping.subscription_keys(said)
        for arc in arcs:
            assert 0 <= arc.first <= arc.last < size_of(mapping, arc.axis)
        for event in events:
            keys = mapping.event_keys(event)
            assert keys
            assert len(keys) == len(set(keys))
            assert all(0 <= key.cell < size_of(mapping, key.axis) for key in keys)
            if wanted.matches_attributes(event):
                assert meet(arcs, keys), (mapping.name, str(wanted), event)
                if isinstance(mapping, AttributeSplit):
                    assert all(meet(arcs, mapping.event_keys(event, turn)) for turn in range(len(scales)))


OBJECTS = st.lists(st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2), max_size=3)
OF_OBJECTS = [
    Filter.parse(where)
    for where in ("a.x = 1 AND a.y IS NULL", "a.x IS NULL", "a.x < 2 AND a.y > 1", "a.x IS NULL OR a.y = 3")
]


@given(OBJECTS, st.integers(1, 4))
def test_events_with_objects_in_arrays_meet_those_that_ask_for_what_an_object_lacks(
    objects: list[dict[str, int]], cells: int
) -> None:
    event = Event.read({"a": objects}).attributes
    scales = {name: Histogram.of([0, 1, 2, 3], cells) for name in ("a.x", "a.y")}
    for wanted in OF_OBJECTS:
        for mapping in mappings(scales):
            if wanted.matches_attributes(event):
                assert meet(mapping.subscription_keys(alternatives(wanted)), mapping.event_keys(event))


@given(st.data())
def test_integers_meet_their_ranges_on_even_scales_with_and_without_discretisation(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 60))
    names = ["x", "y", "z"][: data.draw(st.integers(1, 3))]
    cells, width = data.draw(st.integers(1, 16)), data.draw(st.integers(1, 9))
    scales = dict.fromkeys(names, Histogram.even(size, cells, width))
    conditions, event = [], {}
    for name in names:
        low = data.draw(st.integers(0, size - 1))
        high = data.draw(st.integers(low, size - 1))
        event[name] = data.draw(st.integers(low, high))
        if data.draw(st.booleans()):
            conditions.append(f"{name} BETWEEN {low} AND {high}")
    wanted = alternatives(Filter.parse(" AND ".join(conditions) or "TRUE"))
    for mapping in mappings(scales):
        assert meet(mapping.subscription_keys(wanted), mapping.event_keys(event)), mapping.name


# The worked example of Baldoni et al.: two attributes from 0 to 7, a subscription and an event. There, 3 < a2 < 7
# is a range of integers.

SUBSCRIPTION = alternatives(Filter.parse("a1 < 2 AND a2 BETWEEN 4 AND 6"))
EVENT = {"a1": 1, "a2": 6}


def ring(mapping: KeyMapping, arcs: list[Arc], bits: int) -> set[int]:
    return {on_ring(cell, mapping.sizes[arc.axis], bits) for arc in arcs for cell in range(arc.first, arc.last + 1)}


def keys_on_ring(mapping: KeyMapping, keys: list[Key], bits: int) -> set[int]:
    return {on_ring(key.cell, mapping.sizes[key.axis], bits) for key in keys}


def test_attribute_split_of_the_worked_example() -> None:
    mapping = AttributeSplit({"a1": Histogram.even(8, 8), "a2": Histogram.even(8, 8)})
    arcs, keys = mapping.subscription_keys(SUBSCRIPTION), mapping.event_keys(EVENT)
    # As printed, with keys that are the values themselves, and as the paper's own scaling to four bits has them.
    assert (ring(mapping, arcs, 3), keys_on_ring(mapping, keys, 3)) == ({0, 1, 4, 5, 6}, {1})
    assert (ring(mapping, arcs, 4), keys_on_ring(mapping, keys, 4)) == ({0, 2, 8, 10, 12}, {2})


def test_key_space_split_of_the_worked_example() -> None:
    mapping = KeySpaceSplit({"a1": Histogram.even(8, 4), "a2": Histogram.even(8, 4)})
    arcs = mapping.subscription_keys(SUBSCRIPTION)
    assert ring(mapping, arcs, 4) == {0b0010, 0b0011}
    assert keys_on_ring(mapping, mapping.event_keys(EVENT), 4) == {0b0011}
    assert arcs == [Arc(0, 2, 3)]


def test_bits_left_over_are_the_last_ones() -> None:
    """Four attributes of three bits on a ring of thirteen: all of the ring is used, not a half."""
    mapping = KeySpaceSplit({name: Histogram.even(8, 8) for name in ("a", "b", "c", "d")})
    last = mapping.event_keys(dict.fromkeys("abcd", 7))
    assert keys_on_ring(mapping, last, 13) == {0b1111111111110}


def test_selective_attribute_of_the_worked_example() -> None:
    mapping = SelectiveAttribute({"a1": Histogram.even(8, 8), "a2": Histogram.even(8, 8)})
    arcs = mapping.subscription_keys(SUBSCRIPTION)
    assert arcs == [Arc(0, 0, 1)]
    assert mapping.event_keys(EVENT) == [Key(0, 1), Key(1, 6), Key(mapping.everywhere, 0)]


def test_a_key_of_another_attribute_is_another_key() -> None:
    """Untagged, the event's second value would meet the subscription on its first, and tell it twice."""
    mapping = SelectiveAttribute({"a1": Histogram.even(16, 16), "a2": Histogram.even(16, 16)})
    arcs = mapping.subscription_keys(alternatives(Filter.parse("a1 BETWEEN 4 AND 7")))
    keys = mapping.event_keys({"a1": 5, "a2": 6})
    assert [key for key in keys if meet(arcs, [key])] == [Key(0, 5)]


def test_selective_attribute_chooses_for_each_alternative() -> None:
    scales = {"x": Histogram.of(list(range(100)), 50), "y": Histogram.of(["a"] * 90 + ["b"] * 10, 10)}
    mapping = SelectiveAttribute(scales)
    narrow = mapping.subscription_keys(alternatives(Filter.parse("x < 5 AND y = 'a'")))
    assert {arc.axis for arc in narrow} == {0}
    either = mapping.subscription_keys(alternatives(Filter.parse("x < 5 AND y = 'a' OR x > 20 AND y = 'b'")))
    assert {arc.axis for arc in either} == {0, 1}
    for wide in ("x IS NULL", "z = 3", "x < 5 OR z = 3", "z + u > 3", "TRUE"):
        assert mapping.subscription_keys(alternatives(Filter.parse(wide))) == [Arc(mapping.everywhere, 0, 0)]
    assert mapping.subscription_keys(alternatives(Filter.parse("FALSE"))) == []


@given(filters())
def test_selective_attribute_never_needs_more_keys_than_attribute_split(wanted: Filter) -> None:
    scales = {name: Histogram.even(64, 16) for name in NAMES}
    said = alternatives(wanted)
    few = SelectiveAttribute(scales).subscription_keys(said)
    many = AttributeSplit(scales).subscription_keys(said)
    assert sum(arc.last - arc.first + 1 for arc in few) <= sum(arc.last - arc.first + 1 for arc in many)


def test_there_must_be_something_to_key_by() -> None:
    with pytest.raises(MappingError, match="no attribute"):
        KeySpaceSplit({})
    with pytest.raises(MappingError, match="chosen attribute y"):
        AttributeSplit({"x": Histogram.even(8, 8)}, "y")
    assert SelectiveAttribute({}).event_keys({"x": 1}) == [Key(0, 0)]
