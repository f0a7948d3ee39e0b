"""Durable subscriptions: the queues of this broker's own, and the home brokers of all others.

An event is written once into the durable queues that it is for, and acknowledged when it is on disk.

That a broker has no interested neighbour proves nothing while it lacks their subscriptions, after a restart say. So
brokers exchange which brokers with durable subscriptions, *home brokers*, can be reached: each sends each neighbour
those behind it, after the subscriptions of these, and withdraws one before anything else when it is lost. A broker that
accepts events remembers on disk all home brokers that it ever heard of, and takes an event to be everywhere only when
it could reach all of them. Brokers in between remember nothing: one that restarts has no home brokers behind it until
its neighbours have sent them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from palio.routing.delivery.event_log import DeduplicationWindow, part_key, queue_key
from palio.routing.durable_settings import DurableSettings
from palio.routing.effects import BrokerStanding, Client, Deliver, Drop, Effect, Queued, Recipient, Send
from palio.routing.messages import LOCAL, EventId, Key, Publish, Reach

_QUEUE_FULL: Final = "the queue of a subscription is full"  # of a drop
_MAX_WATCHED_SOURCES: Final = 1_024  # incarnations of brokers whose order is watched

# The standing of a broker is the number of its incarnation, shifted, with these bits of what it keeps below. Both only
# grow, so that of two standings the higher one is the later.
STANDING_BITS: Final = 2
IS_HOME: Final = 1  # it has durable subscriptions
HAS_LOG: Final = 2  # it has accepted events that were confirmed
ALL_BITS: Final = IS_HOME | HAS_LOG


class DurableQueues:
    """The durable subscriptions of this broker's clients, and what is to be written into their queues."""

    __slots__ = ("_durable", "_effects", "_full", "_highest", "_unwritten", "_window", "_writing", "inversions")

    def __init__(self, window: DeduplicationWindow[bytes], effects: list[Effect]) -> None:
        self._window = window
        self._effects = effects
        self._durable: dict[tuple[Client, str], DurableSettings] = {}
        self._full: set[tuple[Client, str]] = set()
        self._unwritten: list[Queued] = []
        self._writing: dict[Key, list[tuple[EventId, int]]] = {}  # attempts that wait until an event is written
        self._highest: dict[tuple[int, int], int] = {}  # sequence by source, the source last heard of at the end
        self.inversions = 0  # events that came after one which the same broker had accepted later

    def __len__(self) -> int:
        return len(self._durable)

    def __iter__(self) -> Iterator[tuple[Client, str]]:
        return iter(self._durable)

    def is_durable(self, client: Client, name: str) -> bool:
        return (client, name) in self._durable

    def settings(self, client: Client, name: str) -> DurableSettings | None:
        """The settings of a durable subscription; None where it is not one."""
        return self._durable.get((client, name))

    def set_durable(self, client: Client, name: str, settings: DurableSettings | None) -> None:
        """Note the settings of a durable subscription; None where it is not durable, or not any more."""
        if settings is None:
            self._durable.pop((client, name), None)
        else:
            self._durable[client, name] = settings
        self._full.discard((client, name))

    def set_full(self, client: Client, name: str, is_full: bool) -> None:
        if is_full and (client, name) in self._durable:
            self._full.add((client, name))
        elif not is_full:
            self._full.discard((client, name))

    def take(self, recipients: Sequence[Recipient], event: Publish, link: int) -> None:
        """Deliver or queue an event that is not confirmed; queues that are full go without it."""
        passing, durable = self._split(recipients)
        if passing:
            self._effects.append(Deliver(passing, event, link))
        for client, names in durable:
            room = tuple(name for name in names if (client, name) not in self._full)
            if room:
                self._unwritten.append(Queued(client, room, event))
            if len(room) < len(names):
                self._effects.append(Drop(_QUEUE_FULL, event))

    def is_blocked(self, recipients: Sequence[Recipient]) -> bool:
        """Whether one of the queues that an event is for is full."""
        return bool(self._full) and any((client, name) in self._full for client, names in recipients for name in names)

    def take_durable(self, recipients: Sequence[Recipient], event: Publish, identity: Key, link: int) -> bool:
        """Deliver and queue a durable event, unless an earlier attempt has done so; False where a queue refuses it.

        Queues that are not full take it all the same: each has a key of its own then, by which a later attempt knows
        what it has yet to do.
        """
        key = queue_key(identity)
        if not recipients or key in self._window:
            return True
        passing, durable = self._split(recipients)
        if self.is_blocked(durable):
            self._take_part(passing, durable, event, identity, link)
            return False
        # Added before the write, so that a second attempt in the meantime is a duplicate; `on_write_failed` takes the
        # key out again.
        self._window.add(key)
        is_first = part_key(identity, "", "") not in self._window
        for client, names in durable:
            chosen = names if is_first else tuple(self._without(client, names, identity))
            if chosen:
                self._unwritten.append(Queued(client, chosen, event, key))
                key = b""  # one record of the event carries it to disk
        if durable and not key:
            self._writing[identity] = []
            self._count_inversions(event.id)
        if passing and is_first:
            self._effects.append(Deliver(passing, event, link))
        return True

    def _take_part(
        self, passing: tuple[Recipient, ...], durable: list[Recipient], event: Publish, identity: Key, link: int
    ) -> None:
        """Queue an event where there is room, before the attempt that completes it."""
        for client, names in durable:
            for name in self._without(client, names, identity):
                if (client, name) not in self._full:
                    key = part_key(identity, client, name)
                    self._window.add(key)
                    self._unwritten.append(Queued(client, (name,), event, key))
                    self._writing.setdefault(identity, [])
        mark = part_key(identity, "", "")  # that a part was taken, also where that was the passing one alone
        if mark not in self._window:
            self._window.add(mark)
            if passing:
                self._effects.append(Deliver(passing, event, link))

    def _without(self, client: Client, names: Iterable[str], identity: Key) -> list[str]:
        """The queues among some that have not taken an event in part."""
        return [name for name in names if part_key(identity, client, name) not in self._window]

    def is_written(self, identity: Key, id: EventId, attempt: int) -> bool:
        """Whether nothing of an event is still to be written here; otherwise `on_written` returns the attempt."""
        waiting = self._writing.get(identity)
        if waiting is None:
            return True
        waiting.append((id, attempt))
        return False

    def take_unwritten(self) -> list[Queued]:
        """The records to write since the last call."""
        records, self._unwritten = self._unwritten, []
        return records

    def on_written(self, record: Queued) -> list[tuple[EventId, int]]:
        """A record is on disk, and with it all of its event; the attempts that waited for it."""
        # All records of an event are in one write: the first of them releases the attempts.
        return self._writing.pop(record.event.kept.identity, []) if record.event.kept is not None else []

    def on_write_failed(self, record: Queued) -> list[tuple[EventId, int]]:
        """A record could not be written; the attempts that waited for it must be made again."""
        if record.event.kept is not None:
            identity = record.event.kept.identity
            self._window.discard(queue_key(identity))
            for name in record.names:
                self._window.discard(part_key(identity, record.client, name))
            # The event was delivered to the subscriptions that are not durable: another attempt must not do so again.
            self._window.add(part_key(identity, "", ""))
        elif any((record.client, name) in self._full for name in record.names):
            self._effects.append(Drop(_QUEUE_FULL, record.event))
        return self.on_written(record)

    def _split(self, recipients: Sequence[Recipient]) -> tuple[tuple[Recipient, ...], list[Recipient]]:
        """The subscriptions that get an event as it passes, and the durable ones."""
        passing: list[Recipient] = []
        durable: list[Recipient] = []
        for client, names in recipients:
            for recipients_of_kind, is_durable in ((passing, False), (durable, True)):
                chosen = tuple(name for name in names if ((client, name) in self._durable) == is_durable)
                if chosen:
                    recipients_of_kind.append(Recipient(client, chosen))
        return tuple(passing), durable

    def _count_inversions(self, id: EventId) -> None:
        source = id.node, id.incarnation
        highest = self._highest.pop(source, 0)
        self.inversions += id.sequence < highest
        self._highest[source] = max(highest, id.sequence)
        if len(self._highest) > _MAX_WATCHED_SOURCES:
            del self._highest[next(iter(self._highest))]


class ReachableBrokers:
    """The home and log brokers behind each link, with their standing, and those that neighbours were sent."""

    __slots__ = ("_answers", "_asked", "_behind", "_effects", "_is_dirty", "_sent", "version")

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._behind: dict[int, dict[int, int]] = {}  # by broker: the links by which it is reached, with its standing
        self._sent: dict[int, dict[int, int]] = {}  # by link: the brokers that its neighbour was sent
        self._asked: Counter[int] = Counter()  # by link: the answers that are awaited before what it sends counts
        self._answers: Counter[int] = Counter()  # by link: the answers that are due
        self._is_dirty = False
        self.version = 0  # grows whenever more can be reached

    def __contains__(self, broker: int) -> bool:
        return broker in self._behind

    def links_to(self, broker: int) -> tuple[int, ...]:
        """The links behind which a broker is."""
        return tuple(sorted(link for link in self._behind.get(broker, ()) if link != LOCAL))

    def is_home(self, broker: int) -> bool:
        """Whether a broker can be reached as a home broker."""
        return any(standing & IS_HOME for standing in self._behind.get(broker, {}).values())

    def standings(self) -> dict[int, int]:
        """All brokers that can be reached, with their standing."""
        return {broker: max(links.values()) for broker, links in self._behind.items()}

    def homes(self) -> dict[int, int]:
        """Those with durable subscriptions."""
        return {broker: standing for broker, standing in self.standings().items() if standing & IS_HOME}

    def is_open(self, link: int) -> bool:
        """Whether a link is in use."""
        return link in self._sent

    def open_link(self, link: int) -> None:
        self._sent[link] = {}
        self._is_dirty = True

    def close_link(self, link: int) -> None:
        for state in (self._sent, self._asked, self._answers):
            state.pop(link, None)
        self.forget(link)

    def ask(self, link: int) -> None:
        """Forget what is behind a link until the neighbour answers, and send it all that is in reach here."""
        self.forget(link)
        self._asked[link] += 1
        self._resend(link)

    def answer(self, link: int) -> None:
        """Forget what is behind a link until it is sent again, and answer with all that is in reach here."""
        self.forget(link)
        self._answers[link] += 1
        self._resend(link)

    def counts(self, link: int, message: Reach) -> bool:
        """Whether no answer is awaited any more that would follow this message."""
        self._asked[link] = max(self._asked[link] - message.answers, 0)
        return not self._asked[link]

    def restart(self, link: int) -> None:
        """Forget what is behind a link; the neighbour is about to send it again, and answers nothing from before."""
        self._asked.pop(link, None)
        self.forget(link)

    def _resend(self, link: int) -> None:
        if link in self._sent:
            self._sent[link] = {}
            self._is_dirty = True

    def forget(self, link: int) -> None:
        """Take back all that was behind a link, until it is sent again."""
        self.remove(link, [broker for broker, links in self._behind.items() if link in links])

    def add(self, link: int, brokers: Iterable[tuple[int, int]]) -> None:
        """Add brokers behind a link; `send_additions` sends them on, after their subscriptions."""
        for broker, standing in brokers:
            if self._behind.setdefault(broker, {}).get(link) != standing:
                self._behind[broker][link] = standing
                self._is_dirty = True
                self.version += 1

    def remove(self, link: int, brokers: Iterable[int]) -> None:
        """Remove brokers behind a link, and withdraw them from neighbours at once: no acknowledgement may go before."""
        for broker in brokers:
            links = self._behind.get(broker, {})
            if links.pop(link, None) is not None and not links:
                del self._behind[broker]
        for neighbour, sent in sorted(self._sent.items()):
            behind = self._behind_others(neighbour)
            gone = tuple(broker for broker in sent if broker not in behind)
            for broker in gone:
                del sent[broker]
            if gone:
                self._effects.append(Send((neighbour,), Reach((), gone)))

    def send_additions(self) -> None:
        """Send neighbours the brokers that came within reach; the subscriptions of these must have been sent before."""
        if not self._is_dirty:
            return
        self._is_dirty = False
        for link, sent in sorted(self._sent.items()):
            behind = self._behind_others(link)
            came = tuple((broker, standing) for broker, standing in behind.items() if sent.get(broker) != standing)
            sent.update(came)
            answers = self._answers.pop(link, 0)
            if came or answers:
                self._effects.append(Send((link,), Reach(came, (), answers)))

    def _behind_others(self, link: int) -> dict[int, int]:
        """The brokers that a neighbour reaches by way of this one."""
        # Split horizon: a broker that is behind that neighbour alone is not offered back to it.
        return {
            broker: max(standing for each, standing in links.items() if each != link)
            for broker, links in self._behind.items()
            if len(links) > (link in links)
        }


class ExpectedBrokers:
    """The home brokers that an event must have been able to reach, and the brokers that have logs: all that were ever
    heard of and are not given up. The caller writes changes to disk."""

    __slots__ = ("_given_up", "_known", "_unwritten")

    def __init__(self, remembered: Iterable[BrokerStanding]) -> None:
        self._known: dict[int, int] = {}
        self._given_up: dict[int, int] = {}
        self._unwritten: dict[int, BrokerStanding] = {}
        for each in remembered:
            (self._given_up if each.gone else self._known)[each.broker] = each.standing

    def learn(self, standings: dict[int, int]) -> None:
        """Expect brokers that are there; one given up with an earlier standing is expected again."""
        for broker, standing in standings.items():
            # A standing that was given up stays so; only a later one, of a broker that is back, counts again.
            if standing > max(self._known.get(broker, -1), self._given_up.get(broker, -1)):
                self._known[broker] = standing
                self._given_up.pop(broker, None)
                self._unwritten[broker] = BrokerStanding(broker, standing)

    def standing(self, broker: int) -> int | None:
        """What was last heard of a broker; None where it is not expected."""
        return self._known.get(broker)

    def homes(self) -> list[int]:
        """All brokers that are known to have durable subscriptions, within reach or not."""
        return sorted(broker for broker, standing in self._known.items() if standing & IS_HOME)

    def logs(self) -> list[int]:
        """All brokers that are known to have a log."""
        return sorted(broker for broker, standing in self._known.items() if standing & HAS_LOG)

    def give_up(self, broker: int, standing: int) -> bool:
        """Stop expecting a broker with this standing or an earlier one; whether it was expected."""
        if self._known.get(broker, standing + 1) > standing:
            return False
        del self._known[broker]
        self._given_up[broker] = standing
        self._unwritten[broker] = BrokerStanding(broker, standing, gone=True)
        return True

    def away(self, reachable: ReachableBrokers) -> list[int]:
        """All brokers that are expected and out of reach."""
        return sorted(broker for broker in self._known if broker not in reachable)

    def missing(self, reachable: ReachableBrokers) -> list[int]:
        """The home brokers that are expected and out of reach."""
        return [broker for broker in self.homes() if not reachable.is_home(broker)]

    def take_unwritten(self) -> list[BrokerStanding]:
        """The records to write since the last call."""
        records, self._unwritten = list(self._unwritten.values()), {}
        return records

    def on_write_failed(self, record: BrokerStanding) -> None:
        self._unwritten.setdefault(record.broker, record)

    @property
    def has_unwritten(self) -> bool:
        return bool(self._unwritten)
