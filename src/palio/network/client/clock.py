"""Clock of a client's connection: bounds on the delays between client and broker (`routing.upkeep.timeliness`).

A client is one end of a link, as a broker is: it tells its broker when it sent what by its own clock, and learns from
the references of the broker how long messages took at most. A broker without timeliness, `max_drift` 0, is told none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

from msgspec.structs import force_setattr

from palio.network import protocol
from palio.network.protocol import Delivery, Matched, MatchedColumns, MatchedMany
from palio.routing.messages import ClockReference
from palio.routing.upkeep.timeliness import AGE_FROM_HERE, Age, Drift, LinkDelays, clock_reading

_REFERENCE_SECONDS: Final = 5.0  # between references, as between brokers
_BILLION: Final = 1_000_000_000
_Message = TypeVar("_Message", bound=Matched | MatchedMany | MatchedColumns | Delivery)


class ConnectionClock:
    """The clock of one connection; it is off until a broker says that it bounds delays."""

    __slots__ = ("_delays", "_drift", "_send", "_timer")

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._drift: Drift | None = None
        self._delays: LinkDelays | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._delays is not None

    def begin(self, max_drift: float) -> None:
        """A broker has welcomed the client; another one, or one that restarted, has another clock."""
        self.end()
        if max_drift > 0:
            self._drift = Drift(max_drift)
            self._delays = LinkDelays(self._drift)
            self._tell()

    def end(self) -> None:
        """The connection is gone."""
        self._delays = None
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        if self._delays is not None:
            self._send(protocol.encode(self._delays.reference(_now())))
            self._timer = asyncio.get_running_loop().call_later(_REFERENCE_SECONDS, self._tell)

    def learn(self, reference: ClockReference) -> None:
        """Take a reference of the broker. The first one is answered at once: only then can both ends bound delays."""
        if self._delays is None:
            return
        was_told = self._delays.has_told
        self._delays.receive_reference(reference, _now())
        if not was_told:
            self._send(protocol.encode(self._delays.reference(_now())))

    def publication_age(self) -> Age:
        """The age with which an event is published now."""
        return Age(0, _now()) if self._delays is not None else AGE_FROM_HERE

    def receive(self, message: _Message) -> None:
        """Let a message that was just decoded have its age by the clock here."""
        if self._delays is not None:
            age = self._delays.receive_age(Age(message.age, message.aged_at), _now())
            force_setattr(message, "age", age.nanoseconds)
            force_setattr(message, "aged_at", age.at)

    def seconds(self, age: Age) -> float | None:
        """The highest age now of something that was received; None where it is unknown."""
        if age.nanoseconds < 0 or self._drift is None:
            return None
        return age.later(_now(), self._drift).nanoseconds / _BILLION


def _now() -> int:
    return clock_reading(monotonic())
