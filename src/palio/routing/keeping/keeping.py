"""At-least-once delivery at one broker: the log of what it let in, its durable queues, and what lies between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from palio.events import Event
from palio.routing.clients import PublishClient, Refusal
from palio.routing.effects import (
    Client,
    Effect,
    Entry,
    Home,
    Logged,
    Persist,
    Queued,
    QueueFree,
    QueueFull,
    Recipient,
    Remembered,
    SetTimer,
)
from palio.routing.forwarding.protocol import Arrival
from palio.routing.keeping.attempts import Attempts
from palio.routing.keeping.echo import Echo
from palio.routing.keeping.limits import Limits
from palio.routing.keeping.log import Log
from palio.routing.keeping.queues import Queues
from palio.routing.keeping.reach import ALL, HOME, KINDS, LOG, Awaited, Reachable
from palio.routing.keeping.window import Window, identity, published
from palio.routing.messages import LOCAL, Acknowledge, EventId, Kept, Publish, Reach

TIMER: Final = "keeping"
_AGAIN: Final = 0.5  # seconds until something that did not reach everyone, and now may, is tried again


class Keeping:
    """What one broker does for events that are kept. `stirs` where there is something to say after a batch."""

    __slots__ = (
        "_attempts",
        "_echo",
        "_grown",
        "_incarnation",
        "_is_timed",
        "_log",
        "_node",
        "_tokens",
        "_writing",
        "awaited",
        "has_durable",
        "queues",
        "reachable",
        "stirs",
    )

    def __init__(
        self, node: int, incarnation: int, remembered: Remembered, tokens: Iterator[int], limits: Limits
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._tokens = tokens
        seen = Window(remembered.seen, remembered.window)
        self._log = Log(incarnation, limits.spill, limits.under_way, seen, remembered.unfinished)
        self.queues = Queues(seen)
        self._attempts = Attempts(self._log.ended)
        self.reachable = Reachable()
        self.awaited = Awaited(remembered.homes)
        self._echo = Echo(limits.needs_echo)
        self._grown = 0
        self._is_timed = False
        self._writing: dict[int, list[Entry]] = {}
        self.has_durable = False
        self.stirs = bool(remembered.homes or remembered.unfinished)
        self._show()

    # What a broker tells of its neighbours

    def opened(self, link: int) -> None:
        self.stirs = True
        self.reachable.opened(link)

    def given_up(self, link: int) -> list[Effect]:
        self.stirs = True
        self._attempts.given_up(link)
        return self.reachable.closed(link)

    def lost(self, link: int) -> None:
        """There is nobody any more at the other end of a link, which is given up next."""
        self.stirs = True
        self._attempts.lost(link)

    def forgot(self, link: int) -> list[Effect]:
        """What came by a link is about to come again."""
        self.stirs = True
        self._attempts.shrunk(link)
        return self.reachable.lost(link)

    def reached(self, link: int, said: Reach) -> list[Effect]:
        self.stirs = True
        effects: list[Effect] = []
        if said.removed:
            self._attempts.shrunk(link)
            effects = self.reachable.removed(link, said.removed)
        self.reachable.added(link, said.added)
        self.awaited.learn(self.reachable.standings())
        return effects

    def acknowledged(self, link: int, said: Acknowledge) -> None:
        self.stirs = True
        self._attempts.acknowledged(link, said)

    def give_up(self, broker: int, standing: int) -> None:
        """A broker is not coming back."""
        if broker not in self.reachable and self.awaited.give_up(broker, standing):
            self.stirs = True
            self._log.again()

    # Clients

    def subscribed(self, client: Client, name: str, durable: bool) -> None:
        """A subscription is there, or is not any more."""
        self.queues.subscribed(client, name, durable)
        self.has_durable = self.queues.has_any
        if durable:
            self._become(HOME)

    def filled(self, full: QueueFull) -> list[Effect]:
        """Nobody reaches this broker until there is room again: its kept events wait where they were let in."""
        self.stirs = True
        self.queues.filled(full.client, full.name)
        return self._show()

    def freed(self, free: QueueFree) -> list[Effect]:
        self.stirs = True
        self.queues.freed(free.client, free.name)
        return self._show()

    def publish(self, client: Client, request: PublishClient, event: Publish, content: Event) -> list[Effect]:
        """Somebody wants to be assured of an event."""
        self.stirs = True
        self._become(LOG)
        return self._log.publish(client, request.number, _logged(client, request, event, content), self.missing)

    def publish_together(
        self, client: Client, requests: Sequence[PublishClient], events: Sequence[tuple[Publish, Event]]
    ) -> list[Effect]:
        """Somebody wants to be assured of several events, all or none."""
        self.stirs = True
        self._become(LOG)
        logged = [
            (request.number, _logged(client, request, *event)) for request, event in zip(requests, events, strict=True)
        ]
        return self._log.publish_together(client, logged, self.missing)

    def standing_of(self, broker: int) -> int | None:
        """What was last heard of a broker that is waited for."""
        return self.awaited.standing(broker) if broker not in self.reachable else None

    # What is routed

    def attempts(self) -> Iterator[Arrival]:
        """Events of the log that are to be routed now."""
        if self._grown != self.reachable.grown:
            self._grown = self.reachable.grown
            self._log.again()
        return (Arrival(LOCAL, event) for event in self._log.attempts())

    def routed(self, arrival: Arrival, links: Sequence[int], recipients: Sequence[Recipient]) -> list[Effect]:
        """An event has been sent on, and this broker's own clients get it."""
        self.stirs = True
        event = arrival.message
        if event.kept is None:
            return self.queues.take(recipients, event)
        who, attempt = event.kept.identity, event.kept.attempt
        whole = arrival.interface != LOCAL or self._is_whole
        if self.queues.is_blocked(recipients):
            self._attempts.begin(event.id, attempt, arrival.interface, links, True, False)
            return []
        effects = self.queues.keep(recipients, event, who)
        is_written = self.queues.is_written(who, event.id, attempt)
        self._attempts.begin(event.id, attempt, arrival.interface, links, is_written, whole)
        return effects

    def refuse(self, arrival: Arrival) -> None:
        """An event that is not routed, because it was here before by another way."""
        if arrival.message.kept is not None:
            self.stirs = True
            self._attempts.refuse(arrival.interface, arrival.message.id, arrival.message.kept.attempt)

    def pass_by(self, arrival: Arrival) -> None:
        """An event that may not come in: nobody behind this broker is to have it, and nobody waits for it."""
        if arrival.message.kept is not None:
            self.stirs = True
            self._attempts.pass_by(arrival.interface, arrival.message.id, arrival.message.kept.attempt)

    # What is to be said and written

    def tell(self) -> list[Effect]:
        """Tell neighbours of homes that came; to be called when they have been told what is wanted."""
        return self.reachable.tell()

    def asks(self) -> int | None:
        """The state of the network for which all brokers are to be asked now, if any is; see `echoed`."""
        state = self.reachable.grown
        if not len(self._log) or not self._echo.is_due(state) or not self.awaited.all_in(self.reachable):
            return None
        self._echo.asked(state)
        return state

    def echoed(self, state: int) -> None:
        """All brokers know what they must for the events of this one to reach them."""
        self.stirs = True
        self._echo.answered(state)
        self._log.again()

    def advertised(self) -> None:
        """Somebody here says what will be published: subscriptions that it may be for have yet to come."""
        self.stirs = True
        self.reachable.grown += 1

    def settle(self) -> list[Effect]:
        """What is to be done after a batch."""
        self.stirs = False
        effects = self._attempts.answers()
        for records in ([*self.awaited.unwritten(), *self._log.unwritten()], self.queues.unwritten()):
            if records:
                effects.append(self._write(records))
        effects += self._log.room()
        if self._log.has_held and self._is_whole and not self._is_timed:
            self._is_timed = True
            effects.append(SetTimer(TIMER, _AGAIN))
        return effects

    def _write(self, records: Sequence[Entry]) -> Persist:
        token = next(self._tokens)
        self._writing[token] = list(records)
        return Persist(tuple(records), token)

    def written(self, token: int) -> list[Effect]:
        """The disk has answered."""
        effects: list[Effect] = []
        for record in self._writing.pop(token, ()):
            self.stirs = True
            if isinstance(record, Logged):
                effects += self._log.written(record)
            elif isinstance(record, Queued):
                for id, attempt in self.queues.written(record):
                    self._attempts.written(id, attempt)
        return effects

    def failed(self, token: int, reason: str, kind: Refusal) -> list[Effect]:
        """The disk has no room, or worse."""
        effects: list[Effect] = []
        records = self._writing.pop(token, [])
        events = [list(each) for _, each in groupby(records, key=_event_of)]
        if len(events) > 1 and all(isinstance(record, Queued) for record in records):
            # Some may fit where all do not; an event is written into all of its queues, or into none.
            return [self._write(each) for each in events]
        for record in records:
            self.stirs = True
            if isinstance(record, Logged):
                effects += self._log.failed(record, reason, kind)
            elif isinstance(record, Home):
                self.awaited.write_again(record)
            elif isinstance(record, Queued):
                for id, attempt in self.queues.failed(record):
                    self._attempts.not_written(id, attempt, self._node)
        return effects

    def fired(self) -> None:
        self.stirs = True
        self._is_timed = False
        self._log.again()

    @property
    def is_learning(self) -> bool:
        """Whether homes were heard of that are not on disk yet."""
        return self.awaited.has_unwritten or any(
            isinstance(record, Home) for records in self._writing.values() for record in records
        )

    @property
    def unfinished(self) -> int:
        """How many events are not known to be where they are for."""
        return len(self._log)

    @property
    def missing(self) -> list[int]:
        """The brokers with durable subscriptions that are away."""
        return self.awaited.missing(self.reachable)

    @property
    def not_writing(self) -> list[int]:
        """The brokers with durable subscriptions that are there, and whose disks do not take what is for these."""
        return sorted(home for home in self._log.unwritten_by if self.reachable.is_home(home))

    @property
    def _is_whole(self) -> bool:
        """Whether an event that is routed now reaches everyone that it is for."""
        return self.awaited.all_in(self.reachable) and self._echo.holds(self.reachable.grown)

    def _become(self, kind: int) -> None:
        """This broker keeps something of a kind from now on."""
        standing = self._incarnation << KINDS | ((self.awaited.standing(self._node) or 0) & ALL) | kind
        if standing != self.awaited.standing(self._node):
            self.stirs = True
            self.awaited.learn({self._node: standing})
            self._show()

    def _show(self) -> list[Effect]:
        """This broker is reached by others where it keeps something and can take what comes."""
        kept = (self.awaited.standing(self._node) or 0) & ALL
        if not kept or self.queues.has_full:
            return self.reachable.removed(LOCAL, [self._node])
        self.reachable.added(LOCAL, [(self._node, self._incarnation << KINDS | kept)])
        return []


def _event_of(record: Entry) -> EventId | None:
    return record.event.id if isinstance(record, Queued) else None


def _logged(client: Client, request: PublishClient, event: Publish, content: Event) -> Logged:
    publisher = request.publisher or client
    who = identity(publisher, content)
    return Logged(msgspec.structs.replace(event, kept=Kept(who, 0)), publisher, published(who))
