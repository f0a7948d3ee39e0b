"""Where does a durable subscription live? At one broker: whoever wants to be its home asks all others first.

A question goes along the tree and comes back from the leaves. A broker that has the subscription says so, and so does
one that was told that it may have it. Of two that ask at the same time the one with the lower number goes first: the
other one asks again. A home that is known of and could not be asked may have the subscription, so nobody else becomes
its home until that one is back or given up. Brokers on the way learn a digest, not whose subscription it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from palio.routing.clients import ClaimClient, Claimed
from palio.routing.effects import Client, Effect, Reply, Send
from palio.routing.keeping.keeping import Keeping
from palio.routing.messages import EventId, Found, Key, Lives, Seek

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
    _held: set[Key] = field(default_factory=set)
    _granted: dict[Key, None] = field(default_factory=dict)
    _claims: dict[Key, _Claim] = field(default_factory=dict)
    _questions: dict[EventId, _Question] = field(default_factory=dict)
    _sequence: int = 0

    def subscribed(self, client: Client, name: str, durable: bool) -> None:
        """A subscription is there, or is not any more."""
        key = claim_key(client, name)
        (self._held.add if durable else self._held.discard)(key)
        self._granted.pop(key, None)

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
        known = set(self.keeping.homes)
        question = _Question(asked, seek, waiting, self._answer(seek, asked), known & {self.node}, known)
        self._questions[seek.id] = question
        if waiting:
            return [Send(tuple(sorted(waiting)), seek)]
        return self._end_if_complete(question, ())

    def _answer(self, seek: Seek, asked: int | None) -> list[Lives]:
        """What this broker itself says."""
        if asked is None:
            return []
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
        lives = tuple(sorted(question.lives))
        return [Reply(client, Claimed(number, lives, away)) for client, number in claim.asked]

    def _grant(self, key: Key) -> None:
        self._granted[key] = None
        if len(self._granted) > _GRANTED:
            del self._granted[next(iter(self._granted))]
