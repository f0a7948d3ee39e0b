"""Conjunctions made intervals conjunct by conjunct: those of one shape together, whatever stands beside them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from palio.languages.sql.parting import conjuncts_of_all
from palio.languages.sql.shapes import LONGEST
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

    def add(self, builder: ConditionsBuilder, numbers: Int64s, filled: list[tuple[str, Int64s, Handles]]) -> Flags:
        """Add the lines all of whose conjuncts are filled, each of another attribute; answers which."""
        size = len(self.texts)
        name_of = np.full(size, -1, np.int64)
        counts = np.zeros(size, np.int64)
        starts = np.zeros(size, np.int64)
        never = np.zeros(size, np.bool_)
        pools: list[Int64s] = []
        names: dict[str, int] = {}
        used = 0
        for name, which, handles in filled:
            sure = np.ones(len(which), np.bool_) if handles.slow is None else ~handles.slow
            name_of[which[sure]] = names.setdefault(name, len(names))
            counts[which] = handles.counts
            starts[which] = used + np.cumsum(handles.counts) - handles.counts
            if handles.never is not None:
                never[which] = handles.never
            pools.append(handles.flat)
            used += len(handles.flat)
        good = np.zeros(self._count, np.bool_)
        good[self._lines] = True
        good[self._too_long] = False
        good[self._lines[name_of < 0]] = False
        order = np.lexsort((name_of, self._lines))
        twice = (np.diff(self._lines[order]) == 0) & (np.diff(name_of[order]) == 0)
        good[self._lines[order][1:][twice]] = False
        impossible = np.zeros(self._count, np.bool_)
        impossible[self._lines[never]] = True
        kept = (good & ~impossible)[self._lines]
        counts, starts = counts[kept], starts[kept]
        pool = np.concatenate([*pools, np.empty(0, np.int64)])
        lengths = np.bincount(self._lines[kept], weights=counts, minlength=self._count).astype(np.int64)
        wanted = np.flatnonzero(good & ~impossible)
        builder.add_plain(numbers[wanted], lengths[wanted], pool[np.repeat(starts, counts) + within(counts)])
        return good
