"""Administration of durable subscriptions: report, deletion and limits, of one's own or by an operator of anybody's.

A durable subscription is administrated at its home broker. A request for one that lives at another broker is answered
with a referral, as a request to subscribe is.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from palio.errors import PalioError
from palio.network.error_codes import error_of_refusal
from palio.network.security.authorization import Principal, check_operator
from palio.network.server.consumer_groups import ConsumerGroup, consumers_of
from palio.network.server.durable_consumers import DURABLE_CLIENT_PREFIX, DurableConsumer, durable_client, owner_of
from palio.network.server.durable_subscriptions import check_settings, durable_filter, end_durable
from palio.network.server.host import DurableEntry
from palio.routing.client_messages import Answer, Refused, SubscribeClient
from palio.routing.durable_settings import DEFAULT_DURABLE_SETTINGS, DurableSettings

if TYPE_CHECKING:
    from palio.network.server.pending_requests import OnAnswer
    from palio.network.server.process import Server
    from palio.network.server.session import Session
    from palio.network.store.interface import Store

_PAGE_ENTRIES: Final = 500


def check_owner(principal: Principal, owner: str) -> Principal:
    """The owner of a durable subscription that a principal administrates; NotPermitted where it may not."""
    if owner in ("", principal.name):
        return principal
    check_operator(principal, "administrate the durable subscriptions of others")
    return Principal(owner)


async def report_page(server: Server, principal: Principal, after: str) -> dict[str, Any]:
    """A page of the durable subscriptions that this broker holds: of one principal, or for an operator of all. `next`
    is where the next page begins, and empty at the end."""
    prefix = DURABLE_CLIENT_PREFIX if principal.role == "admin" else f"{DURABLE_CLIENT_PREFIX}{principal.name}/"
    entries = server.host.durable_page(prefix, after, _PAGE_ENTRIES)
    durables = await _report(server, entries)
    following = entries[-1].client if len(entries) == _PAGE_ENTRIES else ""
    return {**_place(server), "durables": durables, "next": following, "other_homes": server.host.other_homes()}


async def report_one(server: Server, owner: Principal, name: str) -> dict[str, Any]:
    """One durable subscription; `UnknownSubscription` where this broker does not hold it."""
    return {**_place(server), "durables": await _report(server, [_entry(server, owner, name)])}


def _entry(server: Server, owner: Principal, name: str) -> DurableEntry:
    client = durable_client(owner, name)
    return DurableEntry(client, name, durable_filter(server.host, owner, name))


def _place(server: Server) -> dict[str, Any]:
    return {"broker": server.node, "address": server.public_address}


async def _report(server: Server, entries: list[DurableEntry]) -> list[dict[str, Any]]:
    """Reports of some durable subscriptions. What is on disk is read in another thread: it may be much."""
    described = [_describe_durable(server, entry) for entry in entries]
    stored = await server.host.run_off_loop(lambda: _read_queues(server.store, entries, server.clock()))
    return [{**each, **queue} for each, queue in zip(described, stored, strict=True)]


def _describe_durable(server: Server, entry: DurableEntry) -> dict[str, Any]:
    client, name = entry.client, entry.name
    group = server.host.clients.get(client)
    return {
        "name": name,
        "owner": owner_of(client, name),
        "home": server.node,
        "is_group": isinstance(group, ConsumerGroup),
        "key": group.key if isinstance(group, ConsumerGroup) else "",
        "consumers": [_describe(each) for each in consumers_of(server.host, client)],
        "standby": server.host.standby_status(client, name),
        "limits": asdict(server.host.durable_settings(client, name) or DEFAULT_DURABLE_SETTINGS),
    }


def _read_queues(store: Store, entries: list[DurableEntry], now: float) -> list[dict[str, Any]]:
    letters = store.dead_letters.counts()
    return [_read_queue(store, entry, now, letters[entry.client, entry.name]) for entry in entries]


def _read_queue(store: Store, entry: DurableEntry, now: float, letters: int) -> dict[str, Any]:
    queue = store.queue(entry.client, entry.name)
    waiting, oldest = queue.size(), queue.oldest()
    first = [number for number, _ in queue.read(0, 1)]
    return {
        "where": str(entry.filter),
        "queued": waiting.events,
        "bytes": waiting.bytes,
        "dropped": waiting.dropped,
        "oldest_seconds": None if oldest is None else max(0.0, now - oldest),
        # Those of the event that waits longest show a consumer that does not get past it.
        "oldest_failures": sum(queue.failures(first).values()),
        "dead_letters": letters,
    }


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


def limit(
    server: Server, asking: Principal, owner: Principal, name: str, settings: DurableSettings, on_answer: OnAnswer
) -> None:
    """Change the settings of a durable subscription; answered when they are on disk and in force."""
    check_settings(asking, settings, server.store.retention)
    client, _, wanted = _entry(server, owner, name)

    def on_written(answer: Answer) -> None:
        error: PalioError | None = None
        if isinstance(answer, Refused):
            error = error_of_refusal(answer.kind, answer.reason)
        else:
            server.expiry.begin(client, name)
        on_answer(error)

    request = SubscribeClient(name, wanted, "edge", True, settings=settings)
    server.host.request_answered(client, request, on_written)
