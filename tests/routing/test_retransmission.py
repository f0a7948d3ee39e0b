"""Retransmission on datagram links: every message once and in order, whatever the link does."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from palio.routing import codec
from palio.routing.combinations import Combination
from palio.routing.effects import (
    Credit,
    LinkDown,
    LinkUp,
    Received,
    SetTimer,
)
from palio.routing.link_sessions import (
    BrokerIdentity,
    NetworkConstants,
    SessionOutput,
    Transmit,
)
from palio.routing.messages import (
    Announce,
    EventId,
    Publish,
)
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
