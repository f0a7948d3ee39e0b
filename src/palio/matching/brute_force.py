"""The oracle: ask every subscription about every event. Slow, and too simple to be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palio.errors import DuplicateSubscription, UnknownSubscription
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.subscription import Subscription


class BruteForceMatcher:
    """Every filter is asked about every event; costs time in the number of subscriptions."""

    def __init__(self) -> None:
        self._filters: dict[str, Filter] = {}

    def add(self, id: str, where: Any, *, language: str = "sql") -> None:
        if id in self._filters:
            raise DuplicateSubscription(id)
        self._filters[id] = Subscription(id, where, language).filter

    def remove(self, id: str) -> None:
        if self._filters.pop(id, None) is None:
            raise UnknownSubscription(id)

    def replace(self, id: str, where: Any, *, language: str = "sql") -> None:
        if id not in self._filters:
            raise UnknownSubscription(id)
        self._filters[id] = Subscription(id, where, language).filter

    def match(self, event: Event | Mapping[str, Any] | str | bytes) -> set[str]:
        read = Event.read(event)
        return {id for id, each in self._filters.items() if each.matches(read)}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: object) -> bool:
        return id in self._filters
