"""What every way of forwarding can do. A forwarding decides over which links an event goes on, and with what header.

It is told all that neighbours and local clients want, by interface: `LOCAL` for the clients, a number from 1 for each
link. Delivery is not its matter: the broker matches content for its own clients, whatever the forwarding, unless a
`Route` says which of their keys are known to match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.codec import decode_event
from palio.routing.effects import Job
from palio.routing.forwarding.headers import Header, decode
from palio.routing.messages import Key, Publish

_UNREAD: Any = object()


class Arrival(Struct, gc=False, eq=False):
    """An event that came by an interface; its content and its header are read when somebody asks, once."""

    interface: int
    message: Publish
    _event: Event = _UNREAD
    _header: Header | None = _UNREAD

    @property
    def event(self) -> Event:
        """The content; a `PalioError` where the body cannot be read."""
        if self._event is _UNREAD:
            self._event = decode_event(self.message.body)
        return self._event

    @property
    def header(self) -> Header | None:
        """What the last broker wrote; None where there is nothing, or nothing that can be read."""
        if self._header is _UNREAD:
            self._header = decode(self.message.header)
        return self._header


class Route(Struct, frozen=True, gc=False):
    """Where an event goes: each outgoing header with the links it is for, never the one by which the event came.

    `local` are the keys of interface LOCAL that match, where the forwarding happens to know them all; otherwise None.
    """

    sends: tuple[tuple[Header | None, tuple[int, ...]], ...] = ()
    local: tuple[Key, ...] | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """What a forwarding is made from: the broker it works for, and the options of the network."""

    node: int = 0
    incarnation: int = 0
    propagation: str = "simple"
    advertisements: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


class Listener(Protocol):
    """Hears what is wanted by which interface."""

    def opened(self, interface: int) -> None:
        """A link to a neighbour is there, and nothing is known of what it wants."""

    def closed(self, interface: int) -> None:
        """A link is gone; each filter that came by it was removed before."""

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        """A filter that came by an interface, under a key that is not there yet for that interface."""

    def removed(self, interface: int, key: Key) -> None:
        """The filter of a key that is there is wanted no more."""


class Forwarding(Listener, Protocol):
    """Where events go next."""

    def announced(self, topic: str, version: int, data: bytes) -> None:
        """Something for all brokers (`messages.Announce`), a new routing tree say. Most listen to nothing."""

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        """For each of a batch of events where it goes. Bodies are known to be readable only where asked for."""
        ...


@runtime_checkable
class Working(Protocol):
    """A forwarding that sometimes has work which can be done beside everything else."""

    def work(self) -> Job | None:
        """What is to be done now, if anything; asked in each batch before events are routed, and told only once."""
        ...
