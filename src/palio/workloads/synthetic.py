"""Synthetic workloads `eq` and `mix`, of any size and reproducible on every machine.

Attributes and values follow Zipf laws, so that some conditions are shared by many subscriptions and most by few, as in
the workloads of the literature. `eq` has string attributes and equality only; `mix` has as many integer attributes as
string ones, equally popular, with ranges over the integers.

Rows come in blocks of a thousand, and each block has its own generator, seeded by (seed, stream, block). A block can
therefore be made alone, on any machine and in any order; a longer workload begins with the shorter one; and
subscriptions do not depend on the number of events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from palio.workloads import synthetic_kernels
from palio.workloads.generated import AT_LEAST, AT_MOST, BETWEEN, EQUALS, SQL, UNUSED, Conditions, WorkloadError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 1000
# Rendering works on many blocks at once (Arrow's cost per call would dominate on one), but on few enough that
# a string column stays far below the 2 GB that 32-bit offsets can address.
_BLOCKS_AT_ONCE = 250
_SUBSCRIPTIONS, _EVENTS = 0, 1
_GUIDES = 4096  # entries of the guide table


@dataclass(frozen=True)
class _Draw:
    """Raw random numbers of some rows: a row for each, columns by position."""

    rest: np.random.Generator  # gives those that conditions need beside values
    attribute: NDArray[np.int64]
    count: NDArray[np.int64]
    word: NDArray[np.int64]
    centre: NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """Synthetic subscriptions and events.

    `conditions` and `present` are the fewest and the most conditions of a subscription and attributes of an
    event. A skew of 0 is the uniform distribution. Integers run from 0 to `integers` - 1.
    """

    profile: Literal["eq", "mix"]
    seed: int = 20240711
    attributes: int = 40
    attribute_skew: float = 0.7
    vocabulary: int = 1000
    value_skew: float = 1.0
    integers: int = 10_000
    conditions: tuple[int, int] = (2, 5)
    present: tuple[int, int] = (5, 15)

    def __post_init__(self) -> None:
        if self.profile not in ("eq", "mix"):
            raise WorkloadError(f"there is no profile {self.profile!r}; there are 'eq' and 'mix'")
        if self.seed < 0:
            raise WorkloadError(f"a seed is not negative, and this one is {self.seed}")
        if self.vocabulary < 1:
            raise WorkloadError(f"a vocabulary has at least one value, not {self.vocabulary}")
        if self.integers < 20:
            raise WorkloadError(f"ranges need at least 20 integers to differ, not {self.integers}")
        for name, (fewest, most) in (("conditions", self.conditions), ("present", self.present)):
            if not 1 <= fewest <= most <= self.attributes:
                raise WorkloadError(
                    f"{name} ({fewest}, {most}): must be at least 1, in order, and at most the "
                    f"{self.attributes} attributes, because no attribute occurs twice in a row"
                )

    @cached_property
    def names(self) -> list[str]:
        """The attributes, most popular first; `s` for strings, `n` for numbers, interleaved in `mix`."""
        if self.profile == "eq":
            return [f"s{i:02d}" for i in range(self.attributes)]
        return [f"{'sn'[i % 2]}{i // 2:02d}" for i in range(self.attributes)]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the events."""
        return pa.schema([(name, pa.string() if name[0] == "s" else pa.int64()) for name in self.names])

    def subscriptions(self, count: int, start: int = 0) -> pa.Table:
        """`id` and `where` of the subscriptions numbered from `start`; the id is the number as text.

        Costs about 3 µs a subscription.
        """
        batches = [
            pa.RecordBatch.from_arrays(
                [pa.array(np.arange(first, first + size)).cast(pa.string()), SQL.render(rows, self.names)],
                names=["id", "where"],
            )
            for first, size, rows in self._in_chunks(start, count)
        ]
        return pa.Table.from_batches(batches, pa.schema([("id", pa.string()), ("where", pa.string())]))

    def subscription_conditions(self, count: int, start: int = 0) -> Conditions:
        """The subscriptions as arrays of conditions instead of text."""
        return Conditions.concatenate(
            [Conditions.none(self.conditions[1]), *(rows for _, _, rows in self._in_chunks(start, count))]
        )

    def subscription_block(self, block: int) -> pa.RecordBatch:
        """Subscriptions `block * BLOCK` to `(block + 1) * BLOCK - 1`, made without any other block."""
        return self.subscriptions(BLOCK, start=block * BLOCK).to_batches()[0]

    def events(self, count: int, start: int = 0) -> pa.RecordBatch:
        """The events numbered from `start` as plain columns; an absent attribute is null."""
        values = self.event_values(count, start)
        words = pa.array([f"v{i}" for i in range(self.vocabulary)])
        columns = []
        for place, name in enumerate(self.names):
            column = values[:, place]
            numbers = pa.array(column.astype(np.int64), mask=column < 0)
            columns.append(words.take(numbers) if name[0] == "s" else numbers)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def event_block(self, block: int) -> pa.RecordBatch:
        """Events `block * BLOCK` to `(block + 1) * BLOCK - 1`, made without any other block."""
        return self.events(BLOCK, start=block * BLOCK)

    def event_dicts(self, count: int, start: int = 0) -> Iterator[dict[str, Any]]:
        """The events one by one, without absent attributes."""
        words = [f"v{i}" for i in range(self.vocabulary)]
        columns = list(zip(self.names, self._is_string.tolist(), strict=True))
        for row in self.event_values(count, start).tolist():
            yield {
                name: words[value] if string else value
                for (name, string), value in zip(columns, row, strict=True)
                if value >= 0
            }

    def event_values(self, count: int, start: int = 0) -> NDArray[np.int32]:
        """The events as a matrix with a column for each attribute: the number, or that of the word; -1 where absent."""
        # Column by column in memory, because `events` makes an array of each column.
        values = np.full((count, self.attributes), -1, dtype=np.int32, order="F")
        done = 0
        for block, rows in _blocks(start, count):
            draw = self._draw(_EVENTS, block, self.present, rows)
            synthetic_kernels.lay_out(draw.attribute, draw.count, self._is_string, draw.word, draw.centre, done, values)
            done += len(draw.count)
        return values

    def _in_chunks(self, start: int, count: int) -> Iterator[tuple[int, int, Conditions]]:
        """(first row, rows, conditions) of runs of blocks that cover the rows."""
        chunk = BLOCK * _BLOCKS_AT_ONCE
        for first in range(start, start + count, chunk):
            size = min(chunk, start + count - first)
            parts = [
                self._as_conditions(self._draw(_SUBSCRIPTIONS, block, self.conditions, rows), rows)
                for block, rows in _blocks(first, size)
            ]
            yield first, size, Conditions.concatenate(parts)

    def _as_conditions(self, draw: _Draw, rows: slice) -> Conditions:
        """Random numbers as conditions: a word, or a range around a centre or to one side."""
        shape = (BLOCK, self.conditions[1])
        widths = np.exp(draw.rest.uniform(np.log(10), np.log(self.integers / 2), size=shape)).astype(np.int64)[rows]
        form = draw.rest.random(shape)[rows]
        unused = np.arange(self.conditions[1]) >= draw.count[:, None]
        is_string = self._is_string[draw.attribute]
        kind = np.select(
            [unused, is_string, form < 0.6, form < 0.8],
            [UNUSED, EQUALS, BETWEEN, AT_LEAST],
            AT_MOST,
        )
        half, last = widths // 2, self.integers - 1
        low = np.select(
            [kind == EQUALS, kind == BETWEEN, kind == AT_LEAST],
            [draw.word, np.maximum(0, draw.centre - half), draw.centre],
            0,
        )
        high = np.select(
            [kind == EQUALS, kind == BETWEEN, kind == AT_MOST],
            [draw.word, np.minimum(last, draw.centre + half), draw.centre],
            last,
        )
        return Conditions(
            draw.attribute.astype(np.int16), kind.astype(np.int8), low.astype(np.int32), high.astype(np.int32)
        )

    def _draw(self, stream: int, block: int, bounds: tuple[int, int], rows: slice) -> _Draw:
        """The numbers of one block, always drawn whole: they do not depend on which rows are wanted."""
        fewest, most = bounds
        generator = np.random.default_rng([self.seed, stream, block])
        # Each attribute waits for a time with the exponential distribution, the popular ones for a shorter one: those
        # that come first are a weighted choice without replacement.
        times = np.log(1.0 - generator.random((BLOCK, self.attributes))) * self._waits
        count = generator.integers(fewest, most + 1, size=BLOCK)
        shape = (BLOCK, most)
        attribute, word = np.zeros(shape, np.int64), np.empty(shape, np.int64)
        synthetic_kernels.first_of(times, count, attribute)
        synthetic_kernels.find_words(generator.random(shape), self._cumulative_words, self._guide, word)
        centre = generator.integers(0, self.integers, size=shape)
        return _Draw(generator, attribute[rows], count[rows], word[rows], centre[rows])

    @cached_property
    def _is_string(self) -> NDArray[np.bool_]:
        return np.array([name[0] == "s" for name in self.names])

    @cached_property
    def _waits(self) -> NDArray[np.float64]:
        return -1.0 / _zipf(self.attributes, self.attribute_skew)

    @cached_property
    def _cumulative_words(self) -> NDArray[np.float64]:
        return np.cumsum(_zipf(self.vocabulary, self.value_skew))

    @cached_property
    def _guide(self) -> NDArray[np.int64]:
        """Guide table: where the search of a word begins, by the leading digits of its number."""
        starts = np.searchsorted(self._cumulative_words, np.arange(_GUIDES) / _GUIDES)
        return np.minimum(starts, self.vocabulary - 1).astype(np.int64)


def eq(**parameters: Any) -> Workload:
    """String equalities only: 40 attributes of 1,000 values. Parameters are those of `Workload`."""
    return Workload("eq", **parameters)


def mix(**parameters: Any) -> Workload:
    """Half string equalities, half integer ranges. Parameters are those of `Workload`."""
    return Workload("mix", **parameters)


def _blocks(start: int, count: int) -> Iterator[tuple[int, slice]]:
    """The blocks that hold rows `start` to `start + count - 1`, and which rows of each."""
    for block in range(start // BLOCK, -(-(start + count) // BLOCK)):
        yield block, slice(max(0, start - block * BLOCK), min(BLOCK, start + count - block * BLOCK))


def _zipf(count: int, skew: float) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = 1.0 / np.arange(1, count + 1, dtype=np.float64) ** skew
    return np.asarray(weights / weights.sum())
