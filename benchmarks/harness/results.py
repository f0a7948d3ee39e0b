"""Result of one engine on one task: a row of the table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Row:
    """None means not measured; `note` says why where that is not plain."""

    workload: str
    subscriptions: int
    engine: str
    events: int = 0
    events_per_second: float | None = None
    ratio_to_sketch: float | None = None
    matches_per_second: float | None = None
    microseconds_per_event: float | None = None
    build_seconds: float | None = None
    compile_seconds: float | None = None
    bulk_adds_per_second: float | None = None
    adds_per_second: float | None = None
    removals_per_second: float | None = None
    index_bytes_per_subscription: float | None = None
    beside_bytes_per_subscription: float | None = None
    checked_events: int | None = None
    differs: bool = False
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def rate(self, events: int, matches: int, seconds: float) -> None:
        """Fill in what follows from `events` matched in `seconds`."""
        seconds = max(seconds, 1e-9)
        self.events = events
        self.events_per_second = events / seconds
        self.matches_per_second = matches / seconds

    def built(self, subscriptions: int, seconds: float) -> None:
        self.build_seconds = seconds
        self.bulk_adds_per_second = subscriptions / max(seconds, 1e-9)
