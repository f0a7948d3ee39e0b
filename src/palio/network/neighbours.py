"""Which brokers is this one linked to? Those that it dials, those that dialled it, each by one link.

Where two brokers dial each other there would be two links between them. Of these stays the one that the broker with
the lower number dialled: both ends decide alike, whatever came first.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from palio.errors import ConnectionFailed, InvalidArgument, Refused, WireError
from palio.network.addresses import Address
from palio.network.channel import Channel
from palio.network.links.agreeing import agree_on_key
from palio.network.links.connector import Connector
from palio.network.links.keys import Keys
from palio.network.links.sealed import SealedDialler, SealedListening
from palio.network.links.tcp import TcpLink
from palio.network.links.udp import Dialled, Listening, UdpLink
from palio.network.protocol import AskKey, KeyGiven
from palio.network.security.door import Door
from palio.network.security.grants import LinkFilters
from palio.network.security.principals import ANYONE, Principal
from palio.network.security.tls import ClientTls
from palio.network.settings import Settings
from palio.routing import codec
from palio.routing.frames import Hello

if TYPE_CHECKING:
    from palio.network.host import Host

log = logging.getLogger("palio.links")
_LINKED = ("broker", "admin")  # the roles of those who may be
_TWICE = "there are two links between these brokers"
_OTHERWISE = "this broker is linked under another address already"


class Neighbours:
    """The links of one broker."""

    def __init__(
        self, host: Host, node: int, settings: Settings, tls: Callable[[], ssl.SSLContext], door: Door
    ) -> None:
        self._host = host
        self._node = node
        self._settings = settings
        self._tls = tls
        self._door = door
        self._numbers = count(1)
        self._random = Random()
        self._links: dict[int, TcpLink | UdpLink] = {}
        self._dials: set[int] = set()
        self._connectors: dict[int, Connector] = {}
        self._of: dict[tuple[int, type], int] = {}  # the link of each neighbour that dialled
        self._principals: dict[int, Principal] = {}  # who dialled, by link
        self._sockets: list[asyncio.DatagramTransport] = []
        self._sealed: list[SealedDialler] = []
        self._keys: Keys | None = None  # where this broker takes sealed datagrams

    # Dialling

    async def dial(self, address: Address) -> None:
        """Keep a link to a broker from now on."""
        number = next(self._numbers)
        self._dials.add(number)
        filters = self._settings.links.get(str(address))
        if filters is not None:
            self._gate(number, filters)
        if address.scheme == "palio+udp":
            await self._dial_udp(address, number)
            return
        link = TcpLink(self._host, number, str(address), self._welcome, self._broke, self._settings.token)
        self._links[number] = link
        connector = Connector(address, link, self._settings.heartbeat, self._tls, self._random)
        self._connectors[number] = connector
        connector.start()

    async def _dial_udp(self, address: Address, number: int) -> None:
        heartbeat = self._settings.heartbeat
        link = self._links[number] = UdpLink(self._host, number, str(address), heartbeat)
        if self._is_plain(address) and not self._proves_itself(address):
            await self._socket(lambda: Dialled(link, heartbeat), remote=(address.host, address.port))
            return
        place = self._settings.keys.place_of(address)
        agree = partial(agree_on_key, place, self._settings.token, self._tls)
        dialler = SealedDialler(address, link, agree, self._host.drops, self._random)
        self._sealed.append(dialler)
        dialler.start()

    def _is_plain(self, address: Address) -> bool:
        """Whether datagrams there need prove nothing: only this machine can send them, and all of it is trusted."""
        return address.is_loopback and self._door.is_open

    def _proves_itself(self, address: Address) -> bool:
        """Whether something was given to prove to the other end who this one is, or the other way round."""
        given = self._settings.token or self._settings.trust != ClientTls()
        return bool(given) or str(address) in self._settings.keys.at

    def _listening(self, address: Address) -> asyncio.DatagramProtocol:
        if self._is_plain(address):
            return Listening(self._dialled_plainly)
        if not any(each.is_secure for each in self._settings.listen):
            raise InvalidArgument(
                f"{address}: keys for datagrams are agreed on over TLS, so listen at a palio+tls:// address too"
            )
        self._keys = self._keys or Keys(self._settings.keys, self._host.now)
        return SealedListening(self._keys, self._dialled, self._host.drops, self._host.now)

    async def listen(self, address: Address) -> Address:
        """Take datagrams."""
        listening = self._listening(address)
        try:
            socket = await self._socket(lambda: listening, local=(address.host, address.port))
        except OSError as error:
            raise ConnectionFailed(str(address), f"cannot listen here: {error.strerror or error}") from None
        host, port = socket.get_extra_info("sockname")[:2]
        return Address(host, port, address.scheme)

    async def _socket(
        self,
        make: Callable[[], asyncio.DatagramProtocol],
        local: tuple[str, int] | None = None,
        remote: tuple[str, int] | None = None,
    ) -> asyncio.DatagramTransport:
        loop = asyncio.get_running_loop()
        socket, _ = await loop.create_datagram_endpoint(make, local_addr=local, remote_addr=remote)
        self._sockets.append(socket)
        return socket

    async def stop(self) -> None:
        """Take leave of all."""
        keeping: tuple[Connector | SealedDialler, ...] = (*self._connectors.values(), *self._sealed)
        await asyncio.gather(*(each.stop() for each in keeping))
        for link in self._links.values():
            if isinstance(link, UdpLink):
                link.stop()
            elif link.channel is not None:
                link.channel.close("unavailable", "the broker is stopping")
        for socket in self._sockets:
            socket.close()

    # Being dialled

    def revise(self, name: str, principal: Principal | None) -> None:
        """The grants of a broker changed, or it may not be linked any more."""
        if self._keys is not None and (principal is None or principal.role not in _LINKED):
            self._keys.forget(name)
        for number in [number for number, each in self._principals.items() if each.name == name]:
            if principal is None or principal.role not in _LINKED:
                self._links[number].close("it may not be linked any more")
            else:
                self._let_pass(number, principal)

    def _let_pass(self, number: int, principal: Principal) -> None:
        """What a broker may hear leaves for it, and what it may say comes in by it."""
        self._principals[number] = principal
        self._gate(number, LinkFilters.of(principal))

    def _gate(self, number: int, filters: LinkFilters) -> None:
        gates = self._host.node.broker.gates
        if filters.are_open:
            gates.pop(number, None)
        else:
            gates[number] = filters

    def accept(self, channel: Channel, frames: list[bytes], principal: Principal) -> None:
        """A broker has connected; what it said so far begins with its greeting."""
        hello = codec.decode(frames[0])
        if type(hello) is not Hello:
            raise WireError("a link begins with a greeting")
        reason = self._refusal(hello.node, dialled_here=False)
        if reason is not None:
            channel.close("refused", reason)
            return
        number = self._number(hello.node, TcpLink)
        link = self._links.get(number)
        if not isinstance(link, TcpLink):
            link = self._links[number] = TcpLink(self._host, number, channel.peer, self._welcome, self._broke)
        elif link.channel is not None and self._is_of_another(number, principal):
            channel.close("refused", "another principal is linked under this broker's number")
            return
        elif link.channel is not None:
            # It came back before this end noticed that it was gone.
            old = link.channel
            link.lost(old, "the neighbour connected again")
            old.abort("the neighbour connected again")
        self._let_pass(number, principal)
        link.where = channel.peer
        link.adopt(channel, frames)
        asyncio.get_running_loop().call_soon(_tell_linked, channel, hello.node)

    def give_key(self, principal: Principal, asked: AskKey) -> KeyGiven:
        """A key for datagrams, for a broker that has said over TLS who it is."""
        if self._keys is None:
            raise Refused("this broker takes no sealed datagrams; it listens at no palio+udp:// address")
        return self._keys.give(principal, asked)

    def _dialled_plainly(self, neighbour: int, where: str) -> UdpLink | None:
        return self._dialled(neighbour, where, ANYONE) if self._door.is_open else None

    def _dialled(self, neighbour: int, where: str, principal: Principal) -> UdpLink | None:
        """The link of a neighbour that greets; None where another principal is linked under its number."""
        number = self._number(neighbour, UdpLink)
        link = self._links.get(number)
        if not isinstance(link, UdpLink):
            link = self._links[number] = UdpLink(self._host, number, where, self._settings.heartbeat)
        elif link.is_open and self._is_of_another(number, principal):
            return None
        self._let_pass(number, principal)
        link.where = where
        log.info("linked", extra={"address": where, "neighbour": neighbour})
        return link

    def _is_of_another(self, number: int, principal: Principal) -> bool:
        """Whether a link is somebody else's: whoever knows a broker's number could take its place otherwise."""
        return self._principals[number].name != principal.name

    def _number(self, neighbour: int, kind: type) -> int:
        if (neighbour, kind) not in self._of:
            self._of[neighbour, kind] = next(self._numbers)
        return self._of[neighbour, kind]

    # Which links stay

    def _refusal(self, neighbour: int, dialled_here: bool) -> str | None:
        """Why another link to a neighbour is not wanted."""
        rivals = [
            link
            for number, link in self._links.items()
            if link.neighbour == neighbour and (number in self._connectors) != dialled_here
        ]
        if not rivals:
            return None
        if dialled_here != (self._node < neighbour):
            return _TWICE
        for rival in rivals:
            rival.close(_TWICE)
        return None

    def _welcome(self, link: TcpLink, neighbour: int) -> str | None:
        if link.number not in self._connectors:
            return None
        if any(self._links[number].neighbour == neighbour for number in self._connectors):
            return _OTHERWISE
        return self._refusal(neighbour, dialled_here=True)

    def _broke(self, link: TcpLink, reason: str) -> None:
        connector = self._connectors.get(link.number)
        if connector is not None:
            connector.broke(reason)
        else:
            log.warning("no link", extra={"address": link.where, "reason": reason})

    @property
    def have_told(self) -> bool:
        """Whether all brokers that are dialled are there, and have told what is wanted."""
        links = [(number, self._links[number]) for number in self._dials]
        reasons = [self._reason(number, link) for number, link in links if not link.is_up]
        are_linked = all(each.startswith((_TWICE, _OTHERWISE)) for each in reasons)
        return are_linked and self._host.node.broker.was_told(bool(links))

    def describe(self) -> list[dict[str, Any]]:
        """The links, those that are up and those that should be."""
        return [
            {
                "link": number,
                "address": link.where,
                "node": link.neighbour,
                "up": link.is_up,
                "queued": link.waiting,
                "arrivals": link.arrivals,
                "reason": "" if link.is_up else self._reason(number, link),
            }
            for number, link in sorted(self._links.items())
        ]

    def _reason(self, number: int, link: TcpLink | UdpLink) -> str:
        if isinstance(link, UdpLink):
            return link.reason
        return self._connectors[number].reason if number in self._connectors else "away"


def _tell_linked(channel: Channel, neighbour: int) -> None:
    """Unless it was refused for what it greeted with, which is seen by now."""
    if not channel.is_closing:
        log.info("linked", extra={"address": channel.peer, "neighbour": neighbour})
