"""At-least-once delivery at one broker: the log of what it let in, its durable queues, and what lies between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from palio.events import Event
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
from palio.routing.keeping.limits import Limits
from palio.routing.keeping.log import Log
from palio.routing.keeping.queues import Queues
from palio.routing.keeping.reach import Awaited, Reachable
from palio.routing.keeping.window import Window, identity
from palio.routing.messages import LOCAL, Acknowledge, Kept, Publish, Reach

TIMER: Final = "keeping"
_AGAIN: Final = 0.5  # seconds until something that did not reach everyone, and now may, is tried again


class Keeping:
    """What one broker does for events that are kept. `stirs` where there is something to say after a batch."""

    __slots__ = (
        "_asked",
        "_attempts",
        "_awaited",
        "_echoed",
        "_grown",
        "_incarnation",
        "_is_timed",
        "_log",
        "_needs_echo",
        "_node",
        "_queues",
        "_reachable",
        "_tokens",
        "_writing",
        "has_durable",
        "stirs",
    )

    def __init__(
        self,
        node: int,
        incarnation: int,
        remembered: Remembered,
        tokens: Iterator[int],
        limits: Limits,
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._tokens = tokens
        seen = Window(remembered.seen)
        self._log = Log(incarnation, limits.spill, limits.under_way, seen, remembered.unfinished)
        self._queues = Queues(seen)
        self._attempts = Attempts(self._log.ended)
        self._reachable = Reachable()
        self._awaited = Awaited(remembered.homes)
        self._needs_echo = limits.needs_echo
        self._grown = self._asked = self._echoed = 0
        self._is_timed = False
        self._writing: dict[int, list[Entry]] = {}
        self.has_durable = False
        self.stirs = bool(remembered.homes or remembered.unfinished)
        self._show()

    # What a broker tells of its neighbours

    def opened(self, link: int) -> None:
        self.stirs = True
        self._reachable.opened(link)

    def given_up(self, link: int) -> list[Effect]:
        self.stirs = True
        self._attempts.given_up(link)
        return self._reachable.closed(link)

    def lost(self, link: int) -> None:
        """There is nobody any more at the other end of a link, which is given up next."""
        self.stirs = True
        self._attempts.lost(link)

    def forgot(self, link: int) -> list[Effect]:
        """What came by a link is about to come again."""
        self.stirs = True
        self._attempts.shrunk(link)
        return self._reachable.lost(link)

    def reached(self, link: int, said: Reach) -> list[Effect]:
        self.stirs = True
        effects: list[Effect] = []
        if said.removed:
            self._attempts.shrunk(link)
            effects = self._reachable.removed(link, said.removed)
        self._reachable.added(link, said.added)
        self._awaited.learn(self._reachable.lives())
        return effects

    def acknowledged(self, link: int, said: Acknowledge) -> None:
        self.stirs = True
        self._attempts.acknowledged(link, said)

    def give_up(self, broker: int, life: int) -> None:
        """A broker is not coming back."""
        if broker not in self._reachable and self._awaited.give_up(broker, life):
            self.stirs = True
            self._log.again()

    # Clients

    def subscribed(self, client: Client, name: str, durable: bool) -> None:
        """A subscription is there, or is not any more."""
        self._queues.subscribed(client, name, durable)
        self.has_durable = self._queues.has_any
        if durable:
            self.stirs = True
            self._awaited.learn({self._node: self._incarnation})
        self._show()

    def is_durable(self, client: Client, name: str) -> bool:
        return self._queues.is_durable(client, name)

    def filled(self, full: QueueFull) -> list[Effect]:
        """Nobody reaches this broker until there is room again: its kept events wait where they were let in."""
        self.stirs = True
        self._queues.filled(full.client, full.name)
        return self._show()

    def freed(self, free: QueueFree) -> list[Effect]:
        self.stirs = True
        self._queues.freed(free.client, free.name)
        return self._show()

    def publish(self, client: Client, number: int, event: Publish, content: Event) -> list[Effect]:
        """Somebody wants to be assured of an event."""
        self.stirs = True
        who = identity(client, content)
        kept = msgspec.structs.replace(event, kept=Kept(who, 0))
        return self._log.publish(client, number, kept, who, self._awaited.missing(self._reachable))

    def life_of(self, broker: int) -> int | None:
        """The last known life of a broker that is waited for."""
        return self._awaited.life(broker) if broker not in self._reachable else None

    # What is routed

    def attempts(self) -> Iterator[Arrival]:
        """Events of the log that are to be routed now."""
        if self._grown != self._reachable.grown:
            self._grown = self._reachable.grown
            self._log.again()
        return (Arrival(LOCAL, event) for event in self._log.attempts())

    def routed(self, arrival: Arrival, links: Sequence[int], recipients: Sequence[Recipient]) -> list[Effect]:
        """An event has been sent on, and this broker's own clients get it."""
        self.stirs = True
        event = arrival.message
        if event.kept is None:
            return self._queues.take(recipients, event)
        who, attempt = event.kept.identity, event.kept.attempt
        whole = arrival.interface != LOCAL or self._is_whole
        if self._queues.is_blocked(recipients):
            self._attempts.begin(event.id, attempt, arrival.interface, links, True, False)
            return []
        effects = self._queues.keep(recipients, event, who)
        is_written = self._queues.is_written(who, event.id, attempt)
        self._attempts.begin(event.id, attempt, arrival.interface, links, is_written, whole)
        return effects

    def refuse(self, arrival: Arrival) -> None:
        """An event that is not routed, because it was here before by another way."""
        if arrival.message.kept is not None:
            self.stirs = True
            self._attempts.refuse(arrival.interface, arrival.message.id, arrival.message.kept.attempt)

    # What is to be said and written

    def tell(self) -> list[Effect]:
        """Tell neighbours of homes that came; to be called when they have been told what is wanted."""
        return self._reachable.tell()

    def asks(self) -> int | None:
        """The state of the network for which all brokers are to be asked whether they know, if any is; see `echoed`."""
        now = self._reachable.grown
        is_due = self._needs_echo and len(self._log) > 0 and self._asked != now
        if not is_due or not self._awaited.all_in(self._reachable):
            return None
        self._asked = now
        return now

    def echoed(self, state: int) -> None:
        """All brokers know what they must for the events of this one to reach them."""
        self.stirs = True
        self._echoed = max(self._echoed, state)  # one asked earlier may be answered later
        self._log.again()

    def advertised(self) -> None:
        """Somebody here says what will be published: subscriptions that it may be for have yet to come."""
        self.stirs = True
        self._reachable.grown += 1

    def settle(self) -> list[Effect]:
        """What is to be done after a batch."""
        self.stirs = False
        effects = self._attempts.answers()
        for records in ([*self._awaited.unwritten(), *self._log.unwritten()], self._queues.unwritten()):
            if records:
                token = next(self._tokens)
                self._writing[token] = list(records)
                effects.append(Persist(tuple(records), token))
        effects += self._log.room()
        if self._log.has_held and self._is_whole and not self._is_timed:
            self._is_timed = True
            effects.append(SetTimer(TIMER, _AGAIN))
        return effects

    def written(self, token: int) -> list[Effect]:
        """The disk has answered."""
        effects: list[Effect] = []
        for record in self._writing.pop(token, ()):
            self.stirs = True
            if isinstance(record, Logged):
                effects += self._log.written(record)
            elif isinstance(record, Queued):
                for id, attempt in self._queues.written(record):
                    self._attempts.written(id, attempt)
        return effects

    def failed(self, token: int, reason: str) -> list[Effect]:
        """The disk has no room, or worse."""
        effects: list[Effect] = []
        for record in self._writing.pop(token, ()):
            self.stirs = True
            if isinstance(record, Logged):
                effects += self._log.failed(record, reason)
            elif isinstance(record, Home):
                self._awaited.write_again(record)
            elif isinstance(record, Queued):
                for id, attempt in self._queues.failed(record):
                    self._attempts.written(id, attempt, whole=False)
        return effects

    def fired(self) -> None:
        self.stirs = True
        self._is_timed = False
        self._log.again()

    @property
    def is_learning(self) -> bool:
        """Whether homes were heard of that are not on disk yet."""
        return self._awaited.has_unwritten or any(
            isinstance(record, Home) for records in self._writing.values() for record in records
        )

    @property
    def unfinished(self) -> int:
        """How many events are not known to be where they are for."""
        return len(self._log)

    @property
    def missing(self) -> list[int]:
        """The brokers with durable subscriptions that are away."""
        return self._awaited.missing(self._reachable)

    @property
    def inversions(self) -> int:
        """How many kept events came here after one that the same broker had let in later."""
        return self._queues.inversions

    @property
    def _is_whole(self) -> bool:
        """Whether an event that is routed now reaches everyone that it is for."""
        return self._awaited.all_in(self._reachable) and (not self._needs_echo or self._echoed == self._reachable.grown)

    def _show(self) -> list[Effect]:
        """This broker is reached by others where it is a home and can take what comes."""
        is_there = self._node in self._awaited and not self._queues.has_full
        if is_there and not self._reachable.is_behind(LOCAL, self._node):
            self._reachable.added(LOCAL, [(self._node, self._incarnation)])
        elif not is_there:
            return self._reachable.removed(LOCAL, [self._node])
        return []
