"""How does a browser say who it is where it cannot set a header? By a ticket, good once and for seconds.

`EventSource` takes a URL and nothing else, and URLs end up in logs and histories; so no token may ever be part of one.
Whoever has a token gets a ticket for it, and a ticket that was read in a log is used up or too old.
"""

from __future__ import annotations

import secrets
from typing import Final

from palio.errors import AuthenticationFailed, LimitReached

SECONDS: Final = 30.0
_MOST: Final = 10_000


class Tickets:
    """Tickets that were given and not yet used. Times are of a clock that never jumps."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: dict[str, tuple[str, float]] = {}

    def give(self, name: str, now: float) -> str:
        """A ticket for a principal; LimitReached where too many are out."""
        while self._given and self._given[oldest := next(iter(self._given))][1] <= now:
            del self._given[oldest]
        if len(self._given) >= _MOST:
            raise LimitReached("tickets", _MOST, "too many tickets are not used yet")
        ticket = secrets.token_urlsafe(24)
        self._given[ticket] = (name, now + SECONDS)
        return ticket

    def take(self, ticket: str, now: float) -> str:
        """Whose ticket it is, once; AuthenticationFailed for all others."""
        name, ends = self._given.pop(ticket, ("", 0.0))
        if now >= ends:
            raise AuthenticationFailed("the ticket was used, or is too old")
        return name
