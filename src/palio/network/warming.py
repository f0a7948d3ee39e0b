"""What takes long the first time? To load compiled code; a broker does that before it listens.

Otherwise the first large batch of events would find it loading, and all of them would be late by a quarter of a second.
"""

from __future__ import annotations

from typing import Final

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.messages import LOCAL
from palio.routing.wants import Wants

_BATCHES: Final = (1, 200)  # few and many events are matched by different code


def warm_up() -> None:
    """Match a few events, as brokers do."""
    wants = Wants()
    wants.add(LOCAL, bytes(16), Filter.parse("number > 1 AND text LIKE 'a%'"))
    for size in _BATCHES:
        wants.who([Event({"number": each, "text": "ab", "share": 0.5}) for each in range(size)])
