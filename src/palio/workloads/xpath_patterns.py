"""Generator of XPath patterns from a schema, with the parameters of XNet's experiments (Chand §6.2.2).

A pattern is a walk down the schema, so that documents exist that match it. A step may be replaced by `*`, or preceded
by `//` and some levels that are left out, and a node may have further branches. The thesis gives the parameters, and
leaves open how a walk ends before the greatest depth: here with the probability `stop` at each node deep enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from random import Random
from typing import Final

from palio.workloads.generated import STREAM_OF_SUBSCRIPTIONS, WorkloadError
from palio.workloads.xml_schema import Schema

_MAX_SKIPPED_LEVELS: Final = 2
_MAX_REPEATS: Final = 100_000  # patterns drawn one after the other that all were drawn before


@dataclass(frozen=True)
class XPathPatterns:
    """Random patterns; the same seed and row give the same pattern. Costs some 20 µs each."""

    schema: Schema
    seed: int = 2005
    max_depth: int = 10
    """The greatest depth of a leaf (h)."""
    min_depth: int = 3
    """The least depth of a leaf, unless the schema ends before (m)."""
    descendant_depth: int = 3
    """The greatest depth at which `//` occurs (d)."""
    descendant: float = 0.1
    """The probability of `//` at a step (p//)."""
    wildcard: float = 0.1
    """The probability of `*` at a step (p*)."""
    branch: float = 0.1
    """The probability of one more branch at a node (pλ)."""
    skew: float = -1.0
    """Exponent of Zipf's law by which a child is chosen: -1 is Zipf's own, 0 is uniform (θ)."""
    distinct: bool = True
    """Whether no pattern occurs twice (x)."""
    stop: float = 0.35

    def __post_init__(self) -> None:
        if not 1 <= self.min_depth <= self.max_depth:
            raise WorkloadError(f"leaves cannot have depths from {self.min_depth} to {self.max_depth}")
        if not all(0.0 <= each < 1.0 for each in (self.descendant, self.wildcard, self.branch, self.stop)):
            raise WorkloadError("descendant, wildcard, branch and stop are probabilities below 1")

    def patterns(self) -> Iterator[str]:
        """Patterns without end, or until no new one is found where they are to be distinct."""
        if not self.distinct:
            yield from map(self.pattern, count())
            return
        seen: set[str] = set()
        repeats = 0
        for row in count():
            text = self.pattern(row)
            repeats += 1
            if text not in seen:
                seen.add(text)
                repeats = 0
                yield text
            elif repeats == _MAX_REPEATS:
                raise WorkloadError(f"the schema and the parameters allow only some {len(seen):,} distinct patterns")

    def pattern(self, row: int) -> str:
        """The pattern of a row, which another row may have too."""
        random = Random(f"{self.seed} {STREAM_OF_SUBSCRIPTIONS} {row}")
        separator, element = self._step(self.schema.root, 1, random)
        return separator + self._node(element, 1, random)

    def _node(self, element: str, depth: int, random: Random) -> str:
        """A node and everything below it."""
        text = "*" if random.random() < self.wildcard else element
        if not self.schema.children[element] or depth == self.max_depth:
            return text
        if depth >= self.min_depth and random.random() < self.stop:
            return text
        separator, child = self._child(element, depth + 1, random)
        main = separator + self._node(child, depth + 1, random)
        while random.random() < self.branch:
            separator, child = self._child(element, depth + 1, random)
            text += f"[{'.//' if separator == '//' else ''}{self._node(child, depth + 1, random)}]"
        return text + main

    def _child(self, element: str, depth: int, random: Random) -> tuple[str, str]:
        return self._step(self._draw(element, random), depth, random)

    def _step(self, element: str, depth: int, random: Random) -> tuple[str, str]:
        """The separator before an element at a depth, and the element, or one below it after `//`."""
        if depth > self.descendant_depth or random.random() >= self.descendant:
            return "/", element
        for _ in range(random.randint(0, _MAX_SKIPPED_LEVELS)):
            if self.schema.children[element]:
                element = self._draw(element, random)
        return "//", element

    def _draw(self, element: str, random: Random) -> str:
        children = self.schema.children[element]
        weights = accumulate((rank + 1) ** self.skew for rank in range(len(children)))
        return random.choices(children, cum_weights=list(weights))[0]
