"""Bloom forwarding: every matching event arrives, from any broker, over links that compare bits alone."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.errors import InvalidArgument, WireError
from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.tree import Leaf
from palio.routing.codec import Arrival
from palio.routing.conjunctions import to_conjunctions
from palio.routing.forwarding.bloom.bloom_forwarding import BloomForwarding, shape_of
from palio.routing.forwarding.bloom.classical import Sbsposet
from palio.routing.forwarding.bloom.digest import BloomHeader, BloomShape
from palio.routing.forwarding.bloom.predicate_index import PredicateIndex
from palio.routing.forwarding.headers import decode
from palio.routing.forwarding.strategy import ForwardingConfig
from palio.routing.messages import EventId, Publish
from palio.routing.strategies import Bloom
from tests.nested_events import nested_events
from tests.routing.forwarding.little_network import LittleNetwork, random_tree
from tests.strategies import NAMES, attributes, filters

NARROW = {"m": 64, "k": 1}  # in which bits of unlike predicates often meet


def predicates_of(wanted: list[Filter]) -> list[Leaf]:
    return [leaf for each in wanted for conjunction in to_conjunctions(each, 64) for leaf in conjunction]


@settings(max_examples=40)
@given(st.lists(filters(depth=2), max_size=4), st.lists(attributes(), min_size=1, max_size=3))
def test_the_matcher_makes_the_digests_that_the_poset_makes(wanted: list[Filter], events: list[dict[str, Any]]) -> None:
    predicates, poset = PredicateIndex(BloomShape(256, 3)), Sbsposet()
    for leaf in predicates_of(wanted):
        poset.add(leaf.attribute, leaf.values, predicates.add(leaf))
    starts, bits = predicates.digests([Event(each) for each in events])
    found = [tuple(bits[low:high].tolist()) for low, high in pairwise(starts)]
    assert found == [poset.match(each) for each in events]
    for leaf in predicates_of(wanted):
        assert predicates.remove(leaf)
    assert len(predicates) == 0


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([{}, NARROW]), st.lists(filters(depth=2), max_size=5), attributes())
def test_whoever_wants_an_event_has_it(
    seed: int, options: dict[str, Any], wanted: list[Filter], event: dict[str, Any]
) -> None:
    choice = Random(seed)
    network = LittleNetwork(random_tree(choice, 5), BloomForwarding, choice.choice(["simple", "identity"]), **options)
    for place, each in enumerate(wanted):
        network.subscribe(f"s{place}", choice.randrange(5), each)
    if wanted and seed % 2:
        network.unsubscribe("s0")
    made = Event(event)
    walk = network.publish(choice.randrange(5), made)
    assert walk.delivered == network.matching(made)
    assert len(walk.links) == len(walk.sent)


@settings(max_examples=30)
@given(st.lists(filters(names=NAMES, depth=2), max_size=3), nested_events())
def test_events_with_objects_in_arrays_arrive_too(wanted: list[Filter], event: Any) -> None:
    network = LittleNetwork([(0, 1), (1, 2)], BloomForwarding, "simple")
    for place, each in enumerate(wanted):
        network.subscribe(f"s{place}", place, each)
    made = Event.from_dict(event)
    assert network.publish(0, made).delivered == network.matching(made)


def test_what_wants_everything_has_no_bits_and_always_matches() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], BloomForwarding, "identity")
    for name, where in (("all", "TRUE"), ("opaque", "a LIKE '%b%c%'"), ("two attributes", "a < b")):
        network.subscribe(name, 2, Filter.parse(where))
    walk = network.publish(0, Event.from_dict({"z": 1}))
    assert walk.delivered == {"all": 1}
    assert [len(data) for _, _, data in walk.sent] == [2, 2]  # the kind of header, the width, and no bit


def test_the_digest_is_made_once_and_passed_on_as_it_came() -> None:
    network = LittleNetwork([(0, 1), (1, 2), (2, 3)], BloomForwarding, "identity")
    network.subscribe("far", 3, Filter.parse("price > 100 AND symbol = 'ACME'"))
    walk = network.publish(0, Event.from_dict({"price": 120, "symbol": "ACME"}))
    assert walk.delivered == {"far": 1}
    assert len({data for _, _, data in walk.sent}) == 1
    assert network.publish(0, Event.from_dict({"price": 120, "symbol": "OTHER"})).sent == []


def test_a_digest_of_another_width_is_not_understood() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], BloomForwarding, "identity")
    network.subscribe("far", 2, Filter.parse("price > 100"))
    event, arrival = Event.from_dict({"price": 120}), network.links_to[1][0]
    other, own = (b"\3" + BloomHeader.of(width, ()).encode() for width in (1 << 10, 1 << 16))
    assert network.publish(1, event, other, arrival).delivered == {"far": 1}
    assert network.publish(1, event, own, arrival).delivered == {}


def test_a_digest_that_a_client_brings_by_itself_is_not_believed() -> None:
    network = LittleNetwork([(0, 1)], BloomForwarding, "identity")
    network.subscribe("far", 1, Filter.parse("price > 100"))
    nothing = b"\3" + BloomHeader.of(1 << 16, ()).encode()
    assert network.publish(0, Event.from_dict({"price": 120}), nothing).delivered == {"far": 1}


def test_a_link_that_closes_takes_its_filters_along() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], BloomForwarding, "simple")
    network.subscribe("gone", 2, Filter.parse("x > 0"))
    network.forwardings[1].close_link(network.links_to[1][2])
    network.forwardings[1].close_link(99)
    assert network.publish(0, Event.from_dict({"x": 1})).links == {(0, 1)}


WIDTHS = st.sampled_from([2, 64, 1 << 10, 1 << 16, 1 << 18])


@given(WIDTHS, st.sets(st.integers(0, (1 << 18) - 1), max_size=300))
def test_a_header_is_read_as_it_was_written(width: int, some: set[int]) -> None:
    bits = tuple(sorted({bit % width for bit in some}))
    header = BloomHeader.of(width, bits)
    again = BloomHeader.decode(header.encode())
    assert (again, again.bits, again.width) == (header, bits, width)
    of_client = BloomHeader.decode(header.of_client().encode())
    assert (of_client.bits, of_client.width) == (bits, width)
    assert (of_client.is_of_client, again.is_of_client) == (True, False)
    index = 2 if width <= 1 << 16 else 4
    assert len(header.encode()) == 1 + min(len(bits) * index, (width + 7) // 8)
    assert BloomHeader.of(width, np.array(bits, np.int32)) == header


@pytest.mark.parametrize("data", [b"", b"\0", b"\x1f", b"\x10\0", b"\x0a\0\4", b"\x8a\0", b"\x81\4"])
def test_bytes_that_are_no_digest_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        BloomHeader.decode(data)
    assert decode(b"\3" + data) is None


def test_options_name_the_shape() -> None:
    assert shape_of(Bloom()) == BloomShape()
    assert shape_of(Bloom(m=1 << 14, k=2, key="ours")) == BloomShape(1 << 14, 2, b"ours")
    assert shape_of(Bloom(rate=1e-4, satisfied=100)) == BloomShape.for_rate(1e-4, 100)
    with pytest.raises(InvalidArgument):
        shape_of(Bloom(rate=0.01, m=64))
    with pytest.raises(InvalidArgument):
        BloomForwarding(ForwardingConfig(chosen=Bloom(m=100)))


def test_where_no_client_wants_an_event_a_broker_need_not_read_it() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], BloomForwarding, "identity")
    network.subscribe("far", 2, Filter.parse("x > 1"))
    network.subscribe("between", 1, Filter.parse("x > 5"))
    passing, wanted = (network.publish(0, Event.from_dict({"x": value})) for value in (2, 6))
    assert (passing.delivered, passing.looks) == ({"far": 1}, 2)  # at the first, and where it ends
    assert (wanted.delivered, wanted.looks) == ({"far": 1, "between": 1}, 3)


def test_of_too_many_clients_a_digest_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.routing.forwarding.bloom.bloom_forwarding._MAX_LOCAL_COMPARED", 2)
    network = LittleNetwork([(0, 1)], BloomForwarding, "identity")
    event = Event.from_dict({"x": 3})
    for name in "abcd":
        network.subscribe(name, 1, Filter.parse(f"x > 5 OR y = '{name}'"))
    network.subscribe("e", 1, Filter.parse("x > 2"))
    for name in "ecab":
        walk = network.publish(0, event)
        assert walk.delivered == network.matching(event)
        network.unsubscribe(name)
        network.subscribe(name, 1, Filter.parse("x = 3"))
    for name in "abcde":
        network.unsubscribe(name)
    network.subscribe("f", 1, Filter.parse("x = 4"))
    (route,) = network.forwardings[1].route([Arrival(1, Publish(EventId(0, 0, 0), b"", b"\3\x10"))])
    assert (route.sends, route.local) == ((), ())
