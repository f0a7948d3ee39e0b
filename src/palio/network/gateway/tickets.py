"""How does a browser say who it is where it cannot set a header? By a ticket, good once and for seconds.

`EventSource` takes a URL and nothing else, and URLs end up in logs and histories; so no token may ever be part of one.
Whoever has a token gets a ticket for it, and a ticket that was read in a log is used up or too old.
"""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Final

from palio.errors import AuthenticationFailed, LimitReached

SECONDS: Final = 30.0
_MOST: Final = 1_000  # of one principal


class Tickets:
    """Tickets that were given and not yet used. Times are of a clock that never jumps."""

    __slots__ = ("_given", "_of")

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self._given: dict[str, tuple[str, float]] = {}

    def give(self, name: str, now: float) -> str:
        """A ticket for a principal; LimitReached where too many are out."""
        while self._given and self._given[oldest := next(iter(self._given))][1] <= now:
            self._forget(oldest)
        if self._of[name] >= _MOST:
            raise LimitReached("tickets", _MOST, f"too many tickets of {name} are not used yet")
        ticket = secrets.token_urlsafe(24)
        self._of[name] += 1
        self._given[ticket] = (name, now + SECONDS)
        return ticket

    def take(self, ticket: str, now: float) -> str:
        """Whose ticket it is, once; AuthenticationFailed for all others."""
        name, ends = self._forget(ticket)
        if now >= ends:
            raise AuthenticationFailed("the ticket was used, or is too old")
        return name

    def _forget(self, ticket: str) -> tuple[str, float]:
        """Whose ticket it was, and until when; nobody's where there is none."""
        name, ends = self._given.pop(ticket, ("", 0.0))
        self._of[name] -= 1
        if self._of[name] <= 0:
            del self._of[name]
        return name, ends
