"""What does this broker refuse, to whom, and why? Each refusal is counted; of many of one kind some are logged.

Somebody who tries tokens, publishes what it may not or comes again and again would fill a log. So a line of each kind
is written once in a while, with how many there were since the last. No line has what was sent: it may be a secret.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from palio.errors import PalioError
from palio.network.binary import kind_of
from palio.network.protocol import Failure
from palio.network.sparing import Sparing

log = logging.getLogger("palio.refusals")


class Refusals:
    """The refusals of one broker, by the names that they have on the wire."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is a clock that never jumps."""
        self._noted = Sparing[Failure](now)
        self.counts: Counter[Failure] = self._noted.counts

    def note(self, error: PalioError, who: str) -> None:
        """Somebody, by its name or its address, was told this."""
        kind = kind_of(error)
        count = self._noted.note(kind)
        if count:
            log.warning("refused", extra={"kind": kind, "who": who, "reason": str(error), "count": count})
