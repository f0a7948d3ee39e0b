"""Election of one broker for a role that only one of a network may have, along the links in use.

The links in use make a tree, so that each link divides the network in two. Over each of its links a broker says which
candidate is the best on its own side: the best of itself and of what it heard over its other links. The best of all
that a broker has heard is the winner, and it lies behind the link over which it was heard. A link that closes takes its
side away with it, and both parts elect anew. No message is sent where nothing changes, and none goes in circles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palio.routing.effects import Effect, Send
from palio.routing.messages import LOCAL, Candidate

_NAMED, _UNNAMED, _RELUCTANT = 0, 1, 2


def candidate_of(node: int, incarnation: int, option: Any) -> Candidate:
    """A broker as a candidate: before others where the option is true or its number, after them where it is false."""
    if option is None:
        rank = _UNNAMED
    elif isinstance(option, bool):
        rank = _NAMED if option else _RELUCTANT
    else:
        rank = _NAMED if option == node else _UNNAMED
    return Candidate(rank, node, incarnation)


class Election:
    """One broker's view of the election. `on_change` is called with the winner and the interface behind which it is;
    `on_sent` with each link over which a candidate was sent."""

    __slots__ = ("_effects", "_heard", "_links", "_on_change", "_on_sent", "_own", "_sent", "winner")

    def __init__(
        self,
        own: Candidate,
        on_change: Callable[[Candidate, int], None],
        effects: list[Effect],
        on_sent: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._on_sent = on_sent
        self._own = own
        self._on_change = on_change
        self._effects = effects
        self._links: dict[int, None] = {}
        self._heard: dict[int, Candidate] = {}
        self._sent: dict[int, Candidate] = {}
        self.winner = own

    def open_link(self, link: int) -> None:
        self._links[link] = None
        self._decide()

    def close_link(self, link: int) -> None:
        for state in (self._links, self._heard, self._sent):
            state.pop(link, None)
        self._decide()

    def restart_link(self, link: int) -> None:
        """Forget what was heard over a link; the neighbour is about to say it again."""
        self._heard.pop(link, None)
        self._decide()

    def on_candidate(self, link: int, candidate: Candidate) -> None:
        self._heard[link] = candidate
        self._decide()

    def _decide(self) -> None:
        ranked = sorted([(self._own, LOCAL), *((candidate, link) for link, candidate in self._heard.items())])
        for link in self._links:
            best = next(candidate for candidate, source in ranked if source != link)
            if self._sent.get(link) != best:
                self._sent[link] = best
                self._effects.append(Send((link,), best))
                self._on_sent(link)
        self.winner, way = ranked[0]
        self._on_change(self.winner, way)
