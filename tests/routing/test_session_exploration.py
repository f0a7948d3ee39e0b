"""Every interleaving of two link sessions with three messages and a crash of each end: none lost, doubled, reordered.

The code is that of the sessions themselves. The network is an adversary: it may deliver any frame that was ever sent,
in any order, any number of times and across crashes, or never. An end that crashes says nothing to the other one. Time
is left out: a timer that is set may fire at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import pytest

from palio.routing import codec
from palio.routing.combinations import Combination
from palio.routing.effects import Received
from palio.routing.link_sessions import BrokerIdentity, NetworkConstants, SessionOutput, StreamSession, Transmit
from palio.routing.messages import Announce, Hello
from palio.routing.retransmission import DatagramSession
from palio.simulation.exploration import explore

CONSTANTS = NetworkConstants.of(Combination())
LATE_SECONDS = 10.0  # beyond every retransmission interval, below the silence after which a link counts as broken
KEPT_FRAMES = 3  # of each end: the network may deliver each of them, in any order and any number of times


def message(number: int) -> bytes:
    return codec.encode(Announce("message", number, b""))


@dataclass(frozen=True)
class End:
    """One end: its session, and what it sent and got, by the connection of the sender."""

    session: Any
    incarnation: int = 1
    frames: tuple[bytes, ...] = ()  # under way: distinct, the last sent at the end
    sent: tuple[tuple[int, tuple[int, ...]], ...] = ()
    got: tuple[tuple[tuple[int, int], tuple[int, ...]], ...] = ()
    may_crash: bool = True
    to_send: tuple[int, ...] = ()
    fresh: tuple[bytes, ...] = ()  # the frames of its last move


@dataclass(frozen=True)
class Link:
    ends: tuple[End, End]

    def with_end(self, which: int, end: End) -> Link:
        return Link((end, self.ends[1]) if which == 0 else (self.ends[0], end))

    def without_the_past(self) -> Link:
        """The same without frames that can have no effect any more, and without what was sent and got by them."""
        one, other = self.ends
        return Link((_without_past(one, other), _without_past(other, one)))


def _without_past(end: End, other: End) -> End:
    # Connection numbers only grow: a packet to an earlier connection is dropped for ever. A `Hello` is not.
    now, there = end.session._connection_number, other.session._connection_number
    alive = tuple(each for each in end.frames if _target(each) in (None, there))
    senders = {now, other.session._peer_connection, *(_sender(each) for each in alive)}
    sent = tuple(each for each in end.sent if each[0] in senders)
    return replace(end, frames=alive, sent=sent, got=tuple(each for each in end.got if each[0][0] == now))


@cache
def decoded(frame: bytes) -> Any:
    return codec.decode(frame)


def _target(frame: bytes) -> int | None:
    """The connection that a frame is for; None where it is for any."""
    return getattr(decoded(frame), "to", None)


def _sender(frame: bytes) -> int:
    return getattr(decoded(frame), "by", 0)


def copied(session: DatagramSession) -> DatagramSession:
    twin = copy(session)
    lanes = tuple(copy(each) for each in session._lanes)
    for lane in lanes:
        lane.unacknowledged = dict(lane.unacknowledged)
        lane.early = dict(lane.early)
    twin._lanes = lanes  # type: ignore[assignment]
    return twin


def datagram_end(node: int, incarnation: int, to_send: tuple[int, ...]) -> End:
    session = DatagramSession(1, BrokerIdentity(node, incarnation, CONSTANTS))
    out = SessionOutput()
    session.on_connected(out, 0.0)
    return noted(End(session, incarnation, to_send=to_send), out)


def together(before: Iterable[bytes], fresh: Iterable[bytes]) -> tuple[bytes, ...]:
    """The frames under way, of which the network keeps the last distinct ones."""
    return tuple(dict.fromkeys([*(each for each in before if each not in fresh), *fresh]))[-KEPT_FRAMES:]


def noted(end: End, out: SessionOutput) -> End:
    """An end after its session had some output."""
    end.session.finish_batch(out)
    fresh = tuple(each.data for each in out.effects if isinstance(each, Transmit))
    got = dict(end.got)
    for each in out.inputs:
        if isinstance(each, Received):
            pair = end.session._connection_number, end.session._peer_connection
            got[pair] = (*got.get(pair, ()), each.message.version)  # type: ignore[union-attr]
    return replace(end, frames=together(end.frames, fresh), fresh=fresh, got=tuple(sorted(got.items())))


def moves(link: Link) -> Iterator[tuple[str, Link]]:
    return ((move, following.without_the_past()) for move, following in _moves(link))


def _moves(link: Link) -> Iterator[tuple[str, Link]]:
    for which, end in enumerate(link.ends):
        other = link.ends[1 - which]
        for frame in other.frames:
            yield f"{which} gets {decoded(frame)}", link.with_end(which, after_frame(end, frame))
        if end.session._is_timer_set:
            yield f"the timer of {which} fires", link.with_end(which, after_timer(end))
        if end.to_send and end.session.is_up:
            yield f"{which} sends {end.to_send[0]}", link.with_end(which, sent(end))
        if end.may_crash:
            yield f"{which} crashes", link.with_end(which, crashed(end, which))


def after_timer(end: End) -> End:
    session, out = copied(end.session), SessionOutput()
    session.on_timer(out, LATE_SECONDS)
    return noted(replace(end, session=session), out)


def after_frame(end: End, frame: bytes) -> End:
    session, out = copied(end.session), SessionOutput()
    session.on_frame(decoded(frame), out, 0.0)
    return noted(replace(end, session=session), out)


def sent(end: End) -> End:
    session, out = copied(end.session), SessionOutput()
    number, *rest = end.to_send
    session.send(message(number), "control", out, 0.0)
    logs = dict(end.sent)
    connection = session._connection_number
    logs[connection] = (*logs.get(connection, ()), number)
    return noted(replace(end, session=session, to_send=tuple(rest), sent=tuple(sorted(logs.items()))), out)


def crashed(end: End, node: int) -> End:
    fresh = datagram_end(node, end.incarnation + 1, end.to_send)
    return replace(fresh, frames=together(end.frames, fresh.frames), sent=end.sent, got=end.got, may_crash=False)


def key(link: Link) -> Any:
    return tuple(_key_of_end(each) for each in link.ends)


def _key_of_end(end: End) -> Any:
    session = end.session
    # Intervals are left out: the model lets a timer fire at any moment.
    lanes = tuple((lane.sent, tuple(lane.unacknowledged), lane.handed_up, tuple(lane.early)) for lane in session._lanes)
    state = session._connection_number, session._peer_connection, session.is_up, session._is_timer_set, lanes
    return state, end.frames, end.sent, end.got, end.may_crash, end.to_send


def complain(link: Link) -> str:
    for which, end in enumerate(link.ends):
        logs = dict(link.ends[1 - which].sent)
        for (_, connection), got in end.got:
            if got != logs.get(connection, ())[: len(got)]:
                return f"{which} got {got} of {logs.get(connection, ())}"
    return ""


def complain_when_fair(link: Link) -> str:
    """Also what is never delivered, should the network deliver everything from now on."""
    return complain(link) or complain(completed(link)) or undelivered(completed(link))


def completed(link: Link) -> Link:
    """Where a link comes to when nothing is lost or repeated any more."""
    for _ in range(12):
        for which in (0, 1):
            if link.ends[which].session._is_timer_set:
                end = after_timer(link.ends[which])
                link = delivered(link.with_end(which, end), which, end.fresh)
    return link


def delivered(link: Link, sender: int, frames: Sequence[bytes]) -> Link:
    """Where a link comes to when these frames arrive, and all that are sent because of them."""
    receiver = 1 - sender
    for frame in frames:
        end = after_frame(link.ends[receiver], frame)
        link = delivered(link.with_end(receiver, end), receiver, end.fresh)
    return link


def undelivered(link: Link) -> str:
    for which, end in enumerate(link.ends):
        other = link.ends[1 - which]
        if not end.session.is_up:
            return f"{which} does not come up"
        wanted = dict(other.sent).get(other.session._connection_number, ())
        pair = end.session._connection_number, other.session._connection_number
        if dict(end.got).get(pair, ()) != wanted:
            return f"{which} never gets all of {wanted}"
    return ""


def datagrams(one: tuple[int, ...], other: tuple[int, ...]) -> Link:
    return Link((datagram_end(0, 1, one), datagram_end(1, 1, other)))


def test_no_interleaving_of_datagrams_loses_doubles_or_reorders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "KEPT_FRAMES", 2)
    found = explore(datagrams((1, 2, 3), ()), moves, complain, key)
    assert not found.complaint, str(found)
    assert found.states > 10_000


def test_from_every_state_a_fair_network_delivers_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "KEPT_FRAMES", 1)
    found = explore(datagrams((1, 2), (3,)), moves, complain_when_fair, key)
    assert not found.complaint, str(found)
    assert found.states > 1_000


@pytest.mark.deep
def test_no_interleaving_of_datagrams_in_both_directions_with_more_frames_under_way() -> None:
    found = explore(datagrams((1, 2), (3,)), moves, complain, key)
    assert not found.complaint, str(found)


def test_a_session_that_forgot_which_connection_a_packet_is_of_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_frame(self: DatagramSession, frame: Any, out: SessionOutput, now: float) -> None:
        if type(frame) is Hello:
            self._on_hello(frame, out)
        elif self.is_up:
            self._on_packet(frame, out, now)

    monkeypatch.setattr(DatagramSession, "on_frame", on_frame)
    found = explore(datagrams((1, 2, 3), ()), _moves, complain, key)
    assert "0 crashes" in found.moves or "1 crashes" in found.moves
    assert found.complaint


# Streams: a connection keeps order and loses nothing, until it breaks


class Reconnected(NamedTuple):
    """The next connection; what was under way on the last one is lost."""

    generation: int


@dataclass(frozen=True)
class StreamEnd:
    """One end of a stream: its inbox, and what it sent and got in each connection."""

    session: StreamSession
    inbox: tuple[bytes | Reconnected, ...]
    generation: int = 0
    sent: tuple[tuple[int, int], ...] = ()
    got: tuple[tuple[int, int], ...] = ()
    to_send: tuple[int, ...] = ()
    may_crash: bool = True


@dataclass(frozen=True)
class Stream:
    ends: tuple[StreamEnd, StreamEnd]
    generation: int = 0

    def after(self, which: int, end: StreamEnd, out: SessionOutput) -> Stream:
        """The stream after one end did something: its frames join the inbox of the other one."""
        end.session.finish_batch(out)
        got = tuple((end.generation, each.message.version) for each in out.inputs if isinstance(each, Received))  # type: ignore[union-attr]
        frames = tuple(each.data for each in out.effects if isinstance(each, Transmit))
        other = self.ends[1 - which]
        if end.generation == self.generation:  # else its connection is broken, and it does not know it yet
            other = replace(other, inbox=other.inbox + frames)
        end = replace(end, got=end.got + got)
        return replace(self, ends=(end, other) if which == 0 else (other, end))


def stream_moves(stream: Stream) -> Iterator[tuple[str, Stream]]:
    for which, end in enumerate(stream.ends):
        session, out = copy(end.session), SessionOutput()
        if end.inbox:
            first, *rest = end.inbox
            end_after = replace(end, session=session, inbox=tuple(rest))
            if isinstance(first, Reconnected):
                session.on_disconnected(out)
                session.on_connected(out, 0.0)
                end_after = replace(end_after, generation=first.generation)
                yield f"{which} is connected anew", stream.after(which, end_after, out)
            else:
                session.on_frame(decoded(first), out, 0.0)
                yield f"{which} gets {decoded(first)}", stream.after(which, end_after, out)
        session, out = copy(end.session), SessionOutput()
        if end.to_send and session.is_up:
            number, *left = end.to_send
            session.send(message(number), "control", out, 0.0)
            sent = (*end.sent, (end.generation, number))
            end_after = replace(end, session=session, to_send=tuple(left), sent=sent)
            yield f"{which} sends {number}", stream.after(which, end_after, out)
        if end.may_crash:
            yield f"{which} crashes", crashed_stream(stream, which)


def crashed_stream(stream: Stream, which: int) -> Stream:
    generation = stream.generation + 1
    end, other = stream.ends[which], stream.ends[1 - which]
    session = StreamSession(1, BrokerIdentity(which, generation, CONSTANTS))
    end = replace(end, session=session, inbox=(Reconnected(generation),), may_crash=False)
    other = replace(other, inbox=(*other.inbox, Reconnected(generation)))
    return Stream((end, other) if which == 0 else (other, end), generation)


def complain_of_stream(stream: Stream) -> str:
    is_quiet = not any(each.inbox for each in stream.ends)
    for which, end in enumerate(stream.ends):
        other = stream.ends[1 - which]
        for generation in range(stream.generation + 1):
            sent = [number for each, number in other.sent if each == generation]
            got = [number for each, number in end.got if each == generation]
            if got != sent[: len(got)]:
                return f"{which} got {got} of {sent}"
            if is_quiet and generation == stream.generation and (got != sent or not end.session.is_up):
                return f"{which} never gets all of {sent}"
    return ""


def stream_key(stream: Stream) -> Any:
    ends = ((end.session.is_up, end.session._taken, *list(vars(end).values())[1:]) for end in stream.ends)
    return tuple(ends), stream.generation


@pytest.mark.parametrize(("one", "other"), [((1, 2, 3), ()), ((1, 2), (3,))])
def test_no_interleaving_of_streams_loses_doubles_or_reorders(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    ends = tuple(
        StreamEnd(StreamSession(1, BrokerIdentity(node, 0, CONSTANTS)), (Reconnected(0),), to_send=to_send)
        for node, to_send in enumerate((one, other))
    )
    found = explore(Stream(ends), stream_moves, complain_of_stream, stream_key)  # type: ignore[arg-type]
    assert not found.complaint, str(found)
    assert found.states > 500
