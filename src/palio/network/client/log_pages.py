"""Pages of event logs, as a client reads them: of one broker's log, and of those of all brokers."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import NamedTuple

from palio.errors import ExpiredOffset, InvalidArgument
from palio.events import Event
from palio.network.protocol import LogAnswer
from palio.routing.client_messages import Past
from palio.routing.codec import decode_event


class LoggedEvent(NamedTuple):
    """An event of a broker's event log, and the time of its acceptance."""

    offset: int
    time: datetime
    event: Event


class LogPage(NamedTuple):
    """A page of a broker's event log."""

    node: int  # the broker of the log
    oldest: int  # offset of the first event that remains
    after: int  # offset of the next event to be accepted
    next: int  # offset to continue from
    events: list[LoggedEvent]


class ReplayedEvent(NamedTuple):
    """An event of any broker's event log, and the time of its acceptance; its identity is the same at every broker."""

    broker: int
    offset: int
    time: datetime
    event: Event
    identity: bytes


class ReplayPage(NamedTuple):
    """A page of the event logs of all brokers, in the order of time."""

    events: list[ReplayedEvent]
    places: dict[int, int]  # by broker, the offset to continue from
    missing: list[int]  # brokers whose logs could not be read
    more: bool  # the logs that could be read have more events

    @property
    def partial(self) -> bool:
        """Whether logs are missing."""
        return bool(self.missing)

    @property
    def complete(self) -> bool:
        """Whether this is the end of all logs, and none is missing."""
        return not self.more and not self.missing


def to_unix_seconds(since: datetime | float) -> float:
    """A time in seconds since 1970; `InvalidArgument` for anything else."""
    if isinstance(since, datetime):
        return since.timestamp()
    if type(since) in (int, float) and isfinite(since) and since >= 0:
        return float(since)
    raise InvalidArgument(f"a time is a datetime, or seconds since 1970, not {since!r}")


def decode_replay_page(answer: Past) -> ReplayPage:
    """The page of an answer; `ExpiredOffset` if retention has passed a requested offset."""
    places = dict(answer.places)
    for broker, oldest in answer.expired:
        if places[broker] > oldest:
            raise InvalidArgument(f"the log of broker {broker} has not come to offset {places[broker]:,}")
        raise ExpiredOffset(places[broker], oldest, broker, dict(answer.expired))
    events = [
        ReplayedEvent(
            broker, each.offset, datetime.fromtimestamp(each.time, UTC), decode_event(each.body), each.identity
        )
        for broker, each in answer.events
    ]
    return ReplayPage(events, dict(answer.places), list(answer.missing), not answer.complete)


def decode_log_page(answer: LogAnswer, start: int) -> LogPage:
    """The page of an answer; `ExpiredOffset` if retention has removed the requested offset."""
    if 0 < start < answer.oldest:
        raise ExpiredOffset(start, answer.oldest, answer.node)
    if start > answer.after:
        raise InvalidArgument(f"the log has not come to offset {start:,}; the next event gets {answer.after:,}")
    events = [
        LoggedEvent(each.offset, datetime.fromtimestamp(each.time, UTC), decode_event(each.body))
        for each in answer.events
    ]
    return LogPage(answer.node, answer.oldest, answer.after, answer.next, events)
