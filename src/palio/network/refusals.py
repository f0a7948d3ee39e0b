"""What does this broker refuse, to whom, and why? Each refusal is counted; of many of one kind some are logged.

Somebody who tries tokens, publishes what it may not or comes again and again would fill a log. So a line of each kind
is written once in a while, with how many there were since the last. No line has what was sent: it may be a secret.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from palio.errors import PalioError
from palio.network.binary import kind_of
from palio.network.protocol import Failure

log = logging.getLogger("palio.refusals")
_PAUSE: Final = 5.0  # seconds between two lines of one kind


class Refusals:
    """The refusals of one broker, by the names that they have on the wire."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is a clock that never jumps."""
        self.counts: Counter[Failure] = Counter()
        self._now = now
        self._logged: dict[Failure, tuple[float, int]] = {}  # when, and how many there had been

    def note(self, error: PalioError, who: str) -> None:
        """Somebody, by its name or its address, was told this."""
        kind = kind_of(error)
        self.counts[kind] += 1
        now = self._now()
        at, before = self._logged.get(kind, (now - _PAUSE, 0))
        if now - at >= _PAUSE:
            count = self.counts[kind]
            self._logged[kind] = now, count
            log.warning("refused", extra={"kind": kind, "who": who, "reason": str(error), "count": count - before})
