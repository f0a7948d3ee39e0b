"""Where is each broker drawn? On rings around the middle of the network, each branch in a sector of its own."""

from __future__ import annotations

from math import cos, pi, sin

from palio.simulation.topologies import Topology


def positions(topology: Topology) -> list[tuple[float, float]]:
    """A place for each broker, from −1 to 1 in both directions; the same for the same links."""
    neighbours: list[list[int]] = [[] for _ in range(topology.brokers)]
    for a, b, _ in topology.links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    places = [(0.0, 0.0)] * topology.brokers
    seen: set[int] = set()
    parts = [_branch(each, neighbours, seen) for each in _middles(topology.brokers, neighbours)]
    rings = max(max(depth for _, depth, _ in part) for part in parts) + (len(parts) > 1)
    leaves = sum(sum(not children for _, _, children in part) for part in parts)
    turned = 0.0
    for part in parts:
        turned = _place(part, turned, leaves, rings, len(parts) > 1, places)
    return places


_Branch = list[tuple[int, int, list[int]]]  # brokers from the middle outwards: number, ring, and who lies behind


def _branch(middle: int, neighbours: list[list[int]], seen: set[int]) -> _Branch:
    found: _Branch = []
    waiting = [(middle, 0)]
    seen.add(middle)
    for each, depth in waiting:
        children = [other for other in neighbours[each] if other not in seen]
        seen.update(children)
        found.append((each, depth, children))
        waiting += [(child, depth + 1) for child in children]
    return found


def _middles(brokers: int, neighbours: list[list[int]]) -> list[int]:
    """For each part of the network the broker from which the farthest is nearest, or one close to it."""
    middles = []
    seen: set[int] = set()
    for each in range(brokers):
        if each in seen:
            continue
        seen.update(number for number, _, _ in _branch(each, neighbours, set()))
        end = _branch(each, neighbours, set())[-1][0]
        way = _branch(end, neighbours, set())
        above = {child: number for number, _, children in way for child in children}
        longest = [way[-1][0]]
        while longest[-1] in above:
            longest.append(above[longest[-1]])
        middles.append(longest[len(longest) // 2])
    return middles


def _place(
    part: _Branch, turned: float, leaves: int, rings: int, beside: bool, places: list[tuple[float, float]]
) -> float:
    """Give each broker of a part the middle of its sector; where the sector of the part ends."""
    width: dict[int, float] = {}
    for each, _, children in reversed(part):
        width[each] = sum(width[child] for child in children) or 2 * pi / max(1, leaves)
    start = {part[0][0]: turned}
    for each, depth, children in part:
        angle = start[each] + width[each] / 2
        radius = (depth + beside) / max(1, rings)
        places[each] = radius * cos(angle), radius * sin(angle)
        at = start[each]
        for child in children:
            start[child] = at
            at += width[child]
    return turned + width[part[0][0]]
