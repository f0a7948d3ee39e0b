"""Push subscriptions: the CloudEvents Subscriptions API, kept in the data directory, and their dead letters.

A subscription belongs to the principal that made it, and is served with that principal's grant. Only its owner sees it,
and principals that may see status. It is made after its sink gave permission. Undeliverable events become dead letters,
which an operator sends again or deletes. When the owner is removed, the subscription is removed as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from palio.errors import (
    AuthenticationFailed,
    DuplicateSubscription,
    InputError,
    InvalidArgument,
    LimitReached,
    NotPermitted,
    PalioError,
    UnknownSubscription,
)
from palio.files.durable_write import replace_private_file
from palio.network.gateway.problems import HttpProblem
from palio.network.gateway.settings import HttpSettings
from palio.network.gateway.subscription_request import SubscriptionRequest
from palio.network.gateway.webhooks import (
    AddressPolicy,
    Sink,
    SinkRefused,
    SinkUnreachable,
    WebhookSender,
    classify_reply,
    request_permission,
    send_once,
)
from palio.network.security.authorization import Principal, effective_filter
from palio.network.server.delivery_queues import SubscribeOptions
from palio.network.server.durable_consumers import owner_of
from palio.network.server.durable_letters import is_of_durable, letter_text, return_to_queue
from palio.network.server.durable_subscriptions import forget_durable
from palio.network.store.interface import DeadLetter, DeadLetterAdded, DeadLettersRemoved

if TYPE_CHECKING:
    from palio.network.server.host import Host
    from palio.network.server.process import Server
    from palio.network.store.interface import Store

SUBSCRIPTIONS_FILE: Final = "push.json"
_MAX_LISTED_LETTERS: Final = 1_000
_MAX_NUMBER_DIGITS: Final = 18  # fits 64 bits
log = logging.getLogger("palio.push")


def _durable_name(id: str) -> str:
    """The name of the durable subscription behind a push subscription."""
    return f"push {id}"


class PushSubscription(msgspec.Struct, frozen=True):
    """A subscription, its owner, and the rate limit of its sink in events per minute."""

    id: str
    owner: str
    request: SubscriptionRequest
    per_minute: float | None = None


class PushSubscriptions:
    """All push subscriptions, and the tasks that serve them."""

    def __init__(self, server: Server, settings: HttpSettings, tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._settings = settings
        self._policy = AddressPolicy(settings.sinks)
        self._tls = tls
        self._path: Path | None = None if server.settings.data is None else server.settings.data / SUBSCRIPTIONS_FILE
        self._subscriptions: dict[str, PushSubscription] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Serve the subscriptions of the data directory."""
        if self._path is not None and self._path.exists():
            try:
                stored = msgspec.json.decode(self._path.read_bytes(), type=tuple[PushSubscription, ...])
            except msgspec.DecodeError as error:
                raise InputError(str(self._path), f"not a file of subscriptions: {error}") from None
            self._subscriptions = {each.id: each for each in stored}
        for each in self._subscriptions.values():
            self._serve(each)

    async def reload(self, settings: HttpSettings, tls: ssl.SSLContext) -> None:
        """Apply changed settings, to the subscriptions that are served already as well."""
        self._settings = settings
        self._policy = AddressPolicy(settings.sinks)
        self._tls = tls
        for each in list(self._subscriptions.values()):
            await self._end(each.id)
            self._serve(each)

    async def stop(self) -> None:
        """End all tasks; the subscriptions stay."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def visible_to(self, principal: Principal) -> list[dict[str, Any]]:
        """The subscriptions that a principal may see."""
        return [
            each.request.to_dict(each.id)
            for each in self._subscriptions.values()
            if each.owner == principal.name or principal.may_see_status
        ]

    def get(self, id: str, principal: Principal) -> dict[str, Any]:
        """One subscription; UnknownSubscription also for one that the principal may not see."""
        return self._find(id, principal).request.to_dict(id)

    async def create(self, request: SubscriptionRequest, principal: Principal) -> dict[str, Any]:
        """Make a subscription, after its sink has given permission."""
        id = request.id or str(uuid4())
        if id in self._subscriptions:
            if self._subscriptions[id].owner != principal.name:
                # Without saying that another principal has it.
                raise InvalidArgument(f"the id {id!r:.80} cannot be had")
            raise DuplicateSubscription(id, "PUT")
        most = self._server.settings.limits.subscriptions_per_principal
        if sum(each.owner == principal.name for each in self._subscriptions.values()) >= most:
            raise LimitReached("subscriptions_per_principal", most, f"{principal.name} has enough of them")
        await self._store(id, request, principal, before=None)
        return request.to_dict(id)

    async def replace(self, id: str, request: SubscriptionRequest, principal: Principal) -> dict[str, Any]:
        """Replace a subscription, after its sink has given permission."""
        before = self._find_own(id, principal)
        if request.id not in (None, id):
            raise InvalidArgument("the id of a subscription cannot be changed - at `$.id`")
        await self._store(id, request, principal, before)
        return request.to_dict(id)

    async def delete(self, id: str, principal: Principal) -> None:
        """End a subscription."""
        self._find_own(id, principal)
        await self._remove(id)

    async def send_again(self, owner: str, id: str, body: bytes) -> None:
        """Send the data of a dead letter once more; `SinkRefused` if it is not delivered."""
        subscription = self._subscriptions.get(id)
        if subscription is None or subscription.owner != owner:
            raise UnknownSubscription(id)
        sink, seconds = Sink.parse(subscription.request.sink), self._settings.persistence.seconds
        try:
            reply = await send_once(
                sink, "POST", subscription.request.headers(), body, self._policy, seconds=seconds, tls=self._tls
            )
        except SinkUnreachable as error:
            raise SinkRefused(str(error)) from None
        if classify_reply(reply) != "delivered":
            raise SinkRefused(f"{sink.authority} answered {reply.status}")

    async def _store(
        self, id: str, request: SubscriptionRequest, principal: Principal, before: PushSubscription | None
    ) -> None:
        """Store and serve a subscription in the place of `before`, unless another call replaced that meanwhile."""
        limits = self._server.settings.limits
        # A request without a grant is refused before its sink is asked for anything.
        await self._server.host.run_off_loop(lambda: effective_filter(request.to_filter(limits), principal, limits))
        persistence = self._settings.persistence
        try:
            per_minute = await request_permission(
                Sink.parse(request.sink), self._settings.origin, self._policy, persistence.seconds, self._tls
            )
        except PalioError as error:
            raise SinkRefused(str(error)) from None
        # While the sink was asked, another call may have replaced or removed it.
        if self._subscriptions.get(id) is not before:
            raise DuplicateSubscription(id)
        await self._end(id)
        self._subscriptions[id] = PushSubscription(id, principal.name, request, per_minute)
        self._write()
        # Answered once it is subscribed: an event that is published after the answer reaches the sink.
        await self._serve(self._subscriptions[id]).wait()

    def _find(self, id: str, principal: Principal) -> PushSubscription:
        found = self._subscriptions.get(id)
        if found is None or not (found.owner == principal.name or principal.may_see_status):
            raise UnknownSubscription(id)
        return found

    def _find_own(self, id: str, principal: Principal) -> PushSubscription:
        found = self._find(id, principal)
        if found.owner != principal.name and principal.role != "admin":
            raise NotPermitted(principal.name, f"change the subscription {id!r:.80}", "it belongs to another principal")
        return found

    def _serve(self, subscription: PushSubscription) -> asyncio.Event:
        """Serve a subscription in a task; the event is set once it is subscribed, or cannot be."""
        settled = asyncio.Event()
        self._tasks[subscription.id] = asyncio.create_task(self._serve_until_gone(subscription, settled))
        return settled

    async def _serve_until_gone(self, subscription: PushSubscription, settled: asyncio.Event) -> None:
        """Serve one subscription while its owner exists and its sink does not refuse."""
        while True:
            try:
                # Looked up for every attempt: grants may have changed since.
                principal = self._server.authenticator.find(subscription.owner)
                reason = await self._deliver_for(principal, subscription, settled)
            except PalioError as error:
                reason = error
            settled.set()
            log.warning("push stopped", extra={"subscription": subscription.id, "reason": str(reason)})
            if isinstance(reason, SinkRefused) or not self._has_owner(subscription):
                self._drop(subscription.id)
                return
            await asyncio.sleep(self._settings.persistence.longest_wait)

    def _has_owner(self, subscription: PushSubscription) -> bool:
        """Whether the owner exists. Otherwise the subscription must go: another principal may get its name."""
        try:
            self._server.authenticator.find(subscription.owner)
        except AuthenticationFailed:
            return False
        return True

    async def _deliver_for(
        self, principal: Principal, subscription: PushSubscription, settled: asyncio.Event
    ) -> PalioError | None:
        session = self._server.open_session(principal, "push")

        def bury(reason: str, data: bytes) -> None:
            self._server.host.drops["not taken by a sink"] += 1
            entry = DeadLetterAdded(subscription.owner, subscription.id, reason, data)
            self._server.store.submit([entry], lambda error: None)

        try:
            limits = self._server.settings.limits
            wanted = await self._server.host.run_off_loop(lambda: subscription.request.to_filter(limits))
            await self._server.host.run_off_loop(lambda: effective_filter(wanted, principal, limits))
            await session.subscribe(_durable_name(subscription.id), wanted, SubscribeOptions(durable=True))
            settled.set()
            sender = WebhookSender(
                session,
                subscription.request,
                self._policy,
                self._settings.persistence,
                bury,
                per_minute=subscription.per_minute,
                tls=self._tls,
            )
            return await sender.run()
        finally:
            self._server.close_session(session, "push ended")

    async def _remove(self, id: str) -> None:
        await self._end(id)
        self._drop(id)

    def _drop(self, id: str) -> None:
        """Delete a subscription and its durable queue."""
        subscription = self._subscriptions.pop(id, None)
        if subscription is not None:
            forget_durable(self._server.host, Principal(subscription.owner), _durable_name(id))
        self._write()

    async def _end(self, id: str) -> None:
        # Never called by the task itself, which would wait for its own end; it calls `_drop`.
        task = self._tasks.pop(id, None)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _write(self) -> None:
        if self._path is None:
            return
        # Private: it has the secrets of sinks.
        replace_private_file(self._path, msgspec.json.encode(tuple(self._subscriptions.values())))


class DeadLetters:
    """The dead letters of a broker: events that no sink and no consumer took."""

    def __init__(self, host: Host, store: Store, push: PushSubscriptions) -> None:
        self._host = host
        self._store = store
        self._push = push

    async def list(self, after: int) -> list[dict[str, Any]]:
        """The dead letters after a number, oldest first."""
        found = await asyncio.to_thread(self._store.dead_letters.read, after, _MAX_LISTED_LETTERS)
        return [_to_dict(each) for each in found]

    async def delete(self, number: str) -> None:
        await self._delete((await self._find(number)).number)

    async def send(self, number: str) -> None:
        """Deliver one once more, and delete it: to its sink, if that takes it (otherwise `SinkRefused`), or into its
        durable queue."""
        letter = await self._find(number)
        if is_of_durable(letter):
            await return_to_queue(self._host, letter)
            return
        await self._push.send_again(letter.client, letter.name, letter.data)
        await self._delete(letter.number)

    async def _find(self, text: str) -> DeadLetter:
        if text.isascii() and text.isdigit() and len(text) <= _MAX_NUMBER_DIGITS:
            number = int(text)
            found = await asyncio.to_thread(self._store.dead_letters.read, number - 1, 1)
            if found and found[0].number == number:
                return found[0]
        raise HttpProblem(404, f"there is no dead letter {text:.40}")

    async def _delete(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[PalioError | None] = loop.create_future()

        def answer(error: PalioError | None) -> None:
            loop.call_soon_threadsafe(done.set_result, error)

        self._store.submit([DeadLettersRemoved((number,))], answer)
        error = await done
        if error is not None:
            raise error


def _to_dict(letter: DeadLetter) -> dict[str, Any]:
    is_durable = is_of_durable(letter)
    return {
        "number": letter.number,
        "time": letter.time,
        "owner": owner_of(letter.client, letter.name) if is_durable else letter.client,
        "subscription": letter.name,
        "reason": letter.reason,
        "data": letter_text(letter) if is_durable else letter.data.decode("utf-8", "replace"),
    }
