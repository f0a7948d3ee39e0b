"""Hot spots: virtual nodes even out what peers store, and neighbours with equal copies match in a hot node's place."""

from __future__ import annotations

from collections import Counter
from random import Random
from statistics import fmean
from typing import Any

import pytest

from palio.errors import InvalidArgument
from palio.peers.load_shedding import LoadShedding
from palio.peers.messages import Effect, Notification, Send, Shed
from palio.peers.peer import Peer
from palio.peers.rendezvous_mappings import MAPPINGS
from palio.simulation.peer_network import ChordNetwork
from tests.simulation.test_peer_network import bring_back, check_ring, condition, event, is_ideal


class _Counted(ChordNetwork):
    """A ring that counts who notifies, and who leaves events to others."""

    def __init__(self, *arguments: Any, **choices: Any) -> None:
        self.notified: Counter[int] = Counter()
        self.shed = 0
        super().__init__(*arguments, **choices)

    def _carry_out_one(self, peer: Peer, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, Notification):
            self.notified[peer.node] += 1
        if isinstance(effect, Send) and isinstance(effect.message, Shed):
            self.shed += 1
        super()._carry_out_one(peer, effect)


def hot(seed: int, *, shed_above: int, events: int = 120) -> _Counted:
    """One value that all want: all its events are matched by the owner of one key."""
    net = _Counted(24, mapping="selective-attribute", seed=seed, replicas=3, shed_above=shed_above)
    for at in range(8):
        net.subscribe(at, "topic = 'goal'")
    net.run()
    net.run(2.0)
    random = Random(seed)
    for _ in range(events):
        net.publish(random.randrange(8, 24), {"topic": "goal"})
        net.run(0.05)
    net.run()
    return net


def test_neighbours_share_the_work_of_a_hot_node() -> None:
    alone, shared = hot(3, shed_above=0), hot(3, shed_above=5)
    assert alone.shed == 0
    assert shared.shed > 40
    assert max(shared.notified.values()) < 0.6 * max(alone.notified.values())
    for net in (alone, shared):
        verdict = net.verdict()
        assert verdict.is_right, verdict
        assert verdict.required == 8 * 120


def shedding_schedule(seed: int, **choices: Any) -> _Counted:
    """Subscriptions that come, change and go, and peers that crash and come back, while a node is hot."""
    random = Random(seed)
    net = _Counted(20, mapping=MAPPINGS[seed % 3], seed=seed, replicas=3, shed_above=2, **choices)
    desks = [net.subscribe(at, condition(random), durable=at % 2 == 0) for at in range(6)]
    net.run()
    for _ in range(4):
        doomed = random.sample([each for each in net._numbers_up() if each >= 6 or each % 2 == 0], 2)
        steady = [each for each in net._numbers_up() if each not in doomed]
        for step in range(25):
            net.publish(random.choice(steady), event(random))
            net.run(random.random() / 10)
            if step % 8 == 0:
                desks.append(net.subscribe(random.choice(steady), condition(random), durable=True))
                if random.random() < 0.5:
                    net.run()
                    ended = random.choice([each for each in desks if each.at in steady])
                    desks.remove(ended)
                    net.unsubscribe(ended)
        for each in doomed:
            net.crash(each)
        net.run(random.choice((0.0, 1.0, 5.0)))
        for _ in range(10):
            net.publish(random.choice(steady), event(random))
            net.run(0.05)
        bring_back(net, doomed)
    net.run()
    net.run(60.0)
    return net


def wrong_pairs(net: ChordNetwork) -> list[object]:
    """What was lost, doubled or made up, of subscriptions that have not ended meanwhile."""
    verdict = net.verdict()
    return [*(pair for pair in verdict.missing if pair[0] not in net._ended), *verdict.wrong, *verdict.repeated]


@pytest.mark.parametrize("seed", [0, 2])
def test_a_copy_stands_in_only_while_it_has_all_that_the_owner_has(seed: int) -> None:
    net = shedding_schedule(seed)
    assert net.shed > 10
    assert wrong_pairs(net) == []


@pytest.mark.deep
def test_a_thousand_schedules_lose_nothing_that_is_shed() -> None:
    for seed in range(1_000, 2_000):
        assert wrong_pairs(shedding_schedule(seed, virtual_nodes=1 + seed % 3)) == [], seed


def test_agreements_end_with_what_they_rest_on() -> None:
    shedding = LoadShedding(2)
    for _ in range(5):
        shedding.count()
    assert shedding.is_hot
    assert shedding.next_node(7) is None, "nobody has agreed"
    shedding.agree(1, 7, 0)
    shedding.agree(2, 7, 9)  # one with more to do
    shedding.agree(3, 8, 0)  # to another arc
    assert {shedding.next_node(7) for _ in range(10)} == {None, 1}
    shedding.keep([2, 3])
    assert shedding.next_node(7) is None
    shedding.agree(1, 7, 0)
    shedding.forget(1)
    assert {shedding.next_node(7) for _ in range(4)} == {None}
    shedding.agree(1, 7, 0)
    shedding.forget()
    assert {shedding.next_node(7) for _ in range(4)} == {None}
    shedding.on_period()
    assert shedding.is_hot, "by the period before"
    shedding.on_period()
    assert not shedding.is_hot


# Virtual nodes


def test_virtual_nodes_even_out_what_peers_store() -> None:
    def spread(virtual_nodes: int) -> float:
        random = Random(6)
        net = ChordNetwork(40, mapping="key-space-split", seed=6, replicas=1, virtual_nodes=virtual_nodes)
        for _ in range(400):
            low, volume = random.randrange(1_000), random.randrange(1_000)
            net.subscribe(random.randrange(40), f"price BETWEEN {low} AND {low + 9} AND volume = {volume}")
        net.run()
        assert len(net.stored()) == 40
        return max(net.stored()) / fmean(net.stored())

    assert spread(8) < 0.7 * spread(1)


@pytest.mark.parametrize("seed", range(3))
def test_a_peer_that_crashes_takes_one_copy_however_many_nodes_it_has(seed: int) -> None:
    random = Random(seed)
    net = ChordNetwork(9, mapping=MAPPINGS[seed], seed=seed, replicas=3, virtual_nodes=4)
    for at in range(3):
        net.subscribe(at, condition(random), durable=True)
    net.run()
    for _ in range(3):
        doomed = random.sample(net._numbers_up(), 2)
        for each in doomed:
            net.crash(each)
        for _ in range(6):
            net.publish(random.choice(net._numbers_up()), event(random))
        net.run()
        net.run(20.0)
        check_ring(net)
        for each in doomed:
            net.restart(each)
        net.run(20.0)
    newcomer = net.join()
    net.run(20.0)
    net.leave(net._numbers_up()[4])
    net.run(20.0)
    net.publish(newcomer, event(random))
    net.run()
    net.run(40.0)
    assert is_ideal(net)
    verdict = net.verdict()
    assert verdict.is_right, (verdict, net.failures)


def test_a_peer_that_leaves_with_all_its_nodes_loses_nothing_even_without_copies() -> None:
    net = ChordNetwork(6, mapping="selective-attribute", seed=4, replicas=1, virtual_nodes=5)
    desks = [net.subscribe(0, f"price BETWEEN {low} AND {low + 20}") for low in range(0, 200, 10)]
    net.run()
    for leaving in (2, 3, 4):
        net.leave(leaving)
        net.run(20.0)
    for price in range(0, 200, 7):
        net.publish(5, {"price": price})
    net.run()
    verdict = net.verdict()
    assert verdict.is_right, verdict
    assert {each.subscription for each in net.deliveries} == set(desks)


def test_wrong_numbers_of_virtual_nodes_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="virtual_nodes is a whole number from 1 on"):
        ChordNetwork(3, virtual_nodes=0)
    with pytest.raises(InvalidArgument, match="no room for 12 peers"):
        ChordNetwork(3, virtual_nodes=4, bits=3)
    with pytest.raises(InvalidArgument, match="shed_above is a whole number"):
        ChordNetwork(3, shed_above=-1)
