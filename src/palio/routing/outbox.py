"""May an event be sent on a link now? A neighbour grants credit; what exceeds it waits, up to a bound.

Control messages never ask: a neighbour must take them, or nothing it says would be true. Kept events have no bound of
their own here: whoever let them in bounds how many are under way (`keeping.log`).
"""

from __future__ import annotations

from collections import deque

from palio.routing.effects import Drop, Effect, Send
from palio.routing.messages import Publish


class Outbox:
    """Credit and waiting events of each link."""

    __slots__ = ("_bound", "_credit", "_waiting")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._credit: dict[int, int] = {}
        self._waiting: dict[int, deque[Publish]] = {}

    def opened(self, link: int, credit: int) -> None:
        self._credit[link] = credit

    def closed(self, link: int) -> list[Effect]:
        self._credit.pop(link, None)
        return [Drop("link down", message) for message in self._waiting.pop(link, ())]

    def send(self, links: tuple[int, ...], message: Publish, effects: list[Effect]) -> None:
        """To those that take it now; for the others it waits, or is dropped where too much waits already."""
        now: list[int] = []
        for link in links:
            credit = self._credit.get(link, 0)
            if credit > 0:
                self._credit[link] = credit - 1
                now.append(link)
            elif message.kept is not None or len(self._waiting.get(link, ())) < self._bound:
                self._waiting.setdefault(link, deque()).append(message)
            else:
                effects.append(Drop("queue full", message))
        if now:
            effects.append(Send(links if len(now) == len(links) else tuple(now), message))

    def granted(self, link: int, events: int) -> list[Effect]:
        if link not in self._credit:
            return []
        self._credit[link] += events
        waiting = self._waiting.get(link)
        effects: list[Effect] = []
        while waiting and self._credit[link] > 0:
            self._credit[link] -= 1
            effects.append(Send((link,), waiting.popleft()))
        if not waiting:
            self._waiting.pop(link, None)
        return effects
