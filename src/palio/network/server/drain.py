"""Drain: an orderly end, in which clients get what waits for them and go to another broker.

New clients are refused from the start, and connected ones leave one by one: a publisher once its events are confirmed,
a subscriber once nothing waits for it, acknowledgements included. A subscriber whose events never cease would never be
done, so that all of it has a time limit. Links stay until the end: they carry what is under way. Confirmed events for
durable subscriptions that are away stay on disk, and are not waited for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from palio.errors import ConnectionFailed, PalioError, Refused

if TYPE_CHECKING:
    from palio.network.server.process import Server
    from palio.network.server.session import Session

DRAINING: Final = "draining, and takes no new clients; connect to another broker"
MAX_DRAIN_SECONDS: Final = 86_400.0
_POLL_SECONDS: Final = 0.05


def refuse_new_client() -> ConnectionFailed:
    """The reason for a client that comes while the broker drains; it goes to its next address."""
    return ConnectionFailed("the broker", DRAINING)


class Drain:
    """The drain of one broker, on behalf of an operator's session, which leaves last."""

    def __init__(self, server: Server, operator: Session, seconds: float) -> None:
        self._server = server
        self._operator = operator
        self._deadline = server.loop.time() + seconds

    async def run(self) -> PalioError | None:
        """Hand out and wait, up to the limit; the reason where something is left."""
        while not self._is_done() and self._server.loop.time() < self._deadline:
            await asyncio.sleep(_POLL_SECONDS)
        left = self.status()
        if not left["clients"]:
            return None
        return Refused(f"{left['clients']} clients and {left['events']} events for them were left at the time limit")

    def status(self) -> dict[str, Any]:
        """Clients that are still connected, events that wait for them in memory and on disk, and the time left."""
        clients = self._clients()
        return {
            "clients": len(clients),
            "events": sum(queue.queued for session in clients for queue in session.delivery.queues()),
            "links": self._waiting_for_links(),
            "seconds_left": max(0.0, self._deadline - self._server.loop.time()),
        }

    def _is_done(self) -> bool:
        """End the sessions that have all that is theirs; whether none is left, and nothing waits for a link."""
        for session in self._clients():
            if not session.publications.pending and not any(queue.queued for queue in session.delivery.queues()):
                session.end(DRAINING)
        return not self._clients() and not self._waiting_for_links()

    def _clients(self) -> list[Session]:
        return [each for each in self._server.sessions if each is not self._operator and each.failure is None]

    def _waiting_for_links(self) -> int:
        return sum(each["queued"] for each in self._server.neighbours.describe() if each["up"])
