"""Durable subscriptions of a broker, with or without a connected client: request, end, quota, grants and status.

A durable subscription belongs to a principal and a name, not to a connection. The broker knows it as a client of its
own (`durable_client`); a session that subscribes is a consumer of its queue (`durable_consumers`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from palio.errors import LimitReached, NotPermitted, PalioError, Refused, UnknownSubscription
from palio.filters.filter import Filter
from palio.network.security.authorization import Principal, effective_filter
from palio.network.server.consumer_groups import ConsumerGroup, consumers_of
from palio.network.server.delivery_queues import GroupOptions, SubscribeOptions
from palio.network.server.durable_consumers import DURABLE_CLIENT_PREFIX, ExclusiveConsumer, durable_client, owner_of
from palio.network.server.pending_requests import OnAnswer, answer_future
from palio.network.store.interface import Acknowledged, Retention, Size, queue_bounds
from palio.routing.client_messages import Confirm, SubscribeClient, UnsubscribeClient
from palio.routing.durable_settings import DurableSettings

if TYPE_CHECKING:
    from palio.network.security.quotas import BrokerLimits, Quotas
    from palio.network.server.host import Host
    from palio.network.server.session import Session
    from palio.network.store.interface import Store

_MAX_READ_EVENTS: Final = 1_024
_HANDOVER_SECONDS: Final = 1.0  # within which the end of an earlier stream is noticed


class DurableStatus(NamedTuple):
    """A durable subscription whose home is this broker."""

    principal: str
    name: str
    is_connected: bool
    waiting: Size
    since: float | None  # when the oldest waiting event was queued


def durable_statuses(host: Host, store: Store) -> Iterator[DurableStatus]:
    """All durable subscriptions of this broker, with or without a connected client."""
    for client, name, _ in host.subscriptions_of_clients(DURABLE_CLIENT_PREFIX):
        queue = store.queue(client, name)
        yield DurableStatus(owner_of(client, name), name, client in host.clients, queue.size(), queue.oldest())


def check_subscription_quota(host: Host, principal: Principal, quotas: Quotas, name: str, durable: bool) -> None:
    """`LimitReached` where a principal may have no further subscription; durable ones without a client count too."""
    quota = quotas.subscriptions
    most = quota.most_each
    # Even if all durable subscriptions of the broker were this principal's: the usual case, without counting.
    if quota.used_by(principal.name) + host.durable_count < most:
        return
    owned = (each for client, each in host.durable_keys() if client == durable_client(principal, each))
    away = {each for each in owned if durable_client(principal, each) not in host.clients}
    if durable:
        away.discard(name)
    if quota.used_by(principal.name) + len(away) >= most:
        reason = f"{principal.name} has enough subscriptions"
        reason += f", {len(away):,} of them durable and away" if away else ""
        raise LimitReached("subscriptions_per_principal", most, reason)


def check_settings(
    principal: Principal, settings: DurableSettings | None, retention: Retention, has_standby: bool = False
) -> None:
    """`NotPermitted` for what holds the publishers of its events back, as overflow `block` does, without the grant: a
    queue that refuses events where the broker's own would still take them, and a standby without which none is
    confirmed."""
    if principal.may_block:
        return
    if has_standby and (settings is None or settings.standby_away != "degrade"):
        raise NotPermitted(
            principal.name,
            "hold publishers back",
            "while a standby is away no event for the subscription is confirmed, which needs the grant may_block; or "
            "let standby_away be degrade",
        )
    asked, usual = queue_bounds(settings, retention), queue_bounds(None, retention)
    if asked.on_full != "refuse":
        return
    if usual.on_full != "refuse" or asked.events < usual.events or asked.bytes < usual.bytes:
        raise NotPermitted(
            principal.name,
            "hold publishers back",
            "a durable queue with less room than the broker's, or another policy, that refuses events needs the grant "
            "may_block; or let it drop_oldest, drop_newest or dead_letter",
        )


def end_durable(host: Host, principal: Principal, name: str, reason: str) -> None:
    """End a durable subscription, and tell its consumers; `UnknownSubscription` where this broker holds none of that
    name."""
    _check_known(host, principal, name)
    forget_durable(host, principal, name)
    withdraw_consumers(host, durable_client(principal, name), name, reason)


def withdraw_consumers(host: Host, client: str, name: str, reason: str) -> None:
    """End a durable subscription in all sessions that read it."""
    for consumer in consumers_of(host, client):
        consumer.session.withdraw(name, Refused(reason))


def durable_filter(host: Host, principal: Principal, name: str) -> Filter:
    """The condition of a durable subscription; `UnknownSubscription` where this broker holds none of that name."""
    _check_known(host, principal, name)
    client = durable_client(principal, name)
    return next(each.filter for each in host.subscriptions_of_clients(client) if each.client == client)


def group_condition(host: Host, principal: Principal, name: str) -> Filter:
    """The condition with which a session joins the consumer group of a durable subscription as it stands."""
    present = host.clients.get(durable_client(principal, name))
    return present.wanted if isinstance(present, ConsumerGroup) else durable_filter(host, principal, name)


def _check_known(host: Host, principal: Principal, name: str) -> None:
    if not host.is_durable(durable_client(principal, name), name):
        raise UnknownSubscription(name)


def forget_durable(host: Host, principal: Principal, name: str) -> None:
    """End a durable subscription if there is one, with all events that wait for it."""
    host.request(durable_client(principal, name), UnsubscribeClient(name))


def acknowledge_through(host: Host, store: Store, principal: Principal, name: str, last: int) -> None:
    """Acknowledge all events of a durable subscription up to a number."""
    _check_known(host, principal, name)
    client = durable_client(principal, name)
    if isinstance(host.clients.get(client), ConsumerGroup):
        raise Refused(f"the events of the group {name!r} are acknowledged one by one: other members hold some of them")
    queue, after = store.queue(client, name), 0
    # By position: acknowledged events stay in the queue until the store has written that, and would be read again.
    while done := tuple(number for number, _ in queue.read(after, _MAX_READ_EVENTS) if number <= last):
        host.acknowledge(Acknowledged(client, name, done))
        after = done[-1]
    end = host.clients.get(client)
    if isinstance(end, ExclusiveConsumer):
        end.skip_through(last)


def acknowledge_one(host: Host, principal: Principal, name: str, number: int) -> None:
    """Acknowledge one event of a durable subscription, whichever consumer holds it."""
    _check_known(host, principal, name)
    client = durable_client(principal, name)
    end = host.clients.get(client)
    if isinstance(end, ConsumerGroup):
        end.acknowledge_for_holders((number,))
    elif isinstance(end, ExclusiveConsumer):
        end.ack((number,))
    else:
        host.acknowledge(Acknowledged(client, name, (number,)))


def is_subscribed(host: Host, principal: Principal, name: str, wanted: Filter, limits: BrokerLimits) -> bool:
    """Whether this broker holds a durable subscription with this condition already."""
    if not host.is_durable(durable_client(principal, name), name):
        return False
    return durable_filter(host, principal, name) == effective_filter(wanted, principal, limits)


async def until_free(host: Host, session: Session, name: str, *, is_continued: bool = False) -> None:
    """Wait a moment for an earlier HTTP stream to end; whoever subscribes while it does not gets `DurableInUse`.

    The end of a stream is noticed by another task than the one that serves the next request. A stream that
    `is_continued` names the last event that it has got: it goes on where an earlier one was broken, and takes over.
    """
    client = durable_client(session.principal, name)
    end = host.clients.get(client)
    if isinstance(end, ExclusiveConsumer) and is_continued and end.session.app == session.app:
        end.session.end(f"the durable subscription {name!r} goes on in another stream")
        end.close()
        return
    deadline = time.monotonic() + _HANDOVER_SECONDS
    while isinstance(end, ExclusiveConsumer) and not end.is_of(session) and time.monotonic() < deadline:
        await asyncio.sleep(_HANDOVER_SECONDS / 50)
        end = host.clients.get(client)


def revise_durable(host: Host, name: str, principal: Principal | None) -> None:
    """Apply the changed grants of a principal, or its removal, to its durable subscriptions.

    The filter can only shrink here: it is what the last grant left of the request. A grant that grew takes effect when
    the client subscribes again. One that was put aside matches nothing, and keeps its queue.
    """
    for client, subscription, before in list(host.subscriptions_of_clients(f"{DURABLE_CLIENT_PREFIX}{name}/")):
        if host.is_standby(client, subscription):
            continue  # its home decides, and sends the condition here
        granted = Filter.nothing if principal is None else before & principal.may_subscribe
        if granted == Filter.nothing and (principal is None or before != Filter.nothing):
            host.request(client, UnsubscribeClient(subscription))
        elif granted != before:
            host.request(client, SubscribeClient(subscription, granted, "no", True))


def request_durable(
    session: Session,
    name: str,
    wanted: Filter,
    on_answer: OnAnswer,
    *,
    confirm: Confirm = "edge",
    credit: int | None = None,
    settings: DurableSettings | None = None,
    group: GroupOptions | None = None,
    standby: str = "",
) -> None:
    """Subscribe durably once the claim is granted; `LivesElsewhere` where another broker is the home."""

    def on_claimed(error: PalioError | None) -> None:
        try:
            if error is not None:
                raise error
            options = SubscribeOptions(
                durable=True, confirm=confirm, credit=credit, settings=settings, group=group, standby=standby
            )
            session.request_subscription(name, wanted, on_answer, options)
        except PalioError as reason:
            on_answer(reason)

    session.durable_claims.claim(durable_client(session.principal, name), name, on_claimed)


async def subscribe_durable(
    session: Session,
    name: str,
    wanted: Filter,
    group: GroupOptions | None = None,
    credit: int | None = None,
    settings: DurableSettings | None = None,
    standby: str = "",
) -> None:
    """Subscribe durably, and wait for the confirmation."""
    done, on_answer = answer_future()
    request_durable(session, name, wanted, on_answer, group=group, credit=credit, settings=settings, standby=standby)
    await done


async def check_home(session: Session, name: str) -> None:
    """`LivesElsewhere` where another broker is the home of a durable subscription of this client."""
    done, on_answer = answer_future()
    session.durable_claims.claim(durable_client(session.principal, name), name, on_answer)
    await done
