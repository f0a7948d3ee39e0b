"""How do a browser and a broker talk both ways? JSON messages over WebSocket, each with a `type` (`docs/http.md`).

A client may say who it is by its first message, because a browser can set no header; until then it is nobody, and
has as long as any handshake. Messages are answered in their order; events come in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from palio.errors import InvalidArgument, PalioError
from palio.network.gateway.callers import Callers, bearer
from palio.network.gateway.cloudevents import read_event, write_cloudevent
from palio.network.gateway.problems import HttpProblem, describe
from palio.network.gateway.requests import check_subscription_name
from palio.network.homes import subscribe_durably
from palio.network.security.limits import check_condition
from palio.network.security.principals import Principal
from palio.network.sessions import Session
from palio.routing import codec

if TYPE_CHECKING:
    from palio.network.server import Server

_AT_ONCE: Final = 256
UNAUTHENTICATED: Final = 4401
GOING: Final = 1001
NOT_TEXT: Final = 1003


class Hello(msgspec.Struct, tag="hello", forbid_unknown_fields=True):
    """Who I am."""

    token: str = ""


class Subscribe(msgspec.Struct, tag="subscribe", forbid_unknown_fields=True):
    """Send me what matches."""

    name: str
    where: str = "true"
    language: str = "sql"
    durable: bool = False


class Unsubscribe(msgspec.Struct, tag="unsubscribe", forbid_unknown_fields=True):
    """Send me no more of that."""

    name: str


class Publish(msgspec.Struct, tag="publish", forbid_unknown_fields=True):
    """Something happened; with a number, tell me when it is safe."""

    event: msgspec.Raw  # the rules for JSON of events are stricter than those for messages
    request: int = 0


class Acknowledge(msgspec.Struct, tag="acknowledge", forbid_unknown_fields=True):
    """I have dealt with these."""

    name: str
    numbers: tuple[int, ...]


Said: TypeAlias = Hello | Subscribe | Unsubscribe | Publish | Acknowledge
_read: Final[Callable[[str], Said]] = msgspec.json.Decoder(Said).decode


class Conversation:
    """One WebSocket."""

    def __init__(self, server: Server, callers: Callers, socket: WebSocket) -> None:
        self._server = server
        self._callers = callers
        self._socket = socket
        self._limits = server.settings.limits
        self._telling: asyncio.Task[None] | None = None

    async def hold(self) -> None:
        """Talk until either end leaves."""
        await self._socket.accept()
        try:
            principal, first = await self._greeted()
            session = self._server.open_session(principal, "websocket")
        except (PalioError, TimeoutError) as error:
            reason = error if isinstance(error, PalioError) else HttpProblem(408, "no greeting in time")
            await self._tell("problem", problem=describe(reason))
            await self._close(UNAUTHENTICATED)
            return
        self._socket.state.widen()
        session.withdrawn = self._withdrawn
        writing = asyncio.create_task(self._write(session))
        try:
            await self._tell("welcome", principal=principal.name, node=str(self._server.node))
            if first is not None:
                await self._answer(session, first)
            while True:
                await self._answer(session, await self._text())
        except (WebSocketDisconnect, RuntimeError):
            pass  # it left
        except HttpProblem as error:
            await self._tell("problem", problem=describe(error))
            await self._close(NOT_TEXT)
        finally:
            self._server.left(session, "websocket closed")
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing
            await self._close(GOING)

    async def _greeted(self) -> tuple[Principal, str | None]:
        """Who is there, and their first message where it was something else than a greeting."""
        if "ticket" in self._socket.query_params or bearer(self._socket):
            return self._callers.identify(self._socket), None
        with contextlib.suppress(PalioError):
            return self._callers.identify(self._socket), None
        async with asyncio.timeout(self._limits.handshake_seconds):
            text = await self._text()
        said = self._parse(text)
        if not isinstance(said, Hello):
            raise HttpProblem(401, 'say who you are first: {"type": "hello", "token": …}')
        return self._server.door.authenticate(said.token), None

    async def _text(self) -> str:
        """The next message; one that is binary is none of ours."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", GOING))
        text = message.get("text")
        if not isinstance(text, str):
            raise HttpProblem(415, "messages are the text of JSON objects, not bytes")
        return text

    async def _answer(self, session: Session, text: str) -> None:
        about: dict[str, Any] = {}
        try:
            said = self._parse(text)
            about = {key: value for key in ("name", "request") if (value := getattr(said, key, None)) not in (None, 0)}
            await self._do(session, said)
        except PalioError as error:
            await self._tell("problem", **about, problem=describe(error))

    def _parse(self, text: str) -> Said:
        if len(text) > self._limits.frame_bytes:
            raise HttpProblem(413, "a message that is too long")
        try:
            return _read(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise InvalidArgument(f"not a message: {error}") from None

    async def _do(self, session: Session, said: Said) -> None:
        match said:
            case Subscribe(name=name, where=where, language=language, durable=durable):
                check_subscription_name(name)
                text = check_condition(where, self._limits)
                wanted = await self._server.read_condition(text, language, session.principal)
                await (subscribe_durably(session, name, wanted) if durable else session.subscribe(name, wanted))
                await self._tell("subscribed", name=name, where=str(wanted))
            case Unsubscribe(name=name):
                await session.unsubscribe(name)
                await self._tell("unsubscribed", name=name)
            case Publish(event=content, request=request):
                event = read_event(bytes(content), self._limits.event)
                if request:
                    await session.publish(codec.encode_event(event))
                    await self._tell("published", request=request, id=event.id)
                else:
                    session.submit(codec.encode_event(event))
            case Acknowledge(name=name, numbers=numbers):
                session.ack(name, numbers)
            case Hello():
                raise InvalidArgument("you are known already")

    async def _write(self, session: Session) -> None:
        """Send events as fast as the other end takes them; what it does not take waits in the session."""
        while batch := await session.next_batch(_AT_ONCE):
            for name, event, _, number in batch:
                head = json.dumps({"type": "event", "name": name, **({"number": number} if number else {})})
                body = write_cloudevent(codec.decode_event(event.body))
                await self._socket.send_text(f'{head[:-1]}, "event": {body}}}')
        if session.failure is not None:
            await self._tell("problem", problem=describe(session.failure))
        await self._close(GOING)

    def _withdrawn(self, name: str, error: PalioError) -> None:
        self._telling = asyncio.create_task(self._tell("problem", name=name, problem=describe(error)))

    async def _tell(self, type: str, **members: Any) -> None:
        await self._socket.send_text(json.dumps({"type": type, **members}))

    async def _close(self, code: int) -> None:
        if self._socket.application_state == WebSocketState.CONNECTED:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await self._socket.close(code)
