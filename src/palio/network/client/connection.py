"""A client's connection to its broker, re-established when it breaks.

A request has a number; requests without an answer are sent again over the next connection. The broker carries out
each request of a session once, and one connection is one session. Attempts go through the given addresses in turn, with
exponential backoff and jitter.

A token goes to the given addresses alone. Where a durable subscription lives is said by brokers, of which one that
lies would otherwise be sent the token.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from palio.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    InvalidArgument,
    LimitReached,
    NotPermitted,
    PalioError,
    WireError,
)
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.backoff import Backoff
from palio.network.channel import Channel
from palio.network.client.clock import ConnectionClock
from palio.network.error_codes import error_of_code
from palio.network.protocol import (
    ClientHello,
    Delivery,
    Done,
    Failed,
    Goodbye,
    Matched,
    MatchedColumns,
    MatchedMany,
    Welcome,
)
from palio.routing.codec import MAX_FRAME_BYTES
from palio.routing.messages import ClockReference

_FIRST_BACKOFF_SECONDS: Final = 0.05
_MAX_BACKOFF_SECONDS: Final = 2.0
_HEARTBEAT_SECONDS: Final = 5.0  # until the broker's welcome says another interval
_FRAME_OVERHEAD_BYTES: Final = 64  # of a batch beside its body
_MAX_UNYIELDED_BYTES: Final = 64 * 1024  # written before a publisher yields to the event loop


class Connection:
    """Requests, answers and events over one connection at a time, until `close` or a lasting failure.

    `on_event` gets matched events, `on_batch` batches of them, and `on_message` all other messages that are no answer
    to a request. `on_reconnect` is called after a reconnection, to repeat the state of the session; `on_failure` when
    it ends for good.
    """

    def __init__(
        self,
        addresses: tuple[Address, ...],
        token: str,
        app: str,
        tls: ssl.SSLContext | None,
        patience: float,
        timeout: float,
        publisher: str,
        instance: str,
    ) -> None:
        self.addresses = addresses
        self.address = addresses[0]  # the broker that is, or was last, connected
        self.welcome: Welcome | None = None
        self.on_message: Callable[[Any], None] = lambda message: None
        self.on_event: Callable[[Matched], None] = lambda message: None
        self.on_batch: Callable[[MatchedMany | MatchedColumns], None] = lambda message: None
        self.on_reconnect: Callable[[], None] = lambda: None
        self.on_failure: Callable[[PalioError], None] = lambda error: None
        self.failure: PalioError | None = None
        self.takes_batches = True  # as said to the broker: whether several events may come in one message
        self._token = token
        self._app = app
        self._publisher = publisher
        self._instance = instance
        self._tls = tls
        self._patience = patience
        self._timeout = timeout
        self._channel: Channel | None = None
        self._requests: dict[int, tuple[bytes, asyncio.Future[Any]]] = {}  # unanswered ones, in the order of sending
        self._number = 0  # of the last request
        self._buffered = 0  # bytes written since the last yield to the event loop
        self._ready = asyncio.Event()  # connected and welcomed, or failed for good
        self._write_progress = asyncio.Event()
        self._is_closing = False
        self._reconnection: asyncio.Task[None] | None = None
        self._welcomed: asyncio.Future[None] | None = None
        self.clock = ConnectionClock(self.send)

    # Called by its users

    async def open(self, patience: float | None = None) -> None:
        """Connect for the first time; `patience` is how long attempts are repeated, if not as long as later on."""
        await self._dial_any(self._patience if patience is None else patience)

    async def close(self) -> None:
        """Close the connection; frames that were sent before still go out."""
        self._is_closing = True
        if self._reconnection is not None:
            self._reconnection.cancel()
            await asyncio.wait([self._reconnection])
        if self._channel is not None:
            self._channel.close("unavailable", "the client is leaving")
            while self._channel is not None:  # until `on_lost` clears it, which sets the event too
                self._write_progress.clear()
                await self._write_progress.wait()
        self._give_up(ConnectionFailed(str(self.address), "the connection was closed"))

    async def request(self, make: Callable[[int], Any], on_answered: Callable[[], None] | None = None) -> Any:
        """Send the request that `make` makes of a number, and wait for its answer.

        `on_answered` is called when the broker owes no answer any more: when this call ends or, if it is cancelled,
        when the answer arrives.
        """
        number, frame, future = 0, b"", None
        try:
            await self._until_ready()
            number, frame, future = self._begin(make)
            return await future
        except asyncio.CancelledError:
            # If the answer came in the same turn of the loop, the future has a result and no other answer will come.
            if on_answered is not None and future is not None and future.cancelled():
                self._answer_later(number, frame, on_answered)
                number, on_answered = 0, None
            raise
        finally:
            self._requests.pop(number, None)
            if on_answered is not None:
                on_answered()

    def _begin(self, make: Callable[[int], Any]) -> tuple[int, bytes, asyncio.Future[Any]]:
        self._number += 1
        number = self._number
        frame = self._check_frame(_encode(make(number)))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # Recorded before it is sent: without a connection, the next one sends it.
        self._requests[number] = frame, future
        self.send(frame)
        return number, frame, future

    def _answer_later(self, number: int, frame: bytes, on_answered: Callable[[], None]) -> None:
        future = asyncio.get_running_loop().create_future()
        self._requests[number] = frame, future
        self._when_answered(number, future, lambda error: on_answered(), lambda answer: on_answered())

    def to_address(self, address: Address) -> Connection:
        """A connection to another broker with the options of this one."""
        return Connection(
            (address,),
            self._token,
            self._app,
            self._tls,
            self._patience,
            self._timeout,
            self._publisher,
            self._instance,
        )

    def trusts(self, address: Address) -> bool:
        """Whether the user of this client named a broker, so that it may be sent the token, if there is one."""
        named = {(each.scheme, each.host, each.port) for each in self.addresses}
        return not self._token or (address.scheme, address.host, address.port) in named

    def request_nowait(
        self,
        make: Callable[[int], Any],
        failed: Callable[[PalioError], None],
        done: Callable[[Any], None] = lambda answer: None,
    ) -> None:
        """Send a request without waiting; `done` gets its answer, `failed` its error."""
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
    def is_writable(self) -> bool:
        """Whether an event may be sent without waiting."""
        return self._buffered < _MAX_UNYIELDED_BYTES and self._channel is not None and self._ready.is_set()

    async def send_event_when_writable(self, event: bytes) -> None:
        """Send an event that has no answer; waits while the connection's buffer is full (backpressure)."""
        if not self.is_writable:
            await self._until_ready()
            self._flush()
            await asyncio.sleep(0)  # lets the loop read answers and write what was flushed
            while self._channel is not None and self._channel.is_full:
                self._write_progress.clear()
                await self._write_progress.wait()
        self.send_event(self._check_frame(event))

    def send_event(self, event: bytes) -> None:
        """Send an event that has no answer, if connected."""
        if self._channel is not None:
            self._buffered += len(event)
            self._channel.send_event(event)

    def send(self, frame: bytes) -> None:
        """Send a frame now, if connected."""
        if self._channel is not None:
            self._buffered += len(frame)
            self._channel.send(frame)

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    @property
    def window(self) -> int:
        return self.welcome.window if self.welcome is not None else 1

    @property
    def longest_body(self) -> int:
        """The most bytes of a batch of events: a frame less what is around them."""
        return (self.welcome.longest_frame if self.welcome is not None else MAX_FRAME_BYTES) - _FRAME_OVERHEAD_BYTES

    @property
    def batch_events(self) -> int:
        """The most events of one batch; 0 where the broker takes no batches."""
        return self.welcome.batch_events if self.welcome is not None else 0

    def check_event(self, size: int) -> None:
        """LimitReached for an event that the broker would not accept."""
        if self.welcome is not None and size > self.welcome.longest_event:
            raise LimitReached("event_bytes", self.welcome.longest_event, f"an event of {size:,} bytes")

    def _check_frame(self, frame: bytes) -> bytes:
        """LimitReached for a frame that is too long: the broker would end the connection."""
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

    # Connecting and reconnecting

    async def _dial(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        context = None
        if self.address.is_secure:
            context = self._tls or ssl.create_default_context()
        elif self.address.scheme == "palio+udp":
            raise ConnectionFailed(str(self.address), "datagrams are for links between brokers; say palio://")
        self._welcomed = loop.create_future()
        try:
            async with asyncio.timeout(timeout):
                await loop.create_connection(
                    lambda: Channel(self, _HEARTBEAT_SECONDS), self.address.host, self.address.port, ssl=context
                )
                await self._welcomed
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
            raise  # it is an OSError too, as a ConnectionError
        except OSError as error:  # with the errors of TLS
            raise ConnectionFailed(str(self.address), str(error) or type(error).__name__) from error

    def _abandon(self) -> None:
        channel, self._channel = self._channel, None
        self.clock.end()
        if channel is not None:
            channel.abort("given up")

    async def _dial_any(self, patience: float) -> None:
        """Dial the addresses in turn, with exponential backoff and jitter, until connected or patience ends."""
        deadline = asyncio.get_running_loop().time() + patience
        backoff = Backoff(_FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
        first = self.addresses.index(self.address)
        for number in count():
            self.address = self.addresses[(first + number) % len(self.addresses)]
            try:
                await self._dial(self._timeout)
                return
            except (AuthenticationFailed, NotPermitted, WireError):
                raise  # another attempt would fail likewise
            except PalioError as error:
                is_round_over = (number + 1) % len(self.addresses) == 0
                is_lasting = isinstance(error.__cause__, ssl.SSLError)
                if is_lasting or (is_round_over and asyncio.get_running_loop().time() >= deadline):
                    raise
            if is_round_over:
                await asyncio.sleep(backoff.next())

    async def _reconnect(self) -> None:
        try:
            await self._dial_any(self._patience)
        except PalioError as error:
            self._give_up(error)

    def _give_up(self, error: PalioError) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self._ready.set()  # wakes the callers in `_until_ready`, which raise the failure
        for _, future in self._requests.values():
            if not future.done():
                future.set_exception(error)
        self.on_failure(error)

    # Called by the channel

    def on_open(self, channel: Channel) -> None:
        self._channel = channel
        hello = ClientHello(
            protocol.VERSION, self._app, self._token, self._publisher, self.takes_batches, self._instance
        )
        channel.send(protocol.encode(hello))

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        for frame in frames:
            message = protocol.decode_from_server(frame)
            kind = type(message)
            if kind is Matched:  # first, as by far the most frequent one
                if self.clock.is_on:
                    self.clock.receive(message)
                self.on_event(message)
            elif kind is MatchedMany or kind is MatchedColumns:
                self.clock.receive(message)
                self.on_batch(message)
            elif kind is Done:
                for number in message.requests:
                    self._answer(number, None)
            elif kind is Welcome:
                self._on_welcome(message)
            elif kind is Failed and message.request in self._requests:
                self._answer(message.request, error_of_code(message.kind, message.reason))
            elif kind is protocol.StatusAnswer:
                self._answer(message.request, message.status)
            elif kind is protocol.LogAnswer or (kind is protocol.Elsewhere and message.request):
                self._answer(message.request, message)
            elif kind is protocol.ReplayAnswer:
                self._answer(message.request, message.past)
            elif kind is ClockReference:
                self.clock.learn(message)
            else:
                if kind is Delivery:
                    self.clock.receive(message)
                self.on_message(message)

    def _answer(self, number: int, answer: Any) -> None:
        _, future = self._requests.get(number, (b"", None))
        if future is None or future.done():
            return
        if isinstance(answer, PalioError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    def _on_welcome(self, welcome: Welcome) -> None:
        is_first = self.welcome is None
        self.welcome = welcome
        if self._channel is not None:
            self._channel.beat_every(welcome.heartbeat)
        self.clock.begin(welcome.max_drift)
        self._ready.set()
        if not is_first:
            # Taken before `on_reconnect` adds requests of its own, which are sent as they are made.
            unanswered = [frame for frame, _ in self._requests.values()]
            self.on_reconnect()
            for frame in unanswered:
                self.send(frame)
        if self._welcomed is not None and not self._welcomed.done():
            self._welcomed.set_result(None)

    def on_writable(self, channel: Channel) -> None:
        self._write_progress.set()

    def on_lost(self, channel: Channel, reason: str) -> None:
        if channel is not self._channel:
            return  # abandoned by `_dial`; another one may be in its place
        self._channel = None
        self.clock.end()
        self._buffered = 0
        self._ready.clear()
        self._write_progress.set()
        error = channel.failure or _error_of_goodbye(channel.said, str(self.address), reason)
        if self._welcomed is not None and not self._welcomed.done():
            self._welcomed.set_exception(error)
        elif self._is_closing or not self._patience or isinstance(error, LimitReached | NotPermitted | WireError):
            # The same messages over another connection would be refused again.
            self._give_up(error)
        else:
            self._reconnection = asyncio.get_running_loop().create_task(self._reconnect(), name="palio reconnects")


def _encode(message: Any) -> bytes:
    try:
        return protocol.encode(message)
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidArgument(f"a {type(message).__name__} that cannot be sent: {error}") from None


def _error_of_goodbye(goodbye: Goodbye | None, address: str, reason: str) -> PalioError:
    if goodbye is None or goodbye.kind == "unavailable":
        return ConnectionFailed(address, reason)
    return error_of_code(goodbye.kind, goodbye.reason)
