"""Status report of a broker, as plain values from which tables, JSON and metrics are made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from palio import __version__
from palio.network.server.delivery_queues import DeliveryQueue
from palio.network.server.durable_subscriptions import DurableStatus, durable_statuses
from palio.network.server.process_metrics import describe_disk, describe_log, describe_process

if TYPE_CHECKING:
    from palio.network.server.process import Server
    from palio.network.server.session import Session

_MAX_SLOWEST: Final = 50


def status_of(server: Server) -> dict[str, Any]:
    """The whole report; costs time in the number of clients and durable subscriptions."""
    host = server.host
    durable = list(durable_statuses(host, server.store))
    queues = [
        each for session in server.sessions for each in session.delivery.queues() if isinstance(each, DeliveryQueue)
    ]
    return {
        "version": __version__,
        "node": server.node,
        "incarnation": server.incarnation,
        "uptime": time.monotonic() - server.started_at,
        "addresses": [str(address) for address in server.addresses],
        "safety": server.settings.safety if server.settings.data else "memory",
        "network": {
            "propagation": server.settings.propagation,
            "forwarding": server.settings.forwarding,
            "advertisements": server.settings.advertisements,
            "tables": server.settings.tables,
            "crash_log": server.settings.crash_log,
            "paths": server.settings.paths,
        },
        "neighbours": server.neighbours.describe(),
        "clients": [
            _describe_client(server, session) for session in sorted(server.sessions, key=lambda each: each.client)
        ],
        "durable": [_describe_durable(each, server.clock()) for each in durable],
        "subscriptions": sum(len(each.numbers) for each in queues) + len(durable),
        "queued": sum(each.queued for each in queues) + sum(each.waiting.events for each in durable),
        "dead_letters": server.store.dead_letters.size().events,
        "is_blocked": host.backpressure.is_blocked,
        "blocked_by": [_describe_blocking(session, queue) for session, queue in _blocking(server)],
        "confirm_latency": server.confirm_latency.describe(),
        "away_seconds": server.away.update(host.delivery_status()["away"]),
        "disk": describe_disk(server.settings.data, server.settings.keeping.disk_bytes),
        "log": describe_log(server.store.log, server.clock()),
        "process": describe_process(server.loop_lag.longest),
        "draining": None if server.drain is None else server.drain.status(),
        **host.delivery_status(),
        **host.routing_status(),
        "rates": server.rates,
        "counts": dict(host.counts),
        "drops": dict(host.drops),
        "slowest": host.conditions.costs.describe_slowest(_MAX_SLOWEST),
        "matching_seconds": host.conditions.costs.total_seconds,
        "put_aside": host.conditions.put_aside.describe(),
        "refusals": dict(server.refusals.counts),
        "failed_handshakes": dict(server.acceptor.failures),
        "arrivals": dict(server.arrivals),
    }


def _blocking(server: Server) -> Iterator[tuple[Session, DeliveryQueue]]:
    """The full queues that hold confirmed publishers back."""
    if not server.host.backpressure.is_blocked:
        return
    for session in server.sessions:
        for queue in session.delivery.queues():
            if isinstance(queue, DeliveryQueue) and server.host.backpressure.is_blocked_by(queue):
                yield session, queue


def _describe_blocking(session: Session, queue: DeliveryQueue) -> dict[str, Any]:
    return {"principal": session.principal.name, "subscription": queue.name, "queued": queue.queued}


def _describe_durable(durable: DurableStatus, now: float) -> dict[str, Any]:
    return {
        "name": durable.name,
        "principal": durable.principal,
        "connected": durable.is_connected,
        "queued": durable.waiting.events,
        "bytes": durable.waiting.bytes,
        "dropped": durable.waiting.dropped,
        "lag": 0.0 if durable.since is None else max(0.0, now - durable.since),
    }


def _describe_client(server: Server, session: Session) -> dict[str, Any]:
    return {
        "client": session.client,
        "app": session.app,
        "principal": session.principal.name,
        "address": session.peer,
        "published": session.publications.count,
        "subscriptions": [
            {"name": queue.name, "queued": queue.queued, "taken": queue.taken, "dropped": queue.dropped}
            for queue in session.delivery.queues()
        ],
    }
