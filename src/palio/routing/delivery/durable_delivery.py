"""Durable delivery at one broker: the at-least-once protocol between event log, brokers and durable queues.

An event is confirmed once it is logged here, then sent in attempts until one was whole (`event_log`). An attempt can be
whole only when all expected home brokers are within reach that have durable subscriptions which want the event
(`home_interests`), and none of the queues that it is for refuses it.

Where subscriptions follow advertisements, a subscription may come long after its home broker is known to be there. Then
an attempt counts as whole only if all brokers have answered an echo since reachability last changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.client_messages import PublishClient
from palio.routing.codec import Arrival
from palio.routing.combinations import Combination
from palio.routing.delivery.blocked_interests import BlockedInterests
from palio.routing.delivery.delivery_attempts import DeliveryAttempts
from palio.routing.delivery.durable_queues import (
    ALL_BITS,
    HAS_LOG,
    IS_HOME,
    STANDING_BITS,
    DurableQueues,
    ExpectedBrokers,
    ReachableBrokers,
)
from palio.routing.delivery.event_log import DeduplicationWindow, EventLog, LogBounds, event_identity, log_key
from palio.routing.delivery.home_interests import DurableInterest, HomeInterests, claim_key
from palio.routing.durable_settings import DurableSettings, OnFull
from palio.routing.effects import (
    BrokerStanding,
    Client,
    Effect,
    Entry,
    Fetched,
    Finished,
    HomeEpoch,
    HomeInterest,
    Logged,
    NotPersisted,
    Persist,
    Queued,
    Recipient,
    Remembered,
    SetTimer,
)
from palio.routing.messages import LOCAL, Acknowledge, AttemptOutcome, DeliveryTag, EventId, Key, Publish, Reach

RETRY_TIMER: Final = "retry"
_RETRY_SECONDS: Final = 0.5  # until events whose attempt was not whole are tried again, where all are in reach


class DurableDelivery:
    """The part of one broker in durable delivery. It `is_dirty` where `finish_batch` has something to do."""

    __slots__ = (
        "_attempts",
        "_default_overflow",
        "_echo_answered",
        "_echo_asked",
        "_effects",
        "_guards_reviewed",
        "_incarnation",
        "_is_heard_refused",
        "_is_timed",
        "_log",
        "_needs_echo",
        "_node",
        "_reach_version",
        "_short",
        "_tokens",
        "_unpaired",
        "_writing",
        "blocked",
        "epochs",
        "expected",
        "has_durable",
        "interests",
        "is_dirty",
        "queues",
        "reachable",
    )

    def __init__(
        self,
        node: int,
        incarnation: int,
        combination: Combination,
        remembered: Remembered,
        tokens: Iterator[int],
        effects: list[Effect],
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._tokens = tokens
        self._effects = effects
        window = DeduplicationWindow(remembered.seen, remembered.window)
        chosen = combination.broker
        self.interests = HomeInterests(node, incarnation, remembered.interests)
        bounds = LogBounds(chosen.spill, chosen.spill_bytes, chosen.window)
        self.blocked = BlockedInterests(node, incarnation, effects)
        self._log = EventLog(
            incarnation,
            bounds,
            window,
            remembered.unfinished,
            remembered.spilled,
            self.interests,
            self.blocked,
            tokens,
            effects,
        )
        self._short: set[EventId] = set()  # events under way that cannot reach all that want them
        self._unpaired: set[EventId] = set()  # those for a subscription of which one home alone is known
        self.queues = DurableQueues(window, effects)
        self._attempts = DeliveryAttempts(self._on_attempt_ended, effects)
        self.reachable = ReachableBrokers(effects)
        self.expected = ExpectedBrokers(remembered.homes)
        self._needs_echo = combination.advertisements and combination.propagation != "flooding"
        # Versions of reachability for which an echo was started, and for which one is complete.
        self._echo_asked = self._echo_answered = 0
        self._reach_version = 0
        self._guards_reviewed: dict[Key, DurableInterest] = {}
        self._is_timed = False
        self._is_heard_refused = False  # by the disk: records of other brokers
        self._writing: dict[int, list[Entry]] = {}
        self.epochs = {(each.client, each.name): each for each in remembered.epochs}
        self._default_overflow: OnFull = "refuse"
        self.has_durable = False  # a plain attribute: it is read for every event
        # A broker with unfinished events routes them in its first batch, without any input for them.
        self.is_dirty = bool(remembered.homes or remembered.unfinished or remembered.spilled)
        if (self.expected.standing(node) or 0) & IS_HOME:
            self.interests.renew()
        self._show()

    # Neighbours

    def open_link(self, link: int) -> None:
        self.is_dirty = True
        self.reachable.open_link(link)

    def close_link(self, link: int) -> None:
        self.is_dirty = True
        self._attempts.close_link(link)
        self.reachable.close_link(link)

    def on_link_down(self, link: int) -> None:
        """The neighbour of a link is gone; `close_link` follows."""
        self.is_dirty = True
        self._attempts.on_link_down(link)

    def restart_link(self, link: int) -> None:
        """All that came by a link is about to come again."""
        self.is_dirty = True
        self._attempts.on_reach_lost(link)
        self.reachable.restart(link)

    def on_reach(self, link: int, message: Reach) -> None:
        self.is_dirty = True
        if not self.reachable.counts(link, message):
            return
        if message.removed:
            # Attempts that were sent there may miss these brokers: no acknowledgement of them counts as whole now.
            self._attempts.on_reach_lost(link)
            self.reachable.remove(link, message.removed)
        self.reachable.add(link, message.added)
        self.expected.learn(self.reachable.standings())

    # Where filters go only towards the root of a hierarchy, a home is in reach of a neighbour that has its filters, or
    # that sends all events this way. Each candidate may change which of the two it is. So what a neighbour reaches
    # counts only if it was sent after the last candidate in either direction, and with it the filters.

    def on_candidate_sent(self, link: int) -> None:
        """The neighbour may become the parent or a child: what it reaches counts when it has answered."""
        self.is_dirty = True
        self._attempts.on_reach_lost(link)
        self.reachable.ask(link)

    def on_candidate(self, link: int) -> None:
        """Answer with all that is in reach here; what the neighbour reaches follows its candidate."""
        self.is_dirty = True
        self._attempts.on_reach_lost(link)
        self.reachable.answer(link)

    def on_acknowledge(self, link: int, message: Acknowledge) -> None:
        self.is_dirty = True
        self._attempts.on_acknowledge(link, message)

    def give_up(self, broker: int, standing: int) -> None:
        """Stop waiting for a broker that is not coming back."""
        if broker not in self.reachable and self.expected.give_up(broker, standing):
            self.is_dirty = True
            self.interests.forget(broker)

    # Clients

    def set_durable(self, client: Client, name: str, wanted: Filter, settings: DurableSettings) -> None:
        """Note a subscription that is durable here."""
        self.queues.set_durable(client, name, settings)
        self.has_durable = True
        self.is_dirty = True
        self._set_interest(client, name, wanted, settings)
        self._become(IS_HOME)

    def set_epoch(self, epoch: HomeEpoch, wanted: Filter) -> None:
        """Note which homes a subscription that is durable here has from now on; all brokers are told."""
        self.epochs[epoch.client, epoch.name] = epoch
        settings = self.queues.settings(epoch.client, epoch.name)
        if settings is not None:
            self.is_dirty = True
            self._set_interest(epoch.client, epoch.name, wanted, settings)

    def _set_interest(self, client: Client, name: str, wanted: Filter, settings: DurableSettings) -> None:
        on_full = settings.on_full or self._default_overflow
        known = self.epochs.get((client, name))
        interest = DurableInterest(claim_key(client, name), wanted, on_full)
        if known is not None:
            is_required = (settings.standby_away or "refuse") == "refuse"
            interest = DurableInterest(
                interest.key, wanted, on_full, False, known.epoch, known.home, known.standby, is_required
            )
        self.interests.set_own(interest)

    def set_default_overflow(self, on_full: OnFull) -> None:
        """Take the policy of all durable subscriptions that ask for none; all brokers are told."""
        if on_full == self._default_overflow:
            return
        self._default_overflow = on_full
        for client, name in self.queues:
            settings = self.queues.settings(client, name)
            if settings is not None and settings.on_full is None:
                self.is_dirty = True
                self.interests.set_own_policy(claim_key(client, name), on_full)

    def end_durable(self, client: Client, name: str) -> None:
        """Note that a subscription is not durable here, or not any more."""
        if self.queues.is_durable(client, name):
            self.queues.set_durable(client, name, None)
            self.epochs.pop((client, name), None)
            self.has_durable = len(self.queues) > 0
            self.is_dirty = True
            self.interests.remove_own(claim_key(client, name))

    def set_queue_full(self, client: Client, name: str) -> None:
        """A durable queue that refuses events is full. All brokers are told: confirmed events for it wait where they
        were accepted, and no others do."""
        self.is_dirty = True
        self.queues.set_full(client, name, True)
        self.interests.set_own_full(claim_key(client, name), True)

    def hold_back(self, client: Client, name: str, wanted: Filter, until: float) -> None:
        """A queue in memory is full, and holds publishers back until a time at most. All other brokers are told: they
        withhold the confirmed events for it, and send no others behind them of the same publishers."""
        self.is_dirty = True
        self.blocked.set_own(claim_key(client, name), wanted, until)

    def set_queue_free(self, client: Client, name: str) -> None:
        """A queue has room again, or is gone."""
        self.is_dirty = True
        self.queues.set_full(client, name, False)
        self.interests.set_own_full(claim_key(client, name), False)
        self.blocked.remove_own(claim_key(client, name))

    def on_blocked_timer(self, name: str) -> None:
        """What another broker has announced does not hold publishers back any longer."""
        self.is_dirty = True
        self.blocked.on_timer(name)

    def publish(self, client: Client, request: PublishClient, event: Publish, content: Event) -> None:
        """Log an event, and confirm it when it is on disk."""
        self.is_dirty = True
        self._become(HAS_LOG)
        self._log.publish(client, request.number, _log_entry(client, request, event, content), content)

    def publish_batch(self, client: Client, requests: Sequence[PublishClient], events: Sequence[Arrival]) -> None:
        """Log several events, all or none, and confirm them when they are on disk."""
        self.is_dirty = True
        self._become(HAS_LOG)
        entries = [
            (request.number, _log_entry(client, request, each.message, each.event), each.event)
            for request, each in zip(requests, events, strict=True)
        ]
        self._log.publish_batch(client, entries)

    def standing_of(self, broker: int) -> int | None:
        """The last standing of an expected broker that is out of reach."""
        if broker in self.reachable:
            return None
        return self.expected.standing(broker) or (0 if broker in self.interests.partners() else None)

    def newest_of_advertisements(self) -> EventId | None:
        """The newest event of a log with unfinished events; None where no subscription follows an advertisement."""
        return self._log.newest if self._needs_echo and len(self._log) else None

    def oldest_unfinished(self, known: EventId | None) -> EventId | None:
        """The oldest unfinished event of the log; `known` is what this was the last time."""
        return known if known is not None and known in self._log else self._log.oldest

    # Routing

    def next_attempts(self) -> list[Arrival]:
        """Events of the log that are to be routed now, with the content that admission decoded."""
        self._update_away()
        if self._reach_version != self.reachable.version:
            self._reach_version = self.reachable.version
            self._log.retry()
        arrivals = [
            Arrival(LOCAL, event) if content is None else Arrival(LOCAL, event, content)
            for event, content in self._log.next_attempts()
        ]
        if self.interests.away:  # else all that want an event can be reached, and none is matched here
            for each, found in zip(arrivals, self.interests.find_away([each.event for each in arrivals]), strict=True):
                if self.interests.is_out_of_reach(found):
                    self._short.add(each.message.id)
        if self._log.guarded:
            for each in arrivals:
                if not self.interests.are_paired(self._log.guards_of(each.message.id)):
                    self._unpaired.add(each.message.id)
        return arrivals

    def _on_attempt_ended(self, attempt: AttemptOutcome) -> None:
        id = attempt.id
        is_short, is_unpaired = id in self._short, id in self._unpaired
        self._short.discard(id)
        self._unpaired.discard(id)
        whole = attempt.whole and not is_short and not is_unpaired
        self._log.on_attempt_ended(msgspec.structs.replace(attempt, whole=whole), attempt.whole and not is_unpaired)

    def _update_away(self) -> None:
        if self.interests.set_away(self.missing, self.not_writing):
            self._log.on_away_changed()
        if self._log.guarded and (guards := self.interests.guards()) is not self._guards_reviewed:
            self._guards_reviewed = guards
            self._log.review_guards()

    def on_routed(self, arrival: Arrival, links: Sequence[int], recipients: Sequence[Recipient]) -> None:
        """Deliver an event that was sent on over `links` to this broker's own clients, and track its attempt."""
        self.is_dirty = True
        event = arrival.message
        if event.kept is None:
            self.queues.take(recipients, event, arrival.interface)
            return
        identity, attempt = event.kept.identity, event.kept.attempt
        # Only the broker that accepted an event knows all home brokers that it must reach.
        is_whole = arrival.interface != LOCAL or self._has_echo
        # Where a queue is full the attempt ends as not whole, and the broker that accepted the event retries for that
        # queue: nothing is held in memory here.
        is_whole = self.queues.take_durable(recipients, event, identity, arrival.interface) and is_whole
        is_written = self.queues.is_written(identity, event.id, attempt)
        # By a link that is not in use nothing was sent, and nothing will be acknowledged: tables were wrong.
        open_links = [link for link in links if self.reachable.is_open(link)]
        is_whole = is_whole and len(open_links) == len(links)
        self._attempts.begin(event.id, attempt, arrival.interface, open_links, is_written, is_whole)

    def refuse(self, arrival: Arrival) -> None:
        """Ask for another attempt with an event that came twice: the way of the first may be broken."""
        self._answer(arrival, is_whole=False)

    def pass_by(self, arrival: Arrival) -> None:
        """Acknowledge an event that a link filter keeps out: no subscription behind this broker may have it."""
        self._answer(arrival, is_whole=True)

    def _answer(self, arrival: Arrival, is_whole: bool) -> None:
        event = arrival.message
        if event.kept is not None:
            self.is_dirty = True
            self._attempts.acknowledge(arrival.interface, event.id, event.kept.attempt, is_whole)

    # Echo and disk

    def start_echo(self) -> int | None:
        """The version of reachability for which an echo is due, if one is; `on_echo` is called when it is complete."""
        version = self.reachable.version
        is_due = self._needs_echo and self._echo_asked != version
        if not len(self._log) or not is_due:
            return None
        self._echo_asked = version
        return version

    def on_echo(self, version: int) -> None:
        """All brokers know the subscriptions that came with a version of reachability."""
        self.is_dirty = True
        self._echo_answered = max(self._echo_answered, version)  # an earlier echo may be answered later
        self._log.retry()

    def on_advertise(self) -> None:
        """An advertisement was made here: subscriptions that it may serve have yet to come."""
        self.is_dirty = True
        self.reachable.version += 1

    def finish_batch(self) -> None:
        """Send acknowledgements, write records, and set the timer of retries."""
        self.is_dirty = False
        # None of these waits for the writes below: an event that does is not complete yet, and not among them.
        self._attempts.send_acknowledgements()
        self._update_away()
        self._log.spill_ended()
        # A write is all or none: one for the queues must not fail the log with it.
        logged = self._log.take_unwritten()
        heard: tuple[Entry, ...] = ()
        # What was heard of others and refused by the disk waits for the timer: tried again at once, it would be for
        # ever.
        if logged or not self._is_heard_refused:
            heard = *self.expected.take_unwritten(), *self.interests.take_unwritten()
        for records in ([*heard, *logged], self.queues.take_unwritten()):
            if records:
                self._write(records)
        self._log.proceed()
        self._log.fetch()
        # What is for a broker out of reach has no timer: it is released from the spill when reachability changes.
        has_retries = self._is_heard_refused or (self._log.has_retries and self._has_echo)
        if has_retries and not self._is_timed:
            self._is_timed = True
            self._effects.append(SetTimer(RETRY_TIMER, _RETRY_SECONDS))

    def _write(self, records: Sequence[Entry]) -> None:
        token = next(self._tokens)
        self._writing[token] = list(records)
        self._effects.append(Persist(tuple(records), token))

    def on_persisted(self, token: int) -> None:
        for record in self._writing.pop(token, ()):
            self.is_dirty = True
            if isinstance(record, Logged):
                self._log.on_written(record)
            elif isinstance(record, Queued):
                for id, attempt in self.queues.on_written(record):
                    self._attempts.on_written(id, attempt)

    def on_not_persisted(self, failure: NotPersisted) -> None:
        records = self._writing.pop(failure.token, [])
        events = [list(each) for _, each in groupby(records, key=_event_id)]
        if len(events) > 1 and all(isinstance(record, Queued) for record in records):
            # Some events may fit where all do not, so each is written alone; never a part of one event's queues.
            for each in events:
                self._write(each)
            return
        ended = [record for record in records if isinstance(record, Finished)]
        if ended and len(ended) < len(records):
            # On a full disk the end of deliveries can be written, by itself: it makes room.
            self._write(ended)
        for record in records:
            self.is_dirty = True
            if isinstance(record, Logged):
                self._log.on_write_failed(record, failure.reason, failure.kind)
            elif isinstance(record, BrokerStanding):
                self.expected.on_write_failed(record)
                self._is_heard_refused = True
            elif isinstance(record, HomeInterest):
                self.interests.on_write_failed(record)
                self._is_heard_refused = True
            elif isinstance(record, Queued):
                for id, attempt in self.queues.on_write_failed(record):
                    self._attempts.on_write_failed(id, attempt, self._node)

    def on_timer(self) -> None:
        self.is_dirty = True
        self._is_timed = self._is_heard_refused = False
        self._log.retry()
        self._log.probe()

    def on_fetched(self, fetched: Fetched) -> None:
        self.is_dirty = True
        self._log.on_fetched(fetched.token, fetched.events)

    # State

    @property
    def is_learning(self) -> bool:
        """Whether brokers are expected that are not on disk yet."""
        return (
            self.expected.has_unwritten
            or self.interests.has_unwritten
            or any(
                isinstance(record, BrokerStanding | HomeInterest)
                for records in self._writing.values()
                for record in records
            )
        )

    @property
    def unfinished(self) -> int:
        """The number of confirmed events that are not known to be in all their durable queues."""
        return len(self._log)

    @property
    def first_unrouted(self) -> EventId | None:
        """The first confirmed event of this incarnation that has not been routed yet."""
        return self._log.first_unrouted

    @property
    def missing(self) -> list[int]:
        """The home brokers that are out of reach."""
        missing = self.expected.missing(self.reachable)
        if not self.interests.has_epochs:
            return missing
        # One that had a standby before anybody heard of it is known by its standby.
        partners = (each for each in self.interests.partners() if not self.reachable.is_home(each))
        return sorted({*missing, *partners})

    @property
    def not_writing(self) -> list[int]:
        """The home brokers within reach whose disks refuse events."""
        return sorted(home for home in self._log.not_writing if self.reachable.is_home(home))

    @property
    def away(self) -> list[int]:
        """The brokers with durable subscriptions or a log that are out of reach."""
        return self.expected.away(self.reachable)

    @property
    def spilled(self) -> int:
        """The number of confirmed events that wait for durable subscriptions which take none now."""
        return len(self._log.spill)

    @property
    def withheld(self) -> int:
        """The number of confirmed events that wait for subscriptions of other brokers which hold publishers back."""
        return self._log.withheld

    @property
    def guarded(self) -> int:
        """The number of events that are logged here and not confirmed, because both homes of a subscription must have
        them first."""
        return self._log.guarded

    @property
    def is_refusing(self) -> bool:
        """Whether publishers of confirmed events wait for room."""
        return self._log.is_refusing

    @property
    def _has_echo(self) -> bool:
        """Whether all brokers within reach are known to have the subscriptions of each other."""
        return not self._needs_echo or self._echo_answered == self.reachable.version

    def _become(self, bit: int) -> None:
        """This broker is a home, or has a log, from now on."""
        before = self.expected.standing(self._node)
        # The incarnation is above the bits, so that a later life outranks an earlier one whatever it keeps.
        standing = self._incarnation << STANDING_BITS | ((before or 0) & ALL_BITS) | bit
        if standing != before:
            self.is_dirty = True
            self.expected.learn({self._node: standing})
            self._show()

    def _show(self) -> None:
        """Be within reach of others where this broker keeps something."""
        bits = (self.expected.standing(self._node) or 0) & ALL_BITS
        if bits:
            self.reachable.add(LOCAL, [(self._node, self._incarnation << STANDING_BITS | bits)])


def _event_id(record: Entry) -> EventId | None:
    return record.event.id if isinstance(record, Queued) else None


def _log_entry(client: Client, request: PublishClient, event: Publish, content: Event) -> Logged:
    publisher = request.publisher or client
    identity = event_identity(publisher, content)
    return Logged(msgspec.structs.replace(event, kept=DeliveryTag(identity, 0)), publisher, log_key(identity))
