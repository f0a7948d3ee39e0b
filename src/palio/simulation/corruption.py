"""Corruption of a broker's tables, as a seed decides: what self-stabilising tables must recover from.

All tables of routing are reached: what neighbours sent, what links were told, reductions with their relation graphs,
the indexes of forwarding with their digests, trees and keys, memos, counters. Entries are removed, invented, changed
and moved. Tables that Python sees are changed as such, so that they contradict each other; those of compiled kernels
are changed by their own operations, since a wrong address in them ends the process, which is a crash and nothing that
a table could recover from.

What the clients of a broker asked for stays as it is: no other broker knows it. So do the layers below routing: link
sessions, the spanning tree and elections, and the queues and logs of durable events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final

from palio.filters.filter import Filter
from palio.routing.broker import Broker
from palio.routing.forwarding.reuse.reuse_forwarding import ReuseForwarding
from palio.routing.forwarding.strategy import Forwarding
from palio.routing.interest_index import ClientTable
from palio.routing.messages import KEY_BYTES, LOCAL, Key
from palio.routing.propagation.neighbour_updates import NeighbourUpdates

_INVENTED_CONDITIONS: Final = ("TRUE", "x > 2", "s = 'invented'", "invented IS NOT NULL", "price > 0")
_MAX_COUNTER_ERROR: Final = 3
_WALKED_MODULES: Final = ("palio.routing", "palio.covering.relation_graph")
# Objects whose state compiled kernels read, or that have none of their own.
_OPAQUE_CLASSES: Final = frozenset(
    (
        "BloomShape",
        "Candidate",
        "ClassicalFilterIndex",
        "ClassicalTable",
        "Combination",
        "DigestTable",
        "FilterIndex",
        "ForwardingConfig",
        "InterfaceIndex",
        "LinkStates",
        "PosetPredicateIndex",
        "PredicateIndex",
        "TableVersion",
        "TaggedTree",
    )
)
# Not tables: options, structures for output, and the requests of clients, which nobody else knows.
_KEPT_ATTRIBUTES: Final = frozenset(
    (
        "_chosen",
        "_depth",
        "_effects",
        "_height",
        "_limit",
        "_listener",
        "_max_parents",
        "_node",
        "_owned",
        "_slack",
        "way",  # to the optimiser, which is an election's result
    )
)


@dataclass(frozen=True, slots=True)
class Corruption:
    """The changes that were made, by table."""

    changes: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.changes.total()

    def __str__(self) -> str:
        return f"{self.total:,} changes in {len(self.changes):,} tables"


def corrupt_tables(broker: Broker, share: float, random: Random) -> Corruption:
    """Corrupt about a share of the entries of each table of a broker."""
    done = Corruption()
    damage = _Damage(broker, share, random, done.changes)
    damage.corrupt_received()
    damage.corrupt_reductions()
    damage.corrupt_forwarding()
    damage.corrupt_everything_else()
    return done


class _Damage:
    """The corruption of one broker."""

    def __init__(self, broker: Broker, share: float, random: Random, changes: Counter[str]) -> None:
        self._broker = broker
        self._share = share
        self._random = random
        self._changes = changes
        tables = broker.tables
        known = [wanted for by_key in tables.remote_subscriptions.values() for wanted in by_key.values()]
        known += tables.subscriptions.entries().values()
        self._filters = [*known, *map(Filter.parse, _INVENTED_CONDITIONS)]

    def corrupt_received(self) -> None:
        """What neighbours sent, and what they were told."""
        tables = self._broker.tables
        for name, by_link in (
            ("remote_subscriptions", tables.remote_subscriptions),
            ("remote_advertisements", tables.remote_advertisements),
            ("told_subscriptions", tables._subscription_updates.told or {}),
            ("told_advertisements", tables._advertisement_updates.told or {}),
        ):
            for link in self._broker.links:
                by_link.setdefault(link, {})
            for table in list(by_link.values()):
                self._corrupt_filters(name, table, self._random.choice(list(by_link.values())))

    def _corrupt_filters(self, name: str, table: dict[Key, Filter], other: dict[Key, Filter]) -> None:
        """Remove, change, move and invent entries of a table of filters by key."""
        for key in list(table):
            if not self._is_hit():
                continue
            self._changes[name] += 1
            match self._random.randrange(3):
                case 0:
                    del table[key]
                case 1:
                    table[key] = self._filter()
                case 2:
                    other[key] = table.pop(key)
        for _ in range(len(table) + 1):
            if self._is_hit():
                self._changes[name] += 1
                wanted = self._filter()
                table[self._random.choice((wanted.digest, self._key()))] = wanted

    def corrupt_reductions(self) -> None:
        """What neighbours should know: by the operations of the reductions, which do not tell the neighbours."""
        for updates in (self._broker.tables._subscription_updates, self._broker.tables._advertisement_updates):
            for link, reduction in updates._neighbours.items():
                for key in list(updates._sources):
                    if self._is_hit():
                        self._try(f"{type(reduction).__name__} of a link", partial(reduction.remove, key))
                if self._is_hit():
                    invent = partial(reduction.add, self._key(), self._filter())
                    self._try(f"{type(reduction).__name__} of a link", invent)
                if self._random.random() < 0.5:  # what has changed is sent, or not
                    updates._dirty.pop(link, None)

    def corrupt_forwarding(self) -> None:
        """Indexes of events, with all their digests, trees and keys: by their own operations."""
        forwarding = self._broker._forwarding
        name = type(forwarding).__name__
        if isinstance(forwarding, ReuseForwarding) and self._is_hit():
            version = max(0, forwarding.table_version + self._counter_error())
            forwarding._entry = replace(forwarding._entry, version=version)
        entries = list(self._forwarded(forwarding))
        interfaces = [LOCAL, *self._broker.links, *(interface for interface, _, _ in entries)]
        for interface, key, wanted in entries:
            if self._is_hit():
                self._try(name, partial(forwarding.remove_filter, interface, key))
                if self._random.random() < 0.6:  # changed or moved
                    at = self._random.choice(interfaces)
                    instead = self._random.choice((wanted, self._filter()))
                    self._try(name, partial(forwarding.add_filter, at, key, instead))
        for link in self._broker.links:
            if self._is_hit():
                self._try(name, partial(forwarding.close_link, link))
        for interface in sorted(set(interfaces)):
            if self._is_hit():
                self._try(name, partial(forwarding.add_filter, interface, self._key(), self._filter()))

    def _forwarded(self, forwarding: Forwarding) -> Iterator[tuple[int, Key, Filter]]:
        tables = self._broker.tables
        yield from ((LOCAL, key, wanted) for key, wanted in tables.subscriptions.keys().items())
        for link, by_key in tables.remote_subscriptions.items():
            yield from ((link, key, wanted) for key, wanted in by_key.items())

    def corrupt_everything_else(self) -> None:
        """Dictionaries and counters, so that they contradict each other."""
        broker = self._broker
        roots: list[Any] = [
            broker.tables._subscription_updates,
            broker.tables._advertisement_updates,
            broker.tables._served,
            broker.tables.subscriptions,
            broker.tables.advertisements,
            getattr(broker.tables, "_reduction", None),
            getattr(broker.tables, "_homes", None),
            broker._forwarding,
            broker._router._index,
            None if broker._optimiser is None else broker._optimiser.reports,
        ]
        seen: set[int] = set()
        self._scramble("EventRouter._filter_counts", broker._router._filter_counts)
        self._scramble("HomeRoutingTables._known", getattr(broker.tables, "_known", {}))
        if broker.stabiliser is not None:
            broker.stabiliser.rounds = max(0, broker.stabiliser.rounds + self._counter_error())
            self._scramble("Stabiliser._sides", broker.stabiliser._sides)
        for root in roots:
            for owner, attribute, value in list(_state_of(root, seen)):
                name = f"{type(owner).__name__}.{attribute}"
                if isinstance(value, dict):
                    self._scramble(name, value)
                elif self._is_hit():
                    self._changes[name] += 1
                    setattr(owner, attribute, max(0, value + self._counter_error()))

    def _scramble(self, name: str, table: dict[Any, Any]) -> None:
        """Remove entries of any dictionary, exchange their values, change counters, and invent keys."""
        for key in list(table):
            if key not in table or not self._is_hit():
                continue
            self._changes[name] += 1
            if type(table[key]) is int and self._random.random() < 0.5:
                table[key] += self._counter_error()
            elif self._random.random() < 0.5:
                del table[key]
            else:
                other = self._random.choice(list(table))
                table[key], table[other] = table[other], table[key]
        if table and type(next(iter(table))) is bytes and self._is_hit():
            self._changes[name] += 1
            table[self._key()] = self._random.choice(list(table.values()))

    def _try(self, name: str, change: Callable[[], None]) -> None:
        """Change a structure by its own operation, which may find it changed already."""
        self._changes[name] += 1
        try:
            change()
        except Exception:  # it contradicts itself by now, as is meant
            return

    def _is_hit(self) -> bool:
        return self._random.random() < self._share

    def _filter(self) -> Filter:
        return self._random.choice(self._filters)

    def _key(self) -> Key:
        return self._random.randbytes(KEY_BYTES)

    def _counter_error(self) -> int:
        return self._random.choice((-1, 1)) * self._random.randint(1, _MAX_COUNTER_ERROR)


def _state_of(owner: Any, seen: set[int]) -> Iterator[tuple[Any, str, Any]]:
    """The dictionaries and counters of an object and of those that it is made of."""
    if not _is_walked(owner) or id(owner) in seen:
        return
    seen.add(id(owner))
    for attribute in _attributes_of(owner):
        value = getattr(owner, attribute, None)
        if attribute in _KEPT_ATTRIBUTES or (isinstance(owner, NeighbourUpdates) and attribute == "told"):
            continue
        if type(value) is int:
            yield owner, attribute, value
        elif isinstance(value, dict):
            for each in list(value.values()):
                yield from _state_of(each, seen)
                if isinstance(each, dict) and not isinstance(owner, ClientTable):
                    yield owner, attribute, each
            yield owner, attribute, value
        elif isinstance(value, list):
            for each in value:
                yield from _state_of(each, seen)
        else:
            yield from _state_of(value, seen)


def _is_walked(owner: Any) -> bool:
    kind = type(owner)
    return kind.__module__.startswith(_WALKED_MODULES) and kind.__name__ not in _OPAQUE_CLASSES and not callable(owner)


def _attributes_of(owner: Any) -> list[str]:
    slots = [name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ())]
    return list(dict.fromkeys([*slots, *getattr(owner, "__dict__", ())]))
