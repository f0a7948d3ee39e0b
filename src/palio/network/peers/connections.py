"""Connections of a peer to others, dialled when there is something to send, and a bounded number of them.

What is sent to a peer while its connection is dialled waits, up to a bound. A peer that cannot be reached is reported
with each message that was for it; what a broken connection had in flight is lost, and asked for again by the peer's own
timers.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from palio.errors import PalioError, WireError
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.channel import Channel
from palio.network.links.tcp import connect_failure
from palio.network.peers.wire import (
    MAX_REFERENCES,
    AnyMessage,
    MessageReader,
    PeerHello,
    PeerMessage,
    PeerReference,
    PeerWelcome,
    check_version,
    decode_answer,
    dialled_address,
    frames_of,
    mentioned,
)
from palio.network.protocol import Goodbye

log = logging.getLogger("palio.peers")
MAX_CONNECTIONS: Final = 256  # that a peer dialled; the one that was used least recently is closed
MAX_REFERENCES_KEPT: Final = 65_536
_MAX_WAITING_MESSAGES: Final = 4_096  # for one connection that is being dialled
_MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024  # for one peer that does not read
_DIAL_SECONDS: Final = 5.0
_AWAY_SECONDS: Final = 1.0  # in which a peer that could not be reached is not dialled again


class AddressBook:
    """References of peers by position, those used most recently."""

    def __init__(self, own: PeerReference, address: Address) -> None:
        self.own = own
        self._address = address
        self._references: OrderedDict[int, PeerReference] = OrderedDict({own.position: own})
        self.refused: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._references)

    def learn(self, references: Iterable[PeerReference]) -> None:
        """Remember references from another peer, those that this one may connect to."""
        for each in references:
            if each.position in self._references:
                continue
            try:
                dialled_address(each, self._address)
            except WireError:
                self.refused["addresses"] += 1
                continue
            self._references[each.position] = each
            if len(self._references) > MAX_REFERENCES_KEPT:
                self._references.popitem(last=False)
                self._references[self.own.position] = self.own

    def find(self, position: int) -> PeerReference | None:
        found = self._references.get(position)
        if found is not None:
            self._references.move_to_end(position)
        return found

    def host_of(self, position: int) -> int:
        """The number of the peer whose node is at a position; several nodes of one peer have the same."""
        found = self._references.get(position)
        return position if found is None else found.number

    def recent(self, most: int) -> list[PeerReference]:
        """The peers used most recently, without this one."""
        others = [each for each in reversed(self._references.values()) if each.number != self.own.number]
        return others[:most]


class PeerEvents(Protocol):
    """What connections report."""

    def on_message(self, sender: int, message: AnyMessage) -> None: ...

    def on_unreachable(self, to: int, message: AnyMessage) -> None: ...


class _Dialled:
    """One connection to a peer: dialled, greeted, then used for sending."""

    def __init__(self, pool: PeerConnections, to: int) -> None:
        self.to = to
        self.pool = pool
        self.channel: Channel | None = None
        self.is_greeted = False
        self.waiting: list[AnyMessage] = []
        self.known: set[int] = {to}  # positions whose references the other end has
        self.reason = "no answer"

    def on_open(self, channel: Channel) -> None:
        self.channel = channel
        channel.send(protocol.encode(self.pool.hello(self.to)))

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        for frame in frames:
            answer = decode_answer(frame)
            if isinstance(answer, PeerWelcome):
                check_version(answer.version)
                if answer.reference.position != self.to:
                    raise WireError("another peer listens here now")
                self.is_greeted = True
                waiting, self.waiting = self.waiting, []
                for message in waiting:
                    self.send(message)

    def send(self, message: AnyMessage) -> None:
        if not self.is_greeted or self.channel is None:
            self.waiting.append(message)
            return
        named = mentioned(message) - self.known
        found = [each for each in map(self.pool.book.find, sorted(named)) if each is not None][:MAX_REFERENCES]
        if len(self.known) > MAX_REFERENCES_KEPT:
            self.known = {self.to}
        self.known.update(each.position for each in found)
        for frame in frames_of(PeerMessage(self.to, self.pool.position, message, tuple(found))):
            self.channel.send(frame)

    def on_writable(self, channel: Channel) -> None:
        pass

    def on_lost(self, channel: Channel, reason: str) -> None:
        self.reason = reason
        self.channel = None
        self.pool.on_ended(self)


class PeerConnections:
    """The connections that one peer has dialled."""

    def __init__(
        self,
        position: int,
        book: AddressBook,
        own: Address,
        heartbeat: float,
        tls: Callable[[], ssl.SSLContext],
        hello: Callable[[int], PeerHello],
        events: PeerEvents,
    ) -> None:
        """`hello` is the greeting to the node at a position."""
        self.book = book
        self.position = position
        self.hello = hello
        self.counts: Counter[str] = Counter()
        self._own = own
        self._heartbeat = heartbeat
        self._tls = tls
        self._events = events
        self._dialled: OrderedDict[int, _Dialled] = OrderedDict()
        self._away_until: dict[int, float] = {}
        self._loop = asyncio.get_running_loop()
        self._dials: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._dialled)

    def send(self, to: int, message: AnyMessage) -> None:
        """Send a message; where that fails, `on_unreachable` is called in a later turn of the loop."""
        if self._is_closed:
            return
        connection = self._dialled.get(to)
        if connection is None:
            reference = self.book.find(to)
            if reference is None or self._away_until.get(to, 0.0) > self._loop.time():
                self._loop.call_soon(self._events.on_unreachable, to, message)
                return
            connection = self._dialled[to] = _Dialled(self, to)
            self._close_least_used()
            self._dial(connection, reference)
        self._dialled.move_to_end(to)
        channel = connection.channel
        if len(connection.waiting) >= _MAX_WAITING_MESSAGES or (
            channel is not None and channel.is_full and channel.unsent_bytes > _MAX_UNSENT_BYTES
        ):
            self.counts["dropped"] += 1  # it comes again: nothing waits for a message without asking once more
            return
        self.counts["sent"] += 1
        connection.send(message)

    def _close_least_used(self) -> None:
        while len(self._dialled) > MAX_CONNECTIONS:
            _, oldest = self._dialled.popitem(last=False)
            if oldest.channel is not None:
                oldest.channel.close("refused", "this connection has not been used for the longest time")

    def _dial(self, connection: _Dialled, reference: PeerReference) -> None:
        task = self._loop.create_task(self._connect(connection, reference), name=f"dial {reference.address}")
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    async def _connect(self, connection: _Dialled, reference: PeerReference) -> None:
        try:
            address = dialled_address(reference, self._own)
            context = self._tls() if address.is_secure else None
            async with asyncio.timeout(_DIAL_SECONDS):
                await self._loop.create_connection(
                    lambda: Channel(connection, self._heartbeat), address.host, address.port, ssl=context
                )
        except (OSError, ssl.SSLError, TimeoutError, PalioError) as error:
            connection.reason = str(error) if isinstance(error, PalioError) else connect_failure(error)
            self.on_ended(connection)

    def on_ended(self, connection: _Dialled) -> None:
        """A connection is over, or was never made."""
        if self._dialled.get(connection.to) is connection:
            del self._dialled[connection.to]
        if self._is_closed:
            return
        if not connection.is_greeted:
            now = self._loop.time()
            self._away_until = {to: until for to, until in self._away_until.items() if until > now}
            self._away_until[connection.to] = now + _AWAY_SECONDS
            self.counts["unreachable"] += 1
            log.debug("unreachable", extra={"peer": f"{connection.to:016x}", "reason": connection.reason})
        waiting, connection.waiting = connection.waiting, []
        for message in waiting:
            self._events.on_unreachable(connection.to, message)

    async def close(self) -> None:
        """Close all connections, once what was sent is written."""
        self._is_closed = True
        for task in self._dials:
            task.cancel()
        for each in list(self._dialled.values()):
            if each.channel is not None:
                each.channel.close("unavailable", "the peer is stopping")
        self._dialled.clear()
        await asyncio.sleep(0)


class Accepted:
    """A connection that another peer dialled: its messages, once it has greeted."""

    def __init__(self, peer: PeerReference, own: int, book: AddressBook, events: PeerEvents) -> None:
        self._sender = peer.position
        self._own = own
        self._book = book
        self._events = events
        self._reader = MessageReader()

    def on_open(self, channel: Channel) -> None:
        pass

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        for frame in frames:
            arrived = self._reader.read(frame)
            if arrived is None:
                continue
            if arrived.sender != self._sender or arrived.to != self._own:
                raise WireError("a message between other peers")
            self._book.learn(arrived.references)
            self._events.on_message(arrived.sender, arrived.message)

    def on_writable(self, channel: Channel) -> None:
        pass

    def on_lost(self, channel: Channel, reason: str) -> None:
        pass


class _Greeting:
    """A connection on which a newcomer asks a contact for the description of its ring."""

    def __init__(self, hello: PeerHello) -> None:
        self._hello = hello
        self.answer: asyncio.Future[PeerWelcome] = asyncio.get_running_loop().create_future()

    def on_open(self, channel: Channel) -> None:
        channel.send(protocol.encode(self._hello))

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        for frame in frames:
            answer = decode_answer(frame)
            if isinstance(answer, PeerWelcome) and not self.answer.done():
                check_version(answer.version)
                self.answer.set_result(answer)
                channel.close("refused", "the ring is known now")

    def on_writable(self, channel: Channel) -> None:
        pass

    def on_lost(self, channel: Channel, reason: str) -> None:
        if not self.answer.done():
            said: Goodbye | None = channel.said
            self.answer.set_exception(WireError(reason if said is None else said.reason))


async def ask_ring(
    contact: Address, hello: PeerHello, heartbeat: float, tls: Callable[[], ssl.SSLContext]
) -> PeerWelcome:
    """The ring of a contact; `OSError`, `TimeoutError` or `PalioError` where it does not answer."""
    greeting = _Greeting(hello)
    context = tls() if contact.is_secure else None
    async with asyncio.timeout(_DIAL_SECONDS):
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: Channel(greeting, heartbeat), contact.host, contact.port, ssl=context
        )
        try:
            return await greeting.answer
        finally:
            transport.close()
