"""Annotated headers: taken by their own broker, completed at a later version, refused elsewhere."""

from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.errors import WireError
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.routing.forwarding import precomputed_headers
from palio.routing.forwarding.bloom.bloom_forwarding import BloomForwarding
from palio.routing.forwarding.headers import decode, encode
from palio.routing.forwarding.precomputed_headers import AnnotatedHeader, TableSnapshot
from palio.routing.forwarding.reuse.reuse_forwarding import ReuseForwarding
from tests.routing.forwarding.little_network import LittleNetwork, random_tree

FORWARDINGS: list[tuple[Any, str, dict[str, Any]]] = [
    (BloomForwarding, "identity", {}),
    (BloomForwarding, "simple", {"m": 64, "k": 3}),  # where bitmaps are shorter than lists
    (ReuseForwarding, "identity", {}),
    (ReuseForwarding, "simple", {"mode": "always"}),
]
CONDITIONS = ["x > 0", "x > 2", "x < 3", "x = 1 OR y = 1", "y IS NULL", "y > 1 AND x > 1", "x = 99", "x <> 2", "TRUE"]
EVENTS = [Event.from_dict(each) for each in ({"x": 1}, {"x": 3, "y": 2}, {"z": 0}, {"x": 0, "y": 1})]


def written(table: TableSnapshot, events: list[Event]) -> list[bytes]:
    """The headers that a job writes: it matches with an index of its own, and the writer has travelled."""
    matcher = Matcher()
    matcher.add_many([str(number) for number in range(len(table.filters))], table.filters)
    rows, numbers = matcher.match_events(events)
    headers: list[bytes] = pickle.loads(pickle.dumps(table.writer)).write(rows, numbers, len(events)).to_pylist()
    return headers


def nothing_matches(table: TableSnapshot) -> bytes:
    """A header that is wrong wherever something does match: it shows who believes it."""
    (header,) = table.writer.write(np.zeros(0, np.int64), np.zeros(0, np.int32), 1).to_pylist()
    assert isinstance(header, bytes)
    return header


def table_of(network: LittleNetwork, node: int) -> TableSnapshot:
    forwarding: Any = network.forwardings[node]
    table = forwarding.entry_table()
    assert isinstance(table, TableSnapshot)
    return table


@pytest.mark.parametrize(("make", "propagation", "options"), FORWARDINGS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_what_is_written_ahead_is_as_good_as_what_the_broker_would_write(
    make: Any, propagation: str, options: dict[str, Any], seed: int
) -> None:
    choice = Random(seed)
    network = LittleNetwork(random_tree(choice, 6), make, propagation, **options)

    def change(name: str) -> None:
        network.subscribe(name, choice.randrange(6), Filter.parse(choice.choice(CONDITIONS)))
        if choice.random() < 0.3:
            network.unsubscribe(choice.choice(list(network.wants)))

    for number in range(choice.randrange(8)):
        change(f"before {number}")
    entry = choice.randrange(6)
    headers = written(table_of(network, entry), EVENTS)
    for number in range(choice.randrange(4)):
        change(f"after {number}")
    for event, header in zip(EVENTS, headers, strict=True):
        assert network.publish(entry, event, header).delivered == network.matching(event)
        elsewhere = (entry + 1) % 6
        assert network.publish(elsewhere, event, header).delivered == network.matching(event)


@pytest.mark.parametrize(("make", "propagation", "options"), FORWARDINGS)
def test_a_header_is_believed_by_its_broker_at_its_version_and_only_what_is_newer_is_asked(
    make: Any, propagation: str, options: dict[str, Any]
) -> None:
    network = LittleNetwork([(0, 1), (1, 2)], make, propagation, **options)
    network.subscribe("old", 2, Filter.parse("x > 0"))
    header = nothing_matches(table_of(network, 0))
    event = Event.from_dict({"x": 1})
    assert network.publish(0, event, header).sent == []
    assert network.publish(1, event, header).delivered == {"old": 1}
    network.subscribe("new", 1, Filter.parse("x >= 1"))
    network.subscribe("newer", 1, Filter.parse("x = 7"))
    walk = network.publish(0, event, header)
    assert walk.delivered == {"new": 1}
    assert walk.links == {(0, 1)}


@pytest.mark.parametrize(("make", "propagation", "options"), FORWARDINGS)
def test_another_life_and_other_constants_are_not_believed(
    make: Any, propagation: str, options: dict[str, Any]
) -> None:
    network = LittleNetwork([(0, 1)], make, propagation, **options)
    network.subscribe("far", 1, Filter.parse("x > 0"))
    believed = decode(nothing_matches(table_of(network, 0)))
    assert isinstance(believed, AnnotatedHeader)
    event = Event.from_dict({"x": 1})
    assert network.publish(0, event, encode(believed)).sent == []
    for change in ({"node": 1}, {"incarnation": 1}, {"version": 2}, {"constants": bytes(8)}):
        other = replace(believed, entry=replace(believed.entry, **change))  # type: ignore[arg-type]
        assert network.publish(0, event, encode(other)).delivered == {"far": 1}
        assert AnnotatedHeader.decode(other.encode()) == other
    link = network.links_to[0][1]
    network.subscribe("here", 0, Filter.parse("x > 0"))
    assert network.publish(0, event, encode(believed), link).delivered == {"here": 1}


@pytest.mark.parametrize(("make", "propagation", "options"), FORWARDINGS)
def test_where_too_much_is_newer_the_event_is_matched_anew(
    make: Any, propagation: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = LittleNetwork([(0, 1)], make, propagation, **options)
    network.subscribe("old", 1, Filter.parse("x > 0"))
    header = nothing_matches(table_of(network, 0))
    module = make.__module__
    monkeypatch.setattr(f"{module}.MAX_NEWER_FILTERS", 2)
    assert precomputed_headers.MAX_NEWER_FILTERS > 2
    for number in range(3):
        network.subscribe(f"new {number}", 1, Filter.parse(f"x = {number + 50}"))
    assert network.publish(0, Event.from_dict({"x": 1}), header).delivered == {"old": 1}


def test_what_a_client_says_never_decides_who_gets_an_event() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], ReuseForwarding, "identity")
    network.subscribe("unwilling", 1, Filter.parse("x < 0"))
    table = table_of(network, 0)
    (header,) = table.writer.write(np.array([0]), np.array([0], np.int32), 1).to_pylist()
    walk = network.publish(0, Event.from_dict({"x": 1}), header)
    assert walk.links == {(0, 1)}  # the event went where it was said to belong
    assert walk.delivered == {}


def test_what_a_client_leaves_out_of_a_digest_keeps_an_event_from_nobody_it_comes_by() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], BloomForwarding, "identity")
    network.subscribe("far", 2, Filter.parse("x > 0"))
    network.subscribe("between", 1, Filter.parse("y > 0"))
    table = table_of(network, 0)
    (only,) = [number for number, wanted in enumerate(table.filters) if str(wanted) == "x > 0"]
    (header,) = table.writer.write(np.array([0]), np.array([only], np.int32), 1).to_pylist()
    assert network.publish(0, Event.from_dict({"x": 1, "y": 1}), header).delivered == {"far": 1, "between": 1}


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(32), bytes(32) + b"\4" + bytes(40), bytes(32) + b"\1\7"])
def test_bytes_that_are_no_annotated_header_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        AnnotatedHeader.decode(data)
    assert decode(b"\4" + data) is None
