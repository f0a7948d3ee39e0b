"""How does one hold the conditions of a million subscriptions without a million objects?

As rectangular arrays: a row per subscription, a column per position. Every condition is an interval of
integers `low <= value <= high`, where a word of the vocabulary counts as its number; `kind` remembers how it
is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNUSED, EQUALS, BETWEEN, AT_LEAST, AT_MOST = range(5)


@dataclass(frozen=True)
class Conditions:
    """Conjunctions as arrays of one shape; a cell whose kind is `UNUSED` holds nothing."""

    attribute: NDArray[np.int16]
    kind: NDArray[np.int8]
    low: NDArray[np.int32]
    high: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def none(cls, most: int) -> Conditions:
        """No subscription, of a width that can be joined to others."""
        attribute, kind = np.empty((0, most), np.int16), np.empty((0, most), np.int8)
        return cls(attribute, kind, np.empty((0, most), np.int32), np.empty((0, most), np.int32))

    @classmethod
    def concatenate(cls, parts: Sequence[Conditions]) -> Conditions:
        """The subscriptions of all parts, in order."""
        return cls(
            np.concatenate([part.attribute for part in parts]),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
        )
