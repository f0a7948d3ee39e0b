"""Failover: brokers that lose their way to the root attach to a backup at once.

A broker of the spanning tree (`spanning_tree`) that loses its parent may take another neighbour only if that one is
nearer to the root than it has ever been itself; otherwise it waits until the root has begun an epoch, which is a way to
the root and back for all brokers below it. Here an offer also names the brokers on the way from the root to its sender.
A neighbour whose way leads neither through this broker nor through the one that it lost is not below either of them: it
is a backup, and is taken at once (Crash/Failover, Chand §6.1). Brokers below stay where they are, although their
distance grows.

Two brokers that lose different parents at one time may take each other's descendants for backups, and so make a loop.
The source excludes that; here the way in the offers shows it, since it comes back to a broker that is on it, which
gives its parent up then and asks for an epoch as in any other tree. While there is a loop, events are stopped by the
duplicate filter, and filters that only the loop sustains go when it is cut.

Tables move as the source says, in its recommended order: a broker tells its backup all that it would have told its lost
parent, reduced as its propagation says, and only later is withdrawn what came by the lost link, at both of its ends.
The tables of a lost neighbour are kept for that time by its table session (`recovery`), whose messages show no
difference between a neighbour that crashed and one that was wrongly taken for crashed. The count that the source takes
from the upstream column of the lost broker is that of the other columns: here, as everywhere, what a neighbour is told
follows from all interfaces but its own (`propagation.neighbour_updates`).
"""

from __future__ import annotations

from collections.abc import Callable

from palio.routing.effects import Effect
from palio.routing.messages import Offer
from palio.routing.spanning_tree import SpanningTree


class FailoverTree(SpanningTree):
    """The place of one broker in a tree whose offers name the way from the root."""

    __slots__ = ("_lost",)

    def __init__(self, node: int, incarnation: int, random: Callable[[], float], effects: list[Effect]) -> None:
        super().__init__(node, incarnation, random, effects)
        self._lost: int | None = None  # the parent that was lost, until there is another

    @property
    def backups(self) -> list[int]:
        """The neighbours that would be taken at once if the parent were lost."""
        parent = None if self.parent is None else self._links[self.parent]
        offers = [(self._links[link], offer) for link, offer in self._offers.items() if self._is_backup(offer)]
        return sorted(neighbour for neighbour, offer in offers if parent not in offer.path)

    def on_link_down(self, link: int) -> None:
        if link == self.parent:
            self._lost = self._links[link]
        super().on_link_down(link)

    def on_offer(self, link: int, offer: Offer) -> None:
        # A parent that has lost its own way, and offers another root now, is lost as well.
        if link == self.parent and offer.root > self.root:
            self._lost = self._links[link]
        super().on_offer(link, offer)

    def _decide(self) -> None:
        super()._decide()
        if self.parent is not None:
            self._lost = None

    def _is_admissible(self, link: int, offer: Offer) -> bool:
        if self._node in offer.path:
            return False  # it is below this broker, or there is a loop
        if super()._is_admissible(link, offer):
            return True
        # Below a broker that has moved the distance may grow, and the way shows that there is no loop.
        is_parent = link == self.parent and offer.root == self.root
        return self._is_backup(offer) and (is_parent or (self._lost is not None and self._lost not in offer.path))

    def _is_backup(self, offer: Offer) -> bool:
        return offer.root < self._node and not offer.chosen and self._node not in offer.path

    def _way(self) -> tuple[int, ...]:
        if self.parent is None:
            return (self._node,)
        return (*self._offers[self.parent].path, self._node)
