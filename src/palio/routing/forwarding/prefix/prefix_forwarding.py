"""Prefix forwarding: the first broker extracts the forwarding tree of an event, the others follow its branches.

The first broker examines content once and writes a forwarding tree on the event; every broker, the first included,
follows it in its own copy of the routing tree and collects the links that it has tagged there (Jerzak §4.3). That costs
the size of the forwarding tree, whatever the number of filters. A broker that lacks the version of the tree, or cannot
make sense of the branches, examines content anew and writes its own header.

The routing tree comes from one of two sources. `AnnouncedTrees` are built by the optimiser for all brokers.
`LocalTrees` are built by each broker for itself. A broker tags the filters of its own clients too, so an event that
leads to none of these is not decoded there at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, TypeAlias

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.announcements import ROUTING_TREES_TOPIC
from palio.routing.codec import Arrival
from palio.routing.combinations import Combination
from palio.routing.conjunctions import CONJUNCTION_LIMIT, Conjunction, to_conjunctions
from palio.routing.effects import Job
from palio.routing.forwarding.content import ContentForwarding
from palio.routing.forwarding.prefix.forwarding_tree import MAX_HEIGHT, VERSION_BYTES, PrefixHeader, TaggedTree
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.tree_index import shared_index
from palio.routing.forwarding.prefix.tree_version import TreeVersion, decode_tree, tree_digest
from palio.routing.forwarding.strategy import ForwardingConfig, Route
from palio.routing.measures import Measures
from palio.routing.messages import LOCAL, Key
from palio.routing.strategies import Prefix


class TreeSource(Protocol):
    """The tree versions of one broker, with its tags: of the filters of all neighbours and of local clients."""

    updates: int  # trees that were taken into use

    def add(self, interface: int, key: Key, wanted: Filter) -> None: ...

    def remove(self, interface: int, key: Key) -> None: ...

    def announce(self, version: int, data: bytes) -> None:
        """An encoded tree of the optimiser."""

    def work(self) -> Job | None: ...

    def find_version(self, version: bytes) -> TaggedTree | None: ...

    def current(self, events: int) -> TaggedTree | None:
        """The tree for a batch of new events; None where they are to go by content."""
        ...


_TaggedFilter: TypeAlias = tuple[int, tuple[Conjunction, ...]]
_MAX_VERSIONS: Final = 4


class _Change(NamedTuple):
    """A filter that was added or removed while a tree was mapped in the background."""

    is_added: bool
    interface: int
    conjunctions: tuple[Conjunction, ...]

    def apply(self, tree: TaggedTree) -> None:
        change = tree.tags.add if self.is_added else tree.tags.remove
        change(self.interface, self.conjunctions)


class AnnouncedTrees:
    """The optimiser's trees: the newest for new events, and a few older ones for events under way.

    A broker maps its filters onto each tree that is announced, and each new filter onto all trees it has, so that
    events flow at once (Jerzak §4.4.2). Before the first announcement events go by content. Mapping thousands of
    filters takes a second; so it is a background job, while events go by the tree before, and changes that come
    meanwhile are applied at the end.
    """

    def __init__(self, height: int) -> None:
        self.updates = 0
        self._height = height
        self._wanted: dict[int, dict[Key, tuple[Conjunction, ...]]] = {}
        self._trees: list[TaggedTree] = []  # the newest last
        self._newest_version = -1
        self._unmapped: bytes | None = None  # the newest announcement, until its mapping begins
        self._changes: list[_Change] | None = None  # since the running job began; None where none runs

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        conjunctions = self._wanted.setdefault(interface, {})[key] = to_conjunctions(wanted, CONJUNCTION_LIMIT)
        self._apply(_Change(True, interface, conjunctions))

    def remove(self, interface: int, key: Key) -> None:
        self._apply(_Change(False, interface, self._wanted[interface].pop(key)))

    def announce(self, version: int, data: bytes) -> None:
        """Take a tree, unless a newer one was announced before."""
        # A tree that was announced and not mapped yet is skipped: only the newest is worth a job.
        if version > self._newest_version:
            self._newest_version, self._unmapped = version, data

    def work(self) -> Job | None:
        """The job that maps all filters onto the newest tree; only one runs at a time."""
        if self._unmapped is None or self._changes is not None:
            return None
        # The job gets a copy of the filters: the broker goes on changing them, and records the changes.
        data, self._unmapped, self._changes = self._unmapped, None, []
        return partial(self._map, data, list(self._all()), self._changes)

    def _map(self, data: bytes, wanted: Sequence[_TaggedFilter], changes: list[_Change]) -> Callable[[], None]:
        """Runs in any thread; returns what is left to do in the broker's."""
        try:
            index = shared_index(tree_digest(data), lambda: decode_tree(data))
        except InvalidArgument:
            return partial(self._finish, None, changes)  # not a tree: events go by the ones there are
        return partial(self._finish, TaggedTree(index, self._height, wanted), changes)

    def _finish(self, tree: TaggedTree | None, changes: Sequence[_Change]) -> None:
        self._changes = None
        if tree is None:
            return
        self.updates += 1
        # In the broker's thread: no further change can come between these and the tree's first use.
        for change in changes:
            change.apply(tree)
        self._trees = [*(each for each in self._trees if each.version != tree.version), tree]
        del self._trees[:-_MAX_VERSIONS]

    def _apply(self, change: _Change) -> None:
        for tree in self._trees:
            change.apply(tree)
        if self._changes is not None:
            self._changes.append(change)

    def find_version(self, version: bytes) -> TaggedTree | None:
        self._run_due_job()
        return next((tree for tree in self._trees if tree.version == version), None)

    def current(self, events: int) -> TaggedTree | None:
        """The newest, whatever the number of events; None before the first announcement."""
        self._run_due_job()
        return self._trees[-1] if self._trees else None

    def _run_due_job(self) -> None:
        """Run a due job now, where the broker did not run it in the background."""
        job = self.work()
        if job is not None:
            finish = job()
            if finish is not None:
                finish()

    def _all(self) -> Iterator[_TaggedFilter]:
        return ((interface, each) for interface, by_key in self._wanted.items() for each in by_key.values())


_MAX_INLINE_FILTERS: Final = 128  # their tree is built in some milliseconds, not worth a background job
_MAX_VISITS_PER_FILTER: Final = 64  # nodes compared by insertion; the filters of Jerzak §9.2.1 take four
_MIN_FILTERS_FOR_VISITS: Final = 1_000  # fewer filters may take as many visits as these
_InterfaceFilter: TypeAlias = tuple[int, Filter]


class LocalTrees:
    """A tree that each broker builds of all filters, where every filter reaches every broker.

    The tree is a function of the set of filters, inserted in the order of their digests; its version is the digest of
    the set. Brokers that a change has not reached yet have another version, and match content meanwhile.

    Building costs the whole set, some hundred microseconds for each filter. So a tree is built only after `patience`
    events for each filter since the last change; until then events go by content, without a header. The tree of many
    filters is built in the background.

    Nested filters make a tree as deep as they are many, and partly overlapping ones split each other, so that insertion
    compares ever more nodes. A tree that takes far more than usual is not built, and events go by content. That too is
    a function of the set of filters, and so the same at all brokers.
    """

    def __init__(self, height: int, patience: float) -> None:
        self.updates = 0
        self._height = height
        self._patience = patience
        self._wanted: dict[int, dict[Key, Filter]] = {}
        self._tree: TaggedTree | None = None
        self._events_since_change = 0
        self._generation = 0  # one more at each change: a tree of an older generation is thrown away
        self._is_begun = False  # since the last change, a tree was built or is being built
        self._is_due = False  # a large tree is worth building, in the background

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        self._wanted.setdefault(interface, {})[key] = wanted
        self._invalidate()

    def remove(self, interface: int, key: Key) -> None:
        del self._wanted[interface][key]
        self._invalidate()

    def _invalidate(self) -> None:
        self._tree, self._events_since_change, self._is_due, self._is_begun = None, 0, False, False
        self._generation += 1

    def announce(self, version: int, data: bytes) -> None:
        """Ignored: every broker builds its own."""

    def find_version(self, version: bytes) -> TaggedTree | None:
        return self._tree if self._tree is not None and self._tree.version == version else None

    def current(self, events: int) -> TaggedTree | None:
        """The tree; None where it is not worth building, not yet worth it for the events so far, or being built."""
        if not self._is_begun:
            self._events_since_change += events
            count = sum(map(len, self._wanted.values()))
            if self._events_since_change >= count * self._patience:
                if count <= _MAX_INLINE_FILTERS:
                    self._is_begun = True
                    self._use(self._tagged_tree(self._all()))
                else:
                    self._is_due = True
        return self._tree

    def work(self) -> Job | None:
        """The job that builds the tree of many filters."""
        if not self._is_due:
            return None
        self._is_due, self._is_begun = False, True
        return partial(self._build, self._all(), self._generation)

    def _build(self, wanted: Sequence[_InterfaceFilter], generation: int) -> Callable[[], None]:
        """Runs in any thread; returns what is left to do in the broker's."""
        return partial(self._finish, self._tagged_tree(wanted), generation)

    def _finish(self, tree: TaggedTree | None, generation: int) -> None:
        # Filters that changed while the tree was built have made it useless.
        if generation == self._generation:
            self._use(tree)

    def _use(self, tree: TaggedTree | None) -> None:
        self._tree = tree
        self.updates += tree is not None

    def _all(self) -> list[_InterfaceFilter]:
        return [(interface, each) for interface, by_key in self._wanted.items() for each in by_key.values()]

    def _tagged_tree(self, wanted: Sequence[_InterfaceFilter]) -> TaggedTree | None:
        distinct = {each.digest: each for _, each in wanted}
        digests = sorted(distinct)
        version = blake2b(b"".join(digests), digest_size=VERSION_BYTES).digest()
        conjunctions = {digest: to_conjunctions(distinct[digest], CONJUNCTION_LIMIT) for digest in digests}
        try:
            index = shared_index(version, lambda: _build_tree(conjunctions.values(), version))
        except _TreeTooLarge:
            return None
        return TaggedTree(index, self._height, ((interface, conjunctions[each.digest]) for interface, each in wanted))


class _TreeTooLarge(Exception):
    """Insertion compares too many nodes."""


def _build_tree(filters: Collection[Iterable[Conjunction]], version: bytes) -> TreeVersion:
    tree = RoutingTree()
    max_visits = _MAX_VISITS_PER_FILTER * max(len(filters), _MIN_FILTERS_FOR_VISITS)
    for conjunctions in filters:
        for conjunction in conjunctions:
            tree.insert(conjunction)
        if tree.visits > max_visits:
            raise _TreeTooLarge
    return TreeVersion.with_ends(tree, version)


_MAX_CACHED_SPLITS: Final = 4096


class PrefixForwarding:
    """Forwarding trees over a routing tree that all brokers share.

    Options, constants of the network: `tree`, whether each broker builds it (`local`) or all have the `optimiser`'s;
    `height`, at which forwarding trees are cut, 0 for not at all; `patience`, the events for each filter that a broker
    with local trees routes by content after a change before it builds a tree again.
    """

    def __init__(self, config: ForwardingConfig) -> None:
        chosen = config.chosen if isinstance(config.chosen, Prefix) else Prefix()
        height = chosen.height
        if height > MAX_HEIGHT:
            raise InvalidArgument(f"forwarding trees are cut at a height from 0 to {MAX_HEIGHT}, not {height!r}")
        choice = Combination(config.propagation, "prefix", config.advertisements, options=chosen.given())
        self._trees: TreeSource = AnnouncedTrees(height)
        if choice.tree == "local":
            self._trees = LocalTrees(height, float(chosen.patience))
        self._content = ContentForwarding(config)  # for events without a tree

    def open_link(self, interface: int) -> None:
        pass

    def close_link(self, interface: int) -> None:
        pass

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        self._trees.add(interface, key, wanted)
        self._content.add_filter(interface, key, wanted)

    def remove_filter(self, interface: int, key: Key) -> None:
        self._trees.remove(interface, key)
        self._content.remove_filter(interface, key)

    def on_announcement(self, topic: str, version: int, data: bytes) -> None:
        if topic == ROUTING_TREES_TOPIC:
            self._trees.announce(version, data)

    def work(self) -> Job | None:
        return self._trees.work() or self._content.work()

    def measures(self) -> Measures:
        return Measures(tree_updates=self._trees.updates)

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        routes: list[Route | None] = [None] * len(arrivals)
        by_version: dict[bytes, list[tuple[int, PrefixHeader]]] = {}
        for place, arrival in enumerate(arrivals):
            # Not of clients, which may write any header.
            header = arrival.header if arrival.interface != LOCAL else None
            if type(header) is PrefixHeader:
                by_version.setdefault(header.version, []).append((place, header))
        for version, headers in by_version.items():
            tree = self._trees.find_version(version)
            if tree is not None:
                self._follow(tree, headers, arrivals, routes)
        # Without a header, of an unknown version, or not understood: examine the content.
        new = [place for place, route in enumerate(routes) if route is None]
        if new:
            self._examine_content(new, arrivals, routes)
        return routes  # type: ignore[return-value]

    def _examine_content(self, new: list[int], arrivals: Sequence[Arrival], routes: list[Route | None]) -> None:
        tree = self._trees.current(len(new))
        if tree is not None:
            written = tree.headers([arrivals[place].event.attributes for place in new])
            self._follow(tree, list(zip(new, written, strict=True)), arrivals, routes)
        else:
            for place, route in zip(new, self._content.route([arrivals[place] for place in new]), strict=True):
                routes[place] = route

    def _follow(
        self,
        tree: TaggedTree,
        headers: list[tuple[int, PrefixHeader]],
        arrivals: Sequence[Arrival],
        routes: list[Route | None],
    ) -> None:
        """Fill in the routes of arrivals whose headers this tree understands."""
        found = tree.interfaces([header for _, header in headers])
        for (place, header), interfaces in zip(headers, found, strict=True):
            if interfaces is not None:
                links, local = _split_interfaces(interfaces, arrivals[place].interface)
                routes[place] = Route(((header, links),) if links else (), local)


@lru_cache(_MAX_CACHED_SPLITS)  # few sets of neighbours occur
def _split_interfaces(interfaces: tuple[int, ...], came_by: int) -> tuple[tuple[int, ...], tuple[Key, ...] | None]:
    """The links but the one of arrival, and the matching local keys: none where that is known, otherwise None."""
    links = tuple(each for each in interfaces if each not in (came_by, LOCAL))
    return links, None if LOCAL in interfaces else ()
