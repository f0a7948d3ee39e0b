"""Workloads of Shen's studies of lookup reuse, covering and self-stabilisation (Shen chapters 3 to 5).

Boxes in a space of numbers from 0 to 1. For lookup reuse the sides are as long as it takes for an event to match a
given share of the subscriptions; for covering a side is two random numbers in order. Shen does not specify parts
outside of the domain; they are kept here, unless `outside="clip"`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import erf, sqrt
from random import Random
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.workloads.distributions import Floats, Ints, Numbers
from palio.workloads.generated import (
    STREAM_OF_EVENTS,
    STREAM_OF_SUBSCRIPTIONS,
    WorkloadError,
    chunks,
    events_of,
    range_subscriptions,
    table_of,
)

Profile = Literal["norm-1", "norm-2", "uniform", "boxes"]

_CENTRE, _LENGTH = range(2)
_VALUE: Final = 0
_PARETO_EXPONENT: Final = 19.0  # of the lengths
_EVENT_DEVIATION: Final = 0.25
_CENTRE_DEVIATION: Final = {"norm-1": 0.125, "norm-2": 0.25}
_DIGITS: Final = 9  # of numbers in text
_ALPHABET: Final = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True)
class Shen:
    """Boxes and points. `density` is the share of subscriptions that an event matches on average.

    `norm-1` and `norm-2` have normal events and centres and lengths by a Pareto law, `uniform` has uniform events and
    sides of one length, `boxes` has sides between two uniform numbers, whatever the density.
    """

    profile: Profile = "norm-1"
    seed: int = 2007
    attributes: int = 5
    density: float = 0.01
    outside: Literal["keep", "clip"] = "keep"

    def __post_init__(self) -> None:
        if self.profile not in ("norm-1", "norm-2", "uniform", "boxes"):
            raise WorkloadError(f"there is no profile {self.profile!r}; there are norm-1, norm-2, uniform and boxes")
        if self.outside not in ("keep", "clip"):
            raise WorkloadError(f"what is outside is kept or clipped ('keep', 'clip'), not {self.outside!r}")
        if self.attributes < 1 or not 0.0 < self.density < 1.0:
            raise WorkloadError(
                f"there is at least one attribute, and a density between 0 and 1, not {self.attributes}, {self.density}"
            )

    @cached_property
    def names(self) -> list[str]:
        return [f"x{place}" for place in range(1, self.attributes + 1)]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.float64()) for name in self.names])

    @cached_property
    def length(self) -> float:
        """The length of a side, or the least one, that gives the density."""
        # Attributes are independent, so each side is hit with this probability.
        probability: float = self.density ** (1.0 / self.attributes)
        if self.profile == "uniform":
            return probability
        return _least_length(probability, _CENTRE_DEVIATION.get(self.profile, 0.125))

    def subscriptions(self, count: int, start: int = 0) -> pa.Table:
        """`id` and `where`; some microseconds each."""
        return range_subscriptions(self.names, self.ranges, count, start)

    def ranges(self, rows: Ints) -> tuple[Floats, Floats]:
        """The bounds of the boxes, a column for each attribute."""
        numbers = Numbers(self.seed, STREAM_OF_SUBSCRIPTIONS, rows)
        if self.profile == "boxes":
            ends = np.sort([numbers.uniform(purpose, self.attributes) for purpose in (_CENTRE, _LENGTH)], axis=0)
            return self._rounded(ends[0]), self._rounded(ends[1])
        if self.profile == "uniform":
            low = numbers.uniform(_CENTRE, self.attributes) * (1.0 - self.length)
            return self._rounded(low), self._rounded(low + self.length)
        centre = 0.5 + _CENTRE_DEVIATION[self.profile] * numbers.normal(_CENTRE, self.attributes)
        length = self.length * (1.0 - numbers.uniform(_LENGTH, self.attributes)) ** (-1.0 / _PARETO_EXPONENT)
        return self._rounded(centre - length / 2), self._rounded(centre + length / 2)

    def events(self, count: int, start: int = 0) -> pa.RecordBatch:
        return events_of(self.event_values(np.arange(start, start + count)), self.schema)

    def event_values(self, rows: Ints) -> Floats:
        """The events as a matrix, a column for each attribute."""
        numbers = Numbers(self.seed, STREAM_OF_EVENTS, rows)
        if self.profile in _CENTRE_DEVIATION:
            return self._rounded(0.5 + _EVENT_DEVIATION * numbers.normal(_VALUE, self.attributes))
        return self._rounded(numbers.uniform(_VALUE, self.attributes))

    def _rounded(self, values: Floats) -> Floats:
        """Round to the digits of text, so that an event and a condition have the same number."""
        rounded = np.round(values, _DIGITS) + 0.0
        return np.clip(rounded, 0.0, 1.0) if self.outside == "clip" else rounded

    def operations(self, count: int, removals: float = 0.4) -> Iterator[Operation]:
        """Additions and removals, as in the study of covering: each step removes a subscription with this probability.

        Which one goes depends on all that came before, so these are made one after the other.
        """
        if not 0.0 <= removals < 0.5:
            raise WorkloadError(f"fewer than half of the operations can remove, not {removals}")
        choice = Random(f"{self.seed} operations")
        alive: list[int] = []
        added = 0
        for _ in range(count):
            if alive and choice.random() < removals:
                # Swapped with the last, so that a removal takes constant time.
                place = choice.randrange(len(alive))
                alive[place], alive[-1] = alive[-1], alive[place]
                yield Operation("remove", alive.pop())
            else:
                alive.append(added)
                yield Operation("add", added)
                added += 1


class Operation(NamedTuple):
    """Addition or removal of a subscription, by its number."""

    kind: Literal["add", "remove"]
    subscription: int


def _least_length(probability: float, deviation: float) -> float:
    """The minimum of the Pareto law of lengths for which an event falls into a side with this probability."""
    # The distance between an event and a centre is normal; lengths are averaged over a thousand quantiles of their law.
    spread = sqrt(_EVENT_DEVIATION**2 + deviation**2)
    quantiles = ((np.arange(1000) + 0.5) / 1000) ** (-1.0 / _PARETO_EXPONENT)

    def hits(least: float) -> float:
        return float(np.mean([erf(least * factor / 2 / (spread * sqrt(2.0))) for factor in quantiles]))

    # Bisection: the probability grows with the length, and sixty halvings exceed the precision of a double.
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if hits(middle) < probability else (low, middle)
    return high


@dataclass(frozen=True)
class Letters:
    """Words of a few random letters; a subscription is an equality, as in the study of self-stabilisation."""

    seed: int = 2007
    letters: int = 52
    length: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.letters <= len(_ALPHABET) or self.length < 1:
            raise WorkloadError(f"words are of 1 to {len(_ALPHABET)} letters, at least one long")

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("pattern", pa.string())])

    def subscriptions(self, count: int, start: int = 0) -> pa.Table:
        """`id` and `where`."""
        texts = (
            (
                int(rows[0]),
                pc.binary_join_element_wise("pattern = '", self._words(STREAM_OF_SUBSCRIPTIONS, rows), "'", ""),
            )
            for rows in chunks(start, count)
        )
        return table_of(texts)

    def events(self, count: int, start: int = 0) -> pa.RecordBatch:
        words = self._words(STREAM_OF_EVENTS, np.arange(start, start + count))
        return pa.RecordBatch.from_arrays([words], schema=self.schema)

    def _words(self, stream: int, rows: Ints) -> pa.StringArray:
        chosen = np.floor(Numbers(self.seed, stream, rows).uniform(0, self.length) * self.letters).astype(np.int64)
        alphabet = pa.array(_ALPHABET)
        return pc.binary_join_element_wise(*(alphabet.take(pa.array(column)) for column in chosen.T), "")
