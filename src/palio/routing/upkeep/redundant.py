"""Redundant paths: an event travels by two ways that have nothing in common, and is delivered once.

The loss of one broker or of one link loses no event: one of the two copies does not pass there (masking, Chand §6.1).
Nothing is confirmed and nothing repeated, and there is no time without delivery. The price is each event twice on about
every link of its way.

The broker that accepts an event knows the home brokers that it is for (`forwarding.group`) and the links of the network
(`link_states`), and writes both ways to all of them into the header, as trees. Brokers on the way follow the header and
nothing else. Were they to compute the trees themselves, then after a failure two brokers with different knowledge of it
might each drop another one of the copies. The header only has to be right but for one failure, and it is: what the
first broker has not heard of yet is the failure itself. The length of the header grows with the brokers on both ways.

The source counts all ways to a producer as one interface of the table and sends each subscription along all of them,
because there tables hold where the events go. Here a filter has a home broker whatever the way (`home_tables`), so that
filters need one way only, the shared tree. A filter that is told while that tree is repaired stays with the table
session of the lost link (`recovery`), so that the first broker goes on knowing whom an event is for.

A broker that gets the second copy passes it on and does not deliver it: the duplicate filter (`duplicates`), bounded
for each broker that publishes, knows it by its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from palio.errors import WireError
from palio.routing.codec import Arrival
from palio.routing.forwarding.headers import Header, register
from palio.routing.forwarding.multicast import MulticastForwarding
from palio.routing.forwarding.strategy import Forwarding, Route
from palio.routing.home_tables import HomeBrokers
from palio.routing.link_states import LinkStates
from palio.routing.messages import LOCAL

_MAX_LISTED: Final = 65_536  # brokers in the trees of one event
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[tuple[int, ...], ...]).decode


@register
@dataclass(frozen=True, slots=True)
class WaysHeader:
    """Trees of brokers, each in preorder from the receiver on, as pairs: the number of a broker, and twice the number
    of its children, with 1 added where the event is for it."""

    kind: ClassVar[int] = 6

    trees: tuple[tuple[int, ...], ...]

    def encode(self) -> bytes:
        return _encode(self.trees)

    @classmethod
    def decode(cls, data: bytes) -> WaysHeader:
        try:
            trees = _decode(data)
        except msgspec.DecodeError as error:
            raise WireError(f"ways of an event are trees of brokers: {error}") from None
        if sum(map(len, trees)) > 2 * _MAX_LISTED:
            raise WireError(f"the ways of an event have at most {_MAX_LISTED:,} brokers")
        if not all(map(_is_tree, trees)):
            raise WireError("a way of an event is no tree of brokers")
        return cls(trees)


def _is_tree(flat: tuple[int, ...]) -> bool:
    awaited = 1
    for children in flat[1::2]:
        if not awaited or children < 0:
            return False
        awaited += (children >> 1) - 1
    return len(flat) % 2 == 0 and not awaited


def _children(flat: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The trees below the first broker of one."""
    place = 2
    for _ in range(flat[1] >> 1):
        start, awaited = place, 1
        while awaited:
            awaited += (flat[place + 1] >> 1) - 1
            place += 2
        yield flat[start:place]


def branches_to(wanted: Iterable[int], parents: Mapping[int, int], root: int) -> list[tuple[int, ...]]:
    """The parts of a tree that lead from its root to some brokers, one for each child of the root.

    >>> branches_to({3, 2}, {1: 0, 2: 1, 3: 2, 4: 2}, 0)
    [(1, 2, 2, 3, 3, 1)]
    """
    reachable = [node for node in wanted if node in parents]
    children: dict[int, dict[int, None]] = {}
    for node in sorted(reachable):
        below = node
        while below != root and below not in children.setdefault(parents[below], {}):
            children[parents[below]][below] = None
            below = parents[below]
    ends = set(reachable)
    branches = []
    for first in children.get(root, ()):
        flat: list[int] = []
        waiting = [first]
        while waiting:
            node = waiting.pop()
            below_it = children.get(node, {})
            flat += node, 2 * len(below_it) + (node in ends)
            waiting += below_it
        branches.append(tuple(flat))
    return branches


class RedundantForwarding(MulticastForwarding):
    """Sends each event by two ways to each broker that it is for; confirmed events go along the shared tree."""

    __slots__ = ("_links", "_node")

    def __init__(self, node: int, forwarding: Forwarding, homes: HomeBrokers, states: LinkStates) -> None:
        super().__init__(forwarding, homes, states)
        self._node = node
        self._links = states

    @property
    def copies(self) -> int:
        return 2

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        routes: list[Route | None] = [None] * len(arrivals)
        for place, arrival in enumerate(arrivals):
            if arrival.interface != LOCAL and arrival.message.kept is None:
                routes[place] = self._follow(arrival)
        new = [place for place, route in enumerate(routes) if route is None]
        if new:
            for place, route in zip(new, super().route([arrivals[place] for place in new]), strict=True):
                routes[place] = route
        return routes  # type: ignore[return-value]

    def _follow(self, arrival: Arrival) -> Route:
        header = arrival.header
        if type(header) is not WaysHeader:
            # Without ways it goes no further, but may be for clients here.
            return Route((), () if arrival.is_copy else None)
        own = [flat for flat in header.trees if flat[0] == self._node]
        is_wanted = any(flat[1] & 1 for flat in own) and not arrival.is_copy
        return Route(self._sends(each for flat in own for each in _children(flat)), None if is_wanted else ())

    def _over_links(self, arrival: Arrival, route: Route) -> Route:
        if arrival.message.kept is not None:
            return super()._over_links(arrival, route)
        nodes = self._homes.nodes
        wanted = {nodes[interface] for _, interfaces in route.sends for interface in interfaces}
        both = self._links.redundant_trees()
        branches = (each for parents in both for each in branches_to(wanted, parents, self._node))
        return Route(self._sends(branches), route.local)

    def _sends(self, branches: Iterable[tuple[int, ...]]) -> tuple[tuple[Header, tuple[int, ...]], ...]:
        """Branches by the link to their first broker; both trees in one message where they take the same link."""
        by_link: dict[int, dict[tuple[int, ...], None]] = {}
        for branch in branches:
            link = self._links.link_to(branch[0])
            if link is not None:
                by_link.setdefault(link, {})[branch] = None
        return tuple((WaysHeader(tuple(trees)), (link,)) for link, trees in sorted(by_link.items()))
