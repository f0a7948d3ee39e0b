"""What does a client learn from the log of a broker?"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import NamedTuple

from palio.errors import ExpiredOffset, InvalidArgument
from palio.events import Event
from palio.network.protocol import LogAnswer
from palio.routing.clients import Past
from palio.routing.codec import decode_event


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
    complete: bool  # there is no more to go on to


def seconds_of(since: datetime | float) -> float:
    """A time in seconds since 1970; `InvalidArgument` for what is no time."""
    if isinstance(since, datetime):
        return since.timestamp()
    if type(since) in (int, float) and isfinite(since) and since >= 0:
        return float(since)
    raise InvalidArgument(f"a time is a datetime, or seconds since 1970, not {since!r}")


def past_page(past: Past) -> PastPage:
    """An answer as a page; `ExpiredOffset` where what was asked for is gone."""
    if past.expired:
        [(broker, oldest), *_] = past.expired
        raise ExpiredOffset(dict(past.places)[broker], oldest)
    events = [
        PastEvent(broker, each.offset, datetime.fromtimestamp(each.time, UTC), decode_event(each.body), each.identity)
        for broker, each in past.events
    ]
    return PastPage(events, dict(past.places), list(past.missing), past.complete)


def read_page(answer: LogAnswer, start: int) -> LogPage:
    """An answer as a page; `ExpiredOffset` where what was asked for is gone."""
    if 0 < start < answer.oldest:
        raise ExpiredOffset(start, answer.oldest)
    events = [
        LoggedEvent(each.offset, datetime.fromtimestamp(each.time, UTC), decode_event(each.body))
        for each in answer.events
    ]
    return LogPage(answer.node, answer.oldest, answer.after, answer.next, events)
