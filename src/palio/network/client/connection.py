"""How does a client hold on to its broker? One connection, dialled again when it breaks.

Requests have numbers, and those without an answer are sent again over the next connection: a broker carries a request
of this protocol out once for a session, and one connection is one session.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from random import random
from typing import Any, Final

from palio.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    HomeAway,
    InvalidArgument,
    LimitReached,
    NotAdvertised,
    NotPermitted,
    PalioError,
    Refused,
    StoreError,
    StoreFull,
    WireError,
)
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.channel import Channel
from palio.network.protocol import ClientHello, Done, Failed, Failure, Goodbye, Matched, Welcome

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_HEARTBEAT: Final = 5.0  # until the broker says how often it wants to hear something
_BUFFER: Final = 64 * 1024  # bytes of frames that are written without waiting for the loop


class Connection:
    """A connection, for as long as somebody wants one.

    `matched` is called with events, `heard` with what else is no answer to a request; `again` when a connection was
    made anew, to say what must be said on each; `failed` when it is over for good.
    """

    def __init__(
        self,
        address: Address,
        token: str,
        app: str,
        tls: ssl.SSLContext | None,
        patience: float,
        timeout: float,
        publisher: str,
    ) -> None:
        self.address = address
        self.welcome: Welcome | None = None
        self.heard: Callable[[Any], None] = lambda said: None
        self.matched: Callable[[Matched], None] = lambda said: None
        self.again: Callable[[], None] = lambda: None
        self.failed: Callable[[PalioError], None] = lambda error: None
        self.failure: PalioError | None = None
        self._token = token
        self._app = app
        self._publisher = publisher
        self._tls = tls
        self._patience = patience
        self._timeout = timeout
        self._channel: Channel | None = None
        self._requests: dict[int, tuple[bytes, asyncio.Future[Any]]] = {}
        self._number = 0
        self._buffered = 0
        self._ready = asyncio.Event()  # connected and welcome
        self._room = asyncio.Event()
        self._closing = False
        self._returning: asyncio.Task[None] | None = None
        self._greeting: asyncio.Future[None] | None = None

    # For whoever uses it

    async def open(self) -> None:
        await self._dial(self._timeout)

    async def close(self) -> None:
        """Leave; what was sent still goes out."""
        self._closing = True
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.wait([self._returning])
        if self._channel is not None:
            self._channel.close("unavailable", "the client is leaving")
            while self._channel is not None:
                self._room.clear()
                await self._room.wait()
        self._give_up(ConnectionFailed(str(self.address), "the connection was closed"))

    async def ask(self, make: Callable[[int], Any], over: Callable[[], None] | None = None) -> Any:
        """Send a request that is made of its number, and wait for its answer.

        `over` is called when the broker owes no answer: when this ends or, where it is cancelled, when that comes.
        """
        number, frame, future = 0, b"", None
        try:
            await self._until_ready()
            number, frame, future = self._begin(make)
            return await future
        except asyncio.CancelledError:
            # Where the answer came in the same turn, the future is no longer cancelled and no other answer comes.
            if over is not None and future is not None and future.cancelled():
                self._answer_later(number, frame, over)
                number, over = 0, None
            raise
        finally:
            self._requests.pop(number, None)
            if over is not None:
                over()

    def _begin(self, make: Callable[[int], Any]) -> tuple[int, bytes, asyncio.Future[Any]]:
        self._number += 1
        number = self._number
        frame = self._fitting(_frame(make(number)))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._requests[number] = frame, future
        self.say(frame)
        return number, frame, future

    def _answer_later(self, number: int, frame: bytes, over: Callable[[], None]) -> None:
        future = asyncio.get_running_loop().create_future()
        self._requests[number] = frame, future
        self._when_answered(number, future, lambda error: over(), lambda answer: over())

    def elsewhere(self, address: Address) -> Connection:
        """A connection to another broker, made as this one is."""
        return Connection(address, self._token, self._app, self._tls, self._patience, self._timeout, self._publisher)

    def post(
        self,
        make: Callable[[int], Any],
        failed: Callable[[PalioError], None],
        done: Callable[[Any], None] = lambda answer: None,
    ) -> None:
        """Send a request now, and wait for nothing; `done` hears the answer, `failed` where it is not carried out."""
        number, _, future = self._begin(make)
        self._when_answered(number, future, failed, done)

    def _when_answered(
        self,
        number: int,
        future: asyncio.Future[Any],
        failed: Callable[[PalioError], None],
        done: Callable[[Any], None],
    ) -> None:
        def answered(future: asyncio.Future[Any]) -> None:
            self._requests.pop(number, None)
            error = None if future.cancelled() else future.exception()
            if isinstance(error, PalioError):
                failed(error)
            elif not future.cancelled():
                done(future.result())

        future.add_done_callback(answered)

    @property
    def has_room(self) -> bool:
        """Whether what is said now need not wait."""
        return self._buffered < _BUFFER and self._channel is not None and self._ready.is_set()

    async def tell(self, event: bytes) -> None:
        """Send an event that has no answer; waits while the connection takes no more."""
        if not self.has_room:
            await self._until_ready()
            self._flush()
            await asyncio.sleep(0)
            while self._channel is not None and self._channel.is_full:
                self._room.clear()
                await self._room.wait()
        self.say_event(self._fitting(event))

    def say_event(self, event: bytes) -> None:
        """Send an event that has no answer, if there is a connection."""
        if self._channel is not None:
            self._buffered += len(event)
            self._channel.send_event(event)

    def say(self, frame: bytes) -> None:
        """Send now, if there is a connection."""
        if self._channel is not None:
            self._buffered += len(frame)
            self._channel.send(frame)

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    @property
    def window(self) -> int:
        return self.welcome.window if self.welcome is not None else 1

    def check_event(self, size: int) -> None:
        """LimitReached for an event that the broker would not let in."""
        if self.welcome is not None and size > self.welcome.longest_event:
            raise LimitReached("event_bytes", self.welcome.longest_event, f"an event of {size:,} bytes")

    def _fitting(self, frame: bytes) -> bytes:
        """A frame that the broker would read: one that is too long would only end the connection."""
        if self.welcome is not None and len(frame) > self.welcome.longest_frame:
            raise LimitReached("frame_bytes", self.welcome.longest_frame, f"a message of {len(frame):,} bytes")
        return frame

    def _flush(self) -> None:
        self._buffered = 0
        if self._channel is not None:
            self._channel.flush()

    async def _until_ready(self) -> None:
        while not self._ready.is_set():
            if self.failure is not None:
                raise self.failure
            await self._ready.wait()
        if self.failure is not None:
            raise self.failure

    # Making connections

    async def _dial(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        context = None
        if self.address.is_secure:
            context = self._tls or ssl.create_default_context()
        elif self.address.scheme == "palio+udp":
            raise ConnectionFailed(str(self.address), "datagrams are for links between brokers; say palio://")
        self._greeting = loop.create_future()
        try:
            async with asyncio.timeout(timeout):
                await loop.create_connection(
                    lambda: Channel(self, _HEARTBEAT), self.address.host, self.address.port, ssl=context
                )
                await self._greeting
        except TimeoutError:
            self._abandon()
            raise ConnectionFailed(str(self.address), f"no answer within {timeout:g} seconds") from None
        except asyncio.CancelledError:
            self._abandon()
            raise
        except ConnectionRefusedError:
            raise ConnectionFailed(
                str(self.address), "nothing listens there; start a broker with `palio serve`"
            ) from None
        except ConnectionFailed:
            raise  # it is an OSError, too
        except (OSError, ssl.SSLError) as error:
            raise ConnectionFailed(str(self.address), str(error) or type(error).__name__) from None

    def _abandon(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.abort("given up")

    async def _return(self) -> None:
        """Dial again, ever more patiently, until the broker is there or patience ends."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause * (0.5 + random()))
            try:
                await self._dial(self._timeout)
                return
            except (AuthenticationFailed, NotPermitted, WireError) as error:
                self._give_up(error)
                return
            except PalioError as error:
                if loop.time() >= deadline:
                    self._give_up(error)
                    return
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _give_up(self, error: PalioError) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self._ready.set()
        for _, future in self._requests.values():
            if not future.done():
                future.set_exception(error)
        self.failed(error)

    # What the channel tells

    def opened(self, channel: Channel) -> None:
        self._channel = channel
        channel.send(protocol.encode(ClientHello(protocol.VERSION, self._app, self._token, self._publisher)))

    def received(self, channel: Channel, frames: list[bytes]) -> None:
        for frame in frames:
            said = protocol.decode_from_server(frame)
            kind = type(said)
            if kind is Matched:
                self.matched(said)
            elif kind is Done:
                for number in said.requests:
                    self._answer(number, None)
            elif kind is Welcome:
                self._welcomed(said)
            elif kind is Failed and said.request in self._requests:
                self._answer(said.request, error_of(said.kind, said.reason))
            elif kind is protocol.StatusAnswer:
                self._answer(said.request, said.status)
            elif kind is protocol.LogAnswer or (kind is protocol.Elsewhere and said.request):
                self._answer(said.request, said)
            elif kind is protocol.ReplayAnswer:
                self._answer(said.request, said.past)
            else:
                self.heard(said)

    def _answer(self, number: int, answer: Any) -> None:
        _, future = self._requests.get(number, (b"", None))
        if future is None or future.done():
            return
        if isinstance(answer, PalioError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    def _welcomed(self, welcome: Welcome) -> None:
        is_first = self.welcome is None
        self.welcome = welcome
        if self._channel is not None:
            self._channel.beat_every(welcome.heartbeat)
        self._ready.set()
        if not is_first:
            under_way = [frame for frame, _ in self._requests.values()]
            self.again()
            for frame in under_way:
                self.say(frame)
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(None)

    def writable(self, channel: Channel) -> None:
        self._room.set()

    def lost(self, channel: Channel, reason: str) -> None:
        if channel is not self._channel:
            return
        self._channel = None
        self._buffered = 0
        self._ready.clear()
        self._room.set()
        error = channel.failure or _why(channel.said, str(self.address), reason)
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_exception(error)
        elif self._closing or not self._patience or isinstance(error, LimitReached | NotPermitted | WireError):
            # Whoever says the same again over another connection hears the same again.
            self._give_up(error)
        else:
            self._returning = asyncio.get_running_loop().create_task(self._return(), name="palio reconnects")


def _frame(said: Any) -> bytes:
    try:
        return protocol.encode(said)
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidArgument(f"a {type(said).__name__} that cannot be sent: {error}") from None


def _why(said: Goodbye | None, address: str, reason: str) -> PalioError:
    if said is None or said.kind == "unavailable":
        return ConnectionFailed(address, reason)
    return error_of(said.kind, said.reason)


def error_of(kind: Failure, reason: str) -> PalioError:
    """The error that a failure on the wire stands for."""
    match kind:
        case "not authenticated":
            return AuthenticationFailed(reason)
        case "not advertised":
            return NotAdvertised(reason)
        case "not permitted":
            return _told(NotPermitted, reason)
        case "limit":
            return _told(LimitReached, reason)
        case "full":
            return _told(StoreFull, reason)
        case "broken":
            return _told(StoreError, reason)
        case "wire":
            return WireError(reason)
        case "away":
            return _told(HomeAway, reason)
    return Refused(reason)


def _told(kind: type[PalioError], reason: str) -> PalioError:
    """An error whose parts stayed at the broker, with the sentence that it made of them."""
    error = kind.__new__(kind)
    error.args = (reason,)
    error.reason = reason  # type: ignore[attr-defined]
    return error
