"""A tree of forwardings without brokers: an event walks from one forwarding to the next.

Headers travel as bytes. The oracle: every matching subscription receives the event exactly once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.codec import Arrival, encode_event
from palio.routing.forwarding.headers import encode
from palio.routing.forwarding.strategy import Forwarding, ForwardingConfig
from palio.routing.messages import LOCAL, EventId, Key, Publish
from palio.routing.strategies import FORWARDING_TYPES

Edge = tuple[int, int]


@dataclass
class Walk:
    """What an event did: who has it, over which links it went with which headers, and what delivery looked at."""

    delivered: Counter[str] = field(default_factory=Counter)
    sent: list[tuple[int, int, bytes]] = field(default_factory=list)
    looks: int = 0

    @property
    def links(self) -> set[Edge]:
        return {(start, end) for start, end, _ in self.sent}


class LittleNetwork:
    """Forwardings at the nodes of a tree. `links_to` says by which interface a neighbour is reached."""

    def __init__(
        self, edges: Sequence[Edge], make: Callable[[ForwardingConfig], Any], propagation: str, **options: Any
    ) -> None:
        nodes = sorted({node for edge in edges for node in edge} or {0})
        self.propagation = propagation
        neighbours: dict[int, list[int]] = {node: [] for node in nodes}
        for one, other in edges:
            neighbours[one].append(other)
            neighbours[other].append(one)
        self.links_to = {
            node: {each: place for place, each in enumerate(sorted(neighbours[node]), 1)} for node in nodes
        }
        has_all = (each for each in FORWARDING_TYPES.values() if options.keys() <= each.__dataclass_fields__.keys())
        chosen = next(has_all)(**options)
        self.forwardings: dict[int, Forwarding] = {
            node: make(ForwardingConfig(node=node, propagation=propagation, chosen=chosen)) for node in nodes
        }
        for node in nodes:
            for interface in self.links_to[node].values():
                self.forwardings[node].open_link(interface)
        self.wants: dict[str, tuple[int, Filter]] = {}
        self._told: Counter[tuple[int, int, Key]] = Counter()

    def key_of(self, name: str) -> Key:
        if self.propagation == "simple":
            return blake2b(name.encode(), digest_size=16).digest()
        return self.wants[name][1].digest

    def subscribe(self, name: str, at: int, wanted: Filter, known_to: Sequence[int] | None = None) -> None:
        """Tell everyone, or only some, as where a covering filter keeps it from the others."""
        self.wants[name] = at, wanted
        for node in self.forwardings if known_to is None else known_to:
            place = node, self._towards(node, at), self.key_of(name)
            self._told[place] += 1
            if self._told[place] == 1:
                self.forwardings[node].add_filter(*place[1:], wanted)

    def unsubscribe(self, name: str) -> None:
        at, _ = self.wants[name]
        for node, forwarding in self.forwardings.items():
            place = node, self._towards(node, at), self.key_of(name)
            self._told[place] -= 1
            if not self._told[place]:
                forwarding.remove_filter(*place[1:])
        del self.wants[name]

    def publish(self, at: int, event: Event, header: bytes = b"", came_by: int = LOCAL) -> Walk:
        """Let an event in, from a client or by a link, and follow it to all its ends."""
        body = encode_event(event)
        walk = Walk()
        queue = deque([(at, came_by, header)])
        while queue:
            node, came_by, header = queue.popleft()
            arrival = Arrival(came_by, Publish(EventId(at, 0, 0), body, header))
            (route,) = self.forwardings[node].route([arrival])
            self._deliver(node, event, route.local, walk)
            for own, links in route.sends:
                data = encode(own)
                for interface in links:
                    assert interface != came_by
                    other = next(each for each, link in self.links_to[node].items() if link == interface)
                    walk.sent.append((node, other, data))
                    queue.append((other, self.links_to[other][node], data))
        return walk

    def matching(self, event: Event) -> Counter[str]:
        """Who must have an event, and how often."""
        return Counter(name for name, (_, wanted) in self.wants.items() if wanted.matches(event))

    def _deliver(self, node: int, event: Event, known: Sequence[Key] | None, walk: Walk) -> None:
        own = [name for name, (at, _) in self.wants.items() if at == node]
        walk.looks += known is None
        for name in own:
            if self.key_of(name) in known if known is not None else self.wants[name][1].matches(event):
                walk.delivered[name] += 1

    def _towards(self, node: int, target: int) -> int:
        """The interface of a node behind which another is."""
        if node == target:
            return LOCAL
        for neighbour, interface in self.links_to[node].items():
            if self._is_behind(neighbour, node, target):
                return interface
        raise ValueError(f"no way from {node} to {target}")

    def _is_behind(self, start: int, away_from: int, target: int) -> bool:
        if start == target:
            return True
        return any(self._is_behind(each, start, target) for each in self.links_to[start] if each != away_from)


def random_tree(choice: Random, size: int) -> list[Edge]:
    return [(choice.randrange(node), node) for node in range(1, size)]
