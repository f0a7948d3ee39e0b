"""How are brokers linked? Shapes to simulate, regular and random; `measured` has those of real networks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from palio.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Topology:
    """Brokers numbered from 0, and links; a link may have a delay of its own, in seconds."""

    brokers: int
    links: tuple[tuple[int, int, float | None], ...]

    def __post_init__(self) -> None:
        if self.brokers < 1:
            raise InvalidArgument(f"a network has at least one broker, not {self.brokers}")
        seen = set()
        for a, b, _ in self.links:
            if a == b or not (0 <= a < self.brokers and 0 <= b < self.brokers):
                raise InvalidArgument(f"no link joins {a} and {b} in a network of {self.brokers} brokers")
            if (min(a, b), max(a, b)) in seen:
                raise InvalidArgument(f"there are two links between {a} and {b}")
            seen.add((min(a, b), max(a, b)))

    @property
    def has_circles(self) -> bool:
        """Whether there is more than one way between some two brokers."""
        return len(self.links) > self.brokers - self.components

    @property
    def components(self) -> int:
        """Parts without a link between them."""
        return len(set(component_labels(self.brokers, ((a, b) for a, b, _ in self.links))))


def line(brokers: int) -> Topology:
    """One after the other."""
    return Topology(brokers, tuple((each, each + 1, None) for each in range(brokers - 1)))


def star(brokers: int) -> Topology:
    """All around broker 0."""
    return Topology(brokers, tuple((0, each, None) for each in range(1, brokers)))


def tree(brokers: int, children: int = 3) -> Topology:
    """A hierarchy: broker 0 at the top, each with so many below it, filled level by level."""
    if children < 1:
        raise InvalidArgument(f"a broker of a tree has at least one child, not {children}")
    return Topology(brokers, tuple(((each - 1) // children, each, None) for each in range(1, brokers)))


def random_tree(brokers: int, random: Random) -> Topology:
    """Peers without circles: each but the first is linked to one before it, whichever."""
    return Topology(brokers, tuple((random.randrange(each), each, None) for each in range(1, brokers)))


def random_mesh(brokers: int, extra: int, random: Random) -> Topology:
    """A random tree with so many links more, where there is room for them."""
    if extra < 0:
        raise InvalidArgument(f"a mesh has some links from 0 on more than a tree, not {extra}")
    links = {(a, b) for a, b, _ in random_tree(brokers, random).links}
    room = brokers * (brokers - 1) // 2
    while len(links) < min(room, brokers - 1 + extra):
        a, b = sorted(random.sample(range(brokers), 2))
        links.add((a, b))
    return Topology(brokers, tuple((a, b, None) for a, b in sorted(links)))


def transit_stub(transits: int, stubs: int, size: int, random: Random) -> Topology:
    """Two levels, as networks of networks have: a random core of slow links, and around each of its brokers so many
    stubs, each a random tree of fast links."""
    links: list[tuple[int, int, float | None]] = [(random.randrange(b), b, 0.02) for b in range(1, transits)]
    brokers = transits
    for core in range(transits):
        for _ in range(stubs):
            links.append((core, brokers, 0.005))
            links += [(brokers + random.randrange(b), brokers + b, 0.001) for b in range(1, size)]
            brokers += size
    return Topology(brokers, tuple(links))


def component_labels(brokers: int, links: Iterable[tuple[int, int]]) -> list[int]:
    """For each broker the lowest number that it is joined to."""
    above = list(range(brokers))

    def top(each: int) -> int:
        while above[each] != each:
            above[each] = above[above[each]]
            each = above[each]
        return each

    for a, b in links:
        low, high = sorted((top(a), top(b)))
        above[high] = low
    return [top(each) for each in range(brokers)]
