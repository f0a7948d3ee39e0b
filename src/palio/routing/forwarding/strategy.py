"""Forwarding strategy: the interface that all forwardings share, and the registry of their names.

A forwarding decides over which links an event goes on, and with which header. It learns the filters of all neighbours
and local clients by interface: `LOCAL` for the clients, a number from 1 for each link. Delivery is the broker's matter:
it matches content for its own clients, whatever the forwarding, unless a `Route` names the local keys that match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from msgspec import Struct

from palio.filters.filter import Filter
from palio.routing.codec import Arrival
from palio.routing.effects import Job
from palio.routing.forwarding.headers import Header
from palio.routing.messages import Key
from palio.routing.strategies import Content, ForwardingChoice

if TYPE_CHECKING:
    from palio.routing.home_tables import HomeBrokers
    from palio.routing.link_states import LinkStates


class Route(Struct, frozen=True, gc=False):
    """Where an event goes: each outgoing header with its links, never the one by which the event came.

    `local` are the keys of interface LOCAL that match, where the forwarding knows all of them; otherwise None.
    """

    sends: tuple[tuple[Header | None, tuple[int, ...]], ...] = ()
    local: tuple[Key, ...] | None = None


@dataclass(frozen=True, slots=True)
class ForwardingConfig:
    """What a forwarding is made from: the identity of its broker, and the strategy with its options; where filters have
    home brokers, those and the links between them."""

    node: int = 0
    incarnation: int = 0
    propagation: str = "simple"
    advertisements: bool = False
    chosen: ForwardingChoice = field(default_factory=Content)
    homes: HomeBrokers | None = None
    states: LinkStates | None = None
    first_version: int = 0
    """The version of the empty table, above all of tables that it replaces (`precomputed_headers`)."""


class InterestListener(Protocol):
    """Receives the filters of each interface as they come and go."""

    def open_link(self, interface: int) -> None:
        """A link to a neighbour opened; no filter of it is known yet."""

    def close_link(self, interface: int) -> None:
        """A link closed; each filter that came by it was removed before."""

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        """A filter came by an interface, under a key that is new for that interface."""

    def remove_filter(self, interface: int, key: Key) -> None:
        """The filter of a known key is withdrawn."""


class Forwarding(InterestListener, Protocol):
    """Decides where events go next."""

    def on_announcement(self, topic: str, version: int, data: bytes) -> None:
        """A message for all brokers (`messages.Announce`), such as a new routing tree. Most strategies ignore it."""

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        """The route of each event of a batch. Bodies may turn out unreadable when `Arrival.event` is asked for."""
        ...


@runtime_checkable
class SendsCopies(Protocol):
    """A forwarding that sends an event by several ways; a broker passes each copy on, and delivers the first."""

    @property
    def copies(self) -> int:
        """The copies of an event, at most."""
        ...


@runtime_checkable
class HasBackgroundWork(Protocol):
    """A forwarding with work that may run in another thread."""

    def work(self) -> Job | None:
        """The job that is due, if any, returned once; called in each batch before events are routed."""
        ...


# Modules are imported when their strategy is chosen: prefix and Bloom forwarding bring kernels along.
_STRATEGIES: Final = {
    "content": ("palio.routing.forwarding.content", "ContentForwarding"),
    "reuse": ("palio.routing.forwarding.reuse.reuse_forwarding", "ReuseForwarding"),
    "prefix": ("palio.routing.forwarding.prefix.prefix_forwarding", "PrefixForwarding"),
    "bloom": ("palio.routing.forwarding.bloom.bloom_forwarding", "BloomForwarding"),
    "group": ("palio.routing.forwarding.group", "GroupForwarding"),
}


def forwarding_names() -> list[str]:
    """The names that `make_forwarding` takes."""
    return list(_STRATEGIES)


def make_forwarding(name: str, config: ForwardingConfig) -> Forwarding:
    """A forwarding by its name, for one broker."""
    module, class_name = _STRATEGIES[name]
    forwarding: Forwarding = getattr(import_module(module), class_name)(config)
    return forwarding
