"""Event streams over HTTP: Server-Sent Events (HTML §9.2) and WebSocket, each event a CloudEvent in JSON.

With Server-Sent Events, an event of a durable subscription has an id. A client that reconnects with its last id, as
browsers do by themselves, acknowledges all events up to that one.

WebSocket messages are JSON objects with a `type` (`docs/http.md`). A browser can set no header, so the first message
may carry the token, within the time of any handshake. Messages are answered in order; events come in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from palio.errors import InvalidArgument, PalioError
from palio.network.gateway.authentication import CallerAuthenticator, bearer_token
from palio.network.gateway.cloudevents import read_event, write_cloudevent
from palio.network.gateway.problems import HttpProblem, problem_document
from palio.network.gateway.subscription_request import DurableLimits, check_subscription_name
from palio.network.protocol import (
    DEFAULT_ACK_SECONDS,
    DEFAULT_WINDOW_EVENTS,
    MAX_NAME_LENGTH,
    MAX_REASON_LENGTH,
    MAX_REJECTED_EVENTS,
)
from palio.network.security.authorization import Principal
from palio.network.security.quotas import check_condition
from palio.network.server.delivery_queues import NOT_COMPLETE, Delivered, GroupOptions, SubscribeOptions
from palio.network.server.durable_subscriptions import subscribe_durable
from palio.network.server.session import Session
from palio.routing import codec
from palio.routing.client_messages import Complete

if TYPE_CHECKING:
    from palio.network.server.process import Server


_MAX_BATCH_EVENTS: Final = 256
_MAX_CHUNK_CHARACTERS: Final = 65_536
# Codes with which a WebSocket is closed (RFC 6455 §7.4; 4000 and above are for applications).
GOING_AWAY: Final = 1001
NOT_TEXT: Final = 1003
UNAUTHENTICATED: Final = 4401
_KEEPALIVE_SECONDS: Final = 15.0
_RECONNECT_AFTER_2_SECONDS: Final = "retry: 2000\n\n"


async def server_sent_events(session: Session, keepalive: float = _KEEPALIVE_SECONDS) -> AsyncIterator[str]:
    """The events of a session as the text of a stream, until the session ends."""
    yield _RECONNECT_AFTER_2_SECONDS
    while True:
        try:
            async with asyncio.timeout(keepalive):
                batch, stretches = await session.next_output(_MAX_BATCH_EVENTS)
        except TimeoutError:
            yield ": still here\n\n"  # a comment, so that proxies keep the connection
            continue
        if not batch and not stretches:
            break
        # Joined, but not without bound: 256 events may be hundreds of megabytes.
        text = ""
        for each in batch:
            text += _sse_message(each)
            if len(text) > _MAX_CHUNK_CHARACTERS:
                yield text
                text = ""
        for stretch in stretches:
            text += f"event: complete\ndata: {json.dumps(_stretch_document(stretch))}\n\n"
        if text:
            yield text
    if session.failure is not None:
        yield f"event: problem\ndata: {json.dumps(problem_document(session.failure))}\n\n"


def _sse_message(delivered: Delivered) -> str:
    # One line: in JSON text a line break inside a string is always written as \n.
    number = f"id: {delivered.number}\n" if delivered.number else ""
    return f"{number}data: {write_cloudevent(codec.decode_event(delivered.event.body))}\n\n"


def _stretch_document(stretch: Complete) -> dict[str, Any]:
    """A complete stretch as JSON; the number of a broker is text, since browsers have no integers of 64 bits."""
    return {
        "broker": str(stretch.broker),
        "incarnation": stretch.incarnation,
        "after": stretch.after,
        "up_to": stretch.up_to,
        "time": stretch.time,
        "sources": dict(stretch.sources),
    }


def peer_of(connection: HTTPConnection) -> str:
    """The address of a caller."""
    client = connection.client
    return "" if client is None else f"{client.host}:{client.port}"


def read_instance(text: str) -> str:
    """The id by which a consumer is known over its connections; InvalidArgument for one that is too long."""
    if len(text) > MAX_NAME_LENGTH:
        raise InvalidArgument(f"consumer is an id of up to {MAX_NAME_LENGTH} characters, not {len(text):,}")
    return text


def read_flag(name: str, parameters: Mapping[str, str]) -> bool:
    """A parameter that is true or false; false where it is left out."""
    text = parameters.get(name, "false")
    if text not in ("true", "false"):
        raise InvalidArgument(f"{name} is true or false, not {text!r:.40}")
    return text == "true"


def read_lease(text: str | None) -> float | None:
    """The seconds of a lease; None without one."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < inf:
        raise InvalidArgument(f"a lease is a number of seconds above 0, not {text!r:.40}")
    return seconds


def read_last_event_id(text: str | None) -> int:
    """The number in a header Last-Event-ID; 0 without one."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidArgument("Last-Event-ID is the id of an event of this stream, a whole number")
    return int(text)


class Hello(msgspec.Struct, tag="hello", forbid_unknown_fields=True):
    """Authentication by a token."""

    token: str = ""


class Subscribe(msgspec.Struct, tag="subscribe", forbid_unknown_fields=True):
    """Request of the events that match a condition; with `group` as a member of the consumer group of that name."""

    name: str
    where: str = "true"
    language: str = "sql"
    durable: bool = False
    group: bool = False
    key: str = ""
    window: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_WINDOW_EVENTS
    ack_seconds: Annotated[float, msgspec.Meta(gt=0)] = DEFAULT_ACK_SECONDS
    limits: DurableLimits | None = None
    lease: Annotated[float, msgspec.Meta(gt=0)] | None = None
    completeness: bool = False


class Extend(msgspec.Struct, tag="extend", forbid_unknown_fields=True):
    """Extension of the lease of a subscription."""

    name: str


class Unsubscribe(msgspec.Struct, tag="unsubscribe", forbid_unknown_fields=True):
    """End of a subscription."""

    name: str


class Publish(msgspec.Struct, tag="publish", forbid_unknown_fields=True):
    """Publication of an event; one with a request number is confirmed."""

    event: msgspec.Raw  # events are parsed by stricter rules than messages
    request: int = 0


class Acknowledge(msgspec.Struct, tag="acknowledge", forbid_unknown_fields=True):
    """Acknowledgement of events of a durable subscription."""

    name: str
    numbers: tuple[int, ...]


class Reject(msgspec.Struct, tag="reject", forbid_unknown_fields=True):
    """Events of a durable subscription that could not be processed."""

    name: str
    numbers: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_REJECTED_EVENTS)]
    requeue: bool = True
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_LENGTH)] = ""


ClientMessage: TypeAlias = Hello | Subscribe | Extend | Unsubscribe | Publish | Acknowledge | Reject
_decode: Final[Callable[[str], ClientMessage]] = msgspec.json.Decoder(ClientMessage).decode


class WebSocketSession:
    """The conversation over one WebSocket, and its session with the broker."""

    def __init__(self, server: Server, callers: CallerAuthenticator, socket: WebSocket) -> None:
        self._server = server
        self._callers = callers
        self._socket = socket
        self._limits = server.settings.limits
        self._notice: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve the WebSocket until either end closes it."""
        await self._socket.accept()
        try:
            principal = await self._authenticate()
            instance = read_instance(self._socket.query_params.get("consumer", ""))
            session = self._server.open_session(principal, "websocket", instance=instance, peer=peer_of(self._socket))
        except (PalioError, TimeoutError) as error:
            reason = error if isinstance(error, PalioError) else HttpProblem(408, "no greeting in time")
            await self._send("problem", problem=problem_document(reason))
            await self._close(UNAUTHENTICATED)
            return
        self._socket.state.widen()  # until here, messages were bounded to the size of a first frame
        session.on_withdrawn = self._on_withdrawn
        # Events are sent beside the conversation: a slow request must not delay them.
        sending = asyncio.create_task(self._send_events(session))
        try:
            await self._send("welcome", principal=principal.name, node=str(self._server.node))
            while True:
                await self._answer(session, await self._receive_text())
        except (WebSocketDisconnect, RuntimeError):
            pass  # the client has left
        except HttpProblem as error:
            await self._send("problem", problem=problem_document(error))
            await self._close(NOT_TEXT)
        finally:
            self._server.close_session(session, "websocket closed")
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            await self._close(GOING_AWAY)

    async def _authenticate(self) -> Principal:
        """The principal of the caller, by ticket, header or certificate, or by the token of its first message."""
        if "ticket" in self._socket.query_params or bearer_token(self._socket):
            return self._callers.identify(self._socket)
        # Without a token, a broker that is open or a client certificate may do.
        with contextlib.suppress(PalioError):
            return self._callers.identify(self._socket)
        async with asyncio.timeout(self._limits.handshake_seconds):
            message = self._parse(await self._receive_text())
        if not isinstance(message, Hello):
            raise HttpProblem(401, 'authenticate first: {"type": "hello", "token": …}')
        return self._server.authenticator.authenticate(message.token)

    async def _receive_text(self) -> str:
        """The next message; HttpProblem for a binary one."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", GOING_AWAY))
        text = message.get("text")
        if not isinstance(text, str):
            raise HttpProblem(415, "messages are the text of JSON objects, not bytes")
        return text

    async def _answer(self, session: Session, text: str) -> None:
        subject: dict[str, Any] = {}
        try:
            message = self._parse(text)
            subject = {
                key: value for key in ("name", "request") if (value := getattr(message, key, None)) not in (None, 0)
            }
            await self._execute(session, message)
        except PalioError as error:
            await self._send("problem", **subject, problem=problem_document(error))

    def _parse(self, text: str) -> ClientMessage:
        if len(text) > self._limits.frame_bytes:
            raise HttpProblem(413, "a message that is too long")
        try:
            return _decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise InvalidArgument(f"not a message: {error}") from None

    async def _execute(self, session: Session, message: ClientMessage) -> None:
        match message:
            case Subscribe(name=name, where=where, language=language):
                check_subscription_name(name)
                text = check_condition(where, self._limits)
                wanted = await self._server.read_condition(text, language, session.principal)
                settings = None if message.limits is None else message.limits.to_settings()
                if message.lease is not None:
                    if message.group or message.durable:
                        raise InvalidArgument("a durable subscription stands until it is ended; it has no lease")
                    wanted = wanted.valid_for(message.lease)
                if message.completeness and (message.group or message.durable):
                    raise InvalidArgument(NOT_COMPLETE)
                if message.group:
                    group = GroupOptions(message.key, message.ack_seconds)
                    await subscribe_durable(session, name, wanted, group, message.window, settings)
                elif message.durable:
                    await subscribe_durable(session, name, wanted, settings=settings)
                elif settings is not None:
                    raise InvalidArgument("limits are those of a durable subscription or a consumer group")
                else:
                    await session.subscribe(name, wanted, SubscribeOptions(completeness=message.completeness))
                await self._send("subscribed", name=name, where=str(wanted))
            case Extend(name=name):
                session.renew(name)
                await self._send("extended", name=name)
            case Unsubscribe(name=name):
                await session.unsubscribe(name)
                await self._send("unsubscribed", name=name)
            case Publish(event=content, request=request):
                event = read_event(bytes(content), self._limits.event)
                if request:
                    await session.publish(codec.encode_event(event))
                    await self._send("published", request=request, id=event.id)
                else:
                    session.publications.submit(codec.encode_event(event))
            case Acknowledge(name=name, numbers=numbers):
                session.ack(name, numbers)
            case Reject(name=name, numbers=numbers):
                session.reject(name, numbers, message.requeue, message.reason)
            case Hello():
                raise InvalidArgument("you are known already")

    async def _send_events(self, session: Session) -> None:
        """Send events as fast as the client reads; the others wait in the delivery queue of the session."""
        while True:
            batch, stretches = await session.next_output(_MAX_BATCH_EVENTS)
            if not batch and not stretches:
                break
            for name, event, _, number, deliveries in batch:
                # Spliced as text, because the event is JSON text already.
                durable = {"number": number, "deliveries": deliveries} if number else {}
                head = json.dumps({"type": "event", "name": name, **durable})
                body = write_cloudevent(codec.decode_event(event.body))
                await self._socket.send_text(f'{head[:-1]}, "event": {body}}}')
            for stretch in stretches:
                for name in stretch.names:
                    await self._send("complete", name=name, **_stretch_document(stretch))
        if session.failure is not None:
            await self._send("problem", problem=problem_document(session.failure))
        await self._close(GOING_AWAY)

    def _on_withdrawn(self, name: str, error: PalioError) -> None:
        # A reference of our own: the loop holds tasks weakly, and would let this one be collected.
        self._notice = asyncio.create_task(self._send("problem", name=name, problem=problem_document(error)))

    async def _send(self, type: str, **members: Any) -> None:
        await self._socket.send_text(json.dumps({"type": type, **members}))

    async def _close(self, code: int) -> None:
        if self._socket.application_state == WebSocketState.CONNECTED:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await self._socket.close(code)
