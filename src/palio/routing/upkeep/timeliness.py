"""Upper bounds on the delays of messages, without synchronised clocks (Jerzak §6).

A broker measures with its own clock alone, whose rate is wrong by at most a known share, the drift. The delay of a
message cannot be measured so, because it begins by one clock and ends by another. But it can be bounded by a round
trip. Let this broker send a helper at A by its clock, which the neighbour receives at B by its own; let the neighbour
send the message at C, which arrives here at D. The true time from A to D is known, up to drift, and so is that from B
to C. The rest was spent on the links, and all of it that the helper did not need may have been the message's:

    delay <= at_most(D - A) - at_least(C - B) - lower bound of the helper's delay

The sum printed in the source multiplies by 1 + drift, which is right to the first order only: a clock that is slow by
the whole drift makes it undershoot. Here durations are divided by 1 - drift, in whole nanoseconds, rounded outwards.

A fast helper gives a tight bound, and drift makes the bound of an old helper wide, so each end keeps the best of the
messages that it received, and tells the other end in a `ClockReference`. Any message with the time at which it was sent
can be a helper. References may be lost, late or reordered: they name the clock readings that they are about.

What a link adds is summed up along the way. An event says how old it was at most, by which reading of the clock of its
sender (`Age`); the reading is also the C of the formula. Before there is a reference, its age is unknown from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import force_setattr, replace

from palio.errors import InvalidArgument
from palio.routing.client_messages import PublishBatch, PublishClient
from palio.routing.effects import BatchRequest, Input, LinkDown, LinkUp, Received, Requested
from palio.routing.messages import UNKNOWN_AGE, ClockReference, Publish, PublishColumns

_Events = TypeVar("_Events", bound=Publish | PublishColumns)

DEFAULT_MAX_DRIFT: Final = 1e-4  # quartz oscillators of commodity machines stay within 100 ppm
_BILLION: Final = 1_000_000_000
_NEWS_NANOSECONDS: Final = 100_000  # a better helper is worth a message: with drifts of 100 ppm, after half a second
_LONGEST_NANOSECONDS: Final = 1 << 61  # 73 years; longer ones come from broken peers, and would not fit the wire
_READING_ERROR_NANOSECONDS: Final = 2  # of rounding down a reading from a binary fraction of seconds


def clock_reading(seconds: float) -> int:
    """A reading of a clock in nanoseconds."""
    return int(seconds * _BILLION)


class Drift:
    """The bound on the share by which the rate of a clock is wrong; true durations from measured ones.

    A clock with drift r that shows x nanoseconds between two moments took between x / (1 + r) and x / (1 - r). A
    negative duration is one from a later moment to an earlier one.
    """

    __slots__ = ("_billionths",)

    def __init__(self, share: float = DEFAULT_MAX_DRIFT) -> None:
        if not 0 <= share < 1:
            raise InvalidArgument(f"the drift of a clock is a share from 0 to below 1, such as 0.0001, not {share!r}")
        # Rounded up: a larger drift than the true one keeps every bound.
        self._billionths = -int(-share * _BILLION // 1)

    def at_most(self, measured: int) -> int:
        """The longest true duration of a measured one, in nanoseconds."""
        x = measured + _READING_ERROR_NANOSECONDS
        rate = _BILLION - self._billionths if x >= 0 else _BILLION + self._billionths
        return -(-x * _BILLION // rate)

    def at_least(self, measured: int) -> int:
        """The shortest true duration of a measured one, in nanoseconds."""
        return -self.at_most(-measured)


class Age(NamedTuple):
    """The highest age that something may have had at a reading of one clock, in nanoseconds; `UNKNOWN_AGE` is none."""

    nanoseconds: int
    at: int

    def later(self, now: int, drift: Drift) -> Age:
        """The age at a later reading of the same clock."""
        if self.nanoseconds < 0:
            return Age(UNKNOWN_AGE, now)
        return Age(self.nanoseconds + max(0, drift.at_most(now - self.at)), now)


class _Helper(NamedTuple):
    """A message of the other end: when it was sent by the clock there and received by the clock here, and the lower
    bound of its delay."""

    sent: int
    received: int
    lower_bound: int


class _Report(NamedTuple):
    """A message: when it was sent by the clock of its sender and received by that of its receiver, and the upper bound
    of its delay that the receiver found."""

    sent: int
    received: int
    upper_bound: int


class LinkDelays:
    """One end of a link: the bounds on delays of what comes by it. The other end has one, too."""

    __slots__ = ("_drift", "_helper", "_reference", "_report", "_report_of_peer", "_told", "last_upper_bound")

    def __init__(self, drift: Drift) -> None:
        self._drift = drift
        self._helper: _Helper | None = None
        self._told: _Helper | None = None  # the helper that the other end knows of
        self._report: _Report | None = None  # of a message of the other end, bounded here
        self._report_of_peer: _Report | None = None  # of a message of this end, bounded there
        self._reference: _Helper | None = None  # a message of this end, the helper of the other one
        self.last_upper_bound: int | None = None  # of the last message, in nanoseconds

    @property
    def has_told(self) -> bool:
        """Whether the other end knows of a helper."""
        return self._told is not None

    @property
    def has_news(self) -> bool:
        """Whether the helper is so much better than the one that the other end knows of that it should be told."""
        if self._helper is None:
            return False
        return self._told is None or self._gain(self._told, self._helper) > _NEWS_NANOSECONDS

    def receive(self, sent: int, now: int) -> int | None:
        """The upper bound of the delay of a message that was sent at a reading of the other clock; None where there is
        no reference yet. In nanoseconds."""
        upper = self._upper_bound(sent, now)
        helper = _Helper(sent, now, self._lower_bound(sent, now))
        if self._helper is None or self._gain(self._helper, helper) >= 0:
            self._helper = helper
        if upper is not None:
            self._report = _Report(sent, now, upper)
            self.last_upper_bound = upper
        return upper

    def receive_age(self, age: Age, now: int) -> Age:
        """The age of an event that came by the link, when it is received."""
        delay = self.receive(age.at, now)
        if delay is None or not 0 <= age.nanoseconds <= _LONGEST_NANOSECONDS:
            return Age(UNKNOWN_AGE, now)
        return Age(age.nanoseconds + delay, now)

    def receive_reference(self, reference: ClockReference, now: int) -> None:
        """Take what the other end tells; the reference is a message like any other, too."""
        if reference.helper_lower_bound >= 0:
            self._reference = _Helper(reference.helper_sent, reference.helper_received, reference.helper_lower_bound)
        if reference.report_upper_bound >= 0:
            self._report_of_peer = _Report(
                reference.report_sent, reference.report_received, reference.report_upper_bound
            )
        self.receive(reference.sent, now)

    def reference(self, now: int) -> ClockReference:
        """The reference to tell the other end, at a reading of this clock."""
        self._told = self._helper
        helper = self._helper or _Helper(0, 0, UNKNOWN_AGE)
        report = self._report or _Report(0, 0, UNKNOWN_AGE)
        return ClockReference(now, *helper, *report)

    def _upper_bound(self, sent: int, now: int) -> int | None:
        if self._reference is None:
            return None
        there_and_back = self._drift.at_most(now - self._reference.sent)
        upper = there_and_back - self._drift.at_least(sent - self._reference.received) - self._reference.lower_bound
        # Out of range only if the other end sends readings that no clock gave.
        return upper if 0 <= upper <= _LONGEST_NANOSECONDS else None

    def _lower_bound(self, sent: int, now: int) -> int:
        """The lower bound of the delay of a message, from an earlier one in the other direction (Jerzak §6.3)."""
        earlier = self._report_of_peer
        if earlier is None:
            return 0
        there_and_back = self._drift.at_least(now - earlier.sent)
        lower = there_and_back - self._drift.at_most(sent - earlier.received) - earlier.upper_bound
        return min(max(0, lower), _LONGEST_NANOSECONDS)

    def _gain(self, old: _Helper, new: _Helper) -> int:
        """By how much the bounds of messages from now on are tighter with another helper, in nanoseconds."""
        with_old = self._drift.at_most(new.sent - old.sent) - old.lower_bound
        with_new = self._drift.at_least(new.received - old.received) - new.lower_bound
        return with_old - with_new


class AgeHeaders:
    """The ages of events at one broker, and the references that it exchanges with its neighbours.

    Between links and broker: what comes in is given its age at the time of arrival, what goes out its age at the time
    of sending, and references stay here.
    """

    __slots__ = ("_delays", "_drift", "_links_to_tell")

    def __init__(self, max_drift: float) -> None:
        self._drift = Drift(max_drift)
        self._delays: dict[int, LinkDelays] = {}
        self._links_to_tell: set[int] = set()

    def receive(self, inputs: Sequence[Input], now: int) -> list[Input]:
        """The inputs for the broker."""
        for_broker = []
        for each in inputs:
            if type(each) is Received:
                if type(each.message) is ClockReference:
                    self._on_reference(each.link, each.message, now)
                    continue
                if type(each.message) is Publish or type(each.message) is PublishColumns:
                    self._on_event(each.link, each.message, now)
            elif type(each) is Requested:
                _begin_ages(each.request, now)
            elif isinstance(each, LinkUp):
                # The neighbour may have another clock than before. References of both ends follow at once.
                self._delays[each.link] = LinkDelays(self._drift)
                self._links_to_tell.add(each.link)
            elif isinstance(each, LinkDown):
                self._delays.pop(each.link, None)
                self._links_to_tell.discard(each.link)
            for_broker.append(each)
        return for_broker

    def send(self, event: _Events, now: int) -> _Events:
        """The event, or batch of events, with its age at the time of sending."""
        age = Age(event.age, event.aged_at).later(now, self._drift)
        return replace(event, age=age.nanoseconds, aged_at=age.at)

    def age(self, event: Publish | PublishColumns, now: int) -> float | None:
        """The highest age of an event that is here, in seconds; None where it is unknown."""
        age = Age(event.age, event.aged_at).later(now, self._drift).nanoseconds
        return None if age < 0 else age / _BILLION

    def references(self, now: int) -> list[tuple[int, ClockReference]]:
        """The references to send now, with their links."""
        links, self._links_to_tell = self._links_to_tell, set()
        return [(link, self._delays[link].reference(now)) for link in sorted(links)]

    def renew(self) -> None:
        """Send references to all neighbours: without traffic bounds would grow with drift."""
        self._links_to_tell.update(self._delays)

    def last_upper_bounds(self) -> dict[int, float]:
        """The bound on the delay of the last message of each link, in seconds."""
        known = {link: each.last_upper_bound for link, each in self._delays.items()}
        return {link: bound / _BILLION for link, bound in known.items() if bound is not None}

    def _on_event(self, link: int, event: Publish | PublishColumns, now: int) -> None:
        delays = self._delays.get(link)
        if delays is None:
            age = Age(UNKNOWN_AGE, now)
        else:
            age = delays.receive_age(Age(event.age, event.aged_at), now)
            if delays.has_news:
                self._links_to_tell.add(link)
        # In place: it was just decoded, and nothing else refers to it yet.
        force_setattr(event, "age", age.nanoseconds)
        force_setattr(event, "aged_at", age.at)

    def _on_reference(self, link: int, reference: ClockReference, now: int) -> None:
        delays = self._delays.get(link)
        if delays is not None:
            delays.receive_reference(reference, now)
            # Only the first is answered: an answer to each would be one for the other end, without end.
            if not delays.has_told:
                self._links_to_tell.add(link)


def _begin_ages(request: object, now: int) -> None:
    """Let the ages of events begin that a client publishes here, unless it knows how old they are."""
    events = request.events if type(request) is PublishBatch else (request,)
    for event in events:
        if isinstance(event, PublishClient | BatchRequest) and event.age < 0:
            force_setattr(event, "age", 0)
            force_setattr(event, "aged_at", now)
