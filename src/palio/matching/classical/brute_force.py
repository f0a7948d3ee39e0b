"""The brute-force matcher, oracle of all others; and the base of matchers that find matches lazily.

`BruteForceMatcher` evaluates every filter on every event: slow, and too simple to be wrong.

`LazyMatcher` yields matches as it finds them, and so may stop at the first. Shen §3.4.3 measures both his indexes by
finding any match, and up to a number of them. How filters are filed and found is left to subclasses, here and in
`palio.covering.classical.posets`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from palio.errors import DuplicateSubscription, UnknownSubscription
from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.tree import Attributes
from palio.matching.subscription import Subscription


class LazyMatcher(ABC):
    """Subscriptions as filters by id. Not safe to use from several threads at once."""

    def add(self, id: str, where: Any, *, language: str = "sql") -> None:
        """Add a subscription; `DuplicateSubscription` where the id is known."""
        if id in self:
            raise DuplicateSubscription(id)
        self._file(id, Subscription(id, where, language).filter)

    def remove(self, id: str) -> None:
        """Take a subscription out; `UnknownSubscription` where the id is not known."""
        if id not in self:
            raise UnknownSubscription(id)
        self._unfile(id)

    def replace(self, id: str, where: Any, *, language: str = "sql") -> None:
        """Change the condition of a subscription; `UnknownSubscription` where the id is not known."""
        if id not in self:
            raise UnknownSubscription(id)
        filter = Subscription(id, where, language).filter
        self._unfile(id)
        self._file(id, filter)

    def match(self, event: Event | Mapping[str, Any] | str | bytes) -> set[str]:
        """The ids of all subscriptions that want an event."""
        return set(self._find(Event.read(event).attributes))

    def find_any(self, event: Event | Mapping[str, Any] | str | bytes) -> str | None:
        """The id of some subscription that wants an event; stops at the first."""
        return next(self._find(Event.read(event).attributes), None)

    def find_up_to(self, event: Event | Mapping[str, Any] | str | bytes, limit: int) -> set[str]:
        """The ids of at most `limit` subscriptions that want an event; stops when it has them."""
        return set(islice(self._find(Event.read(event).attributes), limit))

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, id: object) -> bool: ...

    @abstractmethod
    def _file(self, id: str, filter: Filter) -> None:
        """Insert a filter under a new id."""

    @abstractmethod
    def _unfile(self, id: str) -> None:
        """Delete the filter of a known id."""

    @abstractmethod
    def _find(self, attributes: Attributes) -> Iterator[str]:
        """The ids of the matches, none twice, as they are found."""


class BruteForceMatcher(LazyMatcher):
    """Evaluates every filter on every event; costs time in the number of subscriptions."""

    def __init__(self) -> None:
        self._filters: dict[str, Filter] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: object) -> bool:
        return id in self._filters

    def _file(self, id: str, filter: Filter) -> None:
        self._filters[id] = filter

    def _unfile(self, id: str) -> None:
        del self._filters[id]

    def _find(self, attributes: Attributes) -> Iterator[str]:
        return (id for id, filter in self._filters.items() if filter.matches_attributes(attributes))
