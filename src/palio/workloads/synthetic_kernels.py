"""Compiled kernels of the synthetic workloads: random numbers to rows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.native import compiled, compiled_with_arrays

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]


@compiled_with_arrays
def first_of(keys: Floats, counts: Ints, chosen: Ints) -> None:
    """For each row the positions of its `counts` smallest keys, ascending by key."""
    # An insertion sort that holds `count` keys and drops the largest of them when a smaller one comes.
    least = np.empty(chosen.shape[1])
    for row in range(len(keys)):
        count = counts[row]
        held = 0
        for place in range(keys.shape[1]):
            key = keys[row, place]
            if held == count:
                if key >= least[held - 1]:
                    continue
            else:
                held += 1
            at = held - 1
            while at > 0 and least[at - 1] > key:
                least[at] = least[at - 1]
                chosen[row, at] = chosen[row, at - 1]
                at -= 1
            least[at] = key
            chosen[row, at] = place


@compiled
def find_words(uniform: Floats, cumulated: Floats, guide: Ints, words: Ints) -> None:
    """Inverse of a cumulative distribution: for each number the first word whose cumulated share reaches it."""
    steps, last = len(guide), len(cumulated) - 1
    for row in range(uniform.shape[0]):
        for place in range(uniform.shape[1]):
            number = uniform[row, place]
            # The guide gives a word at or before the right one, from where it is a few steps.
            word = guide[int(number * steps)]
            while word < last and cumulated[word] < number:
                word += 1
            words[row, place] = word


@compiled
def lay_out(chosen: Ints, counts: Ints, is_string: Flags, words: Ints, numbers: Ints, first: int, out: Numbers) -> None:
    """Scatter the values of events to the columns of their attributes, from row `first` of a matrix on."""
    for row in range(len(counts)):
        for place in range(counts[row]):
            attribute = chosen[row, place]
            out[first + row, attribute] = words[row, place] if is_string[attribute] else numbers[row, place]
