"""How is a broker? Plain values that any form can be made of: a table, JSON, metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from palio import __version__
from palio.network.durable import Durable, durables
from palio.network.outlets import Outlet

if TYPE_CHECKING:
    from palio.network.server import Server
    from palio.network.sessions import Session


def status_of(server: Server) -> dict[str, Any]:
    host = server.host
    lasting = list(durables(host, server.store))
    passing = [each for session in server.sessions for each in session.handing.each() if isinstance(each, Outlet)]
    return {
        "version": __version__,
        "node": server.node,
        "incarnation": server.incarnation,
        "uptime": time.monotonic() - server.since,
        "addresses": [str(address) for address in server.addresses],
        "safety": server.settings.safety if server.settings.data else "memory",
        "network": {
            "propagation": server.settings.propagation,
            "forwarding": server.settings.forwarding,
            "advertisements": server.settings.advertisements,
        },
        "neighbours": server.neighbours.describe(),
        "clients": [_client(server, session) for session in sorted(server.sessions, key=lambda each: each.client)],
        "durable": [_durable(each, server.clock()) for each in lasting],
        "subscriptions": sum(len(each.numbers) for each in passing) + len(lasting),
        "queued": sum(each.queued for each in passing) + sum(each.waiting.events for each in lasting),
        "dead_letters": server.store.dead_letters.size().events,
        "is_blocked": host.is_blocked,
        "unfinished": host.node.broker.keeping.unfinished,
        "away": host.node.broker.keeping.missing,
        "not_writing": host.node.broker.keeping.not_writing,
        "inversions": host.node.broker.keeping.queues.inversions,
        "rates": server.rates,
        "counts": dict(host.counts),
        "drops": dict(host.drops),
        "refusals": dict(server.refusals.counts),
        "failed_handshakes": dict(server.handshakes.failures),
        "arrivals": dict(server.arrivals),
    }


def _durable(durable: Durable, now: float) -> dict[str, Any]:
    return {
        "name": durable.name,
        "principal": durable.principal,
        "connected": durable.is_connected,
        "queued": durable.waiting.events,
        "bytes": durable.waiting.bytes,
        "dropped": durable.waiting.dropped,
        "lag": 0.0 if durable.since is None else max(0.0, now - durable.since),
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
            for outlet in session.handing.each()
        ],
    }
