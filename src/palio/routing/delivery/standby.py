"""Standby of a durable subscription: a second home with the same events, which takes over when the first is lost.

**Both homes are homes of delivery.** The standby holds the subscription as its own, so that every attempt with an event
(`delivery_attempts`) goes to both queues, and an event that one of them lacks stays in the log of the broker that
accepted it. That broker confirms an event for such a subscription only when an attempt has reached both homes
(`event_log`): each confirmed event is then on the disks of two brokers at least, whichever broker accepted it, and the
loss of any one disk loses none. This is why the event log needs no copy of its own: what is confirmed is no longer in
the log alone. A standby that was away catches up as every home does, from the logs, in bounded batches. Rejected: a log
shipped from the home to the standby. It is a second way of replication beside the attempts, and an event whose home is
lost before it is shipped would need the first way all the same.

**One home at a time reads the queue.** A subscription has an *epoch*, which grows by one with each change of its homes.
Its home and its standby have it on disk, and announce it with the condition. The home alone holds the durable claim
(`durable_claims`), and consumers are referred there. A standby is *promoted* by an operator, or where the operator
gives up the broker of the home: two brokers that do not hear each other cannot tell which of them is cut off, and only
one who knows may decide. The promoted broker writes the next epoch before it says anything, so that a crash leaves
either the old epoch or the new one.

**The old home is fenced by the epoch.** Until it learns of the new epoch it is home of nothing that matters: an event
needed the standby to be confirmed in its epoch, and the standby has left it. What its consumers acknowledge there is
delivered again by the new home, as at least once allows. When the two meet, each sends the other its epoch; the lower
one ends its subscription with its queue, and refers its consumers. The brokers that accept events compare epochs as
well, and wait no more for a home that a later epoch does not name.

Of an operator who promotes the standby on one side of a partition and gives it up on the other, both are obeyed, in the
same epoch: then there are two homes, as of a name that was requested twice, and they are emptied one after the other
(`durable_claims.rivals`).

Notices between homes are repeated until they are answered, while the other home is in reach: they are few, since events
do not go this way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from palio.routing.client_messages import (
    Accepted,
    Consumed,
    DoneClient,
    Moved,
    PromoteClient,
    Refused,
    SubscribeClient,
    UnsubscribeClient,
)
from palio.routing.delivery.durable_delivery import DurableDelivery
from palio.routing.delivery.home_interests import claim_key
from palio.routing.durable_claims import DurableClaims
from palio.routing.durable_settings import DEFAULT_DURABLE_SETTINGS
from palio.routing.effects import Client, Effect, Entry, HomeEpoch, Persist, Record, Reply, Send, SetTimer
from palio.routing.messages import LOCAL, HomeBroker, NoticeKind, StandbyNotice
from palio.routing.routing_tables import RoutingTables

STANDBY_TIMER: Final = "standby"
_RETRY_SECONDS: Final = 0.5
_MAX_REQUESTS: Final = 20  # of a broker that does not answer, before the subscriber is told
_MAX_HOPS: Final = 255
_MAX_BEHIND: Final = 16  # changes of one subscription's homes that wait for the disk


@dataclass(slots=True)
class _Request:
    """A standby that was asked for and has not answered: what is called when it does."""

    request: SubscribeClient
    on_ready: list[Callable[[], None]]
    tries: int = 0


class Standbys:
    """The epochs of one broker's durable subscriptions: as home, and as standby of other homes."""

    __slots__ = (
        "_behind",
        "_claims",
        "_delivery",
        "_effects",
        "_fences",
        "_informed",
        "_is_timed",
        "_links",
        "_node",
        "_requested",
        "_starting",
        "_tables",
        "_tokens",
        "refusal",
        "version",
        "writing",
    )

    def __init__(
        self,
        node: int,
        delivery: DurableDelivery,
        claims: DurableClaims,
        tables: RoutingTables,
        links: Collection[int],
        tokens: Iterator[int],
        effects: list[Effect],
        refusal: str = "",
    ) -> None:
        """`refusal` is the reason why no subscription can have a standby here, if there is one."""
        self._node = node
        self._delivery = delivery
        self._claims = claims
        self._tables = tables
        self._links = links
        self._tokens = tokens
        self._effects = effects
        self.refusal = refusal
        self.version = 0  # of reachability, at the last call of `inform`
        self._informed: dict[int, int] = {}
        self._requested: dict[tuple[Client, str], _Request] = {}
        self._fences: set[tuple[Client, str]] = set()  # whose former home has not answered
        # What is on its way to the disk, by token.
        self.writing: dict[int, tuple[tuple[Client, str], Callable[[], None], Callable[[str], None]]] = {}
        self._behind: dict[tuple[Client, str], deque[Callable[[], None]]] = {}  # changes that wait for a write
        self._starting: list[tuple[Client, SubscribeClient]] | None = []  # None once it is running
        self._is_timed = False
        claims.on_rival = self._on_rival

    # State

    def epoch(self, client: Client, name: str) -> HomeEpoch | None:
        """The homes of a durable subscription; None where it has and had no standby."""
        return self._delivery.epochs.get((client, name))

    def is_standby(self, client: Client, name: str) -> bool:
        """Whether this broker is the standby of a durable subscription, and not its home."""
        known = self._delivery.epochs.get((client, name))
        return known is not None and known.home != self._node

    def is_in_reach(self, client: Client, name: str) -> bool:
        """Whether the other home of a subscription takes events now."""
        known = self._delivery.epochs.get((client, name))
        other = None if known is None else self._other(known)
        return other is not None and self._delivery.reachable.is_home(other) and other not in self._delivery.not_writing

    def _other(self, known: HomeEpoch) -> int | None:
        return known.standby if known.home == self._node else known.home

    # Requests of clients at the home

    def prepare(self, client: Client, request: SubscribeClient, on_ready: Callable[[], None]) -> None:
        """Call back when a durable subscription has the standby that is asked for, which may be at once; `Refused`
        answers where it gets none. The subscription stands without one then."""
        if self._starting is not None:
            self._starting.append((client, request))  # effects of the start are dropped
            return
        known = self.epoch(client, request.name)
        if known is not None and known.home == self._node and known.standby is not None:
            if request.standby in ("", known.address, str(known.standby)):
                # The condition or the settings may be others: the standby gets them. Nothing waits for that: events
                # are not confirmed before both homes have the same condition.
                self._hold(known, str(known.standby))
                on_ready()
                return
        elif not request.standby or (known is not None and self._is_named(request.standby)):
            on_ready()  # of a broker that was promoted, the subscriber names it as standby still
            return
        if self.refusal or self._is_named(request.standby):
            reason = self.refusal or "a standby is another broker than the home of the subscription"
            self._effects.append(Reply(client, Refused(reason, name=request.name)))
            return
        waiting = self._requested.get((client, request.name))
        callbacks = [] if waiting is None else waiting.on_ready
        asked = self._requested[client, request.name] = _Request(request, [*callbacks, on_ready])
        if known is not None and known.standby is not None:
            # Another one is to be the standby: the present one ends first.
            self._send(StandbyNotice("end", str(known.standby), self._own, client, request.name, known.epoch))
            alone = known._replace(epoch=known.epoch + 1, standby=None, address="")
            self._write_epoch(alone, lambda: self._ask(client, asked))
        else:
            self._ask(client, asked)

    def end(self, client: Client, name: str) -> None:
        """A durable subscription ends here: it ends at its standby too."""
        self._requested.pop((client, name), None)
        known = self._delivery.epochs.get((client, name))
        if known is not None and known.home == self._node and known.standby is not None:
            self._send(StandbyNotice("end", str(known.standby), self._own, client, name, known.epoch))

    def send_done(self, client: Client, done: DoneClient) -> None:
        """Tell the standby what need not be kept. One that misses it has events twice after a promotion, as at least
        once allows."""
        known = self.epoch(client, done.name)
        if known is not None and known.home == self._node and known.standby is not None:
            to = str(known.standby)
            self._send(StandbyNotice("done", to, self._own, client, done.name, known.epoch, events=done.events))

    def promote(self, client: Client, request: PromoteClient) -> None:
        """Make this standby the home."""
        self._when_written((request.owner, request.name), partial(self._promote, client, request))

    def _promote(self, client: Client, request: PromoteClient) -> None:
        known = self.epoch(request.owner, request.name)
        if known is None or known.home == self._node:
            what = "is the home" if known is not None else "is no standby"
            reason = f"this broker {what} of the durable subscription {request.name!r}: there is nothing to promote"
            self._effects.append(Reply(client, Refused(reason, number=request.number)))
            return
        self._take_over(
            known,
            lambda: self._effects.append(Reply(client, Accepted(request.number))),
            lambda reason: self._effects.append(Reply(client, Refused(reason, number=request.number))),
        )

    def on_given_up(self, broker: int) -> None:
        """An operator says that a broker is not coming back: take over from it, and do without it."""
        for place in list(self._delivery.epochs):
            self._when_written(place, partial(self._do_without, place, broker))

    def _do_without(self, place: tuple[Client, str], broker: int) -> None:
        known = self._delivery.epochs.get(place)
        if known is None:
            return
        if known.home == broker:
            self._take_over(known)
        elif known.home == self._node and known.standby == broker:
            self._write_epoch(known._replace(epoch=known.epoch + 1, standby=None, address=""))

    def _take_over(
        self,
        known: HomeEpoch,
        on_done: Callable[[], None] = lambda: None,
        on_failed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        taken = HomeEpoch(known.client, known.name, known.epoch + 1, self._node, None, known.home)

        def on_written() -> None:
            self._claims.set_durable(taken.client, taken.name, True)
            self._fence(taken)
            on_done()

        self._write_epoch(taken, on_written, on_failed)

    # Disk

    def _write_epoch(
        self,
        epoch: HomeEpoch,
        on_written: Callable[[], None] = lambda: None,
        on_failed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Write an epoch, which holds when it is on disk."""

        def hold() -> None:
            known = self.epoch(epoch.client, epoch.name)
            # Two changes may have been under way; and the subscription may have ended.
            if known is not None and known.epoch > epoch.epoch:
                return
            owned = self._tables.subscriptions.get(epoch.client, epoch.name)
            if owned is not None:
                self._delivery.set_epoch(epoch, owned.filter)
                on_written()

        self._write((epoch.client, epoch.name), (epoch,), hold, on_failed)

    def _write(
        self,
        place: tuple[Client, str],
        records: tuple[Entry, ...],
        on_written: Callable[[], None],
        on_failed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        token = next(self._tokens)
        self.writing[token] = place, on_written, on_failed
        self._behind.setdefault(place, deque())
        self._effects.append(Persist(records, token))

    def _when_written(self, place: tuple[Client, str], call: Callable[[], None]) -> None:
        """Call when no change of a subscription's homes is on its way to the disk, so that each sees the one before."""
        behind = self._behind.get(place)
        if behind is None:
            call()
        elif len(behind) < _MAX_BEHIND:
            behind.append(call)

    def on_persisted(self, token: int) -> None:
        place, on_written, _ = self.writing.pop(token)
        on_written()
        self._call_behind(place)

    def on_not_persisted(self, token: int, reason: str) -> None:
        place, _, on_failed = self.writing.pop(token)
        on_failed(reason)
        self._call_behind(place)

    def _call_behind(self, place: tuple[Client, str]) -> None:
        if any(each[0] == place for each in self.writing.values()):
            return  # another write, which was begun by the answer to this one
        behind = self._behind.pop(place, deque())
        while behind:
            behind.popleft()()
            if place in self._behind:  # it writes as well
                self._behind[place].extendleft(reversed(behind))
                return

    # Notices

    @property
    def _own(self) -> HomeBroker:
        return HomeBroker(self._node, self._claims.address)

    def _is_named(self, broker: str) -> bool:
        return broker == str(self._node) or (bool(broker) and broker in (self._claims.address, *self._claims.addresses))

    def _ask(self, client: Client, asked: _Request) -> None:
        asked.tries += 1
        known = self.epoch(client, asked.request.name)
        epoch = HomeEpoch(client, asked.request.name, 1 if known is None else known.epoch + 1, self._node)
        self._hold(epoch, asked.request.standby)
        self._set_timer()

    def _hold(self, epoch: HomeEpoch, to: str) -> None:
        owned = self._tables.subscriptions.get(epoch.client, epoch.name)
        settings = self._delivery.queues.settings(epoch.client, epoch.name)
        if owned is not None:
            notice = StandbyNotice("hold", to, self._own, epoch.client, epoch.name, epoch.epoch, owned.filter, settings)
            self._send(notice)
            self._set_timer()

    def _fence(self, known: HomeEpoch) -> None:
        if known.former is not None:
            self._fences.add((known.client, known.name))
            to = str(known.former)
            self._send(StandbyNotice("fence", to, self._own, known.client, known.name, known.epoch))
            self._set_timer()

    def _set_timer(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._effects.append(SetTimer(STANDBY_TIMER, _RETRY_SECONDS))

    def on_timer(self) -> None:
        """Repeat what was not answered."""
        self._is_timed = False
        for (client, name), asked in list(self._requested.items()):
            if asked.tries < _MAX_REQUESTS:
                self._ask(client, asked)
                continue
            del self._requested[client, name]
            reason = f"no broker of this network answers as {asked.request.standby}; {name!r} stands without a standby"
            self._effects.append(Reply(client, Refused(reason, name=name)))
        for known in self._delivery.epochs.values():
            self._agree(known)
        for place in list(self._fences):
            fencing = self._delivery.epochs.get(place)
            if fencing is None or fencing.former is None:
                self._fences.discard(place)
            elif fencing.former in self._delivery.reachable:  # else when it is back
                self._fence(fencing)

    def _agree(self, known: HomeEpoch) -> None:
        """Repeat what the other home has not taken yet: brokers were told of one home alone, or of two conditions."""
        other = self._other(known)
        key = claim_key(known.client, known.name)
        if other is None or other not in self._delivery.reachable or self._delivery.interests.are_paired((key,)):
            return
        self._set_timer()
        if known.home == self._node:
            self._hold(known, str(other))
        else:
            self._send(StandbyNotice("check", str(other), self._own, known.client, known.name, known.epoch))

    def resume(self) -> None:
        """Go on, after a restart, with the requests of the last life."""
        starting, self._starting = self._starting, None
        for client, request in starting or ():
            self.prepare(client, request, lambda: None)

    def inform(self) -> None:
        """Tell the homes that came within reach what they share with this one."""
        reachable = self._delivery.reachable
        self.version = reachable.version
        before, self._informed = self._informed, reachable.standings()
        came = {broker for broker, standing in self._informed.items() if before.get(broker) != standing}
        for known in self._delivery.epochs.values() if came else ():
            if known.former in came:
                self._fence(known)
            if known.home == self._node and known.standby in came:
                self._hold(known, str(known.standby))
            elif known.home in came and known.home != self._node:
                to = str(known.home)
                self._send(StandbyNotice("check", to, self._own, known.client, known.name, known.epoch))
                self._set_timer()

    def _send(self, notice: StandbyNotice, came_by: int = LOCAL) -> None:
        """Send a notice towards the broker that it is for, or everywhere where that is not known."""
        links: tuple[int, ...] = ()
        if notice.to.isdecimal():
            links = self._delivery.reachable.links_to(int(notice.to))
        links = tuple(each for each in links if each != came_by and each in self._links)[:1]
        links = links or tuple(each for each in sorted(self._links) if each != came_by)
        if links and notice.hops < _MAX_HOPS:
            self._effects.append(Send(links, notice))

    def on_notice(self, link: int, notice: StandbyNotice) -> None:
        if not self._is_named(notice.to):
            self._send(replace(notice, hops=notice.hops + 1), link)
            return
        if notice.sender.broker == self._node:
            return
        self._when_written((notice.client, notice.name), partial(self._take, notice))

    def _take(self, notice: StandbyNotice) -> None:
        match notice.kind:
            case "hold":
                self._on_hold(notice)
            case "held":
                self._on_held(notice)
            case "refuse":
                self._on_refuse(notice)
            case "check":
                self._on_check(notice)
            case "end":
                self._on_end(notice)
            case "fence":
                self._on_fence(notice)
            case "fenced":
                self._on_fenced(notice)
            case "done":
                # Not in another epoch: what a former home did is not done here.
                known = self.epoch(notice.client, notice.name)
                if known is not None and (known.home, known.epoch) == (notice.sender.broker, notice.epoch):
                    self._effects.append(Reply(notice.client, Consumed(notice.name, notice.events)))
            case "rival":
                self._on_fenced(notice)  # the other one is emptied before it ends
                self._claims.add_rival(notice.client, notice.name, notice.sender)

    def _reply(self, notice: StandbyNotice, kind: NoticeKind, epoch: int, reason: str = "") -> None:
        to = str(notice.sender.broker)
        self._send(StandbyNotice(kind, to, self._own, notice.client, notice.name, epoch, reason=reason))

    def _on_hold(self, notice: StandbyNotice) -> None:
        """Hold a subscription of another home as its standby."""
        client, name, home = notice.client, notice.name, notice.sender.broker
        known = self.epoch(client, name)
        if known is not None and (known.home == self._node or known.epoch > notice.epoch):
            self._reply(notice, "fence", known.epoch)
            return
        if self.refusal or (known is None and self._delivery.queues.is_durable(client, name)):
            reason = self.refusal or f"broker {self._node} has a durable subscription {name!r} of its own"
            self._reply(notice, "refuse", notice.epoch, reason)
            return
        if notice.wanted is None:
            return
        epoch = HomeEpoch(client, name, notice.epoch, home, self._node)
        request = SubscribeClient(name, notice.wanted, "no", True, settings=notice.settings)
        settings = notice.settings or DEFAULT_DURABLE_SETTINGS
        owned = self._tables.subscriptions.get(client, name)
        is_same = owned is not None and owned.filter == notice.wanted
        if known == epoch and is_same and self._delivery.queues.settings(client, name) == settings:
            self._reply(notice, "held", notice.epoch)
            return

        def on_written() -> None:
            self._delivery.epochs[client, name] = epoch
            self._tables.subscribe(client, name, request.wanted)
            self._delivery.set_durable(client, name, request.wanted, settings)
            self._reply(notice, "held", notice.epoch)

        self._write((client, name), (Record(client, request), epoch), on_written)

    def _on_held(self, notice: StandbyNotice) -> None:
        client, name, standby = notice.client, notice.name, notice.sender.broker
        asked = self._requested.pop((client, name), None)
        known = self.epoch(client, name)
        if asked is None or not self._delivery.queues.is_durable(client, name):
            if known is None or (known.home == self._node and known.standby != standby):
                self._reply(notice, "end", notice.epoch)  # it was asked too long ago
            return
        if known is not None and known.epoch >= notice.epoch:
            self._requested[client, name] = asked  # an answer to an earlier request; the timer repeats it
            return
        epoch = HomeEpoch(client, name, notice.epoch, self._node, standby, None, asked.request.standby)
        if known is not None:
            epoch = epoch._replace(former=known.former)

        def on_written() -> None:
            for on_ready in asked.on_ready:
                on_ready()

        def on_failed(reason: str) -> None:
            self._effects.append(Reply(client, Refused(reason, name=name)))

        self._write_epoch(epoch, on_written, on_failed)

    def _on_refuse(self, notice: StandbyNotice) -> None:
        asked = self._requested.pop((notice.client, notice.name), None)
        if asked is not None:
            self._effects.append(Reply(notice.client, Refused(notice.reason, name=notice.name)))

    def _on_check(self, notice: StandbyNotice) -> None:
        """A broker that takes itself for the standby asks whether it is."""
        known = self.epoch(notice.client, notice.name)
        if (notice.client, notice.name) in self._requested:
            return  # it is about to be
        if known is None:
            self._reply(notice, "end", notice.epoch)
        elif notice.sender.broker not in (known.home, known.standby):
            self._reply(notice, "fence" if known.epoch > notice.epoch else "end", known.epoch)

    def _on_end(self, notice: StandbyNotice) -> None:
        known = self.epoch(notice.client, notice.name)
        if known is not None and known.home == notice.sender.broker and known.epoch <= notice.epoch:
            self._leave(known)

    def _on_fence(self, notice: StandbyNotice) -> None:
        """Another broker has the subscription in an epoch of its own."""
        known = self.epoch(notice.client, notice.name)
        if known is None and self._delivery.queues.is_durable(notice.client, notice.name):
            # It was made here without knowing of the other, or never got so far as to have the other as its standby.
            # It may have events that the other lacks: both are emptied.
            self._claims.add_rival(notice.client, notice.name, notice.sender)
            self._reply(notice, "rival", notice.epoch)
        elif known is None:
            self._reply(notice, "fenced", notice.epoch)  # it was ended already, and the answer was lost
        elif known.epoch > notice.epoch:
            self._reply(notice, "fence", known.epoch)
        elif known.epoch < notice.epoch:
            self._requested.pop((notice.client, notice.name), None)
            self._leave(known, notice)
        elif known.home == self._node and notice.sender.broker != known.standby:
            self._claims.add_rival(notice.client, notice.name, notice.sender)
            self._reply(notice, "rival", notice.epoch)

    def _on_fenced(self, notice: StandbyNotice) -> None:
        known = self.epoch(notice.client, notice.name)
        self._fences.discard((notice.client, notice.name))
        if known is not None and known.former == notice.sender.broker and known.epoch == notice.epoch:
            self._write_epoch(known._replace(former=None))

    def _on_rival(self, client: Client, name: str, home: HomeBroker) -> bool:
        """Whether epochs decide between this broker and another one that claims a subscription."""
        known = self.epoch(client, name)
        if known is None:
            return False
        self._send(StandbyNotice("fence", str(home.broker), self._own, client, name, known.epoch))
        return True

    def _leave(self, known: HomeEpoch, fence: StandbyNotice | None = None) -> None:
        """Be no home of a subscription any more, and refer its consumers to the one that is."""
        client, name = known.client, known.name

        def on_written() -> None:
            self._tables.unsubscribe(client, name)
            self._delivery.end_durable(client, name)
            self._claims.set_durable(client, name, False)
            if fence is not None:
                self._reply(fence, "fenced", fence.epoch)
                self._effects.append(Reply(client, Moved(name, fence.sender)))

        self._write((client, name), (Record(client, UnsubscribeClient(name)),), on_written)
