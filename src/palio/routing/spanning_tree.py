"""Spanning tree: the links that brokers use where there is more than one way between them.

Each broker offers its neighbours a way to the lowest-numbered broker it knows of, the root, and chooses the nearest
that is offered to it as its parent. A link is in the tree while one end has chosen the other. So that no loop ever
forms and no ghost of a lost root goes round, a broker takes only offers that are nearer to the root than it has ever
been itself, in the present epoch (the source node condition of DUAL). A broker that is left without such an offer
is its own root until the root, asked for it, begins an epoch in which all distances count anew, as Babel's sequence
numbers do.

Offers are sent when they change, and again at long intervals: from whatever state memory may have been brought into,
the next round leads back to a tree.

`ActiveLinks` are the links in use: those of the tree, or all that are up where there is no other way. A link that is
taken into use begins with nothing, and what is sent on it replaces all that was sent before. One that is given up
withdraws all that came by it. In a spanning tree a link is used for a pair of choices, one of each end, and both must
mean the same pair: a message for another pair is about a link that both have given up meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from palio.routing.effects import Drop, Effect, Send, SetTimer
from palio.routing.messages import Begin, Message, Offer, Renewal, Request

SPANNING_TREE_TIMER: Final = "spanning"
_ROUND_SECONDS: Final = 30.0  # between repetitions of all offers
_MAX_KNOWN_ROOTS: Final = 64  # roots whose distances are remembered


def fixed_random() -> float:
    """The source of randomness of a broker that was given none."""
    return 0.5


class SpanningTree:
    """The place of one broker in the tree."""

    __slots__ = (
        "_asked",
        "_best",
        "_choice",
        "_effects",
        "_links",
        "_node",
        "_offers",
        "_own_epoch",
        "_random",
        "_sent",
        "_wanted",
        "distance",
        "epoch",
        "parent",
        "root",
    )

    def __init__(self, node: int, incarnation: int, random: Callable[[], float], effects: list[Effect]) -> None:
        self._node = node
        self._random = random
        self._effects = effects
        self._own_epoch = incarnation << 32  # later than any epoch of an earlier life
        self._links: dict[int, int] = {}  # neighbours
        self._offers: dict[int, Offer] = {}
        self._sent: dict[int, Offer] = {}
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

    def on_link_up(self, link: int, neighbour: int) -> None:
        is_first = not self._links
        self._links[link] = neighbour
        self._decide()
        if is_first:
            self._set_timer()

    def on_link_down(self, link: int) -> None:
        # `_best` stays: a distance that was once held bounds all later choices of its epoch.
        for state in (self._links, self._offers, self._sent, self._asked):
            state.pop(link, None)
        self._decide()

    def on_offer(self, link: int, offer: Offer) -> None:
        if link in self._links:
            self._offers[link] = offer
            self._asked.pop(link, None)
            self._decide()

    def on_request(self, request: Request) -> None:
        """Begin an epoch after the one named, or pass the request on towards the root, which alone may do so."""
        if request.root == self._node:
            if self._own_epoch <= request.epoch:
                self._own_epoch = request.epoch + 1
            self._decide()
        else:
            self._wanted[request.root] = max(request.epoch, self._wanted.get(request.root, -1))
            self._pass_request_on()

    def on_timer(self, name: str) -> None:
        if name == SPANNING_TREE_TIMER:
            self._repeat_offers()

    def _repeat_offers(self) -> None:
        """Send everything again, in case a neighbour has it wrong."""
        self._sent = {}
        self._asked = {}
        if self._links:
            self._decide()
            self._set_timer()

    def _set_timer(self) -> None:
        # Spread at random, so that brokers which started together do not repeat themselves together.
        seconds = _ROUND_SECONDS * (0.75 + self._random() / 2)
        self._effects.append(SetTimer(SPANNING_TREE_TIMER, seconds, upkeep=True))

    def _decide(self) -> None:
        """Choose the best of the offers, and send what changed."""
        before, root_before = self.parent, self.root
        # Of equal offers the present parent's is taken, so that the tree does not change without need.
        admissible = [
            (offer.root, offer.distance, link != before, self._links[link], link)
            for link, offer in self._offers.items()
            if self._is_admissible(link, offer)
        ]
        # Without an admissible offer this broker is its own root.
        self.root, self.epoch, self.distance, self.parent = self._node, self._own_epoch, 0, None
        if admissible:
            *_, self.parent = min(admissible)
            taken = self._offers[self.parent]
            self.root, self.epoch, self.distance = taken.root, taken.epoch, taken.distance + 1
            self._remember_distance()
        if self.parent != before and self.parent is not None:
            self._choice += 1  # both ends must mean the same choice; see `ActiveLinks`
        self._send_offers()
        if (self.parent, self.root) != (before, root_before):
            self._pass_request_on()
        self._request_epoch()

    def _is_admissible(self, link: int, offer: Offer) -> bool:
        """Whether a neighbour can be the parent. One that has chosen this broker is its child."""
        return offer.root < self._node and not offer.chosen and self._is_nearer(offer)

    def _way(self) -> tuple[int, ...]:
        """The brokers from the root to this one, where offers name them (`upkeep.failover`)."""
        return ()

    def _is_nearer(self, offer: Offer) -> bool:
        epoch, distance = self._best.get(offer.root, (-1, 0))
        return offer.epoch > epoch or (offer.epoch == epoch and offer.distance < distance)

    def _remember_distance(self) -> None:
        # Taken out and put back: the roots last used are at the end, and the one not used for longest is dropped first.
        epoch, distance = self._best.pop(self.root, (-1, 0))
        nearest = self.distance if self.epoch > epoch else min(distance, self.distance)
        self._best[self.root] = self.epoch, nearest
        if len(self._best) > _MAX_KNOWN_ROOTS:
            del self._best[next(iter(self._best))]

    def _send_offers(self) -> None:
        """Send each neighbour the present offer, unless it has it."""
        others: list[int] = []
        way = self._way()
        plain = Offer(self.root, self.epoch, self.distance, 0, way)
        for link in self._links:
            offer = plain if link != self.parent else Offer(self.root, self.epoch, self.distance, self._choice, way)
            if self._sent.get(link) == offer:
                continue
            self._sent[link] = offer
            if offer is plain:
                others.append(link)
            else:
                self._effects.append(Send((link,), offer))
        if others:
            self._effects.append(Send(tuple(sorted(others)), plain))

    def _request_epoch(self) -> None:
        """Where a better root is offered, but no way that is sure to have no loop, ask it for a new epoch."""
        for link, offer in self._offers.items():
            # Once for each offer: requests would otherwise repeat with every message.
            if offer.root >= self.root or offer.chosen or self._is_nearer(offer) or self._asked.get(link) == offer:
                continue
            self._asked[link] = offer
            epoch, _ = self._best.get(offer.root, (offer.epoch, 0))
            self._effects.append(Send((link,), Request(offer.root, max(epoch, offer.epoch))))

    def _pass_request_on(self) -> None:
        wanted = self._wanted.get(self.root)
        if self.parent is None or wanted is None:
            return
        # The epoch that was asked for has come.
        if self.epoch > wanted:
            del self._wanted[self.root]
        else:
            self._effects.append(Send((self.parent,), Request(self.root, wanted)))


class ActiveLinks:
    """The links in use of one broker.

    `on_open` and `on_close` are called when one is taken into use and given up, and `on_restart` when all that came by
    it is about to come again.
    """

    __slots__ = ("_effects", "_on_close", "_on_open", "_on_restart", "_pairs", "in_use", "tree")

    def __init__(
        self,
        tree: SpanningTree | None,
        on_open: Callable[[int], None],
        on_close: Callable[[int], None],
        on_restart: Callable[[int], None],
        effects: list[Effect],
    ) -> None:
        self.tree = tree
        self.in_use: dict[int, bool] = {}  # with whether the neighbour has begun to send its tables
        self._pairs: dict[int, tuple[int, int]] = {}
        self._on_open = on_open
        self._on_close = on_close
        self._on_restart = on_restart
        self._effects = effects

    def on_link_up(self, link: int, neighbour: int) -> None:
        if self.tree is None:
            self._open(link, (0, 0))
        else:
            self.tree.on_link_up(link, neighbour)
            self._follow(self.tree)

    def on_link_down(self, link: int) -> None:
        if link in self._pairs:
            self._close(link)
        if self.tree is not None:
            self.tree.on_link_down(link)
            self._follow(self.tree)

    def on_tree_message(self, link: int, message: Offer | Request) -> None:
        if self.tree is None:
            self._effects.append(Drop("no spanning tree here", message))
            return
        if isinstance(message, Offer):
            self.tree.on_offer(link, message)
        else:
            self.tree.on_request(message)
        self._follow(self.tree)

    def on_timer(self, name: str) -> None:
        if self.tree is not None:
            self.tree.on_timer(name)
            self._follow(self.tree)

    def on_begin(self, link: int, message: Begin) -> None:
        """A neighbour begins to send its tables."""
        pair = message.yours, message.mine  # as this end names them
        if self._pairs.get(link) != pair:
            return
        if self.in_use[link] and message.answers:
            # It answers a `Begin` of this end, and sends all its tables again.
            self._on_restart(link)
        elif self.in_use[link]:
            # It begins again, and has forgotten the tables that it was sent.
            self._close(link)
            self._open(link, pair, answers=True)
        self.in_use[link] = True

    def counts(self, link: int, message: Message) -> bool:
        """Whether a control message of a neighbour is about the present use of the link."""
        # Renewals repeat all that follows a `Begin`, which a link without retransmission may have lost.
        if type(message) is Renewal and self.tree is None and link in self.in_use:
            self.in_use[link] = True
        # Messages before its `Begin` belong to an earlier use of the link.
        return type(message) is Begin or self.in_use.get(link, False)

    @property
    def have_begun(self) -> bool:
        """Whether all neighbours have begun to send their tables."""
        return all(self.in_use.get(link, False) for link in self._pairs)

    def others(self, link: int) -> list[int]:
        """The links in use, without one."""
        return sorted(each for each in self.in_use if each != link)

    def _follow(self, tree: SpanningTree) -> None:
        """Use the links of the tree, and no others."""
        for link in sorted({*self._pairs, *tree.links}):
            pair, before = tree.pair(link), self._pairs.get(link)
            if pair != before:
                if before is not None:
                    self._close(link)
                if pair is not None:
                    self._open(link, pair)

    def _open(self, link: int, pair: tuple[int, int], answers: bool = False) -> None:
        self.in_use[link] = False
        self._pairs[link] = pair
        # Before `on_open`, which may send: all that follows `Begin` holds for this pair.
        self._effects.append(Send((link,), Begin(*pair, answers)))
        self._on_open(link)

    def _close(self, link: int) -> None:
        # Before `on_close`: collaborators that answer to the remaining links must not see this one (`echo.Echo`).
        del self.in_use[link], self._pairs[link]
        self._on_close(link)
