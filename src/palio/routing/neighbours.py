"""Which links does a broker use, and has the neighbour begun to tell? All that are up, or those of the spanning tree.

A link that is taken into use begins with nothing: what is said on it replaces all that was said before. One that is
given up withdraws all that came by it. In a spanning tree a link is used for a pair of choices, one of each end, and
both must mean the same pair: what was said for another one is about a link that both have given up meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from palio.routing.effects import Drop, Effect, Send
from palio.routing.messages import Begin, Message, Offer, Request
from palio.routing.spanning import TIMER, Spanning


class Neighbours:
    """The links of one broker. `use` and `disuse` are called when one is taken into use and given up, and `forget` when
    what came by it is about to come again."""

    __slots__ = ("_disuse", "_forget", "_pairs", "_use", "in_use", "spanning")

    def __init__(
        self,
        spanning: Spanning | None,
        use: Callable[[int], list[Effect]],
        disuse: Callable[[int], list[Effect]],
        forget: Callable[[int], None],
    ) -> None:
        self.spanning = spanning
        self.in_use: dict[int, bool] = {}  # with whether the neighbour has begun to tell
        self._pairs: dict[int, tuple[int, int]] = {}
        self._use = use
        self._disuse = disuse
        self._forget = forget

    def up(self, link: int, neighbour: int) -> list[Effect]:
        if self.spanning is None:
            return self._take_up(link, (0, 0))
        return self._follow(self.spanning, self.spanning.up(link, neighbour))

    def down(self, link: int) -> list[Effect]:
        effects = self._give_up(link) if link in self.in_use else []
        if self.spanning is None:
            return effects
        return effects + self._follow(self.spanning, self.spanning.down(link))

    def span(self, link: int, message: Offer | Request) -> list[Effect]:
        """A neighbour speaks of the spanning tree."""
        if self.spanning is None:
            return [Drop("no spanning tree here", message)]
        if isinstance(message, Offer):
            return self._follow(self.spanning, self.spanning.offered(link, message))
        return self._follow(self.spanning, self.spanning.requested(message))

    def fired(self, timer: str) -> list[Effect]:
        if self.spanning is None or timer != TIMER:
            return []
        return self._follow(self.spanning, self.spanning.fired())

    def begin(self, link: int, message: Begin) -> list[Effect]:
        """A neighbour begins to tell."""
        pair = message.yours, message.mine
        if self._pairs.get(link) != pair:
            return []
        effects: list[Effect] = []
        if self.in_use[link] and message.answers:
            self._forget(link)
        elif self.in_use[link]:
            # It begins again, and has forgotten what it was told.
            effects = self._give_up(link) + self._take_up(link, pair, answers=True)
        self.in_use[link] = True
        return effects

    def may_tell(self, link: int, message: Message) -> bool:
        """Whether what a neighbour says counts."""
        return type(message) is Begin or self.in_use.get(link, False)

    def others(self, link: int) -> list[int]:
        """The links in use, without one."""
        return sorted(each for each in self.in_use if each != link)

    def _follow(self, spanning: Spanning, effects: list[Effect]) -> list[Effect]:
        """Use the links of the tree, and no others."""
        for link in sorted({*self._pairs, *spanning.links}):
            pair, before = spanning.pair(link), self._pairs.get(link)
            if pair != before:
                effects += self._give_up(link) if before is not None else []
                effects += self._take_up(link, pair) if pair is not None else []
        return effects

    def _take_up(self, link: int, pair: tuple[int, int], answers: bool = False) -> list[Effect]:
        self.in_use[link] = False
        self._pairs[link] = pair
        return [Send((link,), Begin(*pair, answers)), *self._use(link)]

    def _give_up(self, link: int) -> list[Effect]:
        del self.in_use[link], self._pairs[link]
        return self._disuse(link)
