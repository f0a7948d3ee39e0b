"""Concatenation of saved indexes whose ids are distinct: one index with a segment of each, and no parsing.

Indexes of parts are built in parallel, in other processes. Their subscriptions get new numbers, part after part, and
the arrays are copied; no condition is read again. The cost is that of reading and writing the files. Of the parts one
segment at a time is in memory, beside all ids and compressed texts.

Every segment costs each event another look-up, from 0.3 µs to several where matches are many, so that parts should be
few and large. Rejected: building one segment of all parts. Its slots are numbered by the constants of all of them, so
the intervals of all parts would have to be sent to one process and laid out there, which takes most of the time that
building in parallel saves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from palio.matching.catalogue import Catalogue, IdHashRun
from palio.matching.columnar import renumbering_kernels as kernels
from palio.matching.columnar.conditions import AxisKey
from palio.matching.columnar.postings import Postings
from palio.matching.columnar.segment import Segment
from palio.matching.index_file import load, save


def concatenate(path: Path, parts: Sequence[Path]) -> None:
    """Write the index of all subscriptions of some saved indexes, which have no id in common."""
    loaded = [load(part) for part in parts]
    firsts = [0, *np.cumsum([len(catalogue) for _, catalogue, _, _ in loaded]).tolist()]
    catalogue = Catalogue(
        [
            replace(block, start=block.start + first)
            for first, (_, part, _, _) in zip(firsts, loaded, strict=False)
            for block in part.blocks
        ],
        [
            IdHashRun(run.hashes, run.numbers + np.int32(first))
            for first, (_, part, _, _) in zip(firsts, loaded, strict=False)
            for run in part.runs
        ],
    )
    tombstones = np.zeros((firsts[-1] + 7) // 8, np.uint8)
    for first, (_, part, dead, _) in zip(firsts, loaded, strict=False):
        gone = first + np.flatnonzero(np.unpackbits(dead, bitorder="little")[: len(part)])
        np.bitwise_or.at(tombstones, gone >> 3, (1 << (gone & 7)).astype(np.uint8))

    def segments() -> Iterator[Segment]:
        # One after the other, as they are written: a renumbered segment is a copy in memory.
        for first, (own, _, _, _) in zip(firsts, loaded, strict=False):
            yield from (_renumbered(each, first) for each in own)

    save(path, segments(), catalogue, tombstones, sum(removed for *_, removed in loaded))


def _renumbered(segment: Segment, more: int) -> Segment:
    """A segment whose numbers are larger by a constant."""
    arrays = dict(segment.postings.arrays)
    blocks, records = arrays["blocks"].copy(), arrays["records"].copy()
    kernels.renumber_blocks(arrays["starts"].copy(), blocks, more)
    kernels.renumber_records(records, more)
    always = arrays["always"]
    arrays |= {"blocks": blocks, "records": records, "always": np.where(always < 0, always, always + np.int32(more))}

    def tests() -> list[AxisKey]:
        return [key for key in segment.encoder.keys if key[1] is not None]

    return Segment(
        [name for name, question in segment.encoder.keys if question is None],
        tests,
        segment.encoder.axes,
        Postings.from_arrays(arrays),
        segment.runs + np.int32(more),
        segment.residual_numbers + np.int32(more),
        segment.computed_numbers + np.int32(more),
        segment.slow,
    )
