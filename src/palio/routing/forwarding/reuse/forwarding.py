"""Forwarding by reuse: an event carries keys of filters that it matches, looked up instead of content (Shen §3.3).

`never` looks at content everywhere. `always` looks once and writes down all keys that match; where many do, that is a
long list. `partial` writes down at most `n`, and whether they are all. A later broker divides the list among its links.
A link that gets a key of an incomplete list needs no look; one that gets none does.

The source does not say how a broker knows that a list is complete. A look that finds fewer than `n` gives a complete
one; a part of a complete list is complete for the link it is for; a part of an incomplete list is incomplete, however
short it is. With covering or merging a broker upstream does not know all filters, so no list is complete (Shen §3.6).

A key nobody knows belongs to a filter that is on its way out, and is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.effects import Job
from palio.routing.forwarding.annotated import MOST_NEWER, Entry, EntryTable, believed
from palio.routing.forwarding.protocol import Arrival, Route, Setting
from palio.routing.forwarding.reuse.annotating import ReuseWriter
from palio.routing.forwarding.reuse.header import Known, ReuseHeader, short_key
from palio.routing.forwarding.reuse.index import InterfaceIndex
from palio.routing.messages import LOCAL, Key

USUAL_LIMIT: Final = 20
_COMPLETE_UNDER: Final = ("simple", "identity")
_Sends = dict[int, ReuseHeader | None]


@dataclass(slots=True)
class Costs:
    """What was done, as Shen §3.5 counts it: a look for each event and link, and a look-up for each key that came."""

    looks: int = 0
    lookups: int = 0


@dataclass(slots=True)
class _Link:
    """What came by one interface: an index, and where in it each key is."""

    index: InterfaceIndex = field(default_factory=InterfaceIndex)
    numbers: dict[Key, int] = field(default_factory=dict)


class ReuseForwarding:
    """Keys of what neighbours want. Options: `mode`, one of never, always and partial, and `n` for partial."""

    def __init__(self, setting: Setting) -> None:
        self.choose(setting.options.get("mode", "partial"), setting.options.get("n", USUAL_LIMIT))
        self._may_be_complete = setting.propagation in _COMPLETE_UNDER
        self._entry = Entry.of(setting, 0, {"forwarding": "reuse"})
        self._born: dict[tuple[int, Key], int] = {}  # the version at which a filter of a link came, in that order
        self._links: dict[int, _Link] = {}
        self._local: dict[int, dict[Key, None]] = {}  # the broker's own keys, by the short ones
        self._places: dict[int, dict[int, int]] = {}  # how often a short key came, by interface
        self.costs = Costs()

    def choose(self, mode: str, limit: int) -> None:
        """Work in another mode from now on; events under way keep their lists, which are as true as they were."""
        if mode not in ("never", "always", "partial"):
            raise InvalidArgument(f"reuse is never, always or partial, not {mode!r}")
        if type(limit) is not int or limit < 1:
            raise InvalidArgument(f"a list of keys has room for at least one, not {limit!r}")
        self._mode, self._limit = mode, limit

    def opened(self, interface: int) -> None:
        self._links.setdefault(interface, _Link())

    def closed(self, interface: int) -> None:
        for key in list(self._links[interface].numbers) if interface in self._links else ():
            self.removed(interface, key)
        self._links.pop(interface, None)

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        short = short_key(key)
        counts = self._places.setdefault(short, {})
        counts[interface] = counts.get(interface, 0) + 1
        if interface == LOCAL:
            self._local.setdefault(short, {})[key] = None
        else:
            link = self._links.setdefault(interface, _Link())
            link.numbers[key] = link.index.add(short, wanted)
            self._entry = replace(self._entry, version=self._entry.version + 1)
            self._born[interface, key] = self._entry.version

    def removed(self, interface: int, key: Key) -> None:
        short = short_key(key)
        if interface == LOCAL:
            del self._local[short][key]
            if not self._local[short]:
                del self._local[short]
        else:
            link = self._links[interface]
            link.index.remove(link.numbers.pop(key))
            del self._born[interface, key]
        counts = self._places[short]
        counts[interface] -= 1
        if not counts[interface]:
            del counts[interface]
        if not counts:
            del self._places[short]

    def announced(self, topic: str, version: int, data: bytes) -> None:
        pass

    def work(self) -> Job | None:
        jobs = (link.index.work() for link in self._links.values())
        return next((job for job in jobs if job is not None), None)

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        sends: list[_Sends] = [{} for _ in arrivals]
        own: list[tuple[Key, ...] | None] = [None] * len(arrivals)
        asked: dict[int, list[int]] = {interface: [] for interface in self._links}  # rows for which to look at content
        for row, arrival in enumerate(arrivals):
            header = self._understood(arrival)
            if header is not None:
                sends[row], own[row] = self._divide(header)
                sends[row].pop(arrival.interface, None)
                if header.complete:
                    continue
            for interface, rows in asked.items():
                if interface != arrival.interface and interface not in sends[row]:
                    rows.append(row)
        for interface, rows in asked.items():
            if rows and len(self._links[interface].index):
                self._look(interface, rows, arrivals, sends)
        return [_route(each, local) for each, local in zip(sends, own, strict=True)]

    def entry_table(self) -> EntryTable:
        """What this broker knows now, for a job that looks for keys in its stead."""
        known = list(self._born)
        keys = np.array([short_key(key) for _, key in known], np.uint64)
        return EntryTable(self._entry, [self._filter(*each) for each in known], ReuseWriter(self._entry, keys))

    def _filter(self, interface: int, key: Key) -> Filter:
        link = self._links[interface]
        return link.index[link.numbers[key]]

    def _understood(self, arrival: Arrival) -> ReuseHeader | None:
        """The list that an event came with: from a neighbour, or from a client that looked for keys for this broker."""
        if arrival.interface != LOCAL:
            header = arrival.header
            return header if isinstance(header, ReuseHeader) else None
        annotated = believed(arrival, self._entry)
        if annotated is None or not isinstance(annotated.inner, ReuseHeader):
            return None
        newer = self._since(annotated.entry.version)
        if newer is None:
            return None
        keys = dict.fromkeys(annotated.inner.keys)
        attributes = arrival.event.attributes if newer else {}
        keys |= {short_key(each[1]): None for each in newer if self._filter(*each).matches_attributes(attributes)}
        return ReuseHeader.of(keys, Known.SAID_TO_BE_ALL)

    def _since(self, version: int) -> list[tuple[int, Key]] | None:
        """The filters that are newer than a version; None where they are too many to ask one by one."""
        found: list[tuple[int, Key]] = []
        for place, born in reversed(self._born.items()):
            if born <= version:
                break
            if len(found) == MOST_NEWER:
                return None
            found.append(place)
        return found

    def _divide(self, header: ReuseHeader) -> tuple[_Sends, tuple[Key, ...] | None]:
        """The keys of a list by the links they came by; and the broker's own, where they are known to be all."""
        keys = header.keys
        self.costs.lookups += len(keys)
        divided: dict[int, list[int]] = {}
        own: list[Key] = []
        places = self._places
        for key in keys:
            for interface in places.get(key, ()):
                if interface in divided:
                    divided[interface].append(key)
                elif interface == LOCAL:
                    own += self._local[key]
                else:
                    divided[interface] = [key]
        known = header.known if self._may_be_complete else Known.SOME
        parts: _Sends = {
            interface: header if len(part) == len(keys) and known == header.known else ReuseHeader.of(part, known)
            for interface, part in divided.items()
        }
        return parts, tuple(own) if known is Known.ALL else None

    def _look(self, interface: int, rows: list[int], arrivals: Sequence[Arrival], sends: list[_Sends]) -> None:
        """Ask the index of one link about the content of some events."""
        self.costs.looks += len(rows)
        index = self._links[interface].index
        events = [arrivals[row].event for row in rows]
        if self._mode == "never":
            for row, wanted in zip(rows, index.find_any(events), strict=True):
                if wanted:
                    sends[row][interface] = None
            return
        everything = self._mode == "always"
        found = index.find_all(events) if everything else index.find_up_to(events, self._limit)
        for row, keys in zip(rows, found, strict=True):
            if keys:
                are_all = self._may_be_complete and (everything or len(keys) < self._limit)
                sends[row][interface] = ReuseHeader.of(keys, Known.ALL if are_all else Known.SOME)


def _route(sends: _Sends, local: tuple[Key, ...] | None) -> Route:
    """Links by header: those of one header are one sending."""
    if len(sends) < 2:
        return Route(tuple((header, (link,)) for link, header in sends.items()), local)
    by_header: dict[ReuseHeader | None, list[int]] = {}
    for interface in sorted(sends):
        by_header.setdefault(sends[interface], []).append(interface)
    return Route(tuple((header, tuple(links)) for header, links in by_header.items()), local)
