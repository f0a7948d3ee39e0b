"""What every matcher can do, so that one suite of tests runs against all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from palio.events import Event


class MatcherProtocol(Protocol):
    """Holds subscriptions; tells which of them want an event."""

    def add(self, id: str, where: Any, *, language: str = "sql") -> None:
        """Add a subscription; `DuplicateSubscription` where the id is known."""

    def remove(self, id: str) -> None:
        """Take a subscription out; `UnknownSubscription` where the id is not known."""

    def replace(self, id: str, where: Any, *, language: str = "sql") -> None:
        """Change the condition of a subscription; `UnknownSubscription` where the id is not known."""

    def match(self, event: Event | Mapping[str, Any] | str | bytes) -> set[str]:
        """The ids of all subscriptions that want an event."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, id: object) -> bool: ...
