"""How do events flow to whoever only listens? As Server-Sent Events (HTML §9.2), each a CloudEvent in JSON.

An event of a durable subscription has an id. A client that comes back with the last id it saw, as browsers do by
themselves, says by that what it has dealt with.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from palio.errors import InvalidArgument
from palio.network.gateway.cloudevents import write_cloudevent
from palio.network.gateway.problems import describe
from palio.network.handing import Delivered
from palio.network.sessions import Session
from palio.routing import codec

_AT_ONCE: Final = 256
_SILENCE: Final = 15.0  # seconds after which a comment shows that the connection lives
_RETRY: Final = "retry: 2000\n\n"


async def stream(session: Session, silence: float = _SILENCE) -> AsyncIterator[str]:
    """The events of a session, for as long as it lasts."""
    yield _RETRY
    while True:
        try:
            async with asyncio.timeout(silence):
                batch = await session.next_batch(_AT_ONCE)
        except TimeoutError:
            yield ": still here\n\n"
            continue
        if not batch:
            break
        yield "".join(map(_message, batch))
    if session.failure is not None:
        yield f"event: problem\ndata: {json.dumps(describe(session.failure))}\n\n"


def _message(delivered: Delivered) -> str:
    # One line: in JSON text a line break inside a string is always written as \n.
    number = f"id: {delivered.number}\n" if delivered.number else ""
    return f"{number}data: {write_cloudevent(codec.decode_event(delivered.event.body))}\n\n"


def read_last_id(text: str | None) -> int:
    """The number in a header Last-Event-ID; 0 where there is none."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidArgument("Last-Event-ID is the id of an event of this stream, a whole number")
    return int(text)
