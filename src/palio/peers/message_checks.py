"""Checks of messages from other peers: what decodes may still name positions, keys or runs that no ring has."""

from __future__ import annotations

from collections.abc import Iterable

from palio.errors import WireError
from palio.peers.key_space import KeySpace
from palio.peers.messages import (
    Agreed,
    AskInterests,
    Cast,
    Collect,
    Copies,
    Digest,
    Interest,
    Leave,
    Message,
    Occurrence,
    Replicate,
    Shed,
    Taken,
    Transfer,
    mentioned,
)
from palio.peers.rendezvous_mappings import AnyAttribute, Arc, Key
from palio.peers.ring import Runs


def check_message(keys: KeySpace, message: Message) -> None:
    """`WireError` for a message that names what is not on the ring."""
    size = keys.ring.size
    if not all(0 <= each < size for each in mentioned(message)):
        raise WireError("a position that is not on the ring")
    match message:
        case Shed():
            check_message(keys, message.cast)
        case Agreed() if not 0 <= message.low < size:
            raise WireError("a position that is not on the ring")
        case Cast():
            _check_runs(message.keys, size)
            if isinstance(message.payload, Interest):
                _check_interests(keys, (message.payload,))
            elif isinstance(message.payload, Occurrence):
                _check_keys(keys, message.payload.keys)
        case Collect():
            if not all(0 <= (each.agent or 0) < size and each.steps >= 0 for each in message.entries):
                raise WireError("a way to an agent that is not on the ring")
        case Taken():
            _check_runs(message.keys, size)
        case Digest() if not 0 <= message.low < size:
            raise WireError("a position that is not on the ring")
        case Transfer() | Leave() | Replicate() | Copies() | AskInterests():
            if isinstance(message, Copies) and not 0 <= message.low < size:
                raise WireError("a position that is not on the ring")
            _check_interests(keys, message.interests)
            _check_keys(keys, (each.key for each in message.kept))


def _check_runs(runs: Runs, size: int) -> None:
    before = -1
    for low, high in runs:
        if not before < low <= high < size:
            raise WireError("positions that are no ascending runs of the ring")
        before = high


def _check_interests(keys: KeySpace, interests: Iterable[Interest]) -> None:
    for each in interests:
        if each.lease_seconds <= 0:
            raise WireError("a lease that has ended before it began")
        for arc in each.arcs:
            _check_cells(keys, arc, arc.first, arc.last)


def _check_keys(keys: KeySpace, checked: Iterable[Key]) -> None:
    for key in checked:
        _check_cells(keys, key, key.cell, key.cell)


def _check_cells(keys: KeySpace, at: Arc | Key, first: int, last: int) -> None:
    is_open = isinstance(keys.mapping, AnyAttribute)
    if not 0 <= at.axis < (1 << 49 if is_open else len(keys.mapping.sizes)):
        raise WireError(f"an axis {at.axis} that the mapping lacks")
    if not 0 <= first <= last < keys.axis_size(at.axis):
        raise WireError(f"cells {first} to {last} that axis {at.axis} lacks")
