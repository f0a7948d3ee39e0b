"""Durable claims: the agreement on which broker holds a durable subscription.

A durable subscription has one home broker. A broker that is to become the home first asks all others by an echo. A
broker that has the subscription, or was granted it, says so. Of two that ask at the same time the one with the lower
number goes first, and the other asks again. A home broker that is known and could not be asked may have the
subscription, unless what it announced last says otherwise (`delivery.home_interests`): no other broker becomes the home
until that broker is back or given up. Brokers on the way learn a digest, not the owner of the subscription.

Brokers that had never heard of each other may both become home of one name. So a home broker sends the names that it
has to home brokers that come within reach, and one that has an equal name answers. Of several homes the one with the
highest number is emptied first and then forgets the name, until one is left (`rivals`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from palio.routing.client_messages import ClaimClient, Claimed, Divided
from palio.routing.delivery.durable_delivery import DurableDelivery
from palio.routing.delivery.home_interests import claim_key
from palio.routing.echo import Echo, Query
from palio.routing.effects import Client, Effect, Reply, Send
from palio.routing.messages import LOCAL, Found, Holds, HomeBroker, Key, Seek

_MAX_KEYS_PER_MESSAGE: Final = 10_000
_MAX_GRANTED: Final = 10_000  # names that may be subscribed here and are not yet


@dataclass(slots=True)
class _Claim:
    """A name that this broker wants to be the home of: the requests for it, and whether another broker goes first."""

    requests: list[tuple[Client, int]]
    yields: bool = False


@dataclass(slots=True)
class _Search:
    """The answers to one `Seek`."""

    key: Key
    found: list[HomeBroker]
    asked: set[int]  # home brokers that were asked
    known: set[int]  # home brokers that are known of


@dataclass(slots=True)
class DurableClaims:
    """The durable subscriptions of one broker, and the searches under way."""

    node: int
    incarnation: int
    _delivery: DurableDelivery
    _links: Collection[int]
    _effects: list[Effect]
    address: str = ""  # where clients reach this broker
    addresses: tuple[str, ...] = ()  # others by which it may be named
    held: dict[Key, tuple[Client, str]] = field(default_factory=dict)
    reach_version: int = 0  # of the last call of `inform_new_homes`
    # Whether something else decides between this broker and another one that has the same name (`delivery.standby`).
    on_rival: Callable[[Client, str, HomeBroker], bool] = lambda client, name, home: False
    echo: Echo[_Search] = field(init=False)
    _rivals: dict[Key, dict[int, HomeBroker]] = field(default_factory=dict)  # other homes of a name that is held
    # Home brokers that know the held names, with their standing.
    _informed: dict[int, int] = field(default_factory=dict)
    _granted: dict[Key, None] = field(default_factory=dict)
    _claims: dict[Key, _Claim] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.echo = Echo(self.node, self.incarnation, self._links, self._effects, self._complete)

    def set_durable(self, client: Client, name: str, durable: bool) -> None:
        """Note that a subscription is durable here, or that it is not any more."""
        key = claim_key(client, name)
        if durable:
            self.held[key] = client, name
        else:
            self.held.pop(key, None)
            self._rivals.pop(key, None)
        self._granted.pop(key, None)

    def rivals(self, client: Client, name: str) -> tuple[HomeBroker, ...]:
        """Other homes of a durable subscription; the one to be emptied first comes first."""
        return tuple(sorted(self._rivals.get(claim_key(client, name), {}).values(), reverse=True))

    # Homes that meet

    def inform_new_homes(self) -> None:
        """Send the held names to home brokers that came within reach since the last call."""
        reachable = self._delivery.reachable
        self.reach_version = reachable.version
        before, self._informed = self._informed, reachable.homes()
        self._informed.pop(self.node, None)
        # Standings are compared too: a home broker that restarted has forgotten the names it was sent.
        if not self._informed.items() <= before.items():
            self._send_held(list(self.held))

    def on_holds(self, link: int, message: Holds) -> None:
        """Pass on the names that a home broker holds, and answer where one of them is held here too."""
        others = tuple(each for each in sorted(self._links) if each != link)
        if others:
            self._effects.append(Send(others, message))
        home = message.lives
        if home.broker == self.node:
            return
        # Only rivals that are new are answered, or two homes would answer each other for ever.
        fresh = [key for key in message.keys if key in self.held and home.broker not in self._rivals.get(key, {})]
        divided = [key for key in fresh if not self.on_rival(*self.held[key], home)]
        for key in divided:
            self.add_rival(*self.held[key], home)
        self._send_held(divided)

    def add_rival(self, client: Client, name: str, home: HomeBroker) -> None:
        """Note another home of a durable subscription."""
        rivals = self._rivals.setdefault(claim_key(client, name), {})
        if rivals.get(home.broker) != home:
            rivals[home.broker] = home
            self._effects.append(Reply(client, Divided(name)))

    def give_up(self, broker: int) -> None:
        """Forget a broker that is not coming back."""
        self._informed.pop(broker, None)
        for rivals in self._rivals.values():
            rivals.pop(broker, None)

    def _send_held(self, keys: list[Key]) -> None:
        links, home = tuple(sorted(self._links)), HomeBroker(self.node, self.address)
        if links:
            for start in range(0, len(keys), _MAX_KEYS_PER_MESSAGE):
                some = tuple(keys[start : start + _MAX_KEYS_PER_MESSAGE])
                self._effects.append(Send(links, Holds(home, some)))

    # Claims

    def claim(self, client: Client, request: ClaimClient) -> None:
        """Answer with `Claimed` whether a durable subscription may live here."""
        key = claim_key(request.owner, request.name)
        if self._has(key):
            self._effects.append(Reply(client, Claimed(request.number)))
        elif key in self._claims:
            self._claims[key].requests.append((client, request.number))
        else:
            self._claims[key] = _Claim([(client, request.number)])
            self._search(key)

    def on_seek(self, link: int, seek: Seek) -> None:
        self.echo.send(seek.id, link, self._new_search(seek.key, self._own_answer(seek)), seek)

    def on_found(self, link: int, answer: Found) -> None:
        def merge(search: _Search) -> None:
            search.found += answer.lives
            search.asked.update(answer.homes)
            search.known.update(answer.known)

        self.echo.receive(link, answer.id, answer.whole, merge)

    def _has(self, key: Key) -> bool:
        return key in self.held or key in self._granted

    def _search(self, key: Key) -> None:
        self._claims[key].yields = False
        id = self.echo.next_id()
        self.echo.send(id, LOCAL, self._new_search(key, []), Seek(id, key))

    def _new_search(self, key: Key, found: list[HomeBroker]) -> _Search:
        # A home broker that is known to any as one that may have the name, and was not asked, makes the search
        # inconclusive (`_complete`). What it announced last tells, so that new names need not wait for it.
        may_hold = self._delivery.interests.may_hold
        homes = self._delivery.expected.homes()
        return _Search(key, found, {self.node} & set(homes), {each for each in homes if may_hold(each, key)})

    def _own_answer(self, seek: Seek) -> list[HomeBroker]:
        self._rivals.get(seek.key, {}).pop(seek.id.node, None)  # a broker that asks has it no more
        claim = self._claims.get(seek.key)
        # Of two claims at the same time the lower number wins: this broker yields, and asks again when its own search
        # is complete.
        if not self._has(seek.key) and (claim is None or seek.id.node < self.node):
            if claim is not None:
                claim.yields = True
            return []
        return [HomeBroker(self.node, self.address)]

    def _complete(self, query: Query[_Search]) -> None:
        search = query.state
        if query.parent != LOCAL:
            homes, known = tuple(sorted(search.asked)), tuple(sorted(search.known))
            answer = Found(query.id, tuple(search.found), homes, known, query.is_whole)
            self._effects.append(Send((query.parent,), answer))
            return
        claim = self._claims[search.key]
        if not search.found and (claim.yields or not query.is_whole):
            # Another claim went first, or a part of the tree was not asked: search again.
            self._search(search.key)
            return
        del self._claims[search.key]
        away = () if search.found else tuple(sorted(search.known - search.asked))
        if not search.found and not away:
            self._grant(search.key)
        found = tuple(sorted(search.found, reverse=True))
        self._effects += [Reply(client, Claimed(number, found, away)) for client, number in claim.requests]

    def _grant(self, key: Key) -> None:
        self._granted[key] = None
        if len(self._granted) > _MAX_GRANTED:
            del self._granted[next(iter(self._granted))]
