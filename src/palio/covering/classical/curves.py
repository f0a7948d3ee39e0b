"""Space filling curves: Z, Gray and Hilbert, as bijections between cells and keys.

All three visit the cells of each standard cube one after the other: the key of a cube, among cubes of its size, is what
the keys of its cells begin with. So a cube is one range of keys on each of them, and searches differ only in how many
ranges follow each other without a gap (Shen §4.6.2 takes the Z-curve, for its key costs least). The key of the Z-curve
are the bits of the coordinates interleaved; that of the Gray curve is the rank of these bits among Gray codes, so that
one bit changes from cell to cell; on the Hilbert curve, by the method of Skilling (2004), neighbours on the curve are
neighbours in space.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, Literal, Protocol

CurveName = Literal["z", "gray", "hilbert"]


class Curve(Protocol):
    """A curve through all cells whose coordinates have some bits."""

    def key(self, corner: Sequence[int], bits: int) -> int:
        """The place of a cell on the curve."""
        ...

    def corner(self, key: int, dimensions: int, bits: int) -> tuple[int, ...]:
        """The cell at a place."""
        ...


class ZCurve:
    """Bits of the coordinates interleaved, most significant first."""

    def key(self, corner: Sequence[int], bits: int) -> int:
        dimensions = len(corner)
        spread = _spread_bytes(dimensions)
        key = 0
        for at, coordinate in enumerate(corner, 1):
            shift = dimensions - at
            while coordinate:
                key |= spread[coordinate & 0xFF] << shift
                coordinate >>= 8
                shift += 8 * dimensions
        return key

    def corner(self, key: int, dimensions: int, bits: int) -> tuple[int, ...]:
        return tuple(
            sum((key >> (bit * dimensions + dimensions - 1 - at) & 1) << bit for bit in range(bits))
            for at in range(dimensions)
        )


class GrayCurve:
    """The rank of the interleaved bits among Gray codes."""

    def key(self, corner: Sequence[int], bits: int) -> int:
        code = Z_CURVE.key(corner, bits)
        shift = 1
        # Each bit of the rank is the parity of the bits of the code from it on upwards.
        while shift < bits * len(corner):
            code ^= code >> shift
            shift <<= 1
        return code

    def corner(self, key: int, dimensions: int, bits: int) -> tuple[int, ...]:
        return Z_CURVE.corner(key ^ key >> 1, dimensions, bits)


class HilbertCurve:
    """Neighbours on the curve are neighbours in space."""

    def key(self, corner: Sequence[int], bits: int) -> int:
        turned = list(corner)
        for level in range(bits - 1, 0, -1):
            self._turn(turned, 1 << level, range(len(turned)))
        for at in range(1, len(turned)):
            turned[at] ^= turned[at - 1]
        flipped = 0
        for level in range(bits - 1, 0, -1):
            if turned[-1] >> level & 1:
                flipped ^= (1 << level) - 1
        return Z_CURVE.key([each ^ flipped for each in turned], bits)

    def corner(self, key: int, dimensions: int, bits: int) -> tuple[int, ...]:
        turned = list(Z_CURVE.corner(key, dimensions, bits))
        carried = turned[-1] >> 1
        for at in range(dimensions - 1, 0, -1):
            turned[at] ^= turned[at - 1]
        turned[0] ^= carried
        for level in range(1, bits):
            self._turn(turned, 1 << level, range(dimensions - 1, -1, -1))
        return tuple(turned)

    @staticmethod
    def _turn(coordinates: list[int], bit: int, order: range) -> None:
        """Mirror or exchange axes within the cubes of a level, as the curve enters them."""
        below = bit - 1
        for at in order:
            if coordinates[at] & bit:
                coordinates[0] ^= below
            else:
                exchanged = (coordinates[0] ^ coordinates[at]) & below
                coordinates[0] ^= exchanged
                coordinates[at] ^= exchanged


@cache
def _spread_bytes(dimensions: int) -> list[int]:
    """For each byte its bits spread apart, with gaps for those of the other dimensions."""
    return [sum((byte >> bit & 1) << (bit * dimensions) for bit in range(8)) for byte in range(256)]


Z_CURVE: Final = ZCurve()
CURVES: Final[dict[CurveName, Curve]] = {"z": Z_CURVE, "gray": GrayCurve(), "hilbert": HilbertCurve()}
