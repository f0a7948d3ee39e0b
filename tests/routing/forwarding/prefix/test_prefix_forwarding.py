"""Prefix forwarding: every matching event arrives, whichever versions of the tree brokers have."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import IllegalCombination, InvalidArgument, WireError
from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.announcements import ROUTING_TREES_TOPIC
from palio.routing.codec import Arrival, encode_event
from palio.routing.effects import Job
from palio.routing.forwarding.headers import decode, encode
from palio.routing.forwarding.prefix.forwarding_tree import ForwardingTree, PrefixHeader
from palio.routing.forwarding.prefix.optimiser import TreeOptimiser
from palio.routing.forwarding.prefix.prefix_forwarding import PrefixForwarding
from palio.routing.forwarding.prefix.tree_version import encode_tree
from palio.routing.forwarding.strategy import ForwardingConfig
from palio.routing.messages import EventId, Publish
from palio.routing.strategies import Prefix
from tests.nested_events import NAMES, nested_events
from tests.routing.forwarding.little_network import LittleNetwork, random_tree
from tests.routing.forwarding.prefix.trees import SOME, close_events, close_filters
from tests.strategies import filters

CHAIN = [(0, 1), (1, 2), (2, 3)]
heights = st.sampled_from([0, 0, 1, 2])


def begin(forwarding: Any) -> Callable[[], None] | None:
    """Do what is worth doing beside everything else; what is left to do then."""
    job: Job | None = forwarding.work()
    return None if job is None else job()


def finish(rest: Callable[[], None] | None) -> None:
    if rest is not None:
        rest()


class Optimiser:
    """Tells some brokers of a network its trees."""

    def __init__(self, network: LittleNetwork, threshold: float = 0.3) -> None:
        self.network = network
        self._made = TreeOptimiser(threshold)
        self._version = 0

    def subscribe(self, name: str, at: int, wanted: Filter, told: list[int] | None = None) -> None:
        self.network.subscribe(name, at, wanted)
        self._made.add(wanted)
        self.tell(told)

    def unsubscribe(self, name: str, told: list[int] | None = None) -> None:
        self._made.remove(self.network.wants[name][1])
        self.network.unsubscribe(name)
        self.tell(told)

    def tell(self, told: list[int] | None) -> None:
        tree = self._made.update()
        if tree is not None:
            self._version += 1
            for node in self.network.forwardings if told is None else told:
                self.network.forwardings[node].on_announcement(ROUTING_TREES_TOPIC, self._version, encode_tree(tree))
                finish(begin(self.network.forwardings[node]))


@SOME
@given(st.integers(0, 2**32), heights, st.lists(filters(depth=2) | close_filters(), max_size=5), close_events())
def test_whoever_wants_an_event_has_it_by_trees_that_each_builds(
    seed: int, height: int, wanted: list[Filter], event: dict[str, Any]
) -> None:
    choice = Random(seed)
    propagation = choice.choice(["simple", "identity"])
    network = LittleNetwork(
        random_tree(choice, 5), PrefixForwarding, propagation, tree="local", height=height, patience=0
    )
    for place, each in enumerate(wanted):
        network.subscribe(f"s{place}", choice.randrange(5), each)
    made = Event(event)
    for _ in range(2):  # the second time trees are built
        walk = network.publish(choice.randrange(5), made)
        assert walk.delivered == network.matching(made)
        assert len(walk.links) == len(walk.sent)
        if wanted and "s0" in network.wants:
            network.unsubscribe("s0")


@SOME
@given(st.integers(0, 2**32), heights, st.lists(close_filters() | filters(depth=1), max_size=7), close_events())
def test_whoever_wants_an_event_has_it_by_the_optimisers_trees(
    seed: int, height: int, wanted: list[Filter], event: dict[str, Any]
) -> None:
    """Some brokers miss some versions, filters come between versions, and some leave."""
    choice = Random(seed)
    propagation = choice.choice(["simple", "identity", "covering"])
    network = LittleNetwork(random_tree(choice, 5), PrefixForwarding, propagation, tree="optimiser", height=height)
    optimiser = Optimiser(network, choice.choice([0.0, 0.3, 0.8]))
    made = Event(event)
    for place, each in enumerate(wanted):
        told = sorted(choice.sample(range(5), choice.randrange(6)))
        optimiser.subscribe(f"s{place}", choice.randrange(5), each, told)
        if place % 3 == 2:
            optimiser.unsubscribe(f"s{place - 1}", told)
        walk = network.publish(choice.randrange(5), made)
        assert walk.delivered == network.matching(made)
        assert len(walk.links) == len(walk.sent)


@SOME
@given(st.lists(filters(names=NAMES, depth=2), max_size=3), nested_events(), st.sampled_from(["local", "optimiser"]))
def test_events_with_objects_in_arrays_arrive_too(wanted: list[Filter], event: Any, tree: str) -> None:
    network = LittleNetwork([(0, 1), (1, 2)], PrefixForwarding, "simple", tree=tree)
    optimiser = Optimiser(network)
    for place, each in enumerate(wanted):
        optimiser.subscribe(f"s{place}", place, each)
    made = Event.from_dict(event)
    assert network.publish(0, made).delivered == network.matching(made)


@pytest.mark.parametrize("tree", ["local", "optimiser"])
def test_content_is_looked_at_once(tree: str) -> None:
    network = LittleNetwork(CHAIN, PrefixForwarding, "identity", tree=tree, patience=0)
    optimiser = Optimiser(network, threshold=0)
    optimiser.subscribe("far", 3, Filter.parse("price > 100 AND symbol = 'ACME'"))
    optimiser.subscribe("near", 1, Filter.parse("price > 150"))
    walk = network.publish(0, Event.from_dict({"price": 120, "symbol": "ACME"}))
    assert walk.delivered == {"far": 1}
    (header,) = {data for _, _, data in walk.sent}
    assert len(walk.sent) == 3
    assert isinstance(decode(header), PrefixHeader)
    assert network.publish(0, Event.from_dict({"price": 120, "symbol": "OTHER"})).sent == []


@pytest.mark.parametrize("tree", ["local", "optimiser"])
def test_where_no_client_wants_an_event_a_broker_need_not_read_it(tree: str) -> None:
    network = LittleNetwork(CHAIN, PrefixForwarding, "identity", tree=tree, patience=0)
    optimiser = Optimiser(network, threshold=0)
    optimiser.subscribe("far", 3, Filter.parse("x > 1"))
    optimiser.subscribe("between", 1, Filter.parse("x > 5"))
    passing, wanted = (network.publish(0, Event.from_dict({"x": value})) for value in (2, 6))
    assert (passing.delivered, passing.looks) == ({"far": 1}, 1)
    assert (wanted.delivered, wanted.looks) == ({"far": 1, "between": 1}, 2)


def test_a_tree_is_not_built_before_it_is_worth_it() -> None:
    network = LittleNetwork([(0, 1)], PrefixForwarding, "simple", patience=0.15)
    for number in range(20):
        network.subscribe(f"s{number}", 1, Filter.parse(f"x = {number}"))
    headers = [network.publish(0, Event.from_dict({"x": 3})).sent[0][2] for _ in range(4)]
    assert [bool(each) for each in headers] == [False, False, True, True]
    network.unsubscribe("s1")
    assert network.publish(0, Event.from_dict({"x": 3})).sent == [(0, 1, b"")]


def test_a_tree_that_takes_too_long_to_build_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.routing.forwarding.prefix.prefix_forwarding._MIN_FILTERS_FOR_VISITS", 1)
    monkeypatch.setattr("palio.routing.forwarding.prefix.prefix_forwarding._MAX_VISITS_PER_FILTER", 4)
    network = LittleNetwork([(0, 1)], PrefixForwarding, "simple", patience=0)
    for number in range(40):
        network.subscribe(f"s{number}", 1, Filter.parse(f"x > {number}"))
    event = Event.from_dict({"x": 3})
    for _ in range(2):
        walk = network.publish(0, event)
        assert (walk.delivered, walk.sent) == (network.matching(event), [(0, 1, b"")])
    for number in range(3, 40):
        network.unsubscribe(f"s{number}")
    assert network.publish(0, event).sent != [(0, 1, b"")]


def test_a_broker_without_the_version_writes_its_own() -> None:
    network = LittleNetwork(CHAIN, PrefixForwarding, "covering")
    optimiser = Optimiser(network, threshold=0)
    optimiser.subscribe("far", 3, Filter.parse("x > 1"))
    optimiser.subscribe("too", 3, Filter.parse("y > 1"), told=[0, 1])
    walk = network.publish(0, Event.from_dict({"x": 2, "y": 0}))
    assert walk.delivered == {"far": 1}
    versions = [decode(data).version for _, _, data in walk.sent]  # type: ignore[union-attr]
    assert versions[0] == versions[1] != versions[2]
    back = network.publish(3, Event.from_dict({"x": 0, "y": 0}))
    assert back.sent == []


def test_older_versions_are_understood_for_a_while() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], PrefixForwarding, "merging")
    link = network.links_to[1][0]
    optimiser = Optimiser(network, threshold=0)
    optimiser.subscribe("s", 2, Filter.parse("x > 1"))
    event = Event.from_dict({"x": 2})
    ((_, _, header), _) = network.publish(0, event).sent
    for number in range(3):
        optimiser.subscribe(f"a{number}", 2, Filter.parse(f"a = {number}"))
    assert network.publish(1, event, header, link).sent == [(1, 2, header)]
    optimiser.subscribe("b", 2, Filter.parse("b = 1"))
    ((_, _, other),) = network.publish(1, event, header, link).sent
    assert other != header


def test_old_news_and_what_is_no_tree_change_nothing() -> None:
    network = LittleNetwork([(0, 1)], PrefixForwarding, "covering")
    optimiser = Optimiser(network, threshold=0)
    optimiser.subscribe("s", 1, Filter.parse("x > 1"))
    event = Event.from_dict({"x": 2})
    before = network.publish(0, event).sent
    network.forwardings[0].on_announcement(ROUTING_TREES_TOPIC, 2, b"no tree")
    network.forwardings[0].on_announcement(ROUTING_TREES_TOPIC, 0, b"old")
    network.forwardings[0].on_announcement("another", 3, b"")
    assert network.publish(0, event).sent == before


def header_for(forwarding: PrefixForwarding, content: dict[str, Any], came_with: bytes = b"") -> tuple[bytes, set[int]]:
    """The header with which an event goes on, and over which links."""
    message = Publish(EventId(9, 1, 1), encode_event(Event.from_dict(content)), came_with)
    [route] = forwarding.route([Arrival(9, message)])
    return b"".join(encode(own) for own, _ in route.sends), {link for _, links in route.sends for link in links}


def test_the_tree_before_serves_while_filters_are_mapped_onto_the_next() -> None:
    forwarding = PrefixForwarding(ForwardingConfig(propagation="covering"))
    trees = TreeOptimiser(0)

    def want(link: int, text: str) -> bytes:
        wanted = Filter.parse(text)
        forwarding.add_filter(link, wanted.digest, wanted)
        trees.add(wanted)
        return wanted.digest

    want(1, "x > 1")
    gone = want(2, "x > 2")
    first = trees.update()
    assert first is not None
    forwarding.on_announcement(ROUTING_TREES_TOPIC, 1, encode_tree(first))
    finish(begin(forwarding))
    old, links = header_for(forwarding, {"x": 5})
    assert links == {1, 2}
    want(3, "y > 1")
    second = trees.update()
    assert second is not None
    forwarding.on_announcement(ROUTING_TREES_TOPIC, 2, encode_tree(second))
    rest = begin(forwarding)  # somebody does it, and is not done
    forwarding.remove_filter(2, gone)
    want(4, "x > 4")
    assert header_for(forwarding, {"x": 5}) == (old, {1, 3, 4})  # it knows nothing of y, and sends too far
    forwarding.on_announcement(ROUTING_TREES_TOPIC, 3, encode_tree(second))
    assert forwarding.work() is None  # one at a time
    finish(rest)
    new, links = header_for(forwarding, {"x": 5})
    assert links == {1, 4}
    assert new != old
    assert header_for(forwarding, {"x": 5}, old) == (old, {1, 3, 4})


def test_a_large_tree_is_built_beside_everything_else_and_not_taken_where_filters_changed() -> None:
    forwarding = PrefixForwarding(ForwardingConfig(propagation="identity", chosen=Prefix(patience=0)))
    for number in range(300):
        wanted = Filter.parse(f"x = {number}")
        forwarding.add_filter(1 + number % 3, wanted.digest, wanted)
    assert header_for(forwarding, {"x": 5}) == (b"", {3})  # by content
    rest = begin(forwarding)
    late = Filter.parse("x BETWEEN 5 AND 6")
    forwarding.add_filter(4, late.digest, late)
    finish(rest)
    assert header_for(forwarding, {"x": 5}) == (b"", {3, 4})
    finish(begin(forwarding))
    header, links = header_for(forwarding, {"x": 5})
    assert links == {3, 4}
    assert isinstance(decode(header), PrefixHeader)


def test_branches_that_cannot_be_are_not_understood() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], PrefixForwarding, "covering")
    optimiser = Optimiser(network, threshold=0)
    optimiser.subscribe("s", 2, Filter.parse("x > 1"))
    event = Event.from_dict({"x": 2})
    ((_, _, header), _) = network.publish(0, event).sent
    wrong = decode(header)
    assert isinstance(wrong, PrefixHeader)
    for tree in (ForwardingTree.of([(7,)]), ForwardingTree(b"\0\x80"), ForwardingTree(b"\0\x01\0\0")):
        made = encode(PrefixHeader.of(wrong.version, tree))
        assert network.publish(1, event, made, network.links_to[1][0]).sent == [(1, 2, header)]


@pytest.mark.parametrize("tree", ["local", "optimiser"])
def test_branches_that_a_client_brings_by_itself_are_not_believed(tree: str) -> None:
    network = LittleNetwork([(0, 1), (1, 2)], PrefixForwarding, "identity", tree=tree, patience=0)
    optimiser = Optimiser(network, threshold=0)
    for place in range(3):
        optimiser.subscribe(f"s{place}", place, Filter.parse(f"x > {place}"))
    event = Event.from_dict({"x": 5})
    ((_, _, header), _) = network.publish(0, event).sent
    known = decode(header)
    assert isinstance(known, PrefixHeader)
    nothing = encode(PrefixHeader.of(known.version, ForwardingTree.of([])))
    assert network.publish(1, event, nothing, network.links_to[1][0]).links == set()
    assert network.publish(0, event, nothing).delivered == network.matching(event)


@pytest.mark.parametrize("data", [b"", b"1234567", b"123456789"])
def test_bytes_that_are_no_header_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        PrefixHeader.decode(data)


@given(st.binary(min_size=8, max_size=8), st.binary(min_size=1, max_size=5), st.integers(0, 255))
def test_a_header_is_read_as_it_was_written(version: bytes, code: bytes, height: int) -> None:
    header = PrefixHeader.of(version, ForwardingTree(bytes((height,)) + code))
    assert decode(encode(header)) == header


@pytest.mark.parametrize("height", [-1, 256, "3", None])
def test_a_height_is_a_small_number(height: Any) -> None:
    with pytest.raises(InvalidArgument, match="height"):
        PrefixForwarding(ForwardingConfig(chosen=Prefix(height=height)))


def test_trees_that_each_builds_need_all_filters_everywhere() -> None:
    with pytest.raises(IllegalCombination):
        PrefixForwarding(ForwardingConfig(propagation="covering", chosen=Prefix(tree="local")))
