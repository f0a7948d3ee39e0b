"""How does a program reach a broker? `palio.connect`, an asynchronous context manager.

async with palio.connect("palio://localhost:7420") as broker:
    async with broker.subscribe("price > 100") as events:
        async for event in events: ...
"""

from __future__ import annotations

import ssl
from secrets import token_hex
from types import TracebackType

from palio.errors import PalioError
from palio.network.addresses import Address
from palio.network.client.broker import Broker
from palio.network.client.connection import Connection
from palio.network.client.stream import check_text
from palio.network.protocol import LONGEST_NAME, LONGEST_TOKEN


class Connecting:
    """A broker that is connected to when this is entered, and left when it is left."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __aenter__(self) -> Broker:
        await self._broker.open()
        return self._broker

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._broker.close()
        except PalioError:
            if error is None:  # otherwise that is more urgent
                raise


def connect(
    url: str = "palio://127.0.0.1:7420",
    token: str | None = None,
    *,
    app: str | None = None,
    tls: ssl.SSLContext | None = None,
    patience: float = 30.0,
    timeout: float = 10.0,
    publisher: str | None = None,
) -> Connecting:
    """Connect to a broker; `async with` it.

    `timeout` is how many seconds the first connection may take. One that breaks later is made again for as long as
    `patience` says, with all subscriptions and advertisements, and what was published with a confirmation is sent again
    where none came; 0 is not at all. `app` names this program to whoever looks at the broker.

    `publisher` names it to the broker's memory: an event that was confirmed, and that comes again from the same
    publisher with the same source and id, is not let in twice. Without a name that holds for this connection alone,
    however often it breaks.
    """
    address = Address.parse(url)
    name = app if app is not None else address.app
    publisher = publisher or token_hex(8)
    for what, said, longest in (
        ("the name of an application", name, LONGEST_NAME),
        ("the name of a publisher", publisher, LONGEST_NAME),
        ("a token", token or "", LONGEST_TOKEN),
    ):
        check_text(what, said, longest)
    return Connecting(Broker(Connection(address, token or "", name, tls, patience, timeout, publisher)))
