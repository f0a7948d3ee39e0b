"""Description of a ring or an overlay: what all its peers agree on, and a newcomer gets from the peer that it joins by.

A mapping is described by what it is made of: its name, its attributes, and a sample of events and conditions. Every
peer makes the same cells of them. A table of cells would have to be checked for consistency; samples are read as any
event and condition from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Final, TypeVar

from msgspec import Meta, Struct

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.communities.overlays import OVERLAYS, Overlay
from palio.peers.communities.settings import CommunitySettings
from palio.peers.key_space import KeySpace
from palio.peers.mapping_choice import MappingChoice, choose_ring_mapping
from palio.peers.peer_context import PeerSettings
from palio.peers.rendezvous_mappings import ANY_ATTRIBUTE, mapping_of
from palio.peers.ring import Ring
from palio.routing import codec

RING_BITS: Final = 64
MAX_SAMPLED: Final = 1_000  # events, and as many conditions
CELLS_PER_PEER: Final = 4  # of an attribute: with fewer cells than peers, some peers would never own a key
_DEFAULT_CELLS: Final = 4_096
_PATIENCE_PERIODS: Final = 5.0  # of maintenance, that a search for neighbours takes at most
_Item = TypeVar("_Item")

_Seconds = Annotated[float, Meta(gt=0, le=10 * 365 * 86_400)]


class RingDescription(Struct, frozen=True, array_like=True):
    """A ring's mapping, or the name of a semantic overlay, and the settings that all its peers share."""

    mapping: str = ANY_ATTRIBUTE
    attributes: Annotated[tuple[str, ...], Meta(max_length=1_000)] = ()
    chosen: str | None = None  # of attribute-split, the attribute that events are keyed by
    cells: Annotated[int, Meta(ge=2, le=1 << 20)] = _DEFAULT_CELLS
    conditions: Annotated[tuple[Filter, ...], Meta(max_length=MAX_SAMPLED)] = ()
    events: Annotated[tuple[Event, ...], Meta(max_length=MAX_SAMPLED)] = ()
    replicas: Annotated[int, Meta(ge=1, le=64)] = 3
    period: _Seconds = 1.0
    retry: _Seconds = 2.0
    lease: _Seconds = 60.0
    durable_lease: _Seconds = 7 * 86_400.0
    buffer: Annotated[float, Meta(ge=0, le=3_600)] = 0.0
    collects: bool = False
    shed_above: Annotated[int, Meta(ge=0)] = 0

    @property
    def overlay(self) -> Overlay | None:
        """The semantic overlay that this is, if it is no ring."""
        return self.mapping if self.mapping in OVERLAYS else None  # type: ignore[return-value]

    @property
    def community_settings(self) -> CommunitySettings:
        return CommunitySettings(period=self.period, patience=_PATIENCE_PERIODS * self.period)

    @property
    def settings(self) -> PeerSettings:
        return PeerSettings(
            replicas=self.replicas,
            successors=max(4 * self.replicas, 16),  # other peers may have several nodes, which crash together
            period=self.period,
            retry=self.retry,
            lease=self.lease,
            durable_lease=self.durable_lease,
            buffer=self.buffer,
            collects=self.collects,
            shed_above=self.shed_above,
        )

    def key_space(self) -> KeySpace:
        mapping = mapping_of(self.mapping, self.conditions, self.events, self.cells, self.attributes, self.chosen)
        return KeySpace(Ring(RING_BITS), mapping)

    def encode(self) -> bytes:
        return codec.encode_any(self)

    @property
    def digest(self) -> bytes:
        """By which peers know whether they are of one ring."""
        return blake2b(self.encode(), digest_size=16).digest()


def plan_ring(
    conditions: Sequence[Filter],
    events: Sequence[Event],
    peers: int,
    *,
    mapping: str | None = None,
    choice: MappingChoice | None = None,
) -> RingDescription:
    """The description of a ring for a workload of which there are samples, and for about so many peers.

    Without `mapping`, the planner of joins on Spark chooses one and its attributes, unless a `choice` was made with
    these samples already; without samples of both, there is nothing to choose by, and every attribute is keyed.
    """
    attributes: tuple[str, ...] = ()
    chosen = None
    if mapping is None:
        choice = choice or choose_ring_mapping(_draw(conditions), _draw(events), peers)
        mapping = ANY_ATTRIBUTE if choice is None else choice.mapping.name
        if choice is not None:
            attributes = tuple(choice.mapping.histograms)
            chosen = getattr(choice.mapping, "chosen", None)
            if not attributes:  # no condition to key by
                mapping = ANY_ATTRIBUTE
    cells = min(1 << 20, max(64, CELLS_PER_PEER * peers))
    return RingDescription(mapping, attributes, chosen, cells, _draw(conditions), _draw(events))


decode_description = codec.reader(RingDescription)
"""Decode a description; `WireError` for anything else."""


def _draw(items: Sequence[_Item]) -> tuple[_Item, ...]:
    step = -(-len(items) // MAX_SAMPLED) or 1
    return tuple(items[::step])
