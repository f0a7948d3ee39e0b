"""How large may an event be?

Whatever comes from outside is hostile until it is read, so every dimension in which an event can grow has a
bound, checked while it is read and not after. The defaults are far above what brokers carry (Kafka stops at
1 MB, SNS at 256 KB) and far below what hurts: the worst event within them costs some hundred megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from palio.errors import InvalidArgument

# Reading nested content takes two Python frames a level, of a thousand that Python has for callers as well.
DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds an event is read under; each is the largest value that is still accepted."""

    json_bytes: int = 16 * 1024 * 1024
    """Bytes of JSON text of one event, in UTF-8."""
    depth: int = 100
    """Levels of objects and arrays; a flat event has one. Never more than 200."""
    attributes: int = 10_000
    """Attributes of one event."""
    name_length: int = 1_000
    """Characters of an attribute's whole name, `a.b.c`."""
    array_length: int = 100_000
    """Values of one attribute."""
    containers: int = 100_000
    """Objects and arrays inside one event, empty ones included."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise InvalidArgument(f"{field.name} must be a positive integer, not {value!r}")
        if self.depth > DEEPEST:
            raise InvalidArgument(f"depth must be at most {DEEPEST}, not {self.depth}")


DEFAULT_LIMITS = Limits()
