"""Process of a peer: a broker's server for its own clients, and a node of the ring.

Its number is that of its data directory, its position on the ring is another one in each life. A peer remembers its
ring, and comes back by any peer of it that answers.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from palio.errors import InvalidArgument, NotPermitted, PalioError, Refused, WireError
from palio.files.durable_write import replace_private_file
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.backoff import Backoff
from palio.network.channel import Channel
from palio.network.links.tcp import MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS, connect_failure
from palio.network.peers.connections import Accepted, AddressBook, PeerConnections, ask_ring
from palio.network.peers.drivers import CommunityDriver, PeerDriver, RingDriver
from palio.network.peers.host import PeerHost
from palio.network.peers.wire import (
    MAX_VIRTUAL_NODES,
    PeerHello,
    PeerReference,
    PeerWelcome,
    check_version,
    decode_hello,
    dialled_address,
)
from palio.network.server.host import Host
from palio.network.server.process import Server
from palio.network.server.settings import Settings
from palio.network.store.interface import Store
from palio.peers.communities.community_peer import CommunityPeer
from palio.peers.communities.event_sample import EventSample
from palio.peers.communities.overlays import member_maker
from palio.peers.peer import Peer
from palio.peers.ring_description import RingDescription, decode_description
from palio.routing import codec
from palio.routing.codec import MAX_FRAME_BYTES
from palio.routing.node import Node

log = logging.getLogger("palio.peers")
RING_FILE: Final = "ring"
_MAX_REMEMBERED_PEERS: Final = 64
_REMEMBER_SECONDS: Final = 10.0  # between two writes of the peers that are known


@dataclass(frozen=True, slots=True)
class RingSettings:
    """How a peer comes to its ring: by one of some peers that it knows, or, without any, by founding one."""

    join: tuple[Address, ...] = ()
    description: RingDescription = field(default_factory=RingDescription)  # of a ring that this peer founds
    mapping: str | None = None  # that the ring must have; None is any
    virtual_nodes: int = 1  # places of this peer on a ring: a machine that is twice as strong takes twice as many


@dataclass(frozen=True, slots=True)
class _VirtualNode:
    """One place of this peer on the ring, with connections of its own."""

    reference: PeerReference
    driver: PeerDriver
    connections: PeerConnections


class _RememberedRing(Struct, frozen=True, array_like=True):
    description: RingDescription
    peers: Annotated[tuple[str, ...], Meta(max_length=_MAX_REMEMBERED_PEERS)]


_decode_remembered = codec.reader(_RememberedRing)


class PeerServer(Server):
    """One peer. Its broker has no neighbours: the ring is in their place."""

    host: PeerHost

    def __init__(self, settings: Settings, ring: RingSettings, store: Store | None = None) -> None:
        if settings.connect:
            raise InvalidArgument("a peer has no links to brokers; it joins a ring (--join)")
        if any(each.scheme == "palio+udp" for each in settings.listen):
            raise InvalidArgument("peers speak over TCP and TLS, not over datagrams")
        if not 1 <= ring.virtual_nodes <= MAX_VIRTUAL_NODES:
            raise InvalidArgument(f"a peer has 1 to {MAX_VIRTUAL_NODES} virtual nodes, not {ring.virtual_nodes}")
        super().__init__(settings, store)
        self.ring_settings = ring
        self.ring: PeerDriver | None = None
        self._description: RingDescription | None = None
        self._nodes: dict[int, _VirtualNode] = {}  # by position; the first one is that of clients
        self._accepted: set[Channel] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._remembered: bytes = b""

    def _make_host(self, node: Node) -> Host:
        host = PeerHost(node, self.store, self.settings.limits, self.settings.data)
        host.begin(self.node)
        return host

    async def start(self) -> None:
        await super().start()
        public = self.public_address
        if not public:
            await self.stop()
            raise InvalidArgument("others cannot reach this peer where it listens; say --public with an address of it")
        self._own = Address.parse(public)
        self.reference = PeerReference(public, self.node, self.incarnation)
        self._book = AddressBook(self.reference, self._own)
        self._tasks.append(self.loop.create_task(self._enter_ring(), name="palio ring"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for node in self._nodes.values():
            node.driver.leave()
        for node in self._nodes.values():
            node.driver.close()
            await node.connections.close()
        for channel in list(self._accepted):
            channel.close("unavailable", "the peer is stopping")
        await super().stop()

    # The way into the ring

    async def _enter_ring(self) -> None:
        remembered = self._read_remembered()
        own = {str(each) for each in (*self.addresses, self._own)}
        known = () if remembered is None else tuple(map(Address.parse, remembered.peers))
        contacts = [each for each in dict.fromkeys((*self.ring_settings.join, *known)) if str(each) not in own]
        backoff = Backoff(MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, self._random.uniform)
        while True:
            for contact in contacts:
                try:
                    welcome = await ask_ring(contact, self._hello(b""), self.settings.heartbeat, self._trust)
                    self._join(welcome)
                except (OSError, ssl.SSLError, TimeoutError, PalioError) as error:
                    reason = str(error) if isinstance(error, PalioError) else connect_failure(error)
                    log.warning("no ring", extra={"address": str(contact), "reason": reason})
                else:
                    break
                if self.failure is not None:
                    return
            if self.ring is not None:
                break
            if not self.ring_settings.join:
                # Those that it knew are gone as well: it is the first one that is back.
                self._found(self.ring_settings.description if remembered is None else remembered.description)
                break
            await asyncio.sleep(backoff.next())
        while True:
            self._remember()
            await asyncio.sleep(_REMEMBER_SECONDS)
            for node in self._nodes.values():
                if not node.driver.is_member:
                    await self._find_contact(contacts, node.driver)

    async def _find_contact(self, contacts: list[Address], ring: PeerDriver) -> None:
        """Name another peer to join by: the one that answered first may have crashed since."""
        for contact in contacts:
            try:
                welcome = await ask_ring(contact, self._hello(b""), self.settings.heartbeat, self._trust)
                dialled_address(welcome.reference, self._own)
            except (OSError, ssl.SSLError, TimeoutError, PalioError):
                continue
            self._book.learn((welcome.reference,))
            ring.add_contact(welcome.reference.position)

    def _found(self, description: RingDescription) -> None:
        self._make_ring(description)
        first, *others = self._nodes.values()
        first.driver.found()
        for each in others:
            each.driver.join(first.reference.position)
        log.info("ring founded", extra={"mapping": description.mapping})

    def _join(self, welcome: PeerWelcome) -> None:
        dialled_address(welcome.reference, self._own)
        description = decode_description(welcome.description)
        wanted = self.ring_settings.mapping
        if wanted not in (None, description.mapping):
            self.failure = InvalidArgument(
                f"that ring has the mapping {description.mapping}, not {wanted}; all its peers have the same one"
            )
            self.on_drained()
            raise self.failure
        self._book.learn((welcome.reference,))
        self._make_ring(description)
        for each in self._nodes.values():
            each.driver.join(welcome.reference.position)
        log.info("joining", extra={"peer": welcome.reference.address, "mapping": description.mapping})

    def _make_ring(self, description: RingDescription) -> None:
        self._description = description
        overlay = description.overlay
        places = 1 if overlay is not None else self.ring_settings.virtual_nodes
        keys = None if overlay is not None else description.key_space()
        for place in range(places):
            reference = PeerReference(self.reference.address, self.node, self.incarnation, place)
            self._book.learn((reference,))
            position, events = reference.position, _Events()
            hello = partial(PeerHello, protocol.VERSION, reference, self.settings.token, description.digest)
            connections = PeerConnections(
                position, self._book, self._own, self.settings.heartbeat, self._trust, hello, events
            )
            carried = connections, self.host.deliver_from_ring, self.settings.limits.call_steps
            driver: PeerDriver
            if overlay is None:
                assert keys is not None
                peer = Peer(position, keys, description.settings, self.incarnation, self._book.host_of)
                driver = RingDriver(peer, *carried)
            else:
                make_member = member_maker(overlay, EventSample(description.events))
                driver = CommunityDriver(
                    CommunityPeer(position, make_member, description.community_settings), overlay, *carried
                )
            events.driver = driver
            self._nodes[position] = _VirtualNode(reference, driver, connections)
        self.ring = self._nodes[self.reference.position].driver
        self.host.open_ring(self.ring)

    def _hello(self, ring: bytes) -> PeerHello:
        return PeerHello(protocol.VERSION, self.reference, self.settings.token, ring)

    def _trust(self) -> ssl.SSLContext:
        return self.settings.trust.context()

    # Other peers

    def accept_peer(self, channel: Channel, frames: list[bytes]) -> None:
        """Take the connection of another peer, that begins with its greeting."""
        hello = decode_hello(frames[0])
        check_version(hello.version)
        principal = self.check_broker(self.authenticate(hello.token, channel))
        if not principal.may_publish == principal.may_subscribe == Filter.everything:
            # It stores and matches for all others, whose events and conditions nobody else would check.
            raise NotPermitted(principal.name, "be a peer of a ring", "its grants do not admit everything")
        if self._description is None:
            raise Refused("this peer has not joined its ring yet")
        dialled_address(hello.reference, self._own)
        if not hello.ring:
            channel.send(protocol.encode(PeerWelcome(protocol.VERSION, self.reference, self._description.encode())))
            channel.receiver = _Answered()
            return
        if hello.ring != self._description.digest:
            raise Refused("this peer is on another ring, whose description differs")
        node = self._nodes.get(hello.to)
        if node is None:
            raise Refused("another peer listens here now")
        self._book.learn((hello.reference,))
        channel.limit_frames(MAX_FRAME_BYTES)
        accepted = Accepted(hello.reference, hello.to, self._book, node.driver)
        channel.receiver = accepted
        self._accepted.add(channel)
        on_closed = channel.on_closed

        def closed() -> None:
            self._accepted.discard(channel)
            if on_closed is not None:
                on_closed()

        channel.on_closed = closed
        channel.send(protocol.encode(PeerWelcome(protocol.VERSION, node.reference)))
        if frames[1:]:
            accepted.on_frames(channel, frames[1:])

    def _count_connections(self) -> int:
        return super()._count_connections() + len(self._accepted)

    # Memory of the ring

    @property
    def _ring_file(self) -> Path | None:
        return None if self.settings.data is None else self.settings.data / RING_FILE

    def _read_remembered(self) -> _RememberedRing | None:
        if self._ring_file is None:
            return None
        try:
            found: _RememberedRing = _decode_remembered(self._ring_file.read_bytes())
            _check_addresses(found.peers)
        except FileNotFoundError:
            return None
        except (OSError, PalioError) as error:
            reason = f"cannot read {self._ring_file}: {error}; without it, this peer joins by --join"
            log.error("ring forgotten", extra={"reason": reason})
            return None
        return found

    def _remember(self) -> None:
        if self._ring_file is None or self._description is None:
            return
        peers = tuple(each.address for each in self._book.recent(_MAX_REMEMBERED_PEERS))
        data = protocol.encode(_RememberedRing(self._description, tuple(dict.fromkeys(peers))))
        if data != self._remembered:
            self._remembered = data
            self.loop.run_in_executor(None, replace_private_file, self._ring_file, data)

    def status(self) -> dict[str, Any]:
        found = super().status()
        found["ring"] = {"is_member": False} if self.ring is None else self._describe_ring(self.ring)
        return found

    def _describe_ring(self, ring: PeerDriver) -> dict[str, Any]:
        nodes = self._nodes.values()
        sent: Counter[str] = Counter()
        for node in nodes:
            sent.update(node.connections.counts)
        found = ring.describe()
        if "stored" in found:
            found["stored"] = sum(node.driver.describe()["stored"] for node in nodes)
        return {
            **found,
            "virtual_nodes": len(nodes),
            "interests": self.host.ring_interests,
            "peers_known": len(self._book) - len(nodes),
            "connections": sum(len(node.connections) for node in nodes),
            "accepted": len(self._accepted),
            "messages": dict(sent),
            "refused": dict(self._book.refused),
        }


class _Events:
    """Reports of connections, for the driver that is made after them."""

    driver: PeerDriver

    def on_message(self, sender: int, message: Any) -> None:
        self.driver.on_message(sender, message)

    def on_unreachable(self, to: int, message: Any) -> None:
        self.driver.on_unreachable(to, message)


class _Answered:
    """A connection on which a newcomer was told the ring: nothing else may come."""

    def on_open(self, channel: Channel) -> None:
        pass

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        raise WireError("a newcomer that knows the ring greets again")

    def on_writable(self, channel: Channel) -> None:
        pass

    def on_lost(self, channel: Channel, reason: str) -> None:
        pass


def _check_addresses(addresses: Iterable[str]) -> None:
    for each in addresses:
        Address.parse(each)
