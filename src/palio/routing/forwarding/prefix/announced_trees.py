"""Trees that the optimiser makes for all: the newest for new events, and a few older ones for those under way.

A broker maps its own filters onto each tree it is told of, and each new filter onto all trees it keeps, so that events
flow at once (Jerzak §4.4.2). Until the first tree there is one without a condition, at whose root all filters are.
"""

from __future__ import annotations

from typing import Final

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.conjunctive import Conjunction, conjunctive
from palio.routing.constants import CONJUNCTION_LIMIT
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.shared import shared_index
from palio.routing.forwarding.prefix.tagged_tree import TaggedTree
from palio.routing.forwarding.prefix.tree_codec import decode_tree, encode_tree, version_of
from palio.routing.forwarding.prefix.tree_index import TreeIndex
from palio.routing.forwarding.prefix.tree_version import TreeVersion
from palio.routing.messages import LOCAL, Key

_KEPT: Final = 4  # versions
_NO_CONDITION: Final = encode_tree(TreeVersion.of(RoutingTree(), b""))


class AnnouncedTrees:
    """The last few versions, the newest at the end.

    What local clients want is not tagged: a broker may have very many, and would map them all onto every version.
    """

    has_local_tags = False

    def __init__(self, height: int) -> None:
        self._height = height
        self._wanted: dict[int, dict[Key, tuple[Conjunction, ...]]] = {}
        self._trees: list[TaggedTree] = []
        self._newest = -1

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        if interface == LOCAL:
            return
        conjunctions = self._wanted.setdefault(interface, {})[key] = conjunctive(wanted, CONJUNCTION_LIMIT)
        for tree in self._trees:
            tree.tags.add(interface, conjunctions)

    def remove(self, interface: int, key: Key) -> None:
        if interface == LOCAL:
            return
        conjunctions = self._wanted[interface].pop(key)
        for tree in self._trees:
            tree.tags.remove(interface, conjunctions)

    def announce(self, version: int, data: bytes) -> None:
        """A tree, where it is newer than all before."""
        if version <= self._newest:
            return
        try:
            index = shared_index(version_of(data), lambda: decode_tree(data))
        except InvalidArgument:
            return  # events go by the trees that are known
        self._newest = version
        self._trees = [*(tree for tree in self._trees if tree.version != index.tree.version), self._tagged(index)]
        del self._trees[:-_KEPT]

    def of_version(self, version: bytes) -> TaggedTree | None:
        return next((tree for tree in self._trees if tree.version == version), None)

    def current(self, events: int) -> TaggedTree:
        """The newest, for any number of events."""
        if not self._trees:
            self._trees.append(
                self._tagged(shared_index(version_of(_NO_CONDITION), lambda: decode_tree(_NO_CONDITION)))
            )
        return self._trees[-1]

    def _tagged(self, index: TreeIndex) -> TaggedTree:
        wanted = (
            (interface, conjunctions) for interface, by_key in self._wanted.items() for conjunctions in by_key.values()
        )
        return TaggedTree(index, self._height, wanted)
