"""Settings of the HTTP gateway, and the retry policy of webhooks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final

from palio.errors import InvalidArgument
from palio.network.settings_validation import check_minimum, check_positive

DEFAULT_PORT: Final = 7480
_MAX_PORT: Final = 65_535
_MIN_WAIT_SECONDS: Final = 0.05
_HOST_AND_PORT: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@\s]*):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delivery attempts of a webhook: how many, how far apart, and how long each may take."""

    attempts: int = 8
    first_wait: float = 0.5
    longest_wait: float = 60.0
    seconds: float = 10.0

    def __post_init__(self) -> None:
        check_minimum(self, attempts=1)
        check_positive(self, "first_wait", "longest_wait", "seconds")

    def wait(self, attempt: int, chance: Callable[[], float]) -> float:
        """Seconds before the next attempt: exponential backoff with full jitter.

        Many subscriptions may wait for one sink that is down; jitter keeps them from returning all at once.
        """
        longest: float = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt, 64))
        return max(_MIN_WAIT_SECONDS, longest * chance())


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where HTTP is served, and which origins and sink networks are permitted."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    origins: tuple[str, ...] = ()
    """Web pages of these origins may use this broker, beside its own page."""
    sinks: tuple[str, ...] = ()
    """Networks that events may be pushed to although they are not public, such as 10.1.0.0/16."""
    origin: str = "palio"
    """The name of this broker in requests for a sink's permission."""
    persistence: RetryPolicy = field(default_factory=RetryPolicy)
    is_optional: bool = False
    """Whether the broker runs without HTTP where the port is taken or a package is missing."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _MAX_PORT:
            raise InvalidArgument(f"port is a number from 0 to {_MAX_PORT}, not {self.port!r}")
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
        """Settings from HOST:PORT; port 0 is any free one."""
        found = _HOST_AND_PORT.fullmatch(place)
        if found is None or int(found["port"]) > _MAX_PORT:
            raise InvalidArgument(f"a place for HTTP looks like 127.0.0.1:{DEFAULT_PORT}, not {place!r:.80}")
        return cls(found["host"].strip("[]"), int(found["port"]), **others)  # type: ignore[arg-type]
