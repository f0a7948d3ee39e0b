"""The curve index: filters as points on the Z-curve, searched in part or in full (Shen §4.6.1).

A filter with ranges of β attributes is a cell of a universe of 2β dimensions, how far it reaches down and how far up
each; the cells that dominate it are those of all that could cover it. Ranges are rounded to cells, and what a filter
says of other attributes is not in them, so whoever is found is verified with the filters: errors are on one side.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

from palio.covering.curve import Cube, Universe, cubes_needed
from palio.covering.curve_search import Allowance, Box, Search, populated_search
from palio.covering.interests import Interest, axis_of, some_above
from palio.errors import InvalidArgument

_EVERYWHERE: Final = (-inf, inf)


class ZCurveIndex:
    """Finds most of what covers a filter, and with `epsilon` 0 and no `budget` all of it.

    `domains` has the numeric attributes and from where to where their values go; 2^`bits` cells divide each. `epsilon`
    is the share of the volume that a search may leave out, `budget` the number of probes it may make. `comparisons`
    counts probes, and the filters that were verified.
    """

    def __init__(
        self,
        domains: Mapping[str, tuple[float, float]],
        *,
        bits: int = 10,
        epsilon: float = 0.0,
        budget: int | None = None,
        search: Search = populated_search,
    ) -> None:
        if not domains or not all(low < high for low, high in domains.values()):
            raise InvalidArgument("the curve needs attributes, each with a domain from a lesser to a greater number")
        if bits < 1:
            raise InvalidArgument(f"a coordinate has at least one bit, not {bits}")
        self._domains = {axis_of(name): domain for name, domain in domains.items()}
        self._universe = Universe(2 * len(domains), bits)
        cubes_needed((1,), epsilon)  # refuses what is no share
        self._epsilon, self._budget, self._search = epsilon, budget, search
        self._keys: list[int] = []
        self._at: dict[int, dict[Interest, None]] = {}
        self._cells: dict[Interest, int] = {}
        self.comparisons = 0

    def add(self, interest: Interest) -> None:
        key = self._cells[interest] = self._universe.key(Cube(0, self._point(interest)))
        if key not in self._at:
            insort(self._keys, key)
            self._at[key] = {}
        self._at[key][interest] = None

    def remove(self, interest: Interest) -> None:
        key = self._cells.pop(interest)
        del self._at[key][interest]
        if not self._at[key]:
            del self._at[key]
            del self._keys[bisect_left(self._keys, key)]

    def covering(self, interest: Interest, limit: int) -> list[Interest]:
        far = (1 << self._universe.bits) - 1
        box = Box(self._point(interest), (far,) * self._universe.dimensions)
        return some_above(self._candidates(box, self._search), interest, limit)

    def covered(self, interest: Interest) -> list[Interest]:
        """What a filter stands above lies before it, in a box that is not at the far corner."""
        box = Box((0,) * self._universe.dimensions, self._point(interest))
        return [each for each in self._candidates(box, populated_search) if interest.is_above(each)]

    def _candidates(self, box: Box, search: Search) -> Iterator[Interest]:
        allowed = Allowance(self._epsilon, self._budget)
        probed = 0
        for place in search(self._keys, self._universe, box, allowed):
            self.comparisons += allowed.probes - probed
            probed = allowed.probes
            for each in self._at[self._keys[place]]:
                self.comparisons += 1
                yield each
        self.comparisons += allowed.probes - probed

    def _point(self, interest: Interest) -> tuple[int, ...]:
        """The cell of a filter; an attribute that it does not speak of reaches as far as the domain does."""
        cells = 1 << self._universe.bits
        point: list[int] = []
        for axis, (least, most) in self._domains.items():
            low, high = (
                min(int(min(max((end - least) / (most - least), 0.0), 1.0) * cells), cells - 1)
                for end in interest.extent.get(axis, _EVERYWHERE)
            )
            point += (cells - 1 - low, high)
        return tuple(point)
