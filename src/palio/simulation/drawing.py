"""Drawing of a network with the traffic on its links: the more messages, the broader and darker a link.

Brokers are on rings around the middle of the network, each branch in a sector of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, pi, sin, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from palio.errors import InvalidArgument, MissingExtra
from palio.files.file_path import checked_path
from palio.simulation.topologies import Topology

if TYPE_CHECKING:
    from palio.simulation.observation import ObservedNetwork


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


_Branch = list[tuple[int, int, list[int]]]  # brokers from the middle outwards: number, ring, brokers behind it


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
        # The farthest broker from any is an end of a longest way; the middle of that way is sought. Exact in trees.
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


_MAX_LABELS: Final = 120  # brokers, or links, that are labelled each
_MAX_LINE_POINTS: Final = 8.0
_SUBSCRIBER_COLOUR: Final = "#1b7837"
_TRANSIT_COLOUR: Final = "#2166ac"


def check_drawing(path: str | Path) -> None:
    """Refuse a path that could not be drawn to: another ending than .svg or .png, no folder, or no library."""
    target = checked_path(path, "a picture")
    ending = target.suffix.lower()
    if ending not in (".svg", ".png"):
        raise InvalidArgument(f"a picture ends with .svg or .png, not {ending!r}")
    if not target.parent.is_dir():
        raise InvalidArgument(f"there is no folder {str(target.parent)!r} for a picture")
    if target.is_dir():
        raise InvalidArgument(f"a picture is a file, and {str(target)!r} is a folder")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("pictures", "draw") from None


def draw(network: ObservedNetwork, path: str | Path) -> None:
    """Write a picture of a network and its traffic, as .svg or .png."""
    check_drawing(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    messages = _messages(network)
    figure = Figure(figsize=(10, 10), layout="constrained")
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.axis("off")
    axes.margins(0.06)
    places = positions(network.topology)
    _draw_links(axes, places, messages)
    _draw_brokers(axes, places, network.tables)
    axes.set_title(f"{network.combination}\n{sum(messages.values()):,} messages over {len(messages):,} links")
    # A fixed salt and no date: equal networks give equal files.
    with rc_context({"svg.hashsalt": "palio", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=120, metadata={"Date": None} if Path(path).suffix.lower() == ".svg" else None)


def _messages(network: ObservedNetwork) -> dict[tuple[int, int], int]:
    counts = dict.fromkeys(network.links, 0)
    for flow in network.traffic:
        counts[flow.link] += flow.messages
    return counts


def _draw_links(axes: Any, places: list[tuple[float, float]], messages: Mapping[tuple[int, int], int]) -> None:
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import PowerNorm

    if not messages:
        return
    most = max(messages.values(), default=0)
    colours = ScalarMappable(PowerNorm(0.5, 0, max(1, most)), colormaps["YlOrRd"])
    # The busy ones on top of the others.
    links = sorted(messages, key=lambda link: messages[link])
    counts = [messages[link] for link in links]
    axes.add_collection(
        LineCollection(
            [(places[a], places[b]) for a, b in links],
            linewidths=[1 + (_MAX_LINE_POINTS - 1) * sqrt(count / max(1, most)) for count in counts],
            colors=colours.to_rgba(np.array(counts)),
            capstyle="round",
            zorder=1,
        )
    )
    axes.figure.colorbar(colours, ax=axes, label="messages over a link", shrink=0.5, pad=0.01)
    if len(links) <= _MAX_LABELS:
        for (a, b), count in zip(links, counts, strict=True):
            middle = [(one + other) / 2 for one, other in zip(places[a], places[b], strict=True)]
            axes.annotate(f"{count:,}", middle, ha="center", va="center", fontsize=7, zorder=2, bbox=_LABEL)


def _draw_brokers(axes: Any, places: list[tuple[float, float]], tables: Mapping[int, Mapping[Any, Any]]) -> None:
    from matplotlib.lines import Line2D

    homes = {number for number, stored in tables.items() if stored.get("clients")}
    size = max(12.0, min(260.0, 9_000 / len(places)))
    colours = [_SUBSCRIBER_COLOUR if number in homes else _TRANSIT_COLOUR for number in range(len(places))]
    axes.scatter(*zip(*places, strict=True), s=size, c=colours, zorder=3)
    if len(places) <= _MAX_LABELS:
        for number, place in enumerate(places):
            axes.annotate(str(number), place, ha="center", va="center", fontsize=7, color="white", zorder=4)
    shown = (("a broker with subscribers", _SUBSCRIBER_COLOUR), ("a broker without", _TRANSIT_COLOUR))
    marks = [Line2D([], [], linestyle="", marker="o", color=colour, label=label) for label, colour in shown]
    axes.legend(handles=marks, loc="upper left", bbox_to_anchor=(0, 0), ncols=2, frameon=False)


_LABEL: Final = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
