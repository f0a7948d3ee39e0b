"""XTrie for ordered trees: branches are found in the order in which they are written.

The patterns are those of `parse_ordered`. Here every branch of several ends a substring at its first node, so that the
place of that node is known when its row is complete: which may be after a branch that stands behind it, because rows
complete when the last part of them is found. A row therefore keeps the places of all that it found of each branch, and
is complete when there are some in ascending order.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import ClassVar

from palio.xml.document import Document
from palio.xml.pattern import NodeKind
from palio.xml.xtrie import NO_ROW, Filtering, Row, TrieNode, XTrie


class OrderedXTrie(XTrie):
    """Ordered patterns by number, cut into substrings."""

    ends_rows_at_siblings: ClassVar[bool] = True

    def _filtering(self, document: Document) -> Filtering:
        return _OrderedFiltering(self.rows, self._root, document)


@dataclass(slots=True)
class _OpenRow:
    """A row that was found at a node, and the places of the nodes at which its branches were."""

    place: int
    places: dict[int, list[int]] = field(default_factory=dict)
    """By rank, ascending."""
    attributes: set[int] = field(default_factory=set)
    """The ranks of attributes that were found: they have no order."""
    is_complete: bool = False

    def has_all(self, branches: int) -> bool:
        """Whether there is a place for each branch, behind that of the one before it."""
        last = -1
        for rank in range(1, branches + 1):
            if rank in self.attributes:
                continue
            places = self.places.get(rank, [])
            behind = bisect_right(places, last)
            if behind == len(places):
                return False
            last = places[behind]
        return True


class _OrderedFiltering(Filtering):
    """One pass over a document, in which places are counted over elements and texts."""

    def __init__(self, rows: dict[int, Row], root: TrieNode, document: Document) -> None:
        super().__init__(rows, root, document)
        self._place = -1
        self._open_rows: dict[tuple[int, int], _OpenRow] = {}

    def _start_node(self, nodes: list[TrieNode], kind: NodeKind, level: int, node: int | None) -> list[int]:
        if node is not None:
            if kind is NodeKind.ELEMENT:
                self._place = node + self._document.text_starts[node]
            elif kind is NodeKind.TEXT:
                self._place = node + bisect_right(self._document.text_starts, node)
        return super()._start_node(nodes, kind, level, node)

    def _open_row(self, number: int, level: int) -> None:
        super()._open_row(number, level)
        self._open_rows[number, level] = _OpenRow(self._place)

    def _complete(self, number: int, level: int) -> None:
        """Note a row at its parent row, and go on from that one if it has all its branches."""
        row = self._rows[number]
        if row.parent == NO_ROW:
            self._found.add(row.pattern)
            return
        place = self._open_rows[number, level].place if row.children else self._place
        branches = self._rows[row.parent].children
        for above in list(self.open[row.parent]):
            parent = self._open_rows[row.parent, above]
            if parent.is_complete or not row.least_level <= level - above <= row.most_level:
                continue
            if row.kind is NodeKind.ATTRIBUTE:
                parent.attributes.add(row.rank)
            else:
                insort(parent.places.setdefault(row.rank, []), place)
            if parent.has_all(branches):
                parent.is_complete = True
                self._complete(row.parent, above)
