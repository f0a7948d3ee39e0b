"""A tree that each broker builds for itself, of all filters there are; the same at all that know the same filters.

Where every filter reaches every broker, nobody need make the tree for others. The tree is a function of the set of
filters, inserted in the order of their digests, and its version is the digest of the set. Brokers that have not heard
of a change yet have another version, and match content until they have.

Building costs the whole set, some hundred microseconds for each filter, so a tree is built only once so many events
have come since the last change, `patience` for each filter; until then they go by content and without a header. Where
there are many filters, it is built beside everything else.

Filters that lie within each other make a tree as deep as they are many, and filters that overlap in part cut each other
up: inserting then meets ever more nodes. A tree that would take far more of them than most is not built, and events go
by content. Whether it is depends on the set of filters as the tree does, and so is the same at all brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final, TypeAlias

from palio.filters.filter import Filter
from palio.routing.conjunctive import Conjunction, conjunctive
from palio.routing.constants import CONJUNCTION_LIMIT
from palio.routing.effects import Job
from palio.routing.forwarding.prefix.header import VERSION_BYTES
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.shared import shared_index
from palio.routing.forwarding.prefix.tagged_tree import TaggedTree
from palio.routing.forwarding.prefix.tree_version import TreeVersion
from palio.routing.messages import Key

_AT_ONCE: Final = 128  # filters whose tree is built at once, in some milliseconds
_MOST_VISITS: Final = 64  # nodes that inserting may meet for each filter; the filters of Jerzak §9.2.1 meet four
_FEW: Final = 1_000  # filters, for which that many more may be met
_Wanted: TypeAlias = tuple[int, Filter]


class LocalTrees:
    """The tree of all filters, once they have been the same for a while."""

    has_local_tags = True

    def __init__(self, height: int, patience: float) -> None:
        self._height = height
        self._patience = patience
        self._wanted: dict[int, dict[Key, Filter]] = {}
        self._tree: TaggedTree | None = None
        self._waited = 0
        self._changes = 0
        self._is_begun = False  # since the last change, a tree was built or somebody builds it
        self._is_due = False  # a large tree is worth building, and somebody should do so beside everything else

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        self._wanted.setdefault(interface, {})[key] = wanted
        self._change()

    def remove(self, interface: int, key: Key) -> None:
        del self._wanted[interface][key]
        self._change()

    def _change(self) -> None:
        self._tree, self._waited, self._is_due, self._is_begun = None, 0, False, False
        self._changes += 1

    def announce(self, version: int, data: bytes) -> None:
        """Nobody else's tree is of use."""

    def of_version(self, version: bytes) -> TaggedTree | None:
        return self._tree if self._tree is not None and self._tree.version == version else None

    def current(self, events: int) -> TaggedTree | None:
        """The tree for so many events; None where it is not worth building, or not yet, or is being built."""
        if not self._is_begun:
            self._waited += events
            count = sum(map(len, self._wanted.values()))
            if self._waited >= count * self._patience:
                if count <= _AT_ONCE:
                    self._is_begun, self._tree = True, self._built(self._all())
                else:
                    self._is_due = True
        return self._tree

    def work(self) -> Job | None:
        """To build a tree, where there are many filters."""
        if not self._is_due:
            return None
        self._is_due, self._is_begun = False, True
        return partial(self._build, self._all(), self._changes)

    def _build(self, wanted: Sequence[_Wanted], changes: int) -> Callable[[], None]:
        """What may be done in any thread; and what is left to do when it is done."""
        return partial(self._take, self._built(wanted), changes)

    def _take(self, tree: TaggedTree | None, changes: int) -> None:
        if changes == self._changes:
            self._tree = tree

    def _all(self) -> list[_Wanted]:
        return [(interface, each) for interface, by_key in self._wanted.items() for each in by_key.values()]

    def _built(self, wanted: Sequence[_Wanted]) -> TaggedTree | None:
        distinct = {each.digest: each for _, each in wanted}
        digests = sorted(distinct)
        version = blake2b(b"".join(digests), digest_size=VERSION_BYTES).digest()
        entered = {digest: conjunctive(distinct[digest], CONJUNCTION_LIMIT) for digest in digests}
        try:
            index = shared_index(version, lambda: _tree_of(entered.values(), version))
        except _TooDear:
            return None
        return TaggedTree(index, self._height, ((interface, entered[each.digest]) for interface, each in wanted))


class _TooDear(Exception):
    """Inserting meets too many nodes."""


def _tree_of(filters: Collection[Iterable[Conjunction]], version: bytes) -> TreeVersion:
    tree = RoutingTree()
    most = _MOST_VISITS * max(len(filters), _FEW)
    for conjunctions in filters:
        for conjunction in conjunctions:
            tree.insert(conjunction)
        if tree.visits > most:
            raise _TooDear
    return TreeVersion.built(tree, version)
