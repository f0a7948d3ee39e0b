"""What can be chosen about HTTP?"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final

from palio.errors import InvalidArgument
from palio.network.choices import check_lowest, check_positive

DEFAULT_PORT: Final = 7480
_LAST_PORT: Final = 65_535
_SHORTEST: Final = 0.05
_PLACE: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@\s]*):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Persistence:
    """How often an event is sent that does not arrive, and how long each attempt may take."""

    attempts: int = 8
    first_wait: float = 0.5
    longest_wait: float = 60.0
    seconds: float = 10.0

    def __post_init__(self) -> None:
        check_lowest(self, attempts=1)
        check_positive(self, "first_wait", "longest_wait", "seconds")

    def wait(self, attempt: int, chance: Callable[[], float]) -> float:
        """Seconds before the next attempt, after so many: twice as long each time, at random up to that.

        Many subscriptions wait for one sink that is down; chance keeps them from coming back all at once.
        """
        longest: float = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt, 64))
        return max(_SHORTEST, longest * chance())


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where HTTP is spoken, and with whom beside those who need no permission."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    origins: tuple[str, ...] = ()
    """Web pages of these origins may use this broker, beside its own page."""
    sinks: tuple[str, ...] = ()
    """Networks that events may be pushed to although they are not public, such as 10.1.0.0/16."""
    origin: str = "palio"
    """What this broker calls itself when it asks a sink whether it takes events."""
    persistence: Persistence = field(default_factory=Persistence)
    is_optional: bool = False
    """Whether the broker runs without HTTP where the port is taken or a package is missing."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _LAST_PORT:
            raise InvalidArgument(f"port is a number from 0 to {_LAST_PORT}, not {self.port!r}")
        for each in self.origins:
            if not re.fullmatch(r"https?://[^/\s]+", each):
                raise InvalidArgument(f"origins look like https://app.example.com, not {each!r:.80}")
        for each in self.sinks:
            try:
                ip_network(each)
            except ValueError as error:
                raise InvalidArgument(f"sinks are networks such as 10.1.0.0/16: {error}") from None

    @classmethod
    def at(cls, place: str, **others: object) -> HttpSettings:
        """Settings for a place written as HOST:PORT; port 0 is any that is free."""
        found = _PLACE.fullmatch(place)
        if found is None or int(found["port"]) > _LAST_PORT:
            raise InvalidArgument(f"a place for HTTP looks like 127.0.0.1:{DEFAULT_PORT}, not {place!r:.80}")
        return cls(found["host"].strip("[]"), int(found["port"]), **others)  # type: ignore[arg-type]
