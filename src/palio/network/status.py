"""How is a broker? Plain values that any form can be made of: a table, JSON, metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from palio import __version__

if TYPE_CHECKING:
    from palio.network.server import Server
    from palio.network.sessions import Session


def status_of(server: Server) -> dict[str, Any]:
    host = server.host
    return {
        "version": __version__,
        "node": server.node,
        "incarnation": server.incarnation,
        "uptime": time.monotonic() - server.since,
        "addresses": [str(address) for address in server.addresses],
        "network": {
            "propagation": server.settings.propagation,
            "forwarding": server.settings.forwarding,
            "advertisements": server.settings.advertisements,
        },
        "neighbours": server.neighbours.describe(),
        "clients": [_client(server, session) for session in sorted(server.sessions, key=lambda each: each.client)],
        "subscriptions": sum(len(session.outlets) for session in server.sessions),
        "queued": sum(outlet.queued for session in server.sessions for outlet in session.outlets.values()),
        "is_blocked": host.is_blocked,
        "unfinished": host.node.broker.keeping.unfinished,
        "away": host.node.broker.keeping.missing,
        "inversions": host.node.broker.keeping.queues.inversions,
        "rates": server.rates,
        "counts": dict(host.counts),
        "drops": dict(host.drops),
    }


def _client(server: Server, session: Session) -> dict[str, Any]:
    return {
        "client": session.client,
        "app": session.app,
        "principal": session.principal.name,
        "address": server.names.get(session, ""),
        "published": session.published,
        "subscriptions": [
            {"name": outlet.name, "queued": outlet.queued, "taken": outlet.taken, "dropped": outlet.dropped}
            for outlet in session.outlets.values()
        ],
    }
