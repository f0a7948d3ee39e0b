"""What takes long the first time? To load compiled code; a broker does that before it listens.

Otherwise that would be done when enough events have come for it to be worth it, and all of them would be late by a
quarter of a second.
"""

from __future__ import annotations

from palio.events import Event
from palio.matching.matcher import Matcher


def warm_up() -> None:
    """Match a few events, one by one and together."""
    matcher = Matcher()
    matcher.add_many(map(str, range(2_000)), (f"number > {number}" for number in range(2_000)))
    events = [Event({"number": number, "text": "a"}) for number in range(300)]
    matcher.match(events[0])
    matcher.match_batch(events)
