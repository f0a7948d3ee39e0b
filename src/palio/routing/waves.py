"""When do all brokers know? An echo along the tree: a question goes out behind everything else that was said, and
comes back from the leaves. What lies before it in the lane of each link has then been handled by everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from palio.routing.clients import Confirmed
from palio.routing.effects import Client, Effect, Reply, Send
from palio.routing.messages import EventId, Settle, Settled


@dataclass(slots=True)
class _Wave:
    """Who asked, and who has not answered."""

    asked: tuple[Client, str] | int | Callable[[], None]  # a client with a name of its own, a link, or this broker
    waiting: dict[int, None]
    whole: bool = True


class Waves:
    """The questions under way at one broker."""

    __slots__ = ("_incarnation", "_node", "_sequence", "_waves")

    def __init__(self, node: int, incarnation: int) -> None:
        self._node = node
        self._incarnation = incarnation
        self._sequence = 0
        self._waves: dict[EventId, _Wave] = {}

    def ask(self, client: Client, name: str, links: Iterable[int]) -> list[Effect]:
        """Begin one for a client; answered at once where there are no neighbours."""
        return self._begin((client, name), links)

    def sound(self, answered: Callable[[], None], links: Iterable[int]) -> list[Effect]:
        """Begin one for the broker itself, which hears when all have answered."""
        return self._begin(answered, links)

    def _begin(self, asked: tuple[Client, str] | Callable[[], None], links: Iterable[int]) -> list[Effect]:
        self._sequence += 1
        id = EventId(self._node, self._incarnation, self._sequence)
        return self._pass_on(id, _Wave(asked, dict.fromkeys(sorted(links))), links)

    def asked(self, link: int, id: EventId, links: Iterable[int]) -> list[Effect]:
        """A neighbour asks; `links` are all the others."""
        return self._pass_on(id, _Wave(link, dict.fromkeys(sorted(links))), links)

    def answered(self, link: int, answer: Settled, links: Iterable[int]) -> list[Effect]:
        wave = self._waves.get(answer.wave)
        if wave is None or link not in wave.waiting:
            return []
        del wave.waiting[link]
        wave.whole = wave.whole and answer.whole
        return self._ended(answer.wave, wave, links)

    def closed(self, link: int, links: Iterable[int]) -> list[Effect]:
        """A neighbour is gone: its questions with it, and whoever waits for it must ask again."""
        effects: list[Effect] = []
        for id, wave in list(self._waves.items()):
            if wave.asked == link:
                del self._waves[id]
            elif link in wave.waiting:
                del wave.waiting[link]
                wave.whole = False
                effects += self._ended(id, wave, links)
        return effects

    def _pass_on(self, id: EventId, wave: _Wave, links: Iterable[int]) -> list[Effect]:
        self._waves[id] = wave
        if wave.waiting:
            return [Send(tuple(wave.waiting), Settle(id))]
        return self._ended(id, wave, links)

    def _ended(self, id: EventId, wave: _Wave, links: Iterable[int]) -> list[Effect]:
        if wave.waiting:
            return []
        del self._waves[id]
        if isinstance(wave.asked, int):
            return [Send((wave.asked,), Settled(id, wave.whole))]
        if not wave.whole:
            return self._begin(wave.asked, links)
        if isinstance(wave.asked, tuple):
            client, name = wave.asked
            return [Reply(client, Confirmed(name))]
        wave.asked()
        return []
