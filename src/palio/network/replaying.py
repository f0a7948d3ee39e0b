"""How is a client given events that are past? From its broker's log, what it wants and may hear, a piece at a time.

A piece is bounded in events that are looked at and in bytes, so that one who asks for much waits, and not the others.
"""

from __future__ import annotations

from math import inf
from typing import Final

from palio.errors import ExpiredOffset
from palio.filters.filter import Filter
from palio.network.protocol import LogAnswer, LoggedEvent, LogQuery
from palio.network.security.grants import effective
from palio.network.security.principals import Principal
from palio.network.store.interface import Log, LogEntry
from palio.routing import codec
from palio.routing.effects import Read
from palio.routing.messages import LogPage, PastEvent

_MOST: Final = 10_000  # events of one answer
_MOST_BYTES: Final = 1024 * 1024
_STEP: Final = 500


def log_page(read: Read, log: Log, node: int) -> LogPage:
    """What a broker asks of its own log, for itself or for another one."""
    oldest, end = log.bounds()
    start = log.find(read.since) if read.place is None else read.place
    if start < oldest:
        return LogPage(node, oldest, start, start, end, 0.0)
    place, until, found = _look(log, start, min(end, start + read.limit), read.wanted)
    events = tuple(
        PastEvent(each.offset, each.time, each.event.kept.identity if each.event.kept else b"", each.event.body)
        for each in found
    )
    return LogPage(node, oldest, start, place, end, until, events)


def _look(log: Log, place: int, stop: int, wanted: Filter) -> tuple[int, float, list[LogEntry]]:
    """What is wanted between two offsets, but no more than one answer takes; how far that is, and up to which time."""
    found: list[LogEntry] = []
    size, until = 0, inf
    while place < stop and size < _MOST_BYTES:
        for entry in log.read(place, min(_STEP, stop - place)):
            place, until = entry.offset + 1, entry.time
            if wanted.matches_attributes(codec.decode_event(entry.event.body).attributes):
                found.append(entry)
                size += len(entry.event.body)
                if size >= _MOST_BYTES:
                    break
    return place, until, found


def answer_query(query: LogQuery, log: Log, node: int, principal: Principal) -> LogAnswer:
    """What the log has; a place that it does not keep any more is answered by where it begins."""
    wanted = effective(query.wanted, principal)
    oldest, after = log.bounds()
    place = log.find(query.time) if query.time is not None else query.start or oldest
    stop = min(after, place + min(max(0, query.limit), _MOST))
    try:
        next, _, found = _look(log, place, stop, wanted)
    except ExpiredOffset as expired:
        return LogAnswer(query.request, node, expired.oldest, after, place, ())
    events = tuple(LoggedEvent(each.offset, each.time, each.event.body) for each in found)
    return LogAnswer(query.request, node, oldest, after, next, events)
