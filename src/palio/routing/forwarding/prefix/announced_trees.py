"""Trees that the optimiser makes for all: the newest for new events, and a few older ones for those under way.

A broker maps its own filters onto each tree it is told of, and each new filter onto all trees it keeps, so that events
flow at once (Jerzak §4.4.2). Until the first tree there is one without a condition, at whose root all filters are.

To map thousands of filters takes a second. So it is work to be done beside everything else, while events go by the tree
before; what comes and goes meanwhile is made up for at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.conjunctive import Conjunction, conjunctive
from palio.routing.constants import CONJUNCTION_LIMIT
from palio.routing.effects import Job
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.shared import shared_index
from palio.routing.forwarding.prefix.tagged_tree import TaggedTree
from palio.routing.forwarding.prefix.tree_codec import decode_tree, encode_tree, version_of
from palio.routing.forwarding.prefix.tree_version import TreeVersion
from palio.routing.messages import LOCAL, Key

_Tagged: TypeAlias = tuple[int, tuple[Conjunction, ...]]
_KEPT: Final = 4  # versions
_NO_CONDITION: Final = encode_tree(TreeVersion.of(RoutingTree(), b""))


class _Change(NamedTuple):
    """A filter came, or went."""

    comes: bool
    interface: int
    conjunctions: tuple[Conjunction, ...]

    def apply(self, tree: TaggedTree) -> None:
        change = tree.tags.add if self.comes else tree.tags.remove
        change(self.interface, self.conjunctions)


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
        self._announced: bytes | None = None  # the newest, where nobody has begun to map filters onto it
        self._since: list[_Change] | None = None  # what came and went since somebody began to map them

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        if interface == LOCAL:
            return
        conjunctions = self._wanted.setdefault(interface, {})[key] = conjunctive(wanted, CONJUNCTION_LIMIT)
        self._change(_Change(True, interface, conjunctions))

    def remove(self, interface: int, key: Key) -> None:
        if interface == LOCAL:
            return
        self._change(_Change(False, interface, self._wanted[interface].pop(key)))

    def announce(self, version: int, data: bytes) -> None:
        """A tree, where it is newer than all before."""
        if version > self._newest:
            self._newest, self._announced = version, data

    def work(self) -> Job | None:
        """To map all filters onto the newest tree; one at a time."""
        if self._announced is None or self._since is not None:
            return None
        data, self._announced, self._since = self._announced, None, []
        return partial(self._map, data, list(self._all()), self._since)

    def _map(self, data: bytes, wanted: Sequence[_Tagged], since: list[_Change]) -> Callable[[], None]:
        """What may be done in any thread; and what is left to do when it is done."""
        try:
            index = shared_index(version_of(data), lambda: decode_tree(data))
        except InvalidArgument:
            return partial(self._take, None, since)  # events go by the trees that are known
        return partial(self._take, TaggedTree(index, self._height, wanted), since)

    def _take(self, tree: TaggedTree | None, since: Sequence[_Change]) -> None:
        self._since = None
        if tree is None:
            return
        for change in since:
            change.apply(tree)
        self._trees = [*(each for each in self._trees if each.version != tree.version), tree]
        del self._trees[:-_KEPT]

    def _change(self, change: _Change) -> None:
        for tree in self._trees:
            change.apply(tree)
        if self._since is not None:
            self._since.append(change)

    def of_version(self, version: bytes) -> TaggedTree | None:
        self._catch_up()
        return next((tree for tree in self._trees if tree.version == version), None)

    def current(self, events: int) -> TaggedTree:
        """The newest, for any number of events."""
        self._catch_up()
        if not self._trees:
            self._trees.append(
                TaggedTree(
                    shared_index(version_of(_NO_CONDITION), lambda: decode_tree(_NO_CONDITION)),
                    self._height,
                    self._all(),
                )
            )
        return self._trees[-1]

    def _catch_up(self) -> None:
        """Do now what nobody wanted to do beside everything else."""
        job = self.work()
        if job is not None:
            finish = job()
            if finish is not None:
                finish()

    def _all(self) -> Iterator[_Tagged]:
        return ((interface, each) for interface, by_key in self._wanted.items() for each in by_key.values())
