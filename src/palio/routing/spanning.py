"""Which links count, where there is more than one way? A spanning tree that brokers agree on, and mend by themselves.

Each broker offers its neighbours a way to the lowest-numbered broker it knows of, the root, and chooses the nearest
that is offered to it as its parent. A link is in the tree while one end has chosen the other. So that no loop ever
forms and no ghost of a lost root goes round, a broker takes only offers from those who were nearer to the root than it
has ever been itself, in the present epoch (the source node condition of DUAL). One that is left without such an offer
is its own root until the root, asked for it, begins an epoch in which all distances count anew, as Babel's sequence
numbers do.

Offers are said when they change, and again at long intervals: from whatever state memory may have been brought into,
the next round leads back to a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from palio.routing.effects import Effect, Send, SetTimer
from palio.routing.messages import Offer, Request

TIMER: Final = "spanning"
_ROUND: Final = 30.0  # seconds between repetitions
_REMEMBERED: Final = 64  # roots whose distances are remembered


def no_chance() -> float:
    """The randomness of a broker that was handed none."""
    return 0.5


class Spanning:
    """The place of one broker in the tree."""

    __slots__ = (
        "_asked",
        "_best",
        "_choice",
        "_links",
        "_node",
        "_offers",
        "_own_epoch",
        "_random",
        "_said",
        "_wanted",
        "distance",
        "epoch",
        "parent",
        "root",
    )

    def __init__(self, node: int, incarnation: int, random: Callable[[], float]) -> None:
        self._node = node
        self._random = random
        self._own_epoch = incarnation << 32  # later than any epoch of an earlier life
        self._links: dict[int, int] = {}  # neighbours
        self._offers: dict[int, Offer] = {}
        self._said: dict[int, Offer] = {}
        self._best: dict[int, tuple[int, int]] = {}  # by root: the last epoch, and the shortest distance in it
        self._wanted: dict[int, int] = {}  # by root: the epoch after which a new one was asked for
        self._asked: dict[int, Offer] = {}  # by link: the offer that could not be taken, when a new epoch was asked for
        self._choice = 0
        self.root, self.epoch, self.distance = node, self._own_epoch, 0
        self.parent: int | None = None

    @property
    def links(self) -> list[int]:
        """All links to neighbours, in the tree or not."""
        return list(self._links)

    def pair(self, link: int) -> tuple[int, int] | None:
        """The numbers of the choices for which a link is in the tree, own and neighbour's; None where it is not."""
        if link not in self._links:
            return None
        mine = self._choice if link == self.parent else 0
        offer = self._offers.get(link)
        yours = offer.chosen if offer is not None else 0
        return (mine, yours) if mine or yours else None

    def up(self, link: int, neighbour: int) -> list[Effect]:
        again: list[Effect] = [] if self._links else [self._again()]
        self._links[link] = neighbour
        return self._decide() + again

    def down(self, link: int) -> list[Effect]:
        self._links.pop(link, None)
        self._forget(link)
        return self._decide()

    def offered(self, link: int, offer: Offer) -> list[Effect]:
        if link not in self._links:
            return []
        self._offers[link] = offer
        self._asked.pop(link, None)
        return self._decide()

    def requested(self, request: Request) -> list[Effect]:
        """Somebody needs an epoch after one; it is for the root to begin it."""
        if request.root == self._node:
            if self._own_epoch <= request.epoch:
                self._own_epoch = request.epoch + 1
            return self._decide()
        self._wanted[request.root] = max(request.epoch, self._wanted.get(request.root, -1))
        return self._pass_on()

    def fired(self) -> list[Effect]:
        """Say everything again, in case somebody has it wrong."""
        self._said = {}
        self._asked = {}
        return [*self._decide(), self._again()] if self._links else []

    def _again(self) -> SetTimer:
        # Not all at once.
        return SetTimer(TIMER, _ROUND * (0.75 + self._random() / 2), upkeep=True)

    def _forget(self, link: int) -> None:
        self._offers.pop(link, None)
        self._said.pop(link, None)
        self._asked.pop(link, None)

    def _decide(self) -> list[Effect]:
        """Choose the best of what is offered, and say what changed."""
        before, root_before = self.parent, self.root
        self.root, self.epoch, self.distance, self.parent = self._node, self._own_epoch, 0, None
        admissible = [
            (offer.root, offer.distance, link != before, self._links[link], link)
            for link, offer in self._offers.items()
            if offer.root < self._node and not offer.chosen and self._is_nearer(offer)
        ]
        if admissible:
            *_, self.parent = min(admissible)
            taken = self._offers[self.parent]
            self.root, self.epoch, self.distance = taken.root, taken.epoch, taken.distance + 1
            self._remember()
        if self.parent != before and self.parent is not None:
            self._choice += 1
        effects = self._say()
        if (self.parent, self.root) != (before, root_before):
            effects += self._pass_on()
        return effects + self._ask()

    def _is_nearer(self, offer: Offer) -> bool:
        epoch, distance = self._best.get(offer.root, (-1, 0))
        return offer.epoch > epoch or (offer.epoch == epoch and offer.distance < distance)

    def _remember(self) -> None:
        epoch, distance = self._best.pop(self.root, (-1, 0))
        nearest = self.distance if self.epoch > epoch else min(distance, self.distance)
        self._best[self.root] = self.epoch, nearest
        if len(self._best) > _REMEMBERED:
            del self._best[next(iter(self._best))]

    def _say(self) -> list[Effect]:
        """Tell each neighbour what it has not been told."""
        others: list[int] = []
        effects: list[Effect] = []
        plain = Offer(self.root, self.epoch, self.distance, 0)
        for link in self._links:
            offer = plain if link != self.parent else Offer(self.root, self.epoch, self.distance, self._choice)
            if self._said.get(link) == offer:
                continue
            self._said[link] = offer
            if offer is plain:
                others.append(link)
            else:
                effects.append(Send((link,), offer))
        if others:
            effects.append(Send(tuple(sorted(others)), plain))
        return effects

    def _ask(self) -> list[Effect]:
        """Where a better root is offered, but no way that is sure to have no loop, ask it for a new epoch."""
        effects: list[Effect] = []
        for link, offer in self._offers.items():
            if offer.root >= self.root or offer.chosen or self._is_nearer(offer) or self._asked.get(link) == offer:
                continue
            self._asked[link] = offer
            epoch, _ = self._best.get(offer.root, (offer.epoch, 0))
            effects.append(Send((link,), Request(offer.root, max(epoch, offer.epoch))))
        return effects

    def _pass_on(self) -> list[Effect]:
        """Pass a request on towards the root."""
        wanted = self._wanted.get(self.root)
        if self.parent is None or wanted is None:
            return []
        if self.epoch > wanted:
            del self._wanted[self.root]
            return []
        return [Send((self.parent,), Request(self.root, wanted))]
