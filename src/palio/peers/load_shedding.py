"""Load shedding of a hot spot: a node hands events to the neighbours that have copies of what it stores.

A popular value makes one key hot, and no other cut of the ring divides a key. But its next successors have copies of
all that is stored under it, so that any of them can match an event in the owner's place. An owner with more events in a
period than `shed_above` shares them out, in turn, among itself and those of its successors that have less to do.

A copy may only stand in while it has all that the owner has. A successor says so in answer to the owner's digest, and
what the owner stores later is confirmed to its subscriber when that successor has it as well. Whatever else the owner
learns of, or a message that does not arrive, ends the agreement until the next digest.
"""

from __future__ import annotations

from collections.abc import Collection


class LoadShedding:
    """What one node may leave to others."""

    def __init__(self, shed_above: int) -> None:
        """Shed with more events than this in a period; with 0, never."""
        self._shed_above = shed_above
        self._events = 0  # in this period
        self._events_before = 0
        self._agreed: dict[int, tuple[int, int]] = {}  # nodes with equal copies: low end of the arc, and their load
        self._turn = 0

    @property
    def load(self) -> int:
        """Events in a period."""
        return max(self._events, self._events_before)

    @property
    def is_hot(self) -> bool:
        return 0 < self._shed_above < self.load

    def count(self) -> None:
        """An event has come for keys of this node."""
        self._events += 1

    def on_period(self) -> None:
        self._events_before, self._events = self._events, 0

    def agree(self, node: int, low: int, load: int) -> None:
        """A node has equal copies of the arc that begins after `low`."""
        self._agreed[node] = low, load

    def keep(self, nodes: Collection[int]) -> None:
        """Only these nodes hear of what is stored now."""
        self._agreed = {node: agreed for node, agreed in self._agreed.items() if node in nodes}

    def forget(self, node: int | None = None) -> None:
        """What a node has may differ; without one, what all have."""
        if node is None:
            self._agreed.clear()
        else:
            self._agreed.pop(node, None)

    def next_node(self, low: int | None) -> int | None:
        """Who is to match the next event of the arc after `low`; None is this node itself."""
        if not self.is_hot:
            return None
        free = [node for node, (begin, load) in self._agreed.items() if begin == low and load < self.load]
        self._turn = (self._turn + 1) % (len(free) + 1)
        return ([None, *sorted(free)])[self._turn]
