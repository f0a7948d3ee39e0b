"""A broker alone: batches in, effects out."""

from __future__ import annotations

from typing import Any

from palio import Event, Filter
from palio.routing.broker import Broker
from palio.routing.codec import encode_event
from palio.routing.combinations import Combination
from palio.routing.effects import (
    Effect,
    Fetch,
    Fetched,
    LinkUp,
    Logged,
    Persist,
    Persisted,
    Received,
    Requested,
    Send,
)
from palio.routing.messages import (
    Begin,
    EventId,
    Publish,
    Subscribe,
)


class Alone:
    """A broker whose disk answers at once, and whose links are what a test says."""

    def __init__(self, propagation: str = "identity", links: int = 0, credit: int = 100, **choices: Any) -> None:
        self.broker = Broker(7, 1, Combination(propagation, **choices))
        self.logged: dict[EventId, Publish] = {}
        for link in range(1, links + 1):
            self.up(link, credit)

    def __call__(self, *inputs: Any) -> list[Effect]:
        effects = self.broker.handle_batch(inputs, 0.0)
        for written in [each for each in effects if isinstance(each, Persist)]:
            self.logged |= {each.event.id: each.event for each in written.records if isinstance(each, Logged)}
            effects += self(Persisted(written.token))
        for fetch in [each for each in effects if isinstance(each, Fetch)]:
            effects.remove(fetch)
            effects += self(Fetched(fetch.token, tuple(self.logged[id] for id in fetch.ids)))
        return effects

    def up(self, link: int, credit: int = 100) -> list[Effect]:
        return self(LinkUp(link, 100 + link, credit), Received(link, Begin(), 0.0))

    def says(self, link: int, *messages: Any) -> list[Effect]:
        return self(*(Received(link, each, 0.0) for each in messages))

    def asks(self, *requests: Any, client: str = "desk") -> list[Effect]:
        return self(*(Requested(client, each, 0.0) for each in requests))


def wanted(text: str) -> Filter:
    return Filter.parse(text)


def subscription(text: str) -> Subscribe:
    return Subscribe(wanted(text).digest, wanted(text))


def event(**content: Any) -> bytes:
    return encode_event(Event.from_dict(content, id="one"))


def sends(effects: list[Effect]) -> list[tuple[tuple[int, ...], Any]]:
    return [(each.links, each.message) for each in effects if isinstance(each, Send)]
