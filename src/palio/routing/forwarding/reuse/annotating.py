"""Lists of keys in bulk, for events that are matched before they come to their first broker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.routing.forwarding.annotated import Entry, joined, prefix
from palio.routing.forwarding.reuse.header import Known, ReuseHeader


@dataclass(frozen=True)
class ReuseWriter:
    """Writes all keys that match; `keys` has the key of every filter, by number."""

    entry: Entry
    keys: npt.NDArray[np.uint64]

    def write(self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int32], count: int) -> pa.BinaryArray:
        own = self.keys[numbers]
        order = np.lexsort((own, rows))  # whatever order they were found in
        rows, own = rows[order], own[order]
        once = np.ones(len(rows), bool)  # a filter that came by two links has one key
        once[1:] = (rows[1:] != rows[:-1]) | (own[1:] != own[:-1])
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(rows[once], minlength=count), out=starts[1:])
        start = prefix(self.entry, ReuseHeader.kind) + ReuseHeader.of((), Known.SAID_TO_BE_ALL).data
        return joined(start, own[once].astype("<u8"), starts)
