"""The strings and bytes that conditions compare with: their slots, and the hash tables that find them.

Texts that an axis only compares for equality need no order: each has a slot of its own and all others share the first.
Where some condition asks for a range there is a slot between every two cuts, and a text between its own two cuts,
itself and itself + NUL, is a point. Points are found by hash table; only other texts are searched for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar import encoding_kernels as kernels
from palio.matching.columnar.axes import address_of, encoded
from palio.matching.columnar.layout import PADDING

Ints: TypeAlias = npt.NDArray[np.int64]
Cut: TypeAlias = tuple[Any, bool]  # a constant, and whether the cut lies after it

_LONG_TEXT: Final = 8  # bytes from which on a text's key is only a hash, and the text itself is needed
_FEWEST_BITS: Final = 2


class Texts:
    """The constants of one axis of strings or bytes, numbered as they come."""

    __slots__ = ("cuts", "points")

    def __init__(self) -> None:
        self.points: dict[str | bytes, int] = {}
        self.cuts: dict[Cut, int] = {}


class TextSlots:
    """The slots of the texts of all axes. Lists, not arrays: most axes of most segments have a handful of texts."""

    def __init__(self, texts: Mapping[tuple[int, int], Texts]) -> None:
        self._kept: list[bytes] = []  # those that are needed to tell a text from others
        self._hashed: list[bytes] = []
        self._numbers: list[int] = []  # of those hashed, among those kept of their axis
        self._slots: list[int] = []  # of those hashed, from 1 on
        self._points: list[int] = []
        self._cuts: list[int] = []
        self._places = 0  # in all hash tables
        self.rows: list[tuple[int, ...]] = []
        """Per axis and region: the five facts of `layout`, the first point, cut and hashed text, and how many."""
        for each in texts.values():
            first = (len(self._points), len(self._cuts), len(self._hashed))
            place = len(self._kept)
            count = self._order(each) if each.cuts else self._separate(each)
            hashed = len(self._hashed) - first[2]
            bits = max(_FEWEST_BITS, (hashed * 4 // 3).bit_length())
            self.rows.append((place, count, self._places, bits, int(bool(each.cuts)), *first, hashed))
            self._places += 1 << bits
        self.points, self.cuts = np.array(self._points, np.int64), np.array(self._cuts, np.int64)

    def _separate(self, texts: Texts) -> int:
        """A slot per text; sorted only so that the same texts make the same file."""
        names = sorted(texts.points)
        ranks = [0] * len(names)
        place = len(self._kept)
        for rank, name in enumerate(names, 1):
            ranks[texts.points[name]] = rank
            text = encoded(name)
            self._hashed.append(text)
            self._numbers.append(len(self._kept) - place)
            if len(text) >= _LONG_TEXT:
                self._kept.append(text)
        self._points += ranks
        self._slots += range(1, len(names) + 1)
        return len(names)

    def _order(self, texts: Texts) -> int:
        """A slot between every two cuts."""
        points = [encoded(name) for name in texts.points]
        cuts = [encoded(value) + b"\0" * after for value, after in texts.cuts]
        items = sorted({*cuts, *points, *(point + b"\0" for point in points)})
        rank = {item: index for index, item in enumerate(items, 1)}
        self._points += [rank[each] for each in points]
        self._cuts += [rank[each] for each in cuts]
        for index, item in enumerate(items):
            if item + b"\0" in rank:
                self._hashed.append(item)
                self._numbers.append(index)
                self._slots.append(index + 1)
        self._kept += items
        return len(items)

    def arrays(self, first_slots: Ints) -> dict[str, npt.NDArray[Any]]:
        """Texts and hash tables, given the first slot of each axis and region."""
        text, starts = joined(self._kept)
        tables = np.zeros(2 * self._places, np.int64)
        rows = np.array(self.rows, np.int64).reshape(-1, 9)
        slots = np.array(self._slots, np.int64) + np.repeat(first_slots, rows[:, 8])
        numbers = np.array(self._numbers, np.int64)
        hashed, hashed_starts = joined(self._hashed)
        # Per table: its first text, how many, its place, its bits.
        jobs = np.ascontiguousarray(rows[:, [7, 8, 2, 3]])
        kernels.fill_tables(
            address_of(hashed),
            address_of(hashed_starts),
            address_of(numbers),
            address_of(slots),
            address_of(jobs),
            len(jobs),
            address_of(tables),
        )
        return {"text": text, "text_starts": starts, "tables": tables}


def joined(items: list[bytes]) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Texts one after the other, and where each begins."""
    starts = np.zeros(len(items) + 1, np.int64)
    np.cumsum([len(item) for item in items], out=starts[1:])
    return np.frombuffer(b"".join(items) + bytes(PADDING), np.uint8), starts
