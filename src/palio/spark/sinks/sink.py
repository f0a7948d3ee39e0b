"""What a sink is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Batch:
    """Which batch matches are of: the same when it is run again, and another for every other batch of any stream."""

    stream: str
    """Names a stream; made with its checkpoint, so that one that starts anew is another."""
    number: int
    version: int
    """The version of the subscription log that it is matched with."""
    time: datetime
    """When it was first begun."""

    @property
    def key(self) -> str:
        return f"{self.stream}-{self.number:012}"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a sink answers that went through all matches: how many there were."""

    matches: int


class Sink(Protocol):
    """Takes the matches of a batch; an answer other than `Taken` means that it does not know how many they were.

    Where it also has a method `check(schema)`, a stream asks it for its objections before it starts.
    """

    def __call__(self, matches: DataFrame, batch: Batch) -> object: ...
