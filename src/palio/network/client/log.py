"""What does a client learn from the log of a broker?"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import Final, NamedTuple

from palio.errors import ExpiredOffset, InvalidArgument
from palio.events import Event
from palio.network.protocol import LogAnswer
from palio.routing.clients import Past
from palio.routing.codec import decode_event

_MANY: Final = 2**63


class LoggedEvent(NamedTuple):
    """An event that a broker let in, and when."""

    offset: int
    time: datetime
    event: Event


class LogPage(NamedTuple):
    """A piece of the log of a broker."""

    node: int  # whose log it is
    oldest: int  # the first offset that is kept
    after: int  # the offset that the next event gets
    next: int  # where to go on
    events: list[LoggedEvent]


class PastEvent(NamedTuple):
    """An event that some broker let in, and when; its identity is the same wherever it was let in."""

    broker: int
    offset: int
    time: datetime
    event: Event
    identity: bytes


class PastPage(NamedTuple):
    """What was confirmed at all brokers, in the order of time; a part, where logs are `missing`."""

    events: list[PastEvent]
    places: dict[int, int]  # the offset in each log to go on from
    missing: list[int]  # brokers whose logs could not be asked
    more: bool  # there is more to go on to, in those that could

    @property
    def partial(self) -> bool:
        """Whether there are logs that could not be asked."""
        return bool(self.missing)

    @property
    def complete(self) -> bool:
        """Whether this is the end of all logs: there is no more, and none is missing."""
        return not self.more and not self.missing


def check_number(what: str, number: int, least: int) -> None:
    """InvalidArgument for what is no whole number, or one that no log has."""
    if type(number) is not int or not least <= number < _MANY:
        raise InvalidArgument(f"{what} is a whole number from {least} on, not {number!r:.80}")


def seconds_of(since: datetime | float) -> float:
    """A time in seconds since 1970; `InvalidArgument` for what is no time."""
    if isinstance(since, datetime):
        return since.timestamp()
    if type(since) in (int, float) and isfinite(since) and since >= 0:
        return float(since)
    raise InvalidArgument(f"a time is a datetime, or seconds since 1970, not {since!r}")


def past_page(past: Past) -> PastPage:
    """An answer as a page; `ExpiredOffset` where what was asked for is gone."""
    places = dict(past.places)
    for broker, oldest in past.expired:
        if places[broker] > oldest:
            raise InvalidArgument(f"the log of broker {broker} has not come to offset {places[broker]:,}")
        raise ExpiredOffset(places[broker], oldest, broker, dict(past.expired))
    events = [
        PastEvent(broker, each.offset, datetime.fromtimestamp(each.time, UTC), decode_event(each.body), each.identity)
        for broker, each in past.events
    ]
    return PastPage(events, dict(past.places), list(past.missing), not past.complete)


def read_page(answer: LogAnswer, start: int) -> LogPage:
    """An answer as a page; `ExpiredOffset` where what was asked for is gone."""
    if 0 < start < answer.oldest:
        raise ExpiredOffset(start, answer.oldest, answer.node)
    if start > answer.after:
        raise InvalidArgument(f"the log has not come to offset {start:,}; the next event gets {answer.after:,}")
    events = [
        LoggedEvent(each.offset, datetime.fromtimestamp(each.time, UTC), decode_event(each.body))
        for each in answer.events
    ]
    return LogPage(answer.node, answer.oldest, answer.after, answer.next, events)
