"""Where does a durable subscription live? At one broker: whoever wants to be its home asks all others first.

A question goes along the tree and comes back from the leaves. A broker that has the subscription says so, and so does
one that was told that it may have it. Of two that ask at the same time the one with the lower number goes first: the
other one asks again. A home that is known of and could not be asked may have the subscription, so nobody else becomes
its home until that one is back or given up. Brokers on the way learn a digest, not whose subscription it is.

Brokers that had never heard of each other may become homes of one name. So a home tells those that it meets which names
it has, and who has one of them too answers. Of several homes the one with the highest number is emptied first, and then
forgets the name, until one is left (`rivals`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from palio.routing.clients import ClaimClient, Claimed, Divided
from palio.routing.effects import Client, Effect, Reply, Send
from palio.routing.keeping.keeping import Keeping
from palio.routing.messages import EventId, Found, Holds, Key, Lives, Seek

_AT_ONCE: Final = 10_000  # keys of one message
_GRANTED: Final = 10_000  # names that may be subscribed here and are not yet


def claim_key(client: Client, name: str) -> Key:
    """What a durable subscription is called among brokers."""
    return blake2b(f"{len(client)}\n{client}{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(slots=True)
class _Claim:
    """A name that this broker wants to be the home of: who asked, and whether another broker goes first."""

    asked: list[tuple[Client, int]]
    yields: bool = False


@dataclass(slots=True)
class _Question:
    """Who asked, a neighbour or this broker itself for a key, and who has not answered."""

    asked: int | None
    seek: Seek
    waiting: set[int]
    lives: list[Lives]
    homes: set[int]  # that were asked
    known: set[int]  # that are known of
    whole: bool = True


@dataclass(slots=True)
class Claims:
    """The durable subscriptions of one broker, and the questions under way. `address` is where clients reach it."""

    node: int
    incarnation: int
    keeping: Keeping
    address: str = ""
    _held: dict[Key, tuple[Client, str]] = field(default_factory=dict)
    _rivals: dict[Key, dict[int, Lives]] = field(default_factory=dict)  # other homes of what is held
    _met: dict[int, int] = field(default_factory=dict)  # homes that know what is held, with their standing
    _grown: int = 0
    _granted: dict[Key, None] = field(default_factory=dict)
    _claims: dict[Key, _Claim] = field(default_factory=dict)
    _questions: dict[EventId, _Question] = field(default_factory=dict)
    _sequence: int = 0

    def subscribed(self, client: Client, name: str, durable: bool) -> None:
        """A subscription is there, or is not any more."""
        key = claim_key(client, name)
        if durable:
            self._held[key] = client, name
        else:
            self._held.pop(key, None)
            self._rivals.pop(key, None)
        self._granted.pop(key, None)

    def rivals(self, client: Client, name: str) -> tuple[Lives, ...]:
        """Other homes of a durable subscription, the one that is to be emptied first before the others."""
        return tuple(sorted(self._rivals.get(claim_key(client, name), {}).values(), reverse=True))

    def meet(self, links: Iterable[int]) -> list[Effect]:
        """Tell homes that can be reached since the last call which names are held here."""
        reachable = self.keeping.reachable
        if not self._held or self._grown == reachable.grown:
            return []
        self._grown = reachable.grown
        before, self._met = self._met, reachable.homes()
        self._met.pop(self.node, None)
        if self._met.items() <= before.items():
            return []
        return self._tell(list(self._held), links)

    def met(self, link: int, said: Holds, links: Iterable[int]) -> list[Effect]:
        """A home tells what it has; `links` are all, and it is told on by the others."""
        others = tuple(each for each in sorted(links) if each != link)
        effects: list[Effect] = [Send(others, said)] if others else []
        shared = [key for key in said.keys if key in self._held and said.lives.broker != self.node]
        fresh = [key for key in shared if said.lives.broker not in self._rivals.get(key, {})]
        for key in fresh:
            self._rivals.setdefault(key, {})[said.lives.broker] = said.lives
            client, name = self._held[key]
            effects.append(Reply(client, Divided(name)))
        return effects + (self._tell(fresh, links) if fresh else [])

    def given_up(self, broker: int) -> None:
        """A broker is not coming back, and what it had is not waited for."""
        self._met.pop(broker, None)
        for rivals in self._rivals.values():
            rivals.pop(broker, None)

    def _tell(self, keys: list[Key], links: Iterable[int]) -> list[Effect]:
        to, lives = tuple(sorted(links)), Lives(self.node, self.address)
        steps = range(0, len(keys), _AT_ONCE) if to else ()
        return [Send(to, Holds(lives, tuple(keys[step : step + _AT_ONCE]))) for step in steps]

    def ask(self, client: Client, request: ClaimClient, links: Iterable[int]) -> list[Effect]:
        """A client wants a durable subscription here."""
        key = claim_key(request.owner, request.name)
        if self._has(key):
            return [Reply(client, Claimed(request.number))]
        claim = self._claims.get(key)
        if claim is not None:
            claim.asked.append((client, request.number))
            return []
        self._claims[key] = _Claim([(client, request.number)])
        return self._seek(key, links)

    def sought(self, link: int, seek: Seek, links: Iterable[int]) -> list[Effect]:
        """A neighbour asks; `links` are all the others."""
        return self._pass_on(link, seek, links)

    def found(self, link: int, answer: Found, links: Iterable[int]) -> list[Effect]:
        question = self._questions.get(answer.id)
        if question is None or link not in question.waiting:
            return []
        question.waiting.remove(link)
        question.lives += answer.lives
        question.homes |= set(answer.homes)
        question.known |= set(answer.known)
        question.whole = question.whole and answer.whole
        return self._end_if_complete(question, links)

    def closed(self, link: int, links: Iterable[int]) -> list[Effect]:
        """A neighbour is gone: its questions with it, and whoever waits for it must ask again."""
        effects: list[Effect] = []
        for id, question in list(self._questions.items()):
            if question.asked == link:
                del self._questions[id]
            elif link in question.waiting:
                question.waiting.remove(link)
                question.whole = False
                effects += self._end_if_complete(question, links)
        return effects

    def _has(self, key: Key) -> bool:
        return key in self._held or key in self._granted

    def _seek(self, key: Key, links: Iterable[int]) -> list[Effect]:
        self._claims[key].yields = False
        self._sequence += 1
        return self._pass_on(None, Seek(EventId(self.node, self.incarnation, self._sequence), key), links)

    def _pass_on(self, asked: int | None, seek: Seek, links: Iterable[int]) -> list[Effect]:
        waiting = set(links)
        known = set(self.keeping.awaited.homes())
        question = _Question(asked, seek, waiting, self._answer(seek, asked), known & {self.node}, known)
        self._questions[seek.id] = question
        if waiting:
            return [Send(tuple(sorted(waiting)), seek)]
        return self._end_if_complete(question, ())

    def _answer(self, seek: Seek, asked: int | None) -> list[Lives]:
        """What this broker itself says."""
        if asked is None:
            return []
        self._rivals.get(seek.key, {}).pop(seek.id.node, None)  # who asks has it no more
        claim = self._claims.get(seek.key)
        if not self._has(seek.key) and (claim is None or seek.id.node < self.node):
            if claim is not None:
                claim.yields = True
            return []
        return [Lives(self.node, self.address)]

    def _end_if_complete(self, question: _Question, links: Iterable[int]) -> list[Effect]:
        if question.waiting:
            return []
        seek = question.seek
        del self._questions[seek.id]
        if question.asked is not None:
            lives, homes, known = tuple(question.lives), sorted(question.homes), sorted(question.known)
            return [Send((question.asked,), Found(seek.id, lives, tuple(homes), tuple(known), question.whole))]
        claim = self._claims[seek.key]
        if not question.lives and (claim.yields or not question.whole):
            return self._seek(seek.key, links)
        del self._claims[seek.key]
        away = () if question.lives else tuple(sorted(question.known - question.homes))
        if not question.lives and not away:
            self._grant(seek.key)
        lives = tuple(sorted(question.lives, reverse=True))
        return [Reply(client, Claimed(number, lives, away)) for client, number in claim.asked]

    def _grant(self, key: Key) -> None:
        self._granted[key] = None
        if len(self._granted) > _GRANTED:
            del self._granted[next(iter(self._granted))]
