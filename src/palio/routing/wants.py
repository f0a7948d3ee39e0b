"""Which interfaces want an event? The distinct filters of all interfaces in one index, so that one look tells all."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.effects import Job
from palio.routing.forwarding.numbered import NumberedFilters
from palio.routing.messages import LOCAL, Key
from palio.routing.recurring import Remembered
from palio.routing.several import Several


class Wanted(NamedTuple):
    """Who wants an event: the links to neighbours, in order, and the keys of local clients, in none."""

    links: tuple[int, ...]
    local: tuple[Key, ...]


_NOBODY: Final = Wanted((), ())


class Wants:
    """Filters under keys, by interface; equal ones are looked for once."""

    def __init__(self) -> None:
        self._filters = NumberedFilters()
        self._number_of: dict[bytes, int] = {}  # by the digest of the filter
        # Who asked, by the number of the filter: the keys of local clients, and of each link.
        self._local = Several[int, Key]()
        self._links: dict[int, dict[int, dict[Key, None]]] = {}
        self._digests: dict[int, dict[Key, bytes]] = {}
        # The same for the filters that events match together, where some did: few such sets occur, and often.
        self._known = Remembered[bytes, Wanted]()

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        digest = wanted.digest
        self._digests.setdefault(interface, {})[key] = digest
        number = self._number_of.get(digest)
        if number is None:
            number = self._number_of[digest] = self._filters.add(wanted)
        self._known.clear()
        if interface == LOCAL:
            self._local.add(number, key)
        else:
            self._links.setdefault(number, {}).setdefault(interface, {})[key] = None

    def remove(self, interface: int, key: Key) -> None:
        digest = self._digests[interface].pop(key)
        number = self._number_of[digest]
        self._known.clear()
        if interface == LOCAL:
            self._local.remove(number, key)
        else:
            keys_of = self._links[number]
            del keys_of[interface][key]
            if not keys_of[interface]:
                del keys_of[interface]
            if not keys_of:
                del self._links[number]
        if number not in self._local and number not in self._links:
            del self._number_of[digest]
            self._filters.remove(number)

    def __len__(self) -> int:
        return len(self._number_of)

    def work(self) -> Job | None:
        """What is worth doing beside everything else."""
        return self._filters.work()

    def who(self, events: Sequence[Event]) -> list[Wanted]:
        """For each event who wants it."""
        found = self._filters.find_each(events)
        known = self._known.found.get
        return [(known(matched) or self._learn(matched)) if matched else _NOBODY for matched in found]

    def _learn(self, written: bytes) -> Wanted:
        """Who has any of some filters."""
        matched = array("i", written)
        links = {link for number in matched if number in self._links for link in self._links[number]}
        wanted = Wanted(tuple(sorted(links)), tuple(self._local.all_at(matched)))
        return self._known.put(written, wanted, len(matched))
