"""Conjunctions made intervals conjunct by conjunct: those of one shape together, whatever stands beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from palio.languages.sql.cutting import LONGEST
from palio.languages.sql.parting import conjuncts_of_all
from palio.matching.columnar.conditions import ConditionsBuilder, Int64s
from palio.matching.columnar.filling import Handles, within

Flags = npt.NDArray[np.bool_]


class Conjuncts:
    """The conjuncts of many texts: which line each is of, and the intervals it was found to be."""

    def __init__(self, texts: list[str]) -> None:
        self.texts, counts = conjuncts_of_all(texts)
        self._count = len(texts)
        self._lines = np.repeat(np.arange(len(texts)), counts)
        self._too_long = np.array([len(text) > LONGEST for text in texts])
        self._names: dict[str, int] = {}
        self._attributes = np.full(len(self.texts), -1, np.int64)
        self._counts = np.zeros(len(self.texts), np.int64)
        self._starts = np.zeros(len(self.texts), np.int64)
        self._never = np.zeros(len(self.texts), np.bool_)
        self._pools: list[Int64s] = [np.empty(0, np.int64)]
        self._used = 0

    def fill(self, which: Int64s, names: Sequence[tuple[str, int]], handles: Handles) -> None:
        """Say of some conjuncts which attributes how many of them ask of, in order, and the intervals of each."""
        numbers = [self._names.setdefault(name, len(self._names)) for name, _ in names]
        attributes = np.repeat(numbers, [count for _, count in names])
        self._attributes[which] = attributes if handles.slow is None else np.where(handles.slow, -1, attributes)
        self._counts[which] = handles.counts
        self._starts[which] = self._used + np.cumsum(handles.counts) - handles.counts
        if handles.never is not None:
            self._never[which] = handles.never
        self._pools.append(handles.flat)
        self._used += len(handles.flat)

    def add(self, builder: ConditionsBuilder, numbers: Int64s) -> Flags:
        """Add the lines all of whose conjuncts are filled, each of another attribute; answers which."""
        good = np.zeros(self._count, np.bool_)
        good[self._lines] = True
        good[self._too_long] = False
        good[self._lines[self._attributes < 0]] = False
        order = np.lexsort((self._attributes, self._lines))
        twice = (np.diff(self._lines[order]) == 0) & (np.diff(self._attributes[order]) == 0)
        good[self._lines[order][1:][twice]] = False
        impossible = np.zeros(self._count, np.bool_)
        impossible[self._lines[self._never]] = True
        kept = (good & ~impossible)[self._lines]
        counts, starts = self._counts[kept], self._starts[kept]
        lengths = np.bincount(self._lines[kept], weights=counts, minlength=self._count).astype(np.int64)
        wanted = np.flatnonzero(good & ~impossible)
        pool = np.concatenate(self._pools)
        builder.add_plain(numbers[wanted], lengths[wanted], pool[np.repeat(starts, counts) + within(counts)])
        return good
