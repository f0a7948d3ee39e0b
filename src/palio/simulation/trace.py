"""What happened, in order? A trace that people can read, and one hash for all of it.

The hash is of times, places and bytes alone: a seed gives one hash, in every process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from palio.routing.codec import KINDS

_KEPT: Final = 100_000  # steps that can be read; the hash is of all
_PACKED: Final = Struct("<dqqq")


class Step(NamedTuple):
    """Something that was done: at a time, by a broker, perhaps to another one."""

    time: float
    broker: int
    what: str
    other: int
    detail: str = ""

    def __str__(self) -> str:
        to = f" {self.other}" if self.other >= 0 else ""
        arrow = " →" if to else ""
        return (
            f"{self.time:12.6f}  {self.broker:>5}{arrow}{to:<6}  {self.what}{f'  {self.detail}' if self.detail else ''}"
        )


class Trace:
    """The steps of one run."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._sent: deque[tuple[float, int, int, int, int] | Step] = deque(maxlen=_KEPT)

    def sent(self, time: float, broker: int, other: int, kind: int, data: bytes) -> None:
        """A broker put a message on a link."""
        self._hash.update(_PACKED.pack(time, broker, other, kind) + data)
        self._sent.append((time, broker, other, kind, len(data)))

    def did(self, time: float, broker: int, what: str, other: int = -1, detail: str = "") -> None:
        """Anything else."""
        self._hash.update(_PACKED.pack(time, broker, other, -1))
        self._hash.update(f"{what}\n{detail}".encode())
        self._sent.append(Step(time, broker, what, other, detail))

    def forget(self) -> None:
        """Let go of the steps; the hash goes on."""
        self._sent.clear()

    @property
    def hash(self) -> str:
        """One number for everything that happened; equal runs have equal ones."""
        return self._hash.copy().hexdigest()

    def __iter__(self) -> Iterator[Step]:
        """The last steps, up to a hundred thousand."""
        for each in self._sent:
            if isinstance(each, Step):
                yield each
            else:
                time, broker, other, kind, size = each
                yield Step(time, broker, KINDS[kind], other, f"{size} bytes")

    def __str__(self) -> str:
        return "\n".join(map(str, self))
