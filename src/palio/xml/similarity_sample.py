"""Similarity of patterns by the documents that they matched: the estimator to use wherever there are documents.

For each pattern, one bit for each of the last documents says whether it matched. The probability that a document that
matches one pattern matches another is counted on these, with a prior for patterns that matched few: the estimate by the
structure of documents (`palio.xml.similarity`), or none (the rate of the other pattern). A pair costs the and of two
rows of bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from palio.errors import InvalidArgument
from palio.xml.containment import contains
from palio.xml.document import Document
from palio.xml.pattern import Pattern
from palio.xml.pattern_index import PatternIndex

DEFAULT_SIZE: Final = 1_024
PRIOR_WEIGHT: Final = 1.0
"""Documents that the prior counts as (α)."""

Prior = Callable[[Pattern, Pattern], float]


class SimilaritySample:
    """Patterns, and which of the last documents each of them matched."""

    def __init__(
        self,
        patterns: Iterable[Pattern],
        size: int = DEFAULT_SIZE,
        prior: Prior | None = None,
        weight: float = PRIOR_WEIGHT,
    ) -> None:
        if type(size) is not int or size < 1:
            raise InvalidArgument(f"the size of a sample is a positive integer, not {size!r}")
        if not weight >= 0:
            raise InvalidArgument(f"the weight of a prior is at least 0, not {weight!r}")
        self._index = PatternIndex()
        self._bits: dict[int, int] = dict.fromkeys(self._index.add_many(patterns), 0)
        self._size, self._prior, self._weight = size, prior, weight
        self._seen = 0

    def __len__(self) -> int:
        """The number of documents in the sample."""
        return min(self._seen, self._size)

    def add(self, document: Document) -> None:
        """Put a document into the sample, in place of the oldest one if it is full."""
        self.add_matches(self._index.match(document))

    def add_matches(self, patterns: Iterable[int]) -> None:
        """Put a document into the sample of which it is known which patterns matched, by their places."""
        place = 1 << (self._seen % self._size)
        if self._seen >= self._size:
            for number in self._bits:
                self._bits[number] &= ~place
        for number in patterns:
            self._bits[number] |= place
        self._seen += 1

    def rate(self, pattern: int) -> float:
        """The share of documents that a pattern matched."""
        return self._bits[pattern].bit_count() / len(self) if len(self) else 0.0

    def similarity(self, one: int, other: int) -> float:
        """The probability that a document that matches the one pattern matches the other."""
        if contains(self._index[other], self._index[one]):
            return 1.0
        matched = self._bits[one]
        both = (matched & self._bits[other]).bit_count()
        total = matched.bit_count() + self._weight
        return (both + self._weight * self._expected(one, other)) / total if total else 0.0

    def proximity(self, one: int, other: int) -> float:
        """Symmetric similarity: the mean of both directions."""
        return (self.similarity(one, other) + self.similarity(other, one)) / 2

    def _expected(self, one: int, other: int) -> float:
        return self.rate(other) if self._prior is None else self._prior(self._index[one], self._index[other])
