"""Networks with sealed events: inner brokers never have the content, and deliveries are those of flooding."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from palio import InvalidArgument, PalioError
from palio.events import Event
from palio.routing import codec
from palio.routing.broker import Broker
from palio.routing.combinations import Combination
from palio.routing.link_sessions import Transmit
from palio.routing.sealing import Keyring
from palio.simulation import Network
from palio.simulation.engine import Links
from palio.simulation.hosts import Host
from tests.routing.test_sealing import NEW, OLD, sealed_combinations
from tests.simulation.scenarios import FAULTY_LINKS, Scenario, hosts

every_combination = pytest.mark.parametrize("combination", sealed_combinations(), ids=str)
SECRET = "only-for-subscribers"


def choices_of(combination: Combination) -> dict[str, Any]:
    return {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "options": combination.options,
    }


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All bytes that went over links."""
    seen: list[bytes] = []
    transmit = Links.transmit

    def record(links: Links, host: Host, effect: Transmit, upkeep: bool) -> None:
        seen.append(effect.data)
        transmit(links, host, effect, upkeep)

    monkeypatch.setattr(Links, "transmit", record)
    return seen


def memory_of(root: object) -> Iterator[bytes]:
    """All text and bytes that an object refers to, however indirectly."""
    waiting, seen = [root], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | FunctionType | BuiltinFunctionType):
            continue
        seen.add(id(each))
        if isinstance(each, bytes):
            yield each
        elif isinstance(each, str):
            yield each.encode("utf-8", "surrogatepass")
        waiting += gc.get_referents(each)


@every_combination
def test_an_inner_broker_never_has_the_content(combination: Combination, frames: list[bytes]) -> None:
    net = Network.line(5, sealing_keys={0: [OLD], 4: [OLD]}, **choices_of(combination))
    net.advertise(at=4, where="TRUE")
    desk = net.subscribe(at=0, where="code > 5")
    events = [Event({"code": code, "note": SECRET}, source=f"from {SECRET}") for code in (3, 7, 9)]
    net.publish_all(4, events)
    net.publish(4, Event({"code": 8, "note": SECRET}), confirm=True)
    net.run()
    past = net.replay(0, "code > 5")
    assert [each.event.get("code") for each in net.deliveries_of(desk)] == [7, 9, 8]
    assert [codec.decode_event(event.body).get("code") for _, event in past.events] == [8]
    assert sum(b"publish" in codec.MESSAGE_KINDS.get(data[1], "").encode() for data in frames) > 0
    assert not any(SECRET.encode() in data for data in frames)
    for host in hosts(net)[1:4]:
        assert not any(SECRET.encode() in each for each in memory_of(host.node)), host.number
        assert net.content_reads[host.number] == 0
    assert any(SECRET.encode() in each for each in memory_of(hosts(net)[4].disk))  # it would be found


class SealedScenario(Scenario):
    """A scenario whose clients are at edge brokers only."""

    edges = (0, 1, 4)

    def __init__(self, seed: int, choices: dict[str, Any], breaks: bool, circles: bool) -> None:
        super().__init__(seed, {**choices, "sealing_keys": {edge: [OLD] for edge in self.edges}}, breaks, circles)

    def place(self) -> int | None:
        running = [each for each in range(self.brokers) if each not in self.down and each in self.edges]
        return self.random.choice(running) if running else None


def run_scenario(combination: Combination, seed: int, faulty: bool, breaks: bool, circles: bool) -> None:
    choices = choices_of(combination)
    # Watermarks are sealed, too, where there can be any.
    complete = {} if combination.has_publisher_trees else {"completeness": 0.02}
    choices["options"] = {**combination.options, **complete, **(FAULTY_LINKS if faulty else {})}
    net = SealedScenario(seed, choices, breaks, circles).run(30)
    verdict = net.verdict()
    assert verdict.is_right, f"seed {seed}, {faulty=}, {breaks=}, {circles=}\n{verdict}"
    assert not any(reason.startswith("unreadable") for reason in net.drops)


@every_combination
def test_what_is_delivered_is_what_flooding_delivers(combination: Combination) -> None:
    for seed in range(3):
        run_scenario(combination, seed, faulty=seed == 1, breaks=seed == 2, circles=seed == 2)


@every_combination
def test_seals_change_no_delivery(combination: Combination) -> None:
    found = []
    for sealed in (False, True):
        keys: dict[str, Any] = {"sealing_keys": {edge: [OLD] for edge in (0, 3, 5)}} if sealed else {}
        options = {name: value for name, value in combination.options.items() if name != "sealed"}
        net = Network.tree(7, children=2, **{**choices_of(combination), "options": options}, **keys)
        for at in (0, 3, 5):
            net.advertise(at=at, where="TRUE")
            net.subscribe(at=at, where=f"x > {at}")
            net.subscribe(at=at, where=f"y = {at} OR x = 1")
        for x in range(7):
            net.publish((0, 3, 5)[x % 3], {"x": x, "y": 7 - x})
        net.run()
        found.append([(each.subscription.number, each.event.id, each.at) for each in net.deliveries])
    assert sorted(found[0]) == sorted(found[1]) != []


@pytest.mark.deep
@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("faulty", [False, True])
@every_combination
def test_a_hundred_seeds(combination: Combination, faulty: bool, breaks: bool) -> None:
    for seed in range(7000, 7100):
        run_scenario(combination, seed, faulty=faulty, breaks=breaks, circles=seed % 2 == 0)


def test_a_wrong_key_gives_a_reason_and_no_delivery_and_those_behind_it_still_get_the_event() -> None:
    keys = {0: [OLD], 1: [NEW], 2: [OLD]}
    net = Network.line(3, forwarding="bloom", sealing_keys=keys)
    near, wrong, far = (net.subscribe(at=at, where="x > 1") for at in (2, 1, 0))
    net.publish(2, {"x": 2})
    net.run()
    assert [each.subscription for each in net.deliveries] == [near, far]
    assert net.deliveries_of(wrong) == []
    assert net.drops == {"unreadable: sealed with a key that this broker does not have": 1}


def test_a_body_that_an_inner_broker_alters_is_not_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Network.line(3, forwarding="bloom", sealing_keys={0: [OLD], 2: [OLD]})
    desk = net.subscribe(at=0, where="TRUE")
    net.run()
    router = hosts(net)[1].node.broker._router  # type: ignore[union-attr]
    take = type(router).take
    forgeries = iter([b"\x94\xa1a\xc0\xc0\x80", None, b""])

    def forge(self: Any, arrival: codec.Arrival) -> None:
        if self is router:
            body = next(forgeries)
            altered = arrival.message.body[:-1] + b"?" if body is None else body
            arrival = codec.Arrival(arrival.interface, replace(arrival.message, body=altered), keys=arrival.keys)
        take(self, arrival)

    monkeypatch.setattr(type(router), "take", forge)
    for x in range(3):
        net.publish(2, {"x": x})
    net.run()
    assert net.deliveries_of(desk) == []
    assert net.drops == {
        "unreadable: forged or altered after it was sealed": 1,
        "unreadable: not sealed, in a network in which events are": 2,
    }


def test_an_inner_broker_has_no_clients() -> None:
    net = Network.line(3, forwarding="bloom", sealing_keys={0: [OLD], 2: [OLD]})
    for call in (net.subscribe, net.advertise):
        with pytest.raises(InvalidArgument, match="broker 1 has no key of sealed events"):
            call(at=1, where="TRUE")
    with pytest.raises(PalioError, match="has no key"):
        net.publish(1, {"x": 1})


def test_keys_need_the_option_at_all_brokers() -> None:
    with pytest.raises(InvalidArgument, match="need the option `sealed`"):
        Broker(1, 1, Combination(), keys=Keyring([OLD]))
