"""Link filters: a replay tells what a subscription would have told, whatever may not pass the links."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Event, Filter
from palio.network.security.authorization import LinkFilters
from palio.routing.codec import decode_event
from palio.simulation import Network
from tests.simulation.scenarios import hosts

OPEN = Filter.everything


def set_link_filters(net: Network, at: int, to: int, imports: Filter, exports: Filter) -> None:
    """What passes between two brokers, by the will of the first one's owner."""
    host = hosts(net)[at]
    assert host.node is not None
    [link] = [number for number, way in enumerate(host.ways, 1) if way.to == to]
    host.node.broker.link_filters[link] = LinkFilters(imports, exports)


def replayed(net: Network, at: int) -> set[int]:
    past = net.replay(at)
    assert (past.complete, past.missing) == (True, ())
    return {decode_event(event.body).get("x") for _, event in past.events}


def test_what_may_not_leave_is_not_told_by_a_replay_either() -> None:
    net = Network.line(3)
    set_link_filters(net, 0, 1, imports=OPEN, exports=Filter.parse("region = 'eu'"))
    for x, region in enumerate(("eu", "us", "eu")):
        net.publish(0, {"x": x, "region": region}, confirm=True)
        net.run()
    assert [replayed(net, at) for at in range(3)] == [{0, 1, 2}, {0, 2}, {0, 2}]


def test_what_may_not_come_in_does_not_come_as_past() -> None:
    net = Network.line(3)
    set_link_filters(net, 1, 0, imports=Filter.parse("x > 0"), exports=OPEN)
    for x in range(3):
        net.publish(0, {"x": x}, confirm=True)
        net.run()
    assert [replayed(net, at) for at in range(3)] == [{0, 1, 2}, {1, 2}, {1, 2}]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_replay_tells_what_a_subscription_would_have_told(seed: int) -> None:
    random = Random(seed)
    brokers = random.randint(2, 6)
    net = Network.random(brokers, seed=seed)
    for here in range(brokers):
        for way in hosts(net)[here].ways:
            if random.random() < 0.6:
                imports, exports = (Filter.parse(f"x <> {random.randrange(12)}") for _ in range(2))
                set_link_filters(net, here, way.to, imports, exports)
    live = {at: net.subscribe(at, "x >= 0") for at in range(brokers)}
    net.run()
    for x in range(12):
        net.publish(random.randrange(brokers), Event.from_dict({"x": x}), confirm=True)
        net.run()
    for at, subscription in live.items():
        told = {each.event.get("x") for each in net.deliveries if each.subscription == subscription}
        assert replayed(net, at) == told
