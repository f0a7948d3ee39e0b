"""How is a client given events that are past? From its broker's log, what it wants and may hear, a piece at a time.

A piece is bounded in events that are looked at and in bytes, so that one who asks for much waits, and not the others.
"""

from __future__ import annotations

from typing import Final

from palio.errors import ExpiredOffset
from palio.network.protocol import LogAnswer, LoggedEvent, LogQuery
from palio.network.security.grants import effective
from palio.network.security.principals import Principal
from palio.network.store.interface import Log
from palio.routing import codec

_MOST: Final = 10_000  # events of one answer
_MOST_BYTES: Final = 1024 * 1024
_STEP: Final = 500


def answer_query(query: LogQuery, log: Log, node: int, principal: Principal) -> LogAnswer:
    """What the log has; a place that it does not keep any more is answered by where it begins."""
    wanted = effective(query.wanted, principal)
    oldest, after = log.bounds()
    place = log.find(query.time) if query.time is not None else query.start or oldest
    stop = min(after, place + min(max(0, query.limit), _MOST))
    found: list[LoggedEvent] = []
    size = 0
    while place < stop and size < _MOST_BYTES:
        try:
            piece = log.read(place, min(_STEP, stop - place))
        except ExpiredOffset as expired:
            return LogAnswer(query.request, node, expired.oldest, after, place, tuple(found))
        for entry in piece:
            place = entry.offset + 1
            body = entry.event.body
            if wanted.matches_attributes(codec.decode_event(body).attributes):
                found.append(LoggedEvent(entry.offset, entry.time, body))
                size += len(body)
                if size >= _MOST_BYTES:
                    break
    return LogAnswer(query.request, node, oldest, after, place, tuple(found))
