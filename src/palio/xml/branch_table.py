"""Branches of patterns: what must be found below one element, shared by all patterns that ask for it.

XTrie cuts a pattern where it branches, and links the parts in a table (Chan, Felber, Garofalakis and Rastogi, 2002;
Chand §3.3). Here the parts are shared: two patterns that ask for the same below the same path have one entry for it.

A *unit* is what a pattern asks of one node: value tests, or a conjunction of links. A *link* says that below an
element a path ends in a node of the trie, or in a unit. For `/a[b/c]//d`:

    link 0      /a has b/c below it: it holds two levels above a node that the trie finds as /a/b/c
    link 1      /a has a d at any depth: it holds at the ancestor at depth 1 of a node found as /a//d
    unit 0      the conjunction of both

A conjunction is looked at when its pivot holds, the link that is likely to hold in the fewest documents. One whose
links all lead to any depth has no pivot, and is looked for at every element that its path leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from palio.xml.join_kernels import ABOVE, BranchArrays

EVERY_NODE: Final = -1


class BranchTable:
    """Links and units. It only grows."""

    def __init__(self) -> None:
        self._link_numbers: dict[tuple[int, int, int, int, int], int] = {}
        self._kinds: list[int] = []
        self._levels: list[int] = []
        self._rarities: list[int] = []
        self._pivots: list[list[int]] = []
        self._conjunctions: dict[tuple[int, frozenset[int]], int] = {}
        self._others: list[list[int]] = []
        self._patterns: list[list[int]] = []
        self._links: list[list[int]] = []

    def __len__(self) -> int:
        """The number of links."""
        return len(self._kinds)

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self._patterns)

    def add_unit(self) -> int:
        """Add a unit that is found by itself, by a value test."""
        self._others.append([])
        self._patterns.append([])
        self._links.append([])
        return self.units - 1

    def add_link(self, kind: int, levels: int, node: int, end: tuple[int, int], rarity: int) -> tuple[int, bool]:
        """The number of a link from a node of the trie, and whether it is new.

        `end` identifies where it ends; `rarity` is the greater, the fewer documents it is expected in.
        """
        # That something stands at any depth below is one link for all nodes that ask for it.
        key = (kind, levels, EVERY_NODE if kind == ABOVE else node, *end)
        known = self._link_numbers.get(key)
        if known is not None:
            return known, False
        number = self._link_numbers[key] = len(self._kinds)
        self._kinds.append(kind)
        self._levels.append(levels)
        self._rarities.append(rarity)
        self._pivots.append([])
        return number, True

    def end_link_at(self, unit: int, link: int) -> None:
        """Have a link follow from a unit."""
        self._links[unit].append(link)

    def add_conjunction(self, node: int, links: frozenset[int], searches: list[int]) -> int:
        """The unit of links that must hold together, at a node of the trie.

        It is added to `searches`, those of the node, if it has no pivot.
        """
        known = self._conjunctions.get((node, links))
        if known is not None:
            return known
        unit = self._conjunctions[node, links] = self.add_unit()
        pivots = [link for link in links if self._kinds[link] != ABOVE]
        if pivots:
            pivot = max(pivots, key=lambda link: (self._rarities[link], -len(self._pivots[link]), link))
            self._pivots[pivot].append(unit)
            links = links - {pivot}
        else:
            searches.append(unit)
        self._others[unit] = sorted(links)
        return unit

    def add_pattern(self, unit: int, pattern: int) -> None:
        """Have a pattern match where a unit is found."""
        self._patterns[unit].append(pattern)

    def arrays(self) -> BranchArrays:
        """The table for the kernels; a copy."""
        return BranchArrays(
            np.array(self._kinds, np.int32),
            np.array(self._levels, np.int32),
            *compressed(self._pivots),
            *compressed(self._others),
            *compressed(self._patterns),
            *compressed(self._links),
        )


def compressed(lists: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Where each of some lists begins in an array, and the array of all of them."""
    starts = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(each) for each in lists], out=starts[1:])
    return starts, np.fromiter((value for each in lists for value in each), np.int32, int(starts[-1]))
