"""What does a client learn from the log of a broker?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from palio.errors import ExpiredOffset
from palio.events import Event
from palio.network.protocol import LogAnswer
from palio.routing import codec


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


def read_page(answer: LogAnswer, start: int) -> LogPage:
    """An answer as a page; `ExpiredOffset` where what was asked for is gone."""
    if 0 < start < answer.oldest:
        raise ExpiredOffset(start, answer.oldest)
    events = [
        LoggedEvent(each.offset, datetime.fromtimestamp(each.time, UTC), codec.decode_event(each.body))
        for each in answer.events
    ]
    return LogPage(answer.node, answer.oldest, answer.after, answer.next, events)
