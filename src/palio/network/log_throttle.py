"""Rate limiter for repeated log lines, and the throttled log of refused requests."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from palio.errors import PalioError
from palio.network.error_codes import code_of
from palio.network.protocol import ErrorCode

_RECORD_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


LOG_INTERVAL_SECONDS: Final = 5.0  # between two lines of one kind
_refusals = logging.getLogger("palio.refusals")
_Kind = TypeVar("_Kind", bound=Hashable)


class LogThrottle(Generic[_Kind]):
    """Rate limiter for repeated log lines: one line of each kind in an interval, with the number of occurrences."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is a monotonic clock."""
        self.counts: Counter[_Kind] = Counter()
        self._now = now
        self._logged: dict[_Kind, tuple[float, int]] = {}  # time of the last line, and the count by then

    def note(self, kind: _Kind) -> int:
        """Count an occurrence; the number since the last line where a line is due, otherwise 0."""
        self.counts[kind] += 1
        now = self._now()
        at, before = self._logged.get(kind, (now - LOG_INTERVAL_SECONDS, 0))
        if now - at < LOG_INTERVAL_SECONDS:
            return 0
        count = self.counts[kind]
        self._logged[kind] = now, count
        return count - before


class RefusalLog:
    """Counts and throttled log of refused requests, by wire code.

    A peer that guesses tokens or repeats what it may not do would fill an unthrottled log.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._throttle = LogThrottle[ErrorCode](now)
        self.counts: Counter[ErrorCode] = self._throttle.counts

    def note(self, error: PalioError, peer: str) -> None:
        """Count an error that was sent to a principal or an address."""
        kind = code_of(error)
        count = self._throttle.note(kind)
        if count:
            _refusals.warning("refused", extra={"kind": kind, "who": peer, "reason": str(error), "count": count})
