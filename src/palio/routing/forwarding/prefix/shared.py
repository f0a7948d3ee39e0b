"""Trees that brokers of one process have in common: a version says all that a tree is, so one copy of it will do."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakValueDictionary

from palio.routing.forwarding.prefix.tree_index import TreeIndex
from palio.routing.forwarding.prefix.tree_version import TreeVersion

_known: WeakValueDictionary[bytes, TreeIndex] = WeakValueDictionary()


def shared_index(version: bytes, make: Callable[[], TreeVersion]) -> TreeIndex:
    """The index of a version, made where nobody has it."""
    index = _known.get(version)
    if index is None:
        index = _known[version] = TreeIndex(make())
    return index
