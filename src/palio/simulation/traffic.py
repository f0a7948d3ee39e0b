"""What was sent over which link? Messages and bytes, by link and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from palio.errors import InvalidArgument
from palio.routing.codec import KINDS


class Flow(NamedTuple):
    """What one kind of message amounted to on one link, both directions together."""

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
        """Links that events which came to nobody went over, each since it was last of use: since a broker that
        delivered it or sent it more than one way."""

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
        """An event came over a link for nothing, and so over so many before it."""
        self._unwanted[link] += 1
        self.useless_hops += useless

    def false_positives(self, link: tuple[int, int] | None = None) -> int:
        """Events that were sent over a link, one or all together, and that nobody behind it wanted."""
        return self._unwanted.total() if link is None else self._unwanted[min(link), max(link)]

    def __iter__(self) -> Iterator[Flow]:
        """Every link and kind, in order."""
        for link, kinds in sorted(self._counts.items()):
            for kind, (messages, size) in sorted(kinds.items()):
                yield Flow(link, KINDS[kind], messages, size)

    def messages(self, kind: str | None = None, link: tuple[int, int] | None = None) -> int:
        """How many, of one kind or of all, on one link or on all."""
        return sum(flow.messages for flow in self._chosen(kind, link))

    def bytes(self, kind: str | None = None, link: tuple[int, int] | None = None) -> int:
        """How many bytes, likewise."""
        return sum(flow.bytes for flow in self._chosen(kind, link))

    def kinds(self) -> list[str]:
        """The kinds there were."""
        return sorted({flow.kind for flow in self})

    def __repr__(self) -> str:
        told = ", ".join(f"{self.messages(kind):,} {kind}" for kind in self.kinds())
        return f"<Traffic over {len(self._counts):,} links: {told or 'nothing'}>"

    def _chosen(self, kind: str | None, link: tuple[int, int] | None) -> Iterator[Flow]:
        if kind is not None and kind not in KINDS.values():
            raise InvalidArgument(
                f"there is no kind of message {kind!r}; known are {', '.join(sorted(KINDS.values()))}"
            )
        wanted = None if link is None else (min(link), max(link))
        return (flow for flow in self if kind in (None, flow.kind) and wanted in (None, flow.link))
