"""Link sessions: every message once and in order, whatever the link does."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from palio import Event, Filter
from palio.routing import codec
from palio.routing.codec import encode_event
from palio.routing.combinations import Combination
from palio.routing.effects import (
    Close,
    Credit,
    Deliver,
    LinkDown,
    LinkUp,
    Persisted,
    Received,
    Recipient,
    Requested,
    SetTimer,
    TimerFired,
)
from palio.routing.link_sessions import (
    CREDIT_WINDOW_EVENTS,
    BrokerIdentity,
    NetworkConstants,
    SessionOutput,
    StreamSession,
    Transmit,
)
from palio.routing.messages import (
    Advertise,
    Announce,
    Begin,
    EventId,
    Grant,
    Hello,
    Offer,
    Packet,
    Publish,
    PublishClient,
    Request,
    Settle,
    Settled,
    Subscribe,
    SubscribeClient,
    Unadvertise,
    Unsubscribe,
)
from palio.routing.node import Arrived, Connected, Node
from palio.routing.retransmission import DatagramSession

CONSTANTS = NetworkConstants.of(Combination())


@dataclass
class End:
    """One end of a link, with what its broker heard."""

    session: Any
    heard: list[Any] = field(default_factory=list)
    timer: float | None = None

    def run(self, now: float, random: Random, losing: float) -> list[tuple[float, bytes]]:
        """Carry out what the session wants; what goes over the link, with the time of its arrival."""
        sent = []
        for effect in self.out.effects:
            if isinstance(effect, SetTimer):
                self.timer = now + effect.after
            elif isinstance(effect, Transmit):
                copies = 0 if random.random() < losing else 1 + (random.random() < 0.2)
                sent += [(now + random.random() * 0.1, effect.data) for _ in range(copies)]
        self.heard += self.out.inputs
        self.out = SessionOutput()
        return sent

    def __post_init__(self) -> None:
        self.out = SessionOutput()


def datagram(node: int, incarnation: int = 1) -> DatagramSession:
    return DatagramSession(1, BrokerIdentity(node, incarnation, CONSTANTS))


def message(number: int, lane: str) -> bytes:
    if lane == "control":
        return codec.encode(Announce("n", number, b""))
    return codec.encode(Publish(EventId(0, 0, number), b""))


class Channel:
    """Two ends, and what is under way between them."""

    def __init__(self, seed: int, losing: float = 0.3) -> None:
        self.random = Random(seed)
        self.losing = losing
        self.ends = [End(datagram(1)), End(datagram(2))]
        self.now = 0.0
        self.under_way: list[tuple[float, int, bytes]] = []
        for end in self.ends:
            end.session.on_connected(end.out, 0.0)
        self.carry()

    def carry(self) -> None:
        for number, end in enumerate(self.ends):
            arriving = end.run(self.now, self.random, self.losing)
            self.under_way += [(time, 1 - number, data) for time, data in arriving]

    def step(self) -> bool:
        """Go to the next time at which something happens; whether there is one."""
        times = [time for time, _, _ in self.under_way] + [end.timer for end in self.ends if end.timer is not None]
        if not times:
            return False
        self.now = min(times)
        for end in self.ends:
            if end.timer == self.now:
                end.timer = None
                end.session.on_timer(end.out, self.now)
        for arriving in sorted(each for each in self.under_way if each[0] == self.now):
            self.under_way.remove(arriving)
            _, to, data = arriving
            self.ends[to].session.on_frame(codec.decode(data), self.ends[to].out, self.now)
            self.ends[to].session.finish_batch(self.ends[to].out)
        self.carry()
        return True

    def numbers(self, end: int, lane: str) -> list[int]:
        """What the broker at an end heard since the link last came up."""
        heard = self.ends[end].heard
        last_up = max(place for place, each in enumerate(heard) if isinstance(each, LinkUp))
        messages = [each.message for each in heard[last_up:] if isinstance(each, Received)]
        if lane == "control":
            return [each.version for each in messages if isinstance(each, Announce)]
        return [each.id.sequence for each in messages if isinstance(each, Publish)]


@pytest.mark.parametrize("seed", range(30))
def test_everything_arrives_once_and_in_order(seed: int) -> None:
    channel = Channel(seed)
    sent = {(end, lane): 0 for end in (0, 1) for lane in ("control", "events")}
    for _ in range(300):
        end, lane = channel.random.choice(list(sent))
        session = channel.ends[end].session
        if session.is_up and sent[end, lane] < 40:
            sent[end, lane] += 1
            session.send(message(sent[end, lane], lane), lane, channel.ends[end].out, channel.now)
            channel.carry()
        channel.step()
    while channel.step():
        pass
    for (end, lane), count in sent.items():
        assert channel.numbers(1 - end, lane) == list(range(1, count + 1))
    for end in channel.ends:
        assert [type(each) for each in end.heard if not isinstance(each, Received | Credit)] == [LinkUp]
        credit = sum(each.events for each in end.heard if isinstance(each, Credit))
        assert credit == sent[channel.ends.index(end), "events"]


def test_a_new_life_is_a_new_connection_and_the_past_is_thrown_away() -> None:
    channel = Channel(1, losing=0.0)
    while channel.step():
        pass
    first = channel.ends[0]
    first.session.send(message(1, "control"), "control", first.out, channel.now)
    channel.carry()  # still under way when the end that sent it begins anew
    channel.ends[0] = End(datagram(1, incarnation=2))
    channel.ends[0].session.on_connected(channel.ends[0].out, channel.now)
    channel.carry()
    while channel.step():
        pass
    kinds = [type(each) for each in channel.ends[1].heard]
    assert kinds in ([LinkUp, Received, LinkDown, LinkUp], [LinkUp, LinkDown, LinkUp])
    assert channel.numbers(1, "control") == []


def test_after_long_silence_a_link_is_taken_for_broken_and_greeted_again() -> None:
    channel = Channel(1, losing=0.0)
    while channel.step():
        pass
    channel.losing = 1.0
    end = channel.ends[0]
    end.session.send(message(1, "control"), "control", end.out, channel.now)
    channel.carry()
    while channel.now < 90:
        assert channel.step()
    assert [type(each) for each in end.heard] == [LinkUp, LinkDown]
    channel.losing = 0.0
    while channel.step():
        pass
    assert [type(each) for each in end.heard] == [LinkUp, LinkDown, LinkUp]
    assert [type(each) for each in channel.ends[1].heard] == [LinkUp, LinkDown, LinkUp]


def test_a_timer_that_runs_out_just_when_the_link_breaks_greets_nobody() -> None:
    session, out = datagram(1), SessionOutput()
    session.on_connected(out, 0.0)
    session.on_disconnected(out)
    out = SessionOutput()
    session.on_timer(out, 0.25)
    assert (out.inputs, out.effects) == ([], [])


@pytest.mark.parametrize("session", [StreamSession, DatagramSession])
def test_a_neighbour_with_other_constants_is_refused_by_name(session: Any) -> None:
    ours = session(1, BrokerIdentity(1, 1, CONSTANTS))
    theirs = session(1, BrokerIdentity(2, 1, NetworkConstants.of(Combination("identity"))))
    out = SessionOutput()
    ours.on_connected(SessionOutput(), 0.0)
    theirs.on_connected(out, 0.0)
    [hello] = [codec.decode(each.data) for each in out.effects if isinstance(each, Transmit)]
    out = SessionOutput()
    ours.on_frame(hello, out, 0.0)
    assert out.effects == [
        Close(1, "the neighbour is of another network: propagation is 'simple' here and 'identity' there")
    ]
    assert not ours.is_up


def test_credit_is_granted_as_events_are_taken() -> None:
    session, out = StreamSession(1, BrokerIdentity(1, 1, CONSTANTS)), SessionOutput()
    other = StreamSession(1, BrokerIdentity(2, 1, CONSTANTS))
    other.on_connected(out, 0.0)
    session.on_frame(codec.decode(out.effects[0].data), out, 0.0)  # type: ignore[union-attr]
    assert out.inputs == [LinkUp(1, 2, CREDIT_WINDOW_EVENTS)]
    granted = 0
    for number in range(2 * CREDIT_WINDOW_EVENTS):
        out = SessionOutput()
        session.on_frame(codec.decode(message(number, "events")), out, 0.0)
        session.finish_batch(out)
        for effect in out.effects:
            assert isinstance(effect, Transmit)
            granted += codec.decode(effect.data).events  # type: ignore[union-attr]
    assert granted == 2 * CREDIT_WINDOW_EVENTS


FRAMES: list[Any] = [
    Hello(2, 1, CONSTANTS.values, 10, 1, (1 << 32) + 1),
    Hello(2, 1, {}, -5),
    Grant(-3),
    Grant(2**62),
    Packet((1 << 32) + 1, 1, 5, 5, 5, 0, 1, codec.encode(Begin())),
    Packet((1 << 32) + 1, 1, 0, 0, 0, 1, 1, codec.encode(Grant(1))),
    Packet((1 << 32) + 1, 1, 0, 0, 0, 7, 2, b"nothing"),
    Begin(),
    Subscribe(b"0" * 16, Filter.parse("x > 1")),
    Subscribe(b"0" * 16, Filter.parse("y > 1")),
    Unsubscribe(b"0" * 16),
    Advertise(b"1" * 16, Filter.parse("x > 1")),
    Unadvertise(b"1" * 16),
    Settle(EventId(3, 3, 3)),
    Settled(EventId(1, 1, 1)),
    Announce("trees", 7, b"no tree"),
    Offer(-1, 2**62, 3, 4),
    Request(1, 2**62),
    Publish(EventId(2, 1, 1), b"no body"),
    Publish(EventId(2, 1, 2), encode_event(Event.from_dict({"x": 2}, id="a")), b"\x03no header"),
]


@pytest.mark.parametrize("options", [{}, {"session": True}, {"circles": True}])
@pytest.mark.parametrize("forwarding", ["content", "reuse", "bloom", "prefix"])
def test_whatever_a_neighbour_says_no_node_falls_over(forwarding: str, options: dict[str, Any]) -> None:
    for seed in range(20):
        random = Random(seed)
        combination = Combination("identity", forwarding, options=options)
        node = Node(1, 1, combination, CONSTANTS)
        node.handle_batch([Connected(1), Connected(2)], 0.0)
        node.handle_batch([Requested("desk", SubscribeClient("a", Filter.parse("x > 1")), 0.0)], 0.0)
        node.handle_batch([Persisted(1)], 0.0)
        for time in range(60):
            data = bytearray(codec.encode(random.choice(FRAMES)))
            if random.random() < 0.3:
                data[random.randrange(len(data))] = random.randrange(256)
            fired = [TimerFired("link 1")] if random.random() < 0.1 else []
            node.handle_batch([Arrived(random.choice([1, 1, 2, 3]), bytes(data), time), *fired], float(time))
        published = PublishClient(encode_event(Event.from_dict({"x": 2}, id="b")))
        effects = node.handle_batch([Requested("feed", published, 60.0)], 60.0)
        assert [each.clients for each in effects if isinstance(each, Deliver)] == [(Recipient("desk", ("a",)),)]
