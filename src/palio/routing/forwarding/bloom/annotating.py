"""Digests in bulk, for events that are matched before they come to their first broker."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.routing.forwarding.annotated import Entry, joined, prefix
from palio.routing.forwarding.bloom.header import BloomHeader
from palio.routing.forwarding.bloom.predicates import gather
from palio.routing.forwarding.bloom.shape import BloomShape, index_type


@dataclass(frozen=True)
class BloomWriter:
    """Writes digests; `own` has the bits of every predicate, by number."""

    entry: Entry
    shape: BloomShape
    own: npt.NDArray[np.int32]

    def write(self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int32], count: int) -> pa.BinaryArray:
        starts, bits = gather(self.shape, self.own, rows, numbers, count)
        start = prefix(self.entry, BloomHeader.kind)
        index = index_type(self.shape.width)
        if int(np.diff(starts).max(initial=0)) * index.itemsize * 8 <= self.shape.width:
            return joined(start + BloomHeader.of(self.shape.width, ()).data, bits.astype(index), starts)
        digests = (bits[low:high] for low, high in pairwise(starts))
        return pa.array([start + BloomHeader.of(self.shape.width, each).data for each in digests], pa.binary())
