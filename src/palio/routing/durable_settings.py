"""Settings of one durable subscription: the bounds of its queue, the overflow policy, expiry and redelivery limit.

A subscriber sends them with its request, and its home broker stores them with the subscription. They act at the home
broker alone: other brokers neither know them nor wait for them. A request without settings leaves those that the
subscription has, so that a client that reconnects does not undo the limits that an operator has set.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final, Literal, TypeAlias, get_args

from palio.errors import InvalidArgument

OnFull: TypeAlias = Literal["refuse", "drop_oldest", "drop_newest", "dead_letter"]
"""Overflow policy of a durable queue. `refuse`: the event is not taken, and the broker that accepted it keeps it and
tries again. `drop_oldest` and `drop_newest` discard an event and count it. `dead_letter` puts the oldest event among
the dead letters of the home broker."""
ON_FULL_POLICIES: Final[tuple[OnFull, ...]] = get_args(OnFull)
StandbyAway: TypeAlias = Literal["refuse", "degrade"]
"""What holds while the standby of a durable subscription, or its home, is away. `refuse`: events for it are not
confirmed, so that each confirmed one is on two disks. `degrade`: they are confirmed as if it had no standby, and reach
the standby when it is back."""
STANDBY_AWAY_POLICIES: Final[tuple[StandbyAway, ...]] = get_args(StandbyAway)


@dataclass(frozen=True, slots=True)
class DurableSettings:
    """Settings of one durable subscription. None is the default: that of the home broker for the queue, and no limit
    for expiry and redelivery."""

    max_events: int | None = None  # that may wait; an empty queue takes any event
    max_bytes: int | None = None  # of the events that wait
    on_full: OnFull | None = None
    expires_after: float | None = None  # seconds without a consumer, after which the subscription ends
    max_deliveries: int | None = None  # of one event without an acknowledgement; it becomes a dead letter then
    standby_away: StandbyAway | None = None  # of a subscription with a standby; None is `refuse`

    def __post_init__(self) -> None:
        for name in ("max_events", "max_bytes", "max_deliveries"):
            value = getattr(self, name)
            if value is not None and not (type(value) is int and value >= 1):
                raise InvalidArgument(f"{name} is a whole number from 1 on, not {value!r:.80}")
        if self.on_full is not None and self.on_full not in ON_FULL_POLICIES:
            raise InvalidArgument(f"on_full is one of {', '.join(ON_FULL_POLICIES)}, not {self.on_full!r:.80}")
        if self.standby_away is not None and self.standby_away not in STANDBY_AWAY_POLICIES:
            kinds = ", ".join(STANDBY_AWAY_POLICIES)
            raise InvalidArgument(f"standby_away is one of {kinds}, not {self.standby_away!r:.80}")
        seconds = self.expires_after
        if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < inf):
            raise InvalidArgument(f"expires_after is a positive number of seconds, not {seconds!r:.80}")


DEFAULT_DURABLE_SETTINGS: Final = DurableSettings()
