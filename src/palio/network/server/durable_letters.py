"""Dead letters of durable subscriptions: their form for an operator, and their return into the queue.

The letter of a durable subscription has the client name of its owner (`durable_client`) and the body of the event as it
was queued, so that nothing of it is lost on the way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palio.errors import PalioError, UnknownSubscription
from palio.network.server.durable_consumers import DURABLE_CLIENT_PREFIX
from palio.network.server.pending_requests import answer_future
from palio.network.store.interface import DeadLetter, DeadLettersRemoved
from palio.routing import codec
from palio.routing.effects import Queued
from palio.routing.messages import EventId, Publish

if TYPE_CHECKING:
    from palio.network.server.host import Host


def is_of_durable(letter: DeadLetter) -> bool:
    return letter.client.startswith(DURABLE_CLIENT_PREFIX)


def letter_text(letter: DeadLetter) -> str:
    """The event of a letter as JSON text; its bytes as text where they are none."""
    try:
        return codec.decode_event(letter.data).to_json()
    except PalioError:
        return letter.data.decode("utf-8", "replace")


async def return_to_queue(host: Host, letter: DeadLetter) -> None:
    """Put the event of a letter at the end of its durable queue, without failures, in one write with the end of the
    letter; `UnknownSubscription` where the subscription has ended."""
    if not host.is_durable(letter.client, letter.name):
        raise UnknownSubscription(letter.name)
    # No broker has the number 0: the store must not take it for an event of its log.
    event = Publish(EventId(0, 0, letter.number), letter.data)
    done, on_answer = answer_future()
    host.queue_again(Queued(letter.client, (letter.name,), event), DeadLettersRemoved((letter.number,)), on_answer)
    await done
