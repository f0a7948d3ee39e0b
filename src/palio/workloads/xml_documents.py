"""Generator of XML documents from a schema, with the parameters of XNet's experiments (Chand §6.2.2).

A document is grown from its document element: an element that has no content yet is chosen, and gets content that the
schema allows, until the document has as many tags as wanted. From then on elements get only what they require.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from random import Random
from typing import Final

from palio.workloads.generated import STREAM_OF_EVENTS, WorkloadError
from palio.workloads.xml_schema import Particle, Schema

_ATTEMPTS: Final = 200
_TOLERANCE: Final = 0.1  # of the number of tags
_WORDS: Final = (
    "market election river council report storm price final vote harbour music train border school bridge winter "
    "coach minister forest engine museum budget island record garden signal capital doctor ticket museum"
).split()


@dataclass(frozen=True)
class XmlDocuments:
    """Random documents; the same seed and row give the same document.

    Costs some 15 µs a tag.
    """

    schema: Schema
    seed: int = 2005
    tags: int = 108
    """Elements of a document, within a tenth."""
    levels: int = 20
    """The greatest depth."""
    repetitions: int = 3
    """The most times that content which may be repeated is repeated."""
    skew: float = 0.0
    """Exponent of Zipf's law by which one of several alternatives is chosen; 0 is uniform, -1 Zipf's own."""
    attribute_share: float = 0.2
    """The share of an element's attributes that are written."""

    def __post_init__(self) -> None:
        if min(self.tags, self.levels, self.repetitions) < 1 or not 0.0 <= self.attribute_share <= 1.0:
            raise WorkloadError("tags, levels and repetitions are at least 1, and the share of attributes is a share")
        if self.schema.heights[self.schema.root] >= self.levels:
            raise WorkloadError(f"no document of the schema has only {self.levels} levels")

    @cached_property
    def heights(self) -> dict[int, int]:
        """By identity of a particle of the schema: the levels that one occurrence needs, as far as they were asked."""
        return {}

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "heights"}  # no identity travels

    def document(self, row: int) -> str:
        """The text of a document."""
        for attempt in range(_ATTEMPTS):
            random = Random(f"{self.seed} {STREAM_OF_EVENTS} {row} {attempt}")
            root = _Growth(self, random).grow()
            if abs(root.size() - self.tags) <= _TOLERANCE * self.tags:
                pieces: list[str] = []
                self._write(root, random, pieces)
                return "".join(pieces)
        raise WorkloadError(f"documents of about {self.tags} tags are too rare in this schema")

    def _write(self, element: _Element, random: Random, pieces: list[str]) -> None:
        kind = self.schema.types[element.name]
        attributes = "".join(
            f' {name}="{escape(random.choice(_WORDS))}"'
            for name in kind.attributes
            if random.random() < self.attribute_share
        )
        pieces.append(f"<{element.name}{attributes}>")
        if kind.has_text:
            pieces.append(" ".join(random.choices(_WORDS, k=random.randint(1, 4))))
        for child in element.children:
            self._write(child, random, pieces)
        pieces.append(f"</{element.name}>")


class _Element:
    __slots__ = ("children", "depth", "name")

    def __init__(self, name: str, depth: int) -> None:
        self.name = name
        self.depth = depth
        self.children: list[_Element] = []

    def size(self) -> int:
        return 1 + sum(child.size() for child in self.children)


class _Growth:
    """One document in the making."""

    def __init__(self, workload: XmlDocuments, random: Random) -> None:
        self._workload = workload
        self._schema = workload.schema
        self._random = random
        self._count = 1
        self._heights = workload.heights

    def grow(self) -> _Element:
        root = _Element(self._schema.root, 1)
        open_elements = [root]
        while open_elements:
            chosen = self._random.randrange(len(open_elements))
            open_elements[chosen], open_elements[-1] = open_elements[-1], open_elements[chosen]
            element = open_elements.pop()
            self._fill(self._schema.types[element.name].content, element)
            open_elements += element.children
        return root

    def _fill(self, particle: Particle, element: _Element) -> None:
        """Add one occurrence after the other of a particle."""
        for _ in range(self._occurrences(particle, element)):
            if particle.name:
                element.children.append(_Element(particle.name, element.depth + 1))
                self._count += 1
            elif particle.is_choice and particle.parts:
                self._fill(self._choice(particle.parts, element), element)
            else:
                for part in particle.parts:
                    self._fill(part, element)

    def _occurrences(self, particle: Particle, element: _Element) -> int:
        if self._count >= self._workload.tags or not self._fits(particle, element):
            return particle.least
        most = min(particle.most, max(particle.least, self._workload.repetitions))
        return self._random.randint(particle.least, most)

    def _choice(self, parts: tuple[Particle, ...], element: _Element) -> Particle:
        fitting = [part for part in parts if self._fits(part, element)] or list(parts)
        if self._count >= self._workload.tags:
            # What requires least below it, so that the document ends.
            return min(fitting, key=self._height)
        weights = [(rank + 1) ** self._workload.skew for rank in range(len(fitting))]
        return self._random.choices(fitting, weights)[0]

    def _fits(self, particle: Particle, element: _Element) -> bool:
        return element.depth + max(self._height(particle), 1) <= self._workload.levels

    def _height(self, particle: Particle) -> int:
        """The levels that one occurrence of a particle needs."""
        if particle.name:
            return 1 + self._schema.heights.get(particle.name, 0)
        known = self._heights.get(id(particle))
        if known is None:
            heights = [self._height(part) for part in particle.parts if part.least or particle.is_choice]
            known = self._heights[id(particle)] = (min if particle.is_choice else max)(heights, default=0)
        return known
