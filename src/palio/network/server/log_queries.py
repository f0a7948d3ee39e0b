"""Queries of a broker's event log: pages for other brokers, and answers to clients.

Both read from the store and decode every event that they look at, so that they run in threads beside the loop.
"""

from __future__ import annotations

from math import inf
from typing import Final

from palio.errors import ExpiredOffset
from palio.filters.filter import Filter
from palio.network.protocol import LogAnswer, LogAnswerEvent, LogQuery
from palio.network.security.authorization import Principal, effective_filter, may_receive
from palio.network.security.quotas import BrokerLimits
from palio.network.store.interface import Log, LogEntry
from palio.routing import codec
from palio.routing.effects import Read
from palio.routing.messages import BrokerLogPage, PastEvent

_MAX_QUERY_EVENTS: Final = 10_000  # that one query examines
_MAX_PAGE_BYTES: Final = 1024 * 1024
_SCAN_EVENTS: Final = 500  # that are read from the store together


def read_log_page(read: Read, log: Log, node: int) -> BrokerLogPage:
    """The matching events of a log from an offset or a time on, as one broker sends them to another."""
    oldest, end = log.bounds()
    start = log.find(read.since) if read.place is None else read.place
    if start < oldest:
        return BrokerLogPage(node, oldest, start, start, end, 0.0)
    next, until, matching = _scan(log, start, min(end, start + read.limit), read.wanted)
    events = tuple(
        PastEvent(each.offset, each.time, each.event.kept.identity if each.event.kept else b"", each.event.body)
        for each in matching
    )
    return BrokerLogPage(node, oldest, start, next, end, until, events)


def answer_log_query(
    query: LogQuery, log: Log, node: int, principal: Principal, limits: BrokerLimits | None = None
) -> LogAnswer:
    """The events of a log that a client asks for and may receive; an expired offset is answered by the oldest one."""
    wanted = effective_filter(query.wanted, principal, limits)
    oldest, after = log.bounds()
    start = log.find(query.time) if query.time is not None else query.start or oldest
    stop = min(after, start + min(max(0, query.limit), _MAX_QUERY_EVENTS))
    try:
        next, _, matching = _scan(log, start, stop, wanted)
    except ExpiredOffset as expired:
        return LogAnswer(query.request, node, expired.oldest, after, start, ())
    events = tuple(
        LogAnswerEvent(each.offset, each.time, each.event.body)
        for each in matching
        if may_receive(principal, codec.decode_event(each.event.body))
    )
    return LogAnswer(query.request, node, oldest, after, next, events)


def _scan(log: Log, offset: int, stop: int, wanted: Filter) -> tuple[int, float, list[LogEntry]]:
    """The matching entries between two offsets, up to the size of one page: next offset, time of the last, entries."""
    matching: list[LogEntry] = []
    size, until = 0, inf
    # A page may end within a chunk: `offset` follows every entry that was examined, matching or not.
    while offset < stop and size < _MAX_PAGE_BYTES:
        for entry in log.read(offset, min(_SCAN_EVENTS, stop - offset)):
            offset, until = entry.offset + 1, entry.time
            if wanted.matches_attributes(codec.decode_event(entry.event.body).attributes):
                matching.append(entry)
                size += len(entry.event.body)
                if size >= _MAX_PAGE_BYTES:
                    break
    return offset, until, matching
