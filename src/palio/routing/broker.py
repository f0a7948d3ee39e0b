"""A broker: a deterministic object without I/O. Inputs of a batch go in with the time, effects come out in order.

It asks its tables who must be told what, its forwarding where events go, and in a network with circles its spanning
tree which links count. All it wants done it says as effects; a crash may come between any two of them. Tables are
brought up to date before the events of a batch are routed, and all events of a batch are routed together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

from palio.routing import messages
from palio.routing.announcing import Announcing
from palio.routing.claims import Claims
from palio.routing.clients import ClientRequest, PublishClient
from palio.routing.combinations import Combination
from palio.routing.effects import (
    Client,
    ClientGone,
    Credit,
    Drop,
    Effect,
    Input,
    LinkDown,
    LinkUp,
    NotPersisted,
    Persisted,
    QueueFree,
    QueueFull,
    ReadDone,
    Received,
    Remembered,
    Requested,
    TimerFired,
    Work,
    WorkDone,
)
from palio.routing.entrance import Entrance
from palio.routing.event_path import EventPath
from palio.routing.forwarding.annotated import EntryTable, WrittenAhead
from palio.routing.forwarding.flooding import FloodForwarding
from palio.routing.forwarding.known import make_forwarding
from palio.routing.forwarding.protocol import Arrival, Forwarding, Setting
from palio.routing.keeping.keeping import TIMER as KEEPING
from palio.routing.keeping.keeping import Keeping
from palio.routing.keeping.limits import Limits
from palio.routing.messages import EventId, Offer, Publish, Request
from palio.routing.neighbours import Neighbours
from palio.routing.outbox import Outbox
from palio.routing.replays import Replays
from palio.routing.reports import Reports
from palio.routing.requests import Requests
from palio.routing.serving import Serving
from palio.routing.spanning import Spanning, no_chance
from palio.routing.tables import Tables
from palio.routing.waves import Waves

_NOTHING: Final = Remembered()
_QUEUE: Final = 10_000  # events that may wait for a link


class Broker:
    """One broker. `remembered` is what its last life wrote down and did not take back; `random` is its only chance."""

    __slots__ = (
        "_announcing",
        "_effects",
        "_events",
        "_forwarding",
        "_jobs",
        "_keeping",
        "_neighbours",
        "_outbox",
        "_replays",
        "_requests",
        "_serving",
        "_unanswered",
        "_waves",
        "claims",
        "combination",
        "gates",
        "incarnation",
        "node",
        "tables",
    )

    def __init__(
        self,
        node: int,
        incarnation: int,
        combination: Combination,
        remembered: Remembered = _NOTHING,
        random: Callable[[], float] = no_chance,
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self.combination = combination
        self._forwarding = _forwarding(node, incarnation, combination)
        self._outbox = Outbox(int(combination.options.get("queue", _QUEUE)))
        spanning = Spanning(node, incarnation, random) if combination.has_circles else None
        self._neighbours = Neighbours(spanning, self._use, self._disuse, self._forget)
        tokens = count(1)
        self._keeping = Keeping(node, incarnation, remembered, tokens, Limits.of(combination))
        self._events = EventPath(self._forwarding, self._outbox, self._keeping, may_circle=combination.has_circles)
        reports = Reports(node, self._events) if combination.has_optimiser else None
        self._announcing = Announcing(self._forwarding, reports)
        self.tables = Tables(node, combination, reports or self._events)
        self._events.serve(self.tables.wants)
        self.gates = self._events.gates
        offers = self.tables.offers if combination.advertisements else None
        entrance = Entrance(node, incarnation, self._events, self._keeping, offers)
        self._waves = Waves(node, incarnation)
        self._replays = Replays(node, incarnation, tokens, self.gates)
        self.claims = Claims(node, incarnation, self._keeping)
        self._serving = Serving(
            self.tables,
            self._keeping,
            entrance,
            self._neighbours,
            self._waves,
            self._announcing,
            self._replays,
            self.claims,
        )
        self._requests = Requests(self._carry_out, self._serving.gone, tokens)
        self._unanswered: list[tuple[int, EventId]] = []  # questions that wait until homes are on disk
        self._jobs = 0
        self._effects: list[Effect] = []
        for client, request in remembered.records:
            self._carry_out(client, request)
        self._effects = []

    def handle_batch(self, inputs: Sequence[Input], now: float) -> list[Effect]:
        """Everything that happened to this broker at a time, and what it wants done about it."""
        is_told = False  # anything but an event, which changes no table
        for each in inputs:
            if type(each) is Received and type(each.message) is Publish:
                dropped = self._events.take(Arrival(each.link, each.message))
                if dropped is not None:
                    self._effects.append(dropped)
            elif type(each) is Requested and type(each.request) is PublishClient:
                self._requests.take(each.client, each.request)
            else:
                is_told = True
                self._effects += _HANDLERS[type(each)](self, each) or ()
        if is_told:
            self._tell()
        jobs = self._events.work()
        if self._keeping.stirs:
            self._keep()
        self._effects += self._events.route()
        if self._keeping.stirs:
            self._effects += self._keeping.settle()
        for job in jobs:
            self._jobs += 1
            self._effects.append(Work(job, self._jobs))
        effects, self._effects = self._effects, []
        return effects

    def _tell(self) -> None:
        """Say and write down what has changed."""
        self._effects += self.tables.differences()
        self._effects += self._announcing.report()
        written = self._requests.write()
        if written is not None:
            self._effects.append(written)

    def _keep(self) -> None:
        """Tell of homes behind this broker, after what is wanted there; then route what is to be routed of the log."""
        self._effects += self._keeping.tell()
        self._effects += self.claims.meet(self._neighbours.in_use)
        asked = self._keeping.asks()
        if asked is not None:
            self._effects += self._waves.sound(lambda: self._keeping.echoed(asked), self._neighbours.in_use)
        for arrival in self._keeping.attempts():
            self._events.take(arrival)

    @property
    def keeping(self) -> Keeping:
        """What this broker does for events that are kept."""
        return self._keeping

    @property
    def links(self) -> list[int]:
        """The links in use."""
        return sorted(self._neighbours.in_use)

    def was_told(self, by_somebody: bool) -> bool:
        """Whether all neighbours that count have told what is wanted there; also whether there is one, where asked."""
        links = self._neighbours.in_use
        return all(links.values()) and (bool(links) or not by_somebody)

    def entry_table(self) -> EntryTable | None:
        """What is known here now, for who writes headers in this broker's stead; None where nobody can."""
        return self._forwarding.entry_table() if isinstance(self._forwarding, WrittenAhead) else None

    # Neighbours

    def _received(self, received: Received) -> None:
        message = received.message
        if type(message) is messages.Acknowledge:
            # It answers what was sent, whatever has become of the link since.
            self._keeping.acknowledged(received.link, message)
        elif type(message) is Offer or type(message) is Request:
            self._effects += self._neighbours.span(received.link, message)
        elif self._neighbours.may_tell(received.link, message):
            self._effects += _CONTROL[type(message)](self, received.link, message) or ()
        else:
            # Said before the neighbour knew that this link was given up, or taken up again.
            self._effects.append(Drop("link not in use", message))

    def _link_up(self, up: LinkUp) -> None:
        self._outbox.opened(up.link, up.credit)
        self._effects += self._neighbours.up(up.link, up.neighbour)

    def _link_down(self, down: LinkDown) -> None:
        self._effects += self._outbox.closed(down.link)
        self._keeping.lost(down.link)
        self._effects += self._neighbours.down(down.link)

    def _timer_fired(self, fired: TimerFired) -> None:
        if fired.name == KEEPING:
            self._keeping.fired()
        else:
            self._effects += self._neighbours.fired(fired.name)

    def _use(self, link: int) -> list[Effect]:
        """A link is taken into use: what the neighbour should know follows with the differences."""
        self.tables.opened(link)
        self._keeping.opened(link)
        return self._announcing.tell(link)

    def _disuse(self, link: int) -> list[Effect]:
        """A link is given up: all that came by it is withdrawn."""
        self.tables.closed(link)
        effects = self._keeping.given_up(link) + self._replays.closed(link)
        links = self._neighbours.in_use
        return effects + self._waves.closed(link, links) + self.claims.closed(link, links)

    def _forget(self, link: int) -> None:
        self.tables.forget(link)
        self._effects += self._keeping.forgot(link)

    def _settle(self, link: int, message: messages.Settle) -> None:
        self._effects += self.tables.differences()
        self._effects += self._keeping.tell()
        self._unanswered.append((link, message.wave))
        self._answer()

    def _answer(self) -> None:
        """Pass questions on, unless what was said before them would be forgotten by a crash of this broker."""
        if self._unanswered and not self._keeping.is_learning:
            asked, self._unanswered = self._unanswered, []
            for link, wave in asked:
                if link in self._neighbours.in_use:
                    self._effects += self._waves.asked(link, wave, self._neighbours.others(link))

    def _work_done(self, done: WorkDone) -> None:
        """Work changes how fast answers are found, never which."""
        if done.result is not None:
            done.result()

    # Clients

    def _persisted(self, persisted: Persisted) -> None:
        self._requests.written(persisted.token)
        self._effects += self._keeping.written(persisted.token)
        self._answer()

    def _not_persisted(self, failed: NotPersisted) -> None:
        self._effects += self._requests.failed(*failed)
        self._effects += self._keeping.failed(*failed)

    def _carry_out(self, client: Client, request: ClientRequest) -> None:
        self._effects += self._serving.carry_out(client, request)


def _forwarding(node: int, incarnation: int, combination: Combination) -> Forwarding:
    if combination.propagation == "flooding":
        return FloodForwarding()
    setting = Setting(node, incarnation, combination.propagation, combination.advertisements, combination.options)
    return make_forwarding(combination.forwarding, setting)


Handled: TypeAlias = list[Effect] | None
_HANDLERS: Final[dict[type[Input], Callable[[Broker, Any], Handled]]] = {
    Received: Broker._received,
    Requested: lambda broker, asked: broker._requests.take(asked.client, asked.request),
    LinkUp: Broker._link_up,
    LinkDown: Broker._link_down,
    ClientGone: lambda broker, gone: broker._requests.leave(gone.client),
    Persisted: Broker._persisted,
    NotPersisted: Broker._not_persisted,
    QueueFull: lambda broker, full: broker._keeping.filled(full),
    QueueFree: lambda broker, free: broker._keeping.freed(free),
    Credit: lambda broker, credit: broker._outbox.granted(credit.link, credit.events),
    TimerFired: Broker._timer_fired,
    WorkDone: Broker._work_done,
    ReadDone: lambda broker, done: broker._replays.read(done),
}
_CONTROL: Final[dict[type[messages.Message], Callable[[Broker, int, Any], Handled]]] = {
    messages.Begin: lambda broker, link, said: broker._neighbours.begin(link, said),
    messages.Subscribe: lambda broker, link, said: broker.tables.subscribed(link, said.key, said.wanted),
    messages.Unsubscribe: lambda broker, link, said: broker.tables.unsubscribed(link, said.key),
    messages.Advertise: lambda broker, link, said: broker.tables.advertised(link, said.key, said.offered),
    messages.Unadvertise: lambda broker, link, said: broker.tables.unadvertised(link, said.key),
    messages.Settle: Broker._settle,
    messages.Settled: lambda broker, link, said: broker._waves.answered(link, said, broker._neighbours.in_use),
    messages.Announce: lambda broker, link, said: broker._serving.announced(link, said),
    messages.Report: lambda broker, link, said: broker._announcing.reported(link, said),
    messages.Reach: lambda broker, link, said: broker._keeping.reached(link, said),
    messages.Replay: lambda broker, link, said: broker._replays.asked(link, said, broker._neighbours.others(link)),
    messages.Replayed: lambda broker, link, said: broker._replays.answered(link, said),
    messages.Seek: lambda broker, link, said: broker.claims.sought(link, said, broker._neighbours.others(link)),
    messages.Holds: lambda broker, link, said: broker.claims.met(link, said, broker._neighbours.in_use),
    messages.Found: lambda broker, link, said: broker.claims.found(link, said, broker._neighbours.in_use),
}
