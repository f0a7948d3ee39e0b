"""Topologies: regular and random shapes, real networks from files, and measured round-trip times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from random import Random
from typing import Any, Final

from palio.errors import InputError, InvalidArgument
from palio.files.file_path import checked_path


@dataclass(frozen=True, slots=True)
class Topology:
    """Brokers numbered from 0, and links; a link may have a delay of its own, in seconds."""

    brokers: int
    links: tuple[tuple[int, int, float | None], ...]

    def __post_init__(self) -> None:
        _after_first(self.brokers)
        if not isinstance(self.links, tuple | list):
            raise InvalidArgument(f"links are a tuple of them, not {type(self.links).__name__}")
        seen = set()
        for link in self.links:
            _check_link(link)
            a, b, delay = link
            check_delay(delay)
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


def _check_link(link: Any) -> None:
    if not isinstance(link, tuple | list) or len(link) != 3 or not {type(link[0]), type(link[1])} <= {int}:
        raise InvalidArgument(f"a link is two numbers of brokers and a delay or None, not {link!r:.80}")


def check_delay(delay: Any) -> None:
    """Refuse what is no delay of a link: seconds, or None for that of all links."""
    if delay is not None and (type(delay) not in (int, float) or not 0 <= delay < inf):
        raise InvalidArgument(f"a link has a delay of some seconds from 0 on, not {delay!r:.80}")


def _after_first(brokers: int) -> range:
    if type(brokers) is not int or brokers < 1:
        raise InvalidArgument(f"a network has at least one broker, a whole number, not {brokers!r:.80}")
    return range(1, brokers)


def line(brokers: int) -> Topology:
    """One after the other."""
    return Topology(brokers, tuple((each - 1, each, None) for each in _after_first(brokers)))


def star(brokers: int) -> Topology:
    """All around broker 0."""
    return Topology(brokers, tuple((0, each, None) for each in _after_first(brokers)))


def tree(brokers: int, children: int = 3) -> Topology:
    """A hierarchy: broker 0 at the top, each with `children` below it, filled level by level."""
    if type(children) is not int or children < 1:
        raise InvalidArgument(f"a broker of a tree has at least one child, not {children!r:.80}")
    return Topology(brokers, tuple(((each - 1) // children, each, None) for each in _after_first(brokers)))


def random_tree(brokers: int, random: Random) -> Topology:
    """Peers without circles: each but the first is linked to one before it, drawn at random."""
    return Topology(brokers, tuple((random.randrange(each), each, None) for each in _after_first(brokers)))


def random_mesh(brokers: int, extra: int, random: Random) -> Topology:
    """A random tree with `extra` links more, where there is room for them."""
    if type(extra) is not int or extra < 0:
        raise InvalidArgument(f"a mesh has some links from 0 on more than a tree, not {extra!r:.80}")
    links = {(a, b) for a, b, _ in random_tree(brokers, random).links}
    room = brokers * (brokers - 1) // 2
    while len(links) < min(room, brokers - 1 + extra):
        a, b = sorted(random.sample(range(brokers), 2))
        links.add((a, b))
    return Topology(brokers, tuple((a, b, None) for a, b in sorted(links)))


def transit_stub(transits: int, stubs: int, size: int, random: Random) -> Topology:
    """Two levels, as networks of networks have: a random core of slow links, and around each of its brokers some stubs,
    each a random tree of fast links."""
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


_MILLISECOND_SECONDS: Final = 0.001
_NOT_A_GRAPH: Final = (
    'not a network: it is a JSON object with a list of "nodes", each with an "id", and a list of "edges", each with '
    'a "source" and a "target"'
)
_NOT_A_MATRIX: Final = (
    "not a network: without .json it is a matrix of round-trip times in milliseconds, a line for each host"
)


def from_graph(graph: Any) -> tuple[Topology, list[Any]]:
    """A networkx graph, or anything with its `nodes` and `edges(data=True)`; and the names of its nodes by number.

    The delay of a link is its attribute `delay`, in seconds, or that of its length `dist` in kilometres of glass.
    """
    if not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
        raise InvalidArgument(f"the links of a network come from a networkx graph, not {type(graph).__name__}")
    names = list(graph.nodes)
    number = {name: place for place, name in enumerate(names)}
    links: dict[tuple[int, int], float | None] = {}
    for one, other, data in graph.edges(data=True):
        a, b = sorted((number[one], number[other]))
        if a != b:
            links.setdefault((a, b), delay_of(data))
    return Topology(len(names), tuple((a, b, delay) for (a, b), delay in links.items())), names


def from_topohub(document: dict[str, Any]) -> tuple[Topology, list[Any]]:
    """A network in the form of JSON in which collections of real topologies come: `nodes`, and `edges` or `links`."""
    nodes = document["nodes"]
    names = [node.get("name", node["id"]) for node in nodes]
    number = {node["id"]: place for place, node in enumerate(nodes)}
    links: dict[tuple[int, int], float | None] = {}
    for edge in document.get("edges") or document["links"]:
        a, b = sorted((number[edge["source"]], number[edge["target"]]))
        if a != b:
            links.setdefault((a, b), delay_of(edge))
    return Topology(len(nodes), tuple((a, b, delay) for (a, b), delay in links.items())), names


def delay_of(data: dict[str, Any]) -> float | None:
    """The delay of a link in seconds: as given, or of light in that length of glass, 5 µs for a kilometre."""
    try:
        if "delay" in data:
            return float(data["delay"])
        return float(data["dist"]) * 5e-6 if "dist" in data else None
    except (TypeError, ValueError):
        given = data.get("delay", data.get("dist"))
        raise InvalidArgument(f"the delay of a link is a number of seconds, not {given!r}") from None


def from_round_trips(times: Sequence[Sequence[float]], extra: int = 0, unit: float = _MILLISECOND_SECONDS) -> Topology:
    """Hosts with measured round-trip times, linked by the shortest tree that joins them, and each by `extra` links more
    to its nearest. A link takes half of a round trip. `unit` is in seconds; a time of 0 was not measured.
    """
    delays = _one_way(times, unit)
    links = _shortest_tree(delays)
    for host, row in enumerate(delays):
        near = sorted((delay, other) for other, delay in enumerate(row) if other != host and delay < inf)
        free = [(delay, min(host, other), max(host, other)) for delay, other in near]
        links |= {(a, b): delay for delay, a, b in [each for each in free if each[1:] not in links][:extra]}
    return Topology(len(delays), tuple((a, b, delay) for (a, b), delay in sorted(links.items())))


def from_file(path: str | Path, hosts: int | None = None, extra: int = 0) -> Topology:
    """A network in a file: JSON as `from_topohub` reads it, or a matrix of round-trip times in milliseconds, of which
    the first hosts are taken, and linked as `from_round_trips` does."""
    path = checked_path(path, "a network")
    if hosts is not None and (type(hosts) is not int or hosts < 1):
        raise InvalidArgument(f"hosts is the number of hosts that are taken, from 1 on, not {hosts!r:.80}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error
    if path.suffix == ".json":
        try:
            return from_topohub(json.loads(content))[0]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(str(path), _NOT_A_GRAPH) from None
    try:
        times = [list(map(float, line.split())) for line in content.decode().splitlines() if line.strip()]
        return from_round_trips([row[:hosts] for row in times[:hosts]], extra)
    except (ValueError, InvalidArgument):
        raise InputError(str(path), _NOT_A_MATRIX) from None


def longest_path(brokers: int, links: Iterable[tuple[int, int]]) -> int:
    """The number of links on the longest path between two brokers of a tree, or of several."""
    neighbours: dict[int, list[int]] = {broker: [] for broker in range(brokers)}
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)

    def distances(start: int) -> dict[int, int]:
        found = {start: 0}
        waiting = [start]
        for broker in waiting:  # which grows meanwhile
            for other in neighbours[broker]:
                if other not in found:
                    found[other] = found[broker] + 1
                    waiting.append(other)
        return found

    longest = 0
    left = set(neighbours)
    while left:
        # The farthest broker from any is an end of a longest path.
        reached = distances(min(left))
        left -= reached.keys()
        longest = max(longest, *distances(max(reached, key=reached.__getitem__)).values())
    return longest


def _one_way(times: Sequence[Sequence[float]], unit: float) -> list[list[float]]:
    """Half of each round trip, in seconds; the mean of both directions, and infinite where neither was measured."""
    if any(len(row) != len(times) for row in times) or any(not isfinite(time) for row in times for time in row):
        raise InvalidArgument("round-trip times are numbers, as many for each host as there are hosts")

    def delay(a: int, b: int) -> float:
        measured = [time for time in (times[a][b], times[b][a]) if time > 0]
        return unit * sum(measured) / len(measured) / 2 if measured else inf

    return [[delay(a, b) for b in range(len(times))] for a in range(len(times))]


def _shortest_tree(delays: Sequence[Sequence[float]]) -> dict[tuple[int, int], float]:
    """The links of the shortest trees that join all that can be joined (Prim)."""
    links: dict[tuple[int, int], float] = {}
    nearest = {host: (inf, host) for host in range(len(delays))}  # to what is joined already: how far, and where
    while nearest:
        delay, host, joined = min((delay, host, joined) for host, (delay, joined) in nearest.items())
        del nearest[host]
        if delay < inf:
            links[min(host, joined), max(host, joined)] = delay
        for other, (known, _) in nearest.items():
            if delays[host][other] < known:
                nearest[other] = delays[host][other], host
    return links
