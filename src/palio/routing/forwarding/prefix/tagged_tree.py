"""One version of the tree as one broker has it: the shared tree, and the broker's own tags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from palio.filters.tree import Attributes
from palio.routing.conjunctive import Conjunction
from palio.routing.forwarding.prefix.extraction import Extraction
from palio.routing.forwarding.prefix.header import VERSION_BYTES, PrefixHeader
from palio.routing.forwarding.prefix.tags import Tags
from palio.routing.forwarding.prefix.tree_index import TreeIndex


class TaggedTree:
    """Writes headers for events, and reads where they lead. Forwarding trees are cut at a height, unless it is 0."""

    def __init__(self, index: TreeIndex, height: int, wanted: Iterable[tuple[int, Iterable[Conjunction]]]) -> None:
        self._index = index
        self._height = height
        self.tags = Tags(index)
        for interface, conjunctions in wanted:
            self.tags.add(interface, conjunctions)

    @property
    def version(self) -> bytes:
        return self._index.tree.version

    @cached_property
    def _extraction(self) -> Extraction:
        return Extraction(self._index, self._height)

    def headers(self, events: Sequence[Attributes]) -> list[PrefixHeader]:
        """What each event satisfies."""
        return [PrefixHeader.of(self.version, tree) for tree in self._extraction.extract(events)]

    def interfaces(self, headers: Sequence[PrefixHeader]) -> list[tuple[int, ...] | None]:
        """Where headers of this version lead; None for one that it cannot have made."""
        return self.tags.gather([header.data for header in headers], VERSION_BYTES)
