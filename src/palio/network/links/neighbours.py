"""Neighbours of a broker: its links to the brokers that it dials and to those that dialled it.

Two brokers that dial each other would have two links. The one that the broker with the lower number dialled is kept;
both ends decide alike, whichever came first.
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
from palio.network.links.key_exchange import KeyRegistry, exchange_key
from palio.network.links.sealed_transport import SealedDialler, SealedListener
from palio.network.links.tcp import TcpConnector, TcpLink
from palio.network.links.udp import UdpDialler, UdpLink, UdpListener
from palio.network.protocol import AskKey, KeyGiven
from palio.network.security.authentication import Authenticator
from palio.network.security.authorization import ANYONE, LinkFilters, Principal
from palio.network.security.tls import ClientTls
from palio.routing import codec
from palio.routing.messages import Hello

if TYPE_CHECKING:
    from palio.network.server.host import Host
    from palio.network.server.settings import Settings


log = logging.getLogger("palio.links")
_LINK_ROLES = ("broker", "admin")  # the roles that may link a broker
_DUPLICATE_LINK = "there are two links between these brokers"
_LINKED_ELSEWHERE = "this broker is linked under another address already"


class Neighbours:
    """The links of one broker."""

    def __init__(self, host: Host, settings: Settings, authenticator: Authenticator) -> None:
        self._host = host
        self._settings = settings
        self._tls = self._tls_context
        self._authenticator = authenticator
        self._numbers = count(1)
        self._random = Random()
        self._links: dict[int, TcpLink | UdpLink] = {}
        self._dialled_links: set[int] = set()
        self._connectors: dict[int, TcpConnector] = {}
        self._accepted: dict[tuple[int, type], int] = {}  # link numbers by neighbour and transport
        self._principals: dict[int, Principal] = {}  # of accepted links, by number
        self._sockets: list[asyncio.DatagramTransport] = []
        self._sealed_diallers: list[SealedDialler] = []
        self._keys: KeyRegistry | None = None  # None where this broker takes no sealed datagrams

    # Dialling

    async def dial(self, address: Address) -> None:
        """Keep a link to a broker from now on; a broken one is dialled again."""
        number = next(self._numbers)
        self._dialled_links.add(number)
        filters = self._settings.links.get(str(address))
        if filters is not None:
            self._host.set_link_filters(number, filters)
        if address.scheme == "palio+udp":
            await self._dial_udp(address, number)
            return
        link = TcpLink(self._host, number, str(address), self._on_greeting, self._on_broken, self._settings.token)
        self._links[number] = link
        connector = TcpConnector(address, link, self._settings.heartbeat, self._tls, self._random)
        self._connectors[number] = connector
        connector.start()

    async def _dial_udp(self, address: Address, number: int) -> None:
        heartbeat = self._settings.heartbeat
        link = self._links[number] = UdpLink(self._host, number, str(address), heartbeat)
        if self._is_plain(address) and not self._has_credentials(address):
            await self._open_socket(lambda: UdpDialler(link, heartbeat), remote=(address.host, address.port))
            return
        place = self._settings.keys.exchange_address(address)
        agree = partial(exchange_key, place, self._settings.token, self._tls)
        dialler = SealedDialler(address, link, agree, self._host.drops, self._random)
        self._sealed_diallers.append(dialler)
        dialler.start()

    def _is_plain(self, address: Address) -> bool:
        """Whether datagrams need no seal: only this machine can send them, and everything on it is trusted."""
        return address.is_loopback and self._authenticator.is_open

    def _has_credentials(self, address: Address) -> bool:
        """Whether there is anything by which one end could authenticate the other."""
        given = self._settings.token or self._settings.trust != ClientTls()
        return bool(given) or str(address) in self._settings.keys.at

    def _listener(self, address: Address) -> asyncio.DatagramProtocol:
        if self._is_plain(address):
            return UdpListener(self._on_dialled_plain)
        if not any(each.is_secure for each in self._settings.listen):
            raise InvalidArgument(
                f"{address}: keys for datagrams are agreed on over TLS, so listen at a palio+tls:// address too"
            )
        self._keys = self._keys or KeyRegistry(self._settings.keys, self._host.now)
        return SealedListener(self._keys, self._on_dialled, self._host.drops, self._host.now)

    async def listen(self, address: Address) -> Address:
        """Accept links over datagrams; the address with the port that was bound."""
        listener = self._listener(address)
        try:
            socket = await self._open_socket(lambda: listener, local=(address.host, address.port))
        except OSError as error:
            raise ConnectionFailed(str(address), f"cannot listen here: {error.strerror or error}") from None
        host, port = socket.get_extra_info("sockname")[:2]
        return Address(host, port, address.scheme)

    async def _open_socket(
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
        """Close all links, and say why."""
        # Diallers first: they would dial again what is closed below.
        diallers: tuple[TcpConnector | SealedDialler, ...] = (*self._connectors.values(), *self._sealed_diallers)
        await asyncio.gather(*(each.stop() for each in diallers))
        for link in self._links.values():
            if isinstance(link, UdpLink):
                link.stop()
            elif link.channel is not None:
                link.channel.close("unavailable", "the broker is stopping")
        for socket in self._sockets:
            socket.close()

    # Accepted links

    def _tls_context(self) -> ssl.SSLContext:
        return self._settings.trust.context()

    def change_settings(self, settings: Settings) -> None:
        """Dial and accept with other settings from now on."""
        self._settings = settings

    def revise(self, name: str, principal: Principal | None) -> None:
        """Apply the changed grants of a broker, or close its links where it may have none any more."""
        if self._keys is not None and (principal is None or principal.role not in _LINK_ROLES):
            self._keys.forget(name)
        for number in [number for number, each in self._principals.items() if each.name == name]:
            if principal is None or principal.role not in _LINK_ROLES:
                self._links[number].close("it may not be linked any more")
            else:
                self._apply_grants(number, principal)

    def _apply_grants(self, number: int, principal: Principal) -> None:
        """Let pass what the broker at the other end may receive and publish."""
        self._principals[number] = principal
        self._host.set_link_filters(number, LinkFilters.of(principal))

    def accept(self, channel: Channel, frames: list[bytes], principal: Principal) -> None:
        """Make a link of a connection whose first frame is the greeting of a broker."""
        hello = codec.decode(frames[0])
        if type(hello) is not Hello:
            raise WireError("a link begins with a greeting")
        reason = self._refusal(hello.node, dialled_here=False)
        if reason is not None:
            channel.close("refused", reason)
            return
        number = self._link_number(hello.node, TcpLink)
        link = self._links.get(number)
        if not isinstance(link, TcpLink):
            link = self._links[number] = TcpLink(self._host, number, channel.peer, self._on_greeting, self._on_broken)
        elif link.channel is not None and self._belongs_to_other(number, principal):
            channel.close("refused", "another principal is linked under this broker's number")
            return
        elif link.channel is not None:
            # The neighbour reconnected before this end noticed that the old connection was dead.
            old = link.channel
            link.on_lost(old, "the neighbour connected again")
            old.abort("the neighbour connected again")
        self._apply_grants(number, principal)
        link.where = channel.peer
        link.adopt(channel, frames)
        # In the next turn, when the node has judged the greeting.
        asyncio.get_running_loop().call_soon(_log_linked, channel, hello.node)

    def give_key(self, principal: Principal, request: AskKey) -> KeyGiven:
        """Issue a datagram key to a broker that authenticated itself over TLS."""
        if self._keys is None:
            raise Refused("this broker takes no sealed datagrams; it listens at no palio+udp:// address")
        return self._keys.issue(principal, request)

    def _on_dialled_plain(self, neighbour: int, where: str) -> UdpLink | None:
        return self._on_dialled(neighbour, where, ANYONE) if self._authenticator.is_open else None

    def _on_dialled(self, neighbour: int, where: str, principal: Principal) -> UdpLink | None:
        """The link of a neighbour that greets over datagrams; None where its number belongs to another principal."""
        number = self._link_number(neighbour, UdpLink)
        link = self._links.get(number)
        if not isinstance(link, UdpLink):
            link = self._links[number] = UdpLink(self._host, number, where, self._settings.heartbeat)
        elif link.is_open and self._belongs_to_other(number, principal):
            return None
        self._apply_grants(number, principal)
        link.where = where
        log.info("linked", extra={"address": where, "neighbour": neighbour})
        return link

    def _belongs_to_other(self, number: int, principal: Principal) -> bool:
        """Whether another principal has the link: knowing a broker's number must not be enough to take its place."""
        return self._principals[number].name != principal.name

    def _link_number(self, neighbour: int, kind: type) -> int:
        # A neighbour that connects again gets the number that it had, by which the node knows the link.
        if (neighbour, kind) not in self._accepted:
            self._accepted[neighbour, kind] = next(self._numbers)
        return self._accepted[neighbour, kind]

    # Which links stay

    def _refusal(self, neighbour: int, dialled_here: bool) -> str | None:
        """Why a further link to a neighbour is not kept; None where it is, and any rival is closed."""
        rivals = [
            link
            for number, link in self._links.items()
            if link.neighbour == neighbour and (number in self._connectors) != dialled_here
        ]
        if not rivals:
            return None
        # Of two links the one that the lower number dialled is kept; both ends come to the same result.
        if dialled_here != (self._host.broker_id < neighbour):
            return _DUPLICATE_LINK
        for rival in rivals:
            rival.close(_DUPLICATE_LINK)
        return None

    def _on_greeting(self, link: TcpLink, neighbour: int) -> str | None:
        if link.number not in self._connectors:
            return None  # `accept` has judged it before it became a link
        if any(self._links[number].neighbour == neighbour for number in self._connectors):
            return _LINKED_ELSEWHERE
        return self._refusal(neighbour, dialled_here=True)

    def _on_broken(self, link: TcpLink, reason: str) -> None:
        connector = self._connectors.get(link.number)
        if connector is not None:
            connector.on_broken(reason)
        else:
            log.warning("no link", extra={"address": link.where, "reason": reason})

    @property
    def are_known(self) -> bool:
        """Whether all dialled brokers are linked and have sent their routing tables."""
        links = [(number, self._links[number]) for number in self._dialled_links]
        reasons = [self._reason(number, link) for number, link in links if not link.is_up]
        # A dialled link that was refused as a duplicate is no gap: the neighbour is linked by the other one.
        are_linked = all(each.startswith((_DUPLICATE_LINK, _LINKED_ELSEWHERE)) for each in reasons)
        return are_linked and self._host.has_routing_tables(bool(links))

    def describe(self) -> list[dict[str, Any]]:
        """Status of all links, those that are down included. The `peer` of an accepted one is the broker's number:
        its address has a port that changes with each connection."""
        ages = self._host.node.ages
        bounds = {} if ages is None else ages.last_upper_bounds()
        peers = {number: f"broker {neighbour}" for (neighbour, _), number in self._accepted.items()}
        return [
            {
                "link": number,
                "address": link.where,
                "peer": peers.get(number, link.where),
                "node": link.neighbour,
                "up": link.is_up,
                "queued": link.waiting,
                "arrivals": link.arrivals,
                "delay_bound": bounds.get(number) if link.is_up else None,
                "reason": "" if link.is_up else self._reason(number, link),
            }
            for number, link in sorted(self._links.items())
        ]

    def _reason(self, number: int, link: TcpLink | UdpLink) -> str:
        if isinstance(link, UdpLink):
            return link.reason
        return self._connectors[number].reason if number in self._connectors else "away"


def _log_linked(channel: Channel, neighbour: int) -> None:
    """Log a new link, unless its greeting was refused: that has closed the channel by now."""
    if not channel.is_closing:
        log.info("linked", extra={"address": channel.peer, "neighbour": neighbour})
