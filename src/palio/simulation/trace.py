"""Trace of a simulated run with its hash, and traffic counters by link and kind of message.

The hash is of times, places and bytes alone: a seed gives one hash, in every process.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from palio.errors import InvalidArgument
from palio.routing.codec import MESSAGE_KINDS

_MAX_STEPS: Final = 100_000  # that can be read; the hash is of all
_PACKED: Final = Struct("<dqqq")


class Step(NamedTuple):
    """An action: at a time, of a broker, perhaps towards another one."""

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
        self._steps: deque[tuple[float, int, int, int, int] | Step] = deque(maxlen=_MAX_STEPS)

    def record_message(self, time: float, broker: int, other: int, kind: int, data: bytes) -> None:
        """Record a message that a broker put on a link."""
        self._hash.update(_PACKED.pack(time, broker, other, kind) + data)
        # A plain tuple, made a `Step` when it is read: this is called for every message on every link.
        self._steps.append((time, broker, other, kind, len(data)))

    def record(self, time: float, broker: int, what: str, other: int = -1, detail: str = "") -> None:
        """Record any other action."""
        self._hash.update(_PACKED.pack(time, broker, other, -1))
        self._hash.update(f"{what}\n{detail}".encode())
        self._steps.append(Step(time, broker, what, other, detail))

    def forget(self) -> None:
        """Drop the steps; the hash goes on."""
        self._steps.clear()

    @property
    def hash(self) -> str:
        """One number for everything that happened; equal runs have equal ones."""
        return self._hash.copy().hexdigest()

    def __iter__(self) -> Iterator[Step]:
        """The last steps, up to a hundred thousand."""
        for each in self._steps:
            if isinstance(each, Step):
                yield each
            else:
                time, broker, other, kind, size = each
                yield Step(time, broker, MESSAGE_KINDS[kind], other, f"{size} bytes")

    def __str__(self) -> str:
        return "\n".join(map(str, self))


class Flow(NamedTuple):
    """The messages of one kind on one link, both directions together."""

    link: tuple[int, int]
    kind: str
    messages: int
    bytes: int


class Traffic:
    """Counts of all links. Kinds are named after messages; a bare acknowledgement of a session is a `packet`."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], dict[int, list[int]]] = {}
        self._unwanted: Counter[tuple[int, int]] = Counter()
        self.useless_hops = 0
        """Links over which events went without use, each counted since the last broker that delivered the event or
        sent it more than one way."""

    def count(self, link: tuple[int, int], kind: int, size: int) -> None:
        kinds = self._counts.get(link)
        if kinds is None:
            kinds = self._counts[link] = {}
        counted = kinds.get(kind)
        if counted is None:
            kinds[kind] = [1, size]
        else:
            counted[0] += 1
            counted[1] += size

    def count_unwanted(self, link: tuple[int, int], useless: int) -> None:
        """Count an event that came over a link for nothing, and over `useless` links in all."""
        self._unwanted[link] += 1
        self.useless_hops += useless

    def snapshot(self) -> Traffic:
        """The counts as they are now, to be subtracted from later ones."""
        return self - Traffic()

    def __sub__(self, earlier: Traffic) -> Traffic:
        """What was counted since an earlier snapshot of the same network."""
        since = Traffic()
        for link, kinds in self._counts.items():
            before = earlier._counts.get(link, {})
            for kind, counted in kinds.items():
                messages, size = (now - then for now, then in zip(counted, before.get(kind, (0, 0)), strict=True))
                if messages:
                    since._counts.setdefault(link, {})[kind] = [messages, size]
        since._unwanted = self._unwanted - earlier._unwanted
        since.useless_hops = self.useless_hops - earlier.useless_hops
        return since

    def false_positives(self, link: tuple[int, int] | None = None) -> int:
        """Events that were sent over a link, one or all together, and that no subscription behind it matched."""
        return self._unwanted.total() if link is None else self._unwanted[min(link), max(link)]

    def __iter__(self) -> Iterator[Flow]:
        """Every link and kind, in order."""
        for link, kinds in sorted(self._counts.items()):
            for kind, (messages, size) in sorted(kinds.items()):
                yield Flow(link, MESSAGE_KINDS[kind], messages, size)

    def messages(self, kind: str | None = None, link: tuple[int, int] | None = None) -> int:
        """The number of messages, of one kind or of all, on one link or on all."""
        return sum(flow.messages for flow in self._chosen(kind, link))

    def bytes(self, kind: str | None = None, link: tuple[int, int] | None = None) -> int:
        """The number of bytes, likewise."""
        return sum(flow.bytes for flow in self._chosen(kind, link))

    def kinds(self) -> list[str]:
        """The kinds that were sent."""
        return sorted({flow.kind for flow in self})

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.messages(kind):,} {kind}" for kind in self.kinds())
        return f"<Traffic over {len(self._counts):,} links: {counts or 'nothing'}>"

    def _chosen(self, kind: str | None, link: tuple[int, int] | None) -> Iterator[Flow]:
        if kind is not None and kind not in MESSAGE_KINDS.values():
            raise InvalidArgument(
                f"there is no kind of message {kind!r}; known are {', '.join(sorted(MESSAGE_KINDS.values()))}"
            )
        wanted = None if link is None else (min(link), max(link))
        return (flow for flow in self if kind in (None, flow.kind) and wanted in (None, flow.link))
