"""Group forwarding: the first broker lists the brokers that an event is for, and the others divide the list.

All home brokers whose clients want an event are its group (Jerzak §2.5.2); there are as many groups as sets of home
brokers that occur. No group is made or maintained: the first broker finds the home brokers by content, and writes their
numbers on the event as a multicast list (Jerzak §4.5). Each broker sends every link the numbers that lie behind it, so
a broker that is not listed itself passes the event on without a look at its content, and no event goes anywhere in
vain. The list costs some bytes for each home broker: it suits events that few brokers want.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from palio.errors import WireError
from palio.routing.codec import Arrival
from palio.routing.forwarding.content import ContentForwarding
from palio.routing.forwarding.headers import Header, register
from palio.routing.forwarding.strategy import ForwardingConfig, Route
from palio.routing.home_tables import HomeBrokers
from palio.routing.messages import LOCAL

_MAX_LISTED: Final = 65_536  # brokers of one event
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[int, ...]).decode


@register
@dataclass(frozen=True, slots=True)
class GroupHeader:
    """The numbers of the home brokers that an event is for, ascending."""

    kind: ClassVar[int] = 5

    brokers: tuple[int, ...]

    def encode(self) -> bytes:
        return _encode(self.brokers)

    @classmethod
    def decode(cls, data: bytes) -> GroupHeader:
        try:
            brokers = _decode(data)
        except msgspec.DecodeError as error:
            raise WireError(f"a multicast list has the numbers of brokers: {error}") from None
        if len(brokers) > _MAX_LISTED:
            raise WireError(f"a multicast list has at most {_MAX_LISTED:,} brokers, not {len(brokers):,}")
        return cls(brokers)


class GroupForwarding(ContentForwarding):
    """Routes events by the list of brokers in their headers."""

    def __init__(self, config: ForwardingConfig) -> None:
        super().__init__(config)
        self._node = config.node
        self._homes = HomeBrokers() if config.homes is None else config.homes
        self._states = config.states

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        routes: list[Route | None] = [None] * len(arrivals)
        for place, arrival in enumerate(arrivals):
            # Not of clients, which may write any header.
            header = arrival.header if arrival.interface != LOCAL else None
            if type(header) is GroupHeader:
                routes[place] = self._follow(header)
        new = [place for place, route in enumerate(routes) if route is None]
        if new:
            for place, route in zip(new, super().route([arrivals[place] for place in new]), strict=True):
                routes[place] = route
        return routes  # type: ignore[return-value]

    def join_headers(self, parts: Sequence[tuple[Header | None, int]]) -> Header:
        return GroupHeader(tuple(sorted({self._homes.nodes[interface] for _, interface in parts})))

    def _follow(self, header: GroupHeader) -> Route:
        others = tuple(self._homes.interface_of(node) for node in header.brokers if self._is_known(node))
        # A broker that is not listed has no client that wants the event.
        local = None if self._node in header.brokers else ()
        return Route(((header, others),) if others else (), local)

    def _is_known(self, node: int) -> bool:
        is_linked = node in self._homes or (self._states is not None and node in self._states)
        return is_linked and node != self._node
