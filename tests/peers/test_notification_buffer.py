"""Buffering and collecting: the way to the agent and back, and the same deliveries in fewer messages."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Event
from palio.errors import InvalidArgument
from palio.peers.histograms import Histogram
from palio.peers.key_space import KeySpace
from palio.peers.messages import Collect, Collected, Effect, Notification, Notifications, Notified, Send
from palio.peers.notification_buffer import MAX_COLLECT_STEPS, NotificationBuffer
from palio.peers.peer import Peer
from palio.peers.rendezvous_mappings import MAPPINGS, Arc, SelectiveAttribute
from palio.peers.ring import Ring
from palio.simulation.peer_network import ChordNetwork
from tests.simulation.test_peer_network import bring_back, condition, event

NODES = range(0, 64, 4)


class _Traced(ChordNetwork):
    """A ring that notes who sends notifications to whom."""

    def __init__(self, *arguments: Any, **choices: Any) -> None:
        self.sent: list[tuple[int, int, type]] = []
        super().__init__(*arguments, **choices)

    def _carry_out_one(self, peer: Peer, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, Collect | Notification | Notifications):
            self.sent.append((peer.node, effect.to, type(effect.message)))
        super()._carry_out_one(peer, effect)

    def _free_position(self) -> int:
        position = NODES[len(self._taken) % len(NODES)]
        self._taken.add(position)
        return position


def test_the_agent_of_a_range_is_the_node_in_its_middle() -> None:
    keys = KeySpace(Ring(6), SelectiveAttribute({"a": Histogram.even(64, 64)}))
    assert keys.axis_size(0) == 64
    assert keys.middle_of(Arc(0, 5, 22)) == 13


def test_matches_go_from_neighbour_to_neighbour_to_the_agent() -> None:
    # Sixteen nodes on 64 positions; keys 5 to 22 belong to the nodes 8, 12, 16, 20, 24, and 13 in the middle to 16.
    mapping = SelectiveAttribute({"a": Histogram.even(62, 64)})
    net = _Traced(16, mapping=mapping, bits=6, replicas=1, buffer=1.0, collects=True)
    cells = net._keys.mapping.histograms["a"]  # type: ignore[union-attr]
    values = [value for value in range(62) if 5 <= cells.cell(value) <= 22]
    net.subscribe(NODES.index(48), f"a BETWEEN {values[0]} AND {values[-1]}")
    net.run()
    for value in values:
        net.publish(NODES.index(40), {"a": value})
        net.run(0.01)
    net.run()
    assert len(net.deliveries) == len(values)
    assert {pair[:2] for pair in net.sent if pair[2] is Collect} == {(8, 12), (12, 16), (24, 20), (20, 16)}
    assert {pair[:2] for pair in net.sent if pair[2] is not Collect} == {(16, 48)}
    assert net.verdict().is_right


def test_a_step_too_many_is_not_taken_and_answers_find_their_way_back() -> None:
    buffer = NotificationBuffer()
    note = Notification(7, ("desk",), Event({"a": 1}))
    buffer.add(48, 13, note, MAX_COLLECT_STEPS)
    buffer.add(48, 13, Notification(8, ("desk",), Event({"a": 2})))
    sent = buffer.flush(lambda agent: 12)
    assert [(to, type(message)) for to, message in sent] == [(48, Notification), (12, Collect)]
    assert buffer.take_over(20, Collected(48, 13, 0, note), 100).number == 100
    assert buffer.was_taken(100)
    assert buffer.way_back((100, 7)) == {20: (7,)}
    assert buffer.undelivered(8) is not None
    assert buffer.undelivered(8) is None


@settings(max_examples=12)
@given(
    st.sampled_from(MAPPINGS),
    st.integers(0, 1_000),
    st.sampled_from([(0.5, False), (0.5, True), (3.0, True)]),
)
def test_holding_back_changes_when_notifications_come_and_not_which(
    mapping: str, seed: int, held_back: tuple[float, bool]
) -> None:
    def delivered(**choices: Any) -> tuple[Counter[tuple[int, int]], ChordNetwork]:
        random = Random(seed)
        net = ChordNetwork(30, mapping=mapping, seed=seed, **choices)
        for _ in range(15):
            net.subscribe(random.randrange(30), condition(random))
        net.run()
        events = [net.publish(random.randrange(30), event(random)).id for _ in range(12)]
        net.run()
        assert net.verdict().is_right
        return Counter((each.subscription.number, events.index(each.event.id)) for each in net.deliveries), net

    at_once, _ = delivered()
    later, net = delivered(buffer=held_back[0], collects=held_back[1])
    assert later == at_once
    assert all(not len(peer._notifier) for peer in net._peers.values())


def _schedule(seed: int, **choices: Any) -> ChordNetwork:
    random = Random(seed)
    net = ChordNetwork(24, mapping=MAPPINGS[seed % 3], seed=seed, replicas=3, **choices)
    for at in range(8):
        net.subscribe(at, condition(random), durable=at % 2 == 0)
    net.run()
    for _ in range(4):
        doomed = random.sample([each for each in net._numbers_up() if each % 2 == 0 or each >= 8], 2)
        for _ in range(4):
            # A publisher that crashes may take its event along.
            net.publish(random.choice([each for each in net._numbers_up() if each not in doomed]), event(random))
            net.run(random.random())
        for each in doomed:  # some notifications are held back at them, or go to them
            net.crash(each)
        bring_back(net, doomed)
    net.run()
    net.run(60.0)
    return net


def _wrong(net: ChordNetwork) -> list[object]:
    """What was lost, made up, or doubled where the subscriber's own peer has not crashed before its answer was out."""
    verdict = net.verdict()
    doubled = [pair for pair in verdict.repeated if not net._lives[pair[0].at]]
    return [*verdict.missing, *verdict.wrong, *doubled]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_held_back_by_a_node_that_crashes_comes_from_another(seed: int) -> None:
    net = _schedule(seed, buffer=0.7, collects=True)
    assert _wrong(net) == [], net.failures
    assert not any(len(peer.store.kept) for peer in net._peers.values())


@pytest.mark.deep
def test_a_thousand_schedules_lose_nothing_that_is_held_back() -> None:
    for seed in range(1_000, 2_000):
        assert _wrong(_schedule(seed, buffer=0.7, collects=seed % 2 == 0)) == [], seed


def test_held_back_notifications_and_answers_share_messages() -> None:
    def messages(**choices: Any) -> Counter[str]:
        net = ChordNetwork(40, mapping="selective-attribute", seed=2, **choices)
        for low in range(20):
            net.subscribe(3, f"price BETWEEN {low} AND {low + 60}")
        net.run()
        net.messages.clear()
        for at in range(40):
            net.publish(at, {"price": 20 + at % 40})
            net.run(0.01)
        net.run()
        assert net.verdict().is_right
        return net.messages

    at_once, held_back = messages(), messages(buffer=5.0)
    assert held_back["Notification"] + held_back["Notifications"] < at_once["Notification"] / 2
    assert held_back["Notified"] < at_once["Notified"] / 2
    assert Notified((1, 2)).numbers == (1, 2)


def test_collecting_without_a_period_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="give buffer"):
        ChordNetwork(3, collects=True)
    with pytest.raises(InvalidArgument, match="buffer is a number of seconds above 0"):
        ChordNetwork(3, buffer=-1)
