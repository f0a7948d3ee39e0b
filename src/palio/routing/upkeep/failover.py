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

With a `grace` period a broker first waits so many seconds for its lost parent, and keeps its place meanwhile. The
brokers below it see nothing of a short outage; after it the broker looks for a backup (the threshold of Chand §6.1
between recovery and failover). Only the parent itself ends the wait: it offers its way again once it is back.

Tables move as the source says, in its recommended order: a broker tells its backup all that it would have told its lost
parent, reduced as its propagation says, and only later is withdrawn what came by the lost link, at both of its ends.
The tables of a lost neighbour are kept for that time by its table session (`recovery`), whose messages show no
difference between a neighbour that crashed and one that was wrongly taken for crashed. The count that the source takes
from the upstream column of the lost broker is that of the other columns: here, as everywhere, what a neighbour is told
follows from all interfaces but its own (`propagation.neighbour_updates`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from palio.routing.effects import CancelTimer, Effect, SetTimer
from palio.routing.messages import Offer
from palio.routing.spanning_tree import SpanningTree

GRACE_TIMER: Final = "grace"


class FailoverTree(SpanningTree):
    """The place of one broker in a tree whose offers name the way from the root."""

    __slots__ = ("_awaited", "_grace", "_lost", "_way_before")

    def __init__(
        self,
        node: int,
        incarnation: int,
        random: Callable[[], float],
        effects: list[Effect],
        grace: float = 0.0,
    ) -> None:
        """`grace` is how many seconds a lost parent is waited for before a backup is taken."""
        super().__init__(node, incarnation, random, effects)
        self._grace = grace
        self._lost: int | None = None  # the parent that was lost, until there is another
        self._awaited: int | None = None  # the lost parent, while it is waited for
        self._way_before: tuple[int, ...] = ()  # the way that leads through the awaited parent

    @property
    def backups(self) -> list[int]:
        """The neighbours that would be taken at once if the parent were lost."""
        parent = None if self.parent is None else self._links[self.parent]
        offers = [(self._links[link], offer) for link, offer in self._offers.items() if self._is_backup(offer)]
        return sorted(neighbour for neighbour, offer in offers if parent not in offer.path)

    def on_link_down(self, link: int) -> None:
        if link == self.parent:
            if self._grace:
                self._await(self._links[link])
            else:
                self._lost = self._links[link]
        super().on_link_down(link)

    def on_offer(self, link: int, offer: Offer) -> None:
        # A parent that has lost its own way, and offers another root now, is lost as well.
        if link == self.parent and offer.root > self.root:
            self._lost = self._links[link]
        super().on_offer(link, offer)

    def on_timer(self, name: str) -> None:
        if name == GRACE_TIMER and self._awaited is not None:
            self._lost, self._awaited = self._awaited, None
            self._decide()
        else:
            super().on_timer(name)

    def _await(self, parent: int) -> None:
        """Wait for a lost parent, with the same root, epoch and distance as before."""
        self._way_before = self._way()
        self._awaited = parent
        self.parent = None
        self._effects.append(SetTimer(GRACE_TIMER, self._grace))

    def _decide(self) -> None:
        if self._awaited is not None:
            if not self._is_back():
                self._send_offers()
                return
            self._awaited = None
            self._effects.append(CancelTimer(GRACE_TIMER))
        super()._decide()
        if self.parent is not None:
            self._lost = None

    def _is_back(self) -> bool:
        """Whether the awaited parent offers a way to the same root again."""
        return any(
            self._links[link] == self._awaited and offer.root == self.root and self._is_admissible(link, offer)
            for link, offer in self._offers.items()
        )

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
        if self._awaited is not None:
            return self._way_before
        if self.parent is None:
            return (self._node,)
        return (*self._offers[self.parent].path, self._node)
