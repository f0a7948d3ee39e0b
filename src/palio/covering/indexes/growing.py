"""The index for whoever does not want to choose: few filters are read through, many are in columns.

Most brokers have few filters for most neighbours, and arrays and compiled code would only cost them memory and time to
start; from some dozens on they pay.
"""

from __future__ import annotations

from typing import Final

from palio.covering.indexes.linear import LinearIndex
from palio.covering.indexes.protocol import CoveringIndex
from palio.covering.interests import Interest

_FEW: Final = 64


class GrowingIndex:
    """A linear index that becomes a columnar one when it has outgrown the first, and stays so."""

    def __init__(self) -> None:
        self._few: LinearIndex | None = LinearIndex()
        self._inner: CoveringIndex = self._few
        self._earlier = 0

    @property
    def comparisons(self) -> int:
        return self._earlier + self._inner.comparisons

    def add(self, interest: Interest) -> None:
        if self._few is not None and len(self._few.interests) == _FEW:
            self._grow(self._few)
        self._inner.add(interest)

    def remove(self, interest: Interest) -> None:
        self._inner.remove(interest)

    def covering(self, interest: Interest, limit: int) -> list[Interest]:
        return self._inner.covering(interest, limit)

    def covered(self, interest: Interest) -> list[Interest]:
        return self._inner.covered(interest)

    def _grow(self, few: LinearIndex) -> None:
        from palio.covering.indexes.columnar import ColumnarIndex

        self._earlier = few.comparisons
        self._few, self._inner = None, ColumnarIndex()
        for each in few.interests:
            self._inner.add(each)
