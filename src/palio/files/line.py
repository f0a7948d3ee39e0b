"""A subscription as it was found, with where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SubscriptionLine:
    """A subscription as the file has it; nobody has looked at its condition yet."""

    id: str
    where: str | dict[str, Any] | list[Any]
    language: str | None = None
    subscriber: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    timezone: str | None = None
    line: int = 0
    """Its line in a file of many; its place in the order of a folder."""
    place: str = ""
    """Where it was found, as a message says it: `wants.jsonl:7`, `rules/login.yml`."""
