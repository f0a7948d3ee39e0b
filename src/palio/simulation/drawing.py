"""What does a network look like, and where is its traffic? The more messages, the broader and darker a link."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from palio.errors import InvalidArgument, MissingExtra
from palio.simulation.layout import positions

if TYPE_CHECKING:
    from palio.simulation.network import Network

_MOST_LABELS: Final = 120  # brokers, or links, up to which each has a number beside it
_BROADEST: Final = 8.0
_HOME: Final = "#1b7837"
_PASSING: Final = "#2166ac"


def check_drawing(path: str | Path) -> None:
    """Refuse what could not be drawn in the end: another ending than .svg or .png, no folder, or no library."""
    ending = Path(path).suffix.lower()
    if ending not in (".svg", ".png"):
        raise InvalidArgument(f"a picture ends with .svg or .png, not {ending!r}")
    if not Path(path).parent.is_dir():
        raise InvalidArgument(f"there is no folder {str(Path(path).parent)!r} for a picture")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("pictures", "draw") from None


def draw(network: Network, path: str | Path) -> None:
    """Write a picture of a network and its traffic; the ending of the file, .svg or .png, says how."""
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
    # The same network, the same file.
    with rc_context({"svg.hashsalt": "palio", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=120, metadata={"Date": None} if Path(path).suffix.lower() == ".svg" else None)


def _messages(network: Network) -> dict[tuple[int, int], int]:
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
            linewidths=[1 + (_BROADEST - 1) * sqrt(count / max(1, most)) for count in counts],
            colors=colours.to_rgba(np.array(counts)),
            capstyle="round",
            zorder=1,
        )
    )
    axes.figure.colorbar(colours, ax=axes, label="messages over a link", shrink=0.5, pad=0.01)
    if len(links) <= _MOST_LABELS:
        for (a, b), count in zip(links, counts, strict=True):
            middle = [(one + other) / 2 for one, other in zip(places[a], places[b], strict=True)]
            axes.annotate(f"{count:,}", middle, ha="center", va="center", fontsize=7, zorder=2, bbox=_LABEL)


def _draw_brokers(axes: Any, places: list[tuple[float, float]], tables: Mapping[int, Mapping[Any, Any]]) -> None:
    from matplotlib.lines import Line2D

    homes = {number for number, stored in tables.items() if stored.get("clients")}
    size = max(12.0, min(260.0, 9_000 / len(places)))
    colours = [_HOME if number in homes else _PASSING for number in range(len(places))]
    axes.scatter(*zip(*places, strict=True), s=size, c=colours, zorder=3)
    if len(places) <= _MOST_LABELS:
        for number, place in enumerate(places):
            axes.annotate(str(number), place, ha="center", va="center", fontsize=7, color="white", zorder=4)
    shown = (("a broker with subscribers", _HOME), ("a broker without", _PASSING))
    marks = [Line2D([], [], linestyle="", marker="o", color=colour, label=label) for label, colour in shown]
    axes.legend(handles=marks, loc="upper left", bbox_to_anchor=(0, 0), ncols=2, frameon=False)


_LABEL: Final = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
