"""Arena of hostile clients: a broker, an honest publisher and subscriber, and an attacker with a token of its own.

An attack is a coroutine under a name, with the promise that it tests. Honest events flow before, during and after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import palio
from palio import Event, Filter
from palio.network import protocol
from palio.network.channel import FrameReader, frame_header
from palio.network.client.broker import Broker
from palio.network.gateway.settings import HttpSettings
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from palio.network.security.quotas import BrokerLimits
from palio.network.server.process import Server
from palio.routing import codec
from tests.network.memory import resident_bytes
from tests.network.running import broker, run, url

_HEARTBEAT_SECONDS = 0.3
MAX_GROWTH_BYTES = 400 * 1024 * 1024  # of the whole process, which runs attackers too
LIMITS = BrokerLimits(
    connections=120,
    connections_per_principal=60,
    connections_per_address=90,
    handshake_seconds=0.5,
    request_seconds=1.0,
    frame_bytes=1024 * 1024,
    unread_bytes=4 * 1024 * 1024,
    subscriptions_per_principal=100,
    batch_events=100,
)


@dataclass(frozen=True)
class Attack:
    """An attack, and the promise that it tests."""

    name: str
    promise: str
    run: Callable[[Arena], Awaitable[None]]


ATTACKS: list[Attack] = []


def attack(promise: str) -> Callable[[Callable[[Arena], Awaitable[None]]], Callable[[Arena], Awaitable[None]]]:
    """Register an attack under the name of its function."""

    def register(function: Callable[[Arena], Awaitable[None]]) -> Callable[[Arena], Awaitable[None]]:
        ATTACKS.append(Attack(function.__name__, promise, function))
        return function

    return register


class Wire:
    """A connection of the binary protocol that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.beats = False  # whether it shows that it is alive, while it waits for an answer
        self._frames = FrameReader()
        self._heard: list[bytes] = []

    def say(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frame_header(len(frame)) + frame for frame in frames))

    def tell(self, *messages: Any) -> None:
        self.say(*map(protocol.encode, messages))

    async def hear(self) -> Any:
        """The next message but heartbeats; None when the connection is closed."""
        while True:
            while not self._heard:
                try:
                    data = await asyncio.wait_for(self.reader.read(65_536), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    if self.beats:
                        self.tell(protocol.Ping())
                    continue
                except OSError:
                    return None
                if not data:
                    return None
                self._heard += self._frames.feed(data)
            said = protocol.decode_from_server(self._heard.pop(0))
            if type(said) is not protocol.Ping:
                return said

    async def hear_failure(self) -> protocol.Failed | protocol.Goodbye | protocol.Ended | None:
        """The next refusal; None when the connection is closed without one."""
        while True:
            said = await self.hear()
            if said is None or isinstance(said, protocol.Failed | protocol.Goodbye | protocol.Ended):
                return said

    async def is_closed(self) -> bool:
        """Wait until the broker closes it."""
        while await self.hear() is not None:
            pass
        return True

    def close(self) -> None:
        self.writer.close()


@dataclass
class Arena:
    """The broker, its honest pair, and the attacker's means."""

    server: Server
    eve: str
    mallory: str
    publisher: Broker
    subscriber: Any
    wires: list[Wire] = field(default_factory=list)
    _sent: int = 0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def exchange(self) -> None:
        """An honest event is confirmed and delivered."""
        async with self._lock:
            self._sent += 1
            await self.publisher.publish({"honest": self._sent}, confirm=True)
            while (await anext(self.subscriber)).get("honest") != self._sent:
                pass

    async def raw(self, http: bool = False) -> Wire:
        """A connection that has said nothing."""
        assert self.server.gateway is not None
        place = self.server.gateway.address if http else (self.server.addresses[0].host, self.server.addresses[0].port)
        wire = Wire(*await asyncio.open_connection(*place))
        self.wires.append(wire)
        return wire

    async def wire(self, token: str | None = None) -> Wire:
        """A connection that is authenticated, as Eve unless another token is given."""
        made = await self.raw()
        made.tell(protocol.ClientHello(protocol.VERSION, "hostile", self.eve if token is None else token))
        assert type(await made.hear()) is protocol.Welcome
        made.beats = True
        return made

    async def ask(self, request: bytes) -> bytes:
        """The answer to a request over HTTP, as bytes, until the broker closes or has answered."""
        wire = await self.raw(http=True)
        wire.writer.write(request)
        return await answer_of(wire)

    def head(self, line: str, *headers: str) -> bytes:
        """The head of a request as Eve."""
        lines = [f"{line} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.eve}", *headers]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def answer_of(wire: Wire) -> bytes:
    """Status and head of the next answer, or nothing where the connection is closed."""
    try:
        return await wire.reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        return getattr(error, "partial", b"")


def body(**content: Any) -> bytes:
    return codec.encode_event(Event.from_dict(content))


@asynccontextmanager
async def arena(data: Path, **changes: Any) -> AsyncIterator[Arena]:
    """A broker with tokens, over the binary protocol and HTTP."""
    every = Filter.everything
    tokens = Tokens(data)
    honest = tokens.add(Principal("honest", may_subscribe=every, may_publish=every))
    eve = tokens.add(Principal("eve", may_subscribe=every, may_publish=Filter.parse("eve IS NOT NULL")))
    mallory = tokens.add(Principal("mallory", may_subscribe=Filter.parse("public = TRUE")))
    settings = {
        "http": HttpSettings(port=0),
        "limits": LIMITS,
        "heartbeat": _HEARTBEAT_SECONDS,
        "data": data,
        **changes,
    }
    async with (
        broker(**settings) as server,
        palio.connect(url(server), honest) as publisher,
        palio.connect(url(server), honest) as subscribing,
        subscribing.subscribe("honest > 0", queue=100) as subscriber,
    ):
        made = Arena(server, eve, mallory, publisher, subscriber)
        try:
            yield made
        finally:
            for each in made.wires:
                each.close()


def run_attack(attack: Attack, data: Path) -> None:
    """Attack a broker while an honest pair uses it; the pair goes on, and memory is bounded."""

    async def test() -> None:
        async with arena(data) as made:
            await made.exchange()
            before = resident_bytes()
            going = asyncio.create_task(_go_on(made))
            await attack.run(made)
            going.cancel()
            with suppress(asyncio.CancelledError):
                await going
            # Cancelled in the middle of an exchange: another one shows that nothing is stuck.
            await made.exchange()
            assert resident_bytes() - before < MAX_GROWTH_BYTES

    run(test)


async def _go_on(made: Arena) -> None:
    while True:
        await made.exchange()
        await asyncio.sleep(0.02)
