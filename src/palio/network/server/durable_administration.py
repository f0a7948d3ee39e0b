"""Administration of durable subscriptions: report, deletion and limits, of one's own or by an operator of anybody's.

A durable subscription is administrated at its home broker. A request for one that lives at another broker is answered
with a referral, as a request to subscribe is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from palio.errors import PalioError, UnknownSubscription
from palio.network.error_codes import error_of_refusal
from palio.network.security.authorization import Principal, check_operator
from palio.network.server.consumer_groups import ConsumerGroup, consumers_of
from palio.network.server.durable_consumers import DURABLE_CLIENT_PREFIX, DurableConsumer, durable_client, owner_of
from palio.network.server.durable_subscriptions import end_durable
from palio.routing.durable_settings import DEFAULT_DURABLE_SETTINGS, DurableSettings
from palio.routing.messages import Answer, Refused, SubscribeClient

if TYPE_CHECKING:
    from palio.network.server.host import DurableEntry
    from palio.network.server.pending_requests import OnAnswer
    from palio.network.server.process import Server
    from palio.network.server.session import Session


def check_owner(principal: Principal, owner: str) -> Principal:
    """The owner of a durable subscription that a principal administrates; NotPermitted where it may not."""
    if owner in ("", principal.name):
        return principal
    check_operator(principal, "administrate the durable subscriptions of others")
    return Principal(owner)


def report_all(server: Server, principal: Principal) -> dict[str, Any]:
    """The durable subscriptions that this broker holds: of one principal, or for an operator of all."""
    prefix = DURABLE_CLIENT_PREFIX if principal.role == "admin" else f"{DURABLE_CLIENT_PREFIX}{principal.name}/"
    durables = [_report(server, entry) for entry in server.host.subscriptions_of_clients(prefix)]
    return {**_place(server), "durables": durables, "other_homes": server.host.other_homes()}


def report_one(server: Server, owner: Principal, name: str) -> dict[str, Any]:
    """One durable subscription; `UnknownSubscription` where this broker does not hold it."""
    client = durable_client(owner, name)
    for entry in server.host.subscriptions_of_clients(client):
        if (entry.client, entry.name) == (client, name):
            return {**_place(server), "durables": [_report(server, entry)]}
    raise UnknownSubscription(name)


def _place(server: Server) -> dict[str, Any]:
    return {"broker": server.node, "address": server.public_address}


def _report(server: Server, entry: DurableEntry) -> dict[str, Any]:
    client, name = entry.client, entry.name
    queue = server.store.queue(client, name)
    waiting, oldest = queue.size(), queue.oldest()
    consumers = consumers_of(server.host, client)
    group = server.host.clients.get(client)
    return {
        "name": name,
        "owner": owner_of(client, name),
        "home": server.node,
        "where": str(entry.filter),
        "queued": waiting.events,
        "bytes": waiting.bytes,
        "dropped": waiting.dropped,
        "oldest_seconds": None if oldest is None else max(0.0, server.clock() - oldest),
        "oldest_failures": _oldest_failures(queue.read(0, 1), queue.failures),
        "is_group": isinstance(group, ConsumerGroup),
        "key": group.key if isinstance(group, ConsumerGroup) else "",
        "consumers": [_describe(each) for each in consumers],
        "dead_letters": server.store.dead_letters.count(client, name),
        "limits": asdict(server.host.durable_settings(client, name) or DEFAULT_DURABLE_SETTINGS),
    }


def _oldest_failures(first: list[tuple[int, Any]], failures: Callable[[list[int]], dict[int, int]]) -> int:
    """The failed deliveries of the event that waits longest: they show a consumer that does not get past it."""
    return sum(failures([number for number, _ in first]).values())


def _describe(consumer: DurableConsumer) -> dict[str, Any]:
    session = consumer.session
    return {
        "principal": session.principal.name,
        "address": session.peer,
        "app": session.app,
        "since": consumer.since,
        "delivered": consumer.taken,
        "in_flight": consumer.in_flight,
    }


def delete(server: Server, session: Session, owner: Principal, name: str) -> None:
    """End a durable subscription, with all that waits; its consumers are told."""
    reason = f"{name!r} was deleted by {session.principal.name}"
    end_durable(server.host, owner, name, reason)


def limit(server: Server, owner: Principal, name: str, settings: DurableSettings, on_answer: OnAnswer) -> None:
    """Change the settings of a durable subscription; answered when they are on disk and in force."""
    client = durable_client(owner, name)
    for entry in server.host.subscriptions_of_clients(client):
        if (entry.client, entry.name) == (client, name):
            break
    else:
        raise UnknownSubscription(name)

    def on_written(answer: Answer) -> None:
        error: PalioError | None = None
        if isinstance(answer, Refused):
            error = error_of_refusal(answer.kind, answer.reason)
        else:
            server.expiry.begin(client, name)
        on_answer(error)

    request = SubscribeClient(name, entry.filter, "edge", True, settings=settings)
    server.host.request_answered(client, request, on_written)
