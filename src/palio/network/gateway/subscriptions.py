"""Which events are pushed where? The subscriptions of the CloudEvents Subscriptions API, kept in the data directory.

A subscription belongs to the principal that made it, and is served with that principal's grant; nobody else sees it,
but for those who may see status. Before it is made, its sink is asked whether it agrees. What cannot be delivered
becomes a dead letter. When a principal goes, its subscriptions rest until it is there again, or somebody deletes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
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
from palio.network.durable import forget_durable
from palio.network.gateway.push import Pusher, headers_of
from palio.network.gateway.requests import SubscriptionRequest
from palio.network.gateway.settings import HttpSettings
from palio.network.gateway.sinks import Reach, Sink, SinkRefused, SinkUnreachable, exchange
from palio.network.gateway.webhooks import handshake, judge
from palio.network.security.grants import effective
from palio.network.security.principals import Principal
from palio.network.store.interface import Buried

if TYPE_CHECKING:
    from palio.network.server import Server

FILE: Final = "push.json"
log = logging.getLogger("palio.push")


def _queue(id: str) -> str:
    """The name of the durable subscription behind one with a sink."""
    return f"push {id}"


class Kept(msgspec.Struct, frozen=True):
    """A subscription, its owner, and how many events a minute its sink takes."""

    id: str
    owner: str
    request: SubscriptionRequest
    per_minute: float | None = None


class PushSubscriptions:
    """All subscriptions with a sink, and the tasks that serve them."""

    def __init__(self, server: Server, settings: HttpSettings, tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._settings = settings
        self._reach = Reach(settings.sinks)
        self._tls = tls
        self._path: Path | None = None if server.settings.data is None else server.settings.data / FILE
        self._kept: dict[str, Kept] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Serve those that were made in an earlier life."""
        if self._path is not None and self._path.exists():
            try:
                kept = msgspec.json.decode(self._path.read_bytes(), type=tuple[Kept, ...])
            except msgspec.DecodeError as error:
                raise InputError(str(self._path), f"not a file of subscriptions: {error}") from None
            self._kept = {each.id: each for each in kept}
        for each in self._kept.values():
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
            for each in self._kept.values()
            if each.owner == principal.name or principal.may_see_status
        ]

    def get(self, id: str, principal: Principal) -> dict[str, Any]:
        """One subscription; UnknownSubscription also where it is somebody else's."""
        return self._find(id, principal).request.to_dict(id)

    async def create(self, request: SubscriptionRequest, principal: Principal) -> dict[str, Any]:
        """A new subscription, once its sink agreed."""
        id = request.id or str(uuid4())
        if id in self._kept:
            if self._kept[id].owner != principal.name:
                raise InvalidArgument(f"the id {id!r:.80} cannot be had")
            raise DuplicateSubscription(id, "PUT")
        most = self._server.settings.limits.subscriptions_per_principal
        if sum(each.owner == principal.name for each in self._kept.values()) >= most:
            raise LimitReached("subscriptions_per_principal", most, f"{principal.name} has enough of them")
        await self._keep(id, request, principal, before=None)
        return request.to_dict(id)

    async def replace(self, id: str, request: SubscriptionRequest, principal: Principal) -> dict[str, Any]:
        """Another subscription in the place of one."""
        before = self._find_own(id, principal)
        if request.id not in (None, id):
            raise InvalidArgument("the id of a subscription cannot be changed - at `$.id`")
        await self._keep(id, request, principal, before)
        return request.to_dict(id)

    async def delete(self, id: str, principal: Principal) -> None:
        """End a subscription."""
        self._find_own(id, principal)
        await self._forget(id)

    async def send_again(self, owner: str, id: str, body: bytes) -> None:
        """Send what a sink did not take once more; `SinkRefused` where it does not now either."""
        kept = self._kept.get(id)
        if kept is None or kept.owner != owner:
            raise UnknownSubscription(id)
        sink, seconds = Sink.parse(kept.request.sink), self._settings.persistence.seconds
        try:
            reply = await exchange(
                sink, "POST", headers_of(kept.request), body, self._reach, seconds=seconds, tls=self._tls
            )
        except SinkUnreachable as error:
            raise SinkRefused(str(error)) from None
        if judge(reply) != "done":
            raise SinkRefused(f"{sink.authority} answered {reply.status}")

    async def _keep(self, id: str, request: SubscriptionRequest, principal: Principal, before: Kept | None) -> None:
        """Keep a subscription in the place of the one before, unless somebody else was faster."""
        limits = self._server.settings.limits
        await self._server.host.beside(lambda: effective(request.wanted(limits), principal, limits))
        persistence = self._settings.persistence
        try:
            per_minute = await handshake(
                Sink.parse(request.sink), self._settings.origin, self._reach, persistence.seconds, self._tls
            )
        except PalioError as error:
            raise SinkRefused(str(error)) from None
        if self._kept.get(id) is not before:
            raise DuplicateSubscription(id)
        await self._end(id)
        self._kept[id] = Kept(id, principal.name, request, per_minute)
        self._write()
        await self._serve(self._kept[id]).wait()

    def _find(self, id: str, principal: Principal) -> Kept:
        found = self._kept.get(id)
        if found is None or not (found.owner == principal.name or principal.may_see_status):
            raise UnknownSubscription(id)
        return found

    def _find_own(self, id: str, principal: Principal) -> Kept:
        found = self._find(id, principal)
        if found.owner != principal.name and principal.role != "admin":
            raise NotPermitted(principal.name, f"change the subscription {id!r:.80}", "it is somebody else's")
        return found

    def _serve(self, kept: Kept) -> asyncio.Event:
        """Serve a subscription; what comes back is set once it stands, or cannot."""
        stands = asyncio.Event()
        self._tasks[kept.id] = asyncio.create_task(self._push(kept, stands))
        return stands

    async def _push(self, kept: Kept, stands: asyncio.Event) -> None:
        """Serve one subscription for as long as there is its owner, and the sink wants it."""
        while True:
            try:
                principal = self._server.door.find(kept.owner)
                reason = await self._push_for(principal, kept, stands)
            except PalioError as error:
                reason = error
            stands.set()
            log.warning("push stopped", extra={"subscription": kept.id, "reason": str(reason)})
            if isinstance(reason, SinkRefused) or not self._has_owner(kept):
                self._drop(kept.id)
                return
            await asyncio.sleep(self._settings.persistence.longest_wait)

    def _has_owner(self, kept: Kept) -> bool:
        """Whether there is its owner; whoever gets the same name later must not find its sink served."""
        try:
            self._server.door.find(kept.owner)
        except AuthenticationFailed:
            return False
        return True

    async def _push_for(self, principal: Principal, kept: Kept, stands: asyncio.Event) -> PalioError | None:
        session = self._server.open_session(principal, "push")

        def bury(reason: str, data: bytes) -> None:
            self._server.host.drops["not taken by a sink"] += 1
            entry = Buried(kept.owner, kept.id, reason, data)
            self._server.store.submit([entry], lambda error: None)

        try:
            limits = self._server.settings.limits
            wanted = await self._server.host.beside(lambda: kept.request.wanted(limits))
            await self._server.host.beside(lambda: effective(wanted, principal, limits))
            await session.subscribe(_queue(kept.id), wanted, durable=True)
            stands.set()
            pusher = Pusher(
                session,
                kept.request,
                self._reach,
                self._settings.persistence,
                bury,
                per_minute=kept.per_minute,
                tls=self._tls,
            )
            return await pusher.run()
        finally:
            self._server.left(session, "push ended")

    async def _forget(self, id: str) -> None:
        await self._end(id)
        self._drop(id)

    def _drop(self, id: str) -> None:
        """Keep a subscription no more, nor what waits for it."""
        kept = self._kept.pop(id, None)
        if kept is not None:
            forget_durable(self._server.host, Principal(kept.owner), _queue(id))
        self._write()

    async def _end(self, id: str) -> None:
        task = self._tasks.pop(id, None)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _write(self) -> None:
        if self._path is None:
            return
        new = self._path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(tuple(self._kept.values())))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._path)
