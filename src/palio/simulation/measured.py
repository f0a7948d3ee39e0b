"""How are real networks linked, and how long do their links take? From graphs, from collections of real topologies, and
from measured round-trip times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

from palio.errors import InputError, InvalidArgument
from palio.simulation.topologies import Topology

_MILLISECOND: Final = 0.001
_NO_NETWORK: Final = (
    'not a network: it is a JSON object with a list of "nodes", each with an "id", and a list of "edges", each with '
    'a "source" and a "target"'
)
_NO_MATRIX: Final = (
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
    """Light in glass needs five microseconds for a kilometre."""
    try:
        if "delay" in data:
            return float(data["delay"])
        return float(data["dist"]) * 5e-6 if "dist" in data else None
    except (TypeError, ValueError):
        told = data.get("delay", data.get("dist"))
        raise InvalidArgument(f"the delay of a link is a number of seconds, not {told!r}") from None


def from_round_trips(times: Sequence[Sequence[float]], extra: int = 0, unit: float = _MILLISECOND) -> Topology:
    """Hosts of which every two were measured, in some unit of seconds: linked as the shortest tree that joins them, and
    each with so many of its nearest more. A link takes half of a round trip. A time of 0 says that none was measured.
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
    path = Path(path)
    if path.suffix == ".json":
        try:
            return from_topohub(json.loads(path.read_bytes()))[0]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(str(path), _NO_NETWORK) from None
    try:
        times = [list(map(float, line.split())) for line in path.read_text().splitlines() if line.strip()]
        return from_round_trips([row[:hosts] for row in times[:hosts]], extra)
    except (ValueError, InvalidArgument):
        raise InputError(str(path), _NO_MATRIX) from None


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
