"""Reuse forwarding: the worked example of Shen's chapter 3 in numbers, and laws for every tree."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from palio.errors import InvalidArgument, WireError
from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.codec import Arrival
from palio.routing.forwarding.headers import decode, encode
from palio.routing.forwarding.reuse.reuse_forwarding import (
    Completeness,
    InterfaceIndex,
    ReuseForwarding,
    ReuseHeader,
    key_hash,
)
from palio.routing.forwarding.strategy import ForwardingConfig, Route
from palio.routing.strategies import Reuse
from tests.routing.forwarding.little_network import LittleNetwork, Walk, random_tree

EXAMPLE = [(0, 1), (1, 2), (2, 3), (1, 4)]
ANYTHING = Filter.parse("x > 0")
MODES = [("never", {}), ("always", {}), ("partial", {"n": 1}), ("partial", {"n": 2}), ("partial", {"n": 1000})]


def header_of(data: bytes) -> ReuseHeader:
    header = decode(data)
    assert isinstance(header, ReuseHeader)
    return header


def costs(network: LittleNetwork) -> tuple[int, int]:
    kept: list[Any] = list(network.forwardings.values())
    return sum(each.costs.matches for each in kept), sum(each.costs.lookups for each in kept)


def worked_example(propagation: str, **options: Any) -> tuple[LittleNetwork, Walk]:
    network = LittleNetwork(EXAMPLE, ReuseForwarding, propagation, **options)
    for name, at in (("101", 1), ("102", 2), ("103", 3), ("105", 3), ("104", 4)):
        # In the covering form keys are digests of filters, so each filter is its own.
        network.subscribe(name, at, ANYTHING if propagation == "simple" else Filter.parse(f"x > {int(name) - 200}"))
    return network, network.publish(0, Event.from_dict({"x": 1}))


@pytest.mark.parametrize(
    ("propagation", "options", "matches", "lookups", "longest"),
    [
        ("simple", {"mode": "never"}, 9, 0, 0),
        ("simple", {"mode": "always"}, 2, 11, 5),
        ("simple", {"mode": "partial", "n": 2}, 7, 6, 2),
        ("covering", {"mode": "partial", "n": 2}, 8, 6, 2),
    ],
)
def test_the_worked_example_costs_what_the_source_says(
    propagation: str, options: dict[str, Any], matches: int, lookups: int, longest: int
) -> None:
    network, walk = worked_example(propagation, **options)
    assert set(walk.delivered.elements()) == {"101", "102", "103", "104", "105"}
    assert walk.delivered.total() == 5
    looks, looked_up = costs(network)
    assert (looks + walk.looks, looked_up) == (matches, lookups)
    assert len(walk.sent) == 4
    assert max(len(header_of(data).keys) if data else 0 for _, _, data in walk.sent) == longest


def test_the_worked_example_step_by_step() -> None:
    network, walk = worked_example("simple", mode="partial", n=2)
    names = {key_hash(network.key_of(name)): name for name in network.wants}
    trace = [
        (start, end, {names[key] for key in header_of(data).keys}, header_of(data).is_complete)
        for start, end, data in walk.sent
    ]
    assert trace == [
        (0, 1, {"101", "102"}, False),
        (1, 2, {"102"}, False),
        (1, 4, {"104"}, True),
        (2, 3, {"103", "105"}, False),
    ]


class Inferring(ReuseForwarding):
    """What one might do without a flag: take a short list for a complete one."""

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        return super().route([self._inferred(each) for each in arrivals])

    def _inferred(self, arrival: Arrival) -> Arrival:
        header = arrival.header
        if not isinstance(header, ReuseHeader):
            return arrival
        inferred = encode(
            ReuseHeader.of(
                header.keys, Completeness.COMPLETE if len(header.keys) < self._limit else Completeness.PARTIAL
            )
        )
        return Arrival(arrival.interface, replace(arrival.message, header=inferred))


def test_a_list_is_not_complete_because_it_is_short() -> None:
    network = LittleNetwork(EXAMPLE, Inferring, "simple", mode="partial", n=2)
    for name, at in (("101", 1), ("102", 2), ("103", 3), ("105", 3), ("104", 4)):
        network.subscribe(name, at, ANYTHING)
    walk = network.publish(0, Event.from_dict({"x": 1}))
    assert set(walk.delivered) == {"101", "102", "104"}
    assert (costs(network)[0] + walk.looks, costs(network)[1], len(walk.sent)) == (4, 4, 3)


def test_where_a_filter_is_kept_back_a_list_is_never_complete() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], ReuseForwarding, "covering", mode="partial", n=20)
    network.subscribe("s1", 1, Filter.parse("x BETWEEN 0 AND 10"), known_to=[0, 1, 2])
    network.subscribe("s2", 2, Filter.parse("x BETWEEN 2 AND 8"), known_to=[1, 2])
    walk = network.publish(0, Event.from_dict({"x": 5}))
    assert walk.delivered == {"s1": 1, "s2": 1}
    assert not any(header_of(data).is_complete for _, _, data in walk.sent)


def test_a_key_that_nobody_knows_is_passed_over() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], ReuseForwarding, "simple", mode="partial", n=20)
    network.subscribe("kept", 2, ANYTHING)
    known = key_hash(network.key_of("kept"))
    header = b"\1" + ReuseHeader.of([7, known, 9], Completeness.COMPLETE).encode()
    walk = network.publish(1, Event.from_dict({"x": 1}), header, network.links_to[1][0])
    assert walk.delivered == {"kept": 1}
    assert [header_of(data).keys for _, _, data in walk.sent] == [[known]]


CONDITIONS = ["x > 0", "x > 2", "x < 3", "x = 1 OR y = 1", "y IS NULL", "y > 1 AND x > 1", "x = 99", "x <> 2"]


def random_network(choice: Random, edges: list[tuple[int, int]], propagation: str, **options: Any) -> LittleNetwork:
    network = LittleNetwork(edges, ReuseForwarding, propagation, **options)
    size = len(network.forwardings)
    for number in range(choice.randrange(12)):
        network.subscribe(f"s{number}", choice.randrange(size), Filter.parse(choice.choice(CONDITIONS)))
    for name in [each for each in network.wants if choice.random() < 0.3]:
        network.unsubscribe(name)
    return network


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(["simple", "identity"]))
def test_every_mode_delivers_what_matches_over_the_same_links(seed: int, propagation: str) -> None:
    edges = random_tree(Random(seed), 7)
    event = Event.from_dict({"x": seed % 5, "y": seed % 3} if seed % 2 else {"x": seed % 5})
    links = set()
    looks: dict[str, int] = {}
    for mode, options in MODES:
        network = random_network(Random(seed), edges, propagation, mode=mode, **options)
        walk = network.publish(seed % 7, event)
        assert walk.delivered == network.matching(event)
        links.add(frozenset(walk.links))
        looks[f"{mode} {options.get('n', '')}"] = costs(network)[0] + walk.looks
        lists = [header_of(data).keys for _, _, data in walk.sent if data]
        assert all(0 < len(keys) <= options.get("n", len(keys)) for keys in lists)
        assert all(len(set(keys)) == len(keys) for keys in lists)
    assert len(links) == 1
    assert looks["always "] <= looks["partial 2"]
    assert looks["always "] == looks["partial 1000"]


@pytest.mark.deep
@pytest.mark.parametrize("propagation", ["simple", "identity"])
@pytest.mark.parametrize(("mode", "options"), MODES)
def test_no_seed_of_many_loses_or_doubles_an_event(propagation: str, mode: str, options: dict[str, Any]) -> None:
    for seed in range(1000):
        choice = Random(seed)
        network = random_network(choice, random_tree(choice, 8), propagation, mode=mode, **options)
        for _ in range(3):
            event = Event.from_dict({"x": choice.randrange(5), "y": choice.randrange(3)})
            assert network.publish(choice.randrange(8), event).delivered == network.matching(event), seed


@given(st.lists(st.sampled_from(CONDITIONS), max_size=12), st.integers(0, 4), st.integers(1, 5), st.data())
def test_an_index_finds_any_some_and_all(conditions: list[str], x: int, limit: int, data: st.DataObject) -> None:
    index = InterfaceIndex()
    filters = [Filter.parse(each) for each in conditions]
    numbers = [index.add(key, wanted) for key, wanted in enumerate(filters)]
    gone = data.draw(st.sets(st.sampled_from(range(len(filters))))) if filters else set()
    for each in gone:
        index.remove(numbers[each])
    events = [Event.from_dict({"x": x}), Event.from_dict({"x": 1, "y": x})]
    wanted = [[key for key, each in enumerate(filters) if key not in gone and each.matches(event)] for event in events]
    assert index.find_all(events) == wanted
    assert index.find_any(events) == [bool(each) for each in wanted]
    assert index.find_up_to(events, limit) == [each[:limit] for each in wanted]
    assert len(index) == len(filters) - len(gone)


def test_an_index_that_lost_most_of_what_it_had_is_made_anew() -> None:
    index = InterfaceIndex()
    numbers = {key: index.add(key, Filter.parse(f"x = {key}")) for key in range(300)}
    for key in range(0, 300, 3):
        index.remove(numbers[key])
    for key in range(1, 300, 3):
        index.remove(numbers[key])
    again = index.add(7000, Filter.parse("x < 6"))
    assert index.find_all([Event.from_dict({"x": 5}), Event.from_dict({"x": 4})]) == [sorted([5, 7000]), [7000]]
    index.remove(again)
    for key in range(2, 300, 3):
        index.remove(numbers[key])
    assert index.find_all([Event.from_dict({"x": 5})]) == [[]]
    assert len(index) == 0


@given(st.lists(st.integers(0, 2**64 - 1)), st.sampled_from(Completeness))
def test_a_header_is_read_as_it_was_written(keys: list[int], known: Completeness) -> None:
    header = ReuseHeader.of(keys, known)
    again = ReuseHeader.decode(header.encode())
    assert (again, again.keys, again.completeness) == (header, keys, known)
    assert again.is_complete is (known is not Completeness.PARTIAL)
    assert len(header.encode()) == 1 + 8 * len(keys)


@pytest.mark.parametrize("data", [b"", b"\3", b"\0abc", bytes(8)])
def test_bytes_that_are_no_list_of_keys_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        ReuseHeader.decode(data)
    assert decode(b"\1" + data) is None


@pytest.mark.parametrize("options", [{"mode": "sometimes"}, {"n": 0}, {"n": "20"}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        ReuseForwarding(ForwardingConfig(chosen=Reuse(**options)))


def test_a_list_that_a_client_brings_by_itself_is_not_believed() -> None:
    network = LittleNetwork([(0, 1)], ReuseForwarding, "simple")
    network.subscribe("far", 1, ANYTHING)
    network.subscribe("unwilling", 1, Filter.parse("x < 0"))
    header = encode(ReuseHeader.of([key_hash(network.key_of("unwilling"))], Completeness.COMPLETE))
    assert network.publish(0, Event.from_dict({"x": 1}), header).delivered == {"far": 1}


def test_a_link_that_closes_takes_its_keys_along() -> None:
    network = LittleNetwork([(0, 1), (1, 2)], ReuseForwarding, "simple")
    network.subscribe("gone", 2, ANYTHING)
    network.forwardings[1].close_link(network.links_to[1][2])
    network.forwardings[1].close_link(99)
    assert network.publish(0, Event.from_dict({"x": 1})).links == {(0, 1)}
