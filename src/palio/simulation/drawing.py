"""What does a network look like, and where is its traffic? A picture: the more messages, the broader and darker a link.

SVG is text, with the figures of each link in a tooltip. PNG is painted here, point by point: a drawing library would be
fifty megabytes for lines and discs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from palio.errors import InvalidArgument
from palio.simulation.layout import positions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from palio.simulation.network import Network

_SIZE: Final = 900
_MARGIN: Final = 40
_MOST_LABELS: Final = 200  # brokers up to which each has its number beside it
_FINE: Final = 2  # points in each direction that one of the picture is made of

_Colour = tuple[int, int, int]
_QUIET: Final[_Colour] = (208, 215, 222)
_BUSY: Final[_Colour] = (178, 24, 43)
_BROKER: Final[_Colour] = (33, 102, 172)
_SUBSCRIBED: Final[_Colour] = (27, 120, 55)


class _Line(NamedTuple):
    link: tuple[int, int]
    start: tuple[float, float]
    end: tuple[float, float]
    width: float
    colour: _Colour
    title: str


class _Disc(NamedTuple):
    number: int
    centre: tuple[float, float]
    radius: float
    colour: _Colour
    title: str


def draw(network: Network, path: str | Path) -> None:
    """Write a picture of a network and its traffic; the ending of the file, .svg or .png, says how."""
    target = Path(path)
    match target.suffix.lower():
        case ".svg":
            target.write_text(to_svg(network), encoding="utf-8")
        case ".png":
            target.write_bytes(to_png(network))
        case other:
            raise InvalidArgument(f"a picture ends with .svg or .png, not {other!r}")


def to_svg(network: Network) -> str:
    """The picture as SVG."""
    size = f'viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" height="{_SIZE}"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f'<rect width="{_SIZE}" height="{_SIZE}" fill="white"/>',
    ]
    for line in _lines(network):
        (x1, y1), (x2, y2) = line.start, line.end
        drawn.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="rgb{line.colour}" '
            f'stroke-width="{line.width:.1f}"><title>{line.title}</title></line>'
        )
    labelled = network.topology.brokers <= _MOST_LABELS
    for disc in _discs(network):
        x, y = disc.centre
        drawn.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{disc.radius:.1f}" fill="rgb{disc.colour}">'
            f"<title>{disc.title}</title></circle>"
        )
        if labelled:
            drawn.append(f'<text x="{x + disc.radius + 2:.1f}" y="{y + 4:.1f}">{disc.number}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def to_png(network: Network) -> bytes:
    """The picture as PNG, without numbers."""
    import numpy as np

    size = _SIZE * _FINE
    canvas = np.full((size, size, 3), 255, np.uint8)
    for line in _lines(network):
        _paint(canvas, line.start, line.end, line.width / 2, line.colour)
    for disc in _discs(network):
        _paint(canvas, disc.centre, disc.centre, disc.radius, disc.colour)
    smooth = canvas.reshape(_SIZE, _FINE, _SIZE, _FINE, 3).mean(axis=(1, 3)).astype(np.uint8)
    rows = np.concatenate([np.zeros((_SIZE, 1), np.uint8), smooth.reshape(_SIZE, -1)], axis=1)
    header = struct.pack(">IIBBBBB", _SIZE, _SIZE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _paint(
    canvas: npt.NDArray[np.uint8],
    start: tuple[float, float],
    end: tuple[float, float],
    radius: float,
    colour: _Colour,
) -> None:
    """All points that are near enough to a line; a disc is one without length."""
    import numpy as np

    (x1, y1), (x2, y2) = ((_FINE * x, _FINE * y) for x, y in (start, end))
    reach = _FINE * radius
    left, right = int(min(x1, x2) - reach), int(max(x1, x2) + reach) + 2
    top, bottom = int(min(y1, y2) - reach), int(max(y1, y2) + reach) + 2
    ys, xs = np.mgrid[top:bottom, left:right]
    dx, dy = x2 - x1, y2 - y1
    along = np.clip(((xs - x1) * dx + (ys - y1) * dy) / ((dx * dx + dy * dy) or 1.0), 0, 1)
    near = (xs - x1 - along * dx) ** 2 + (ys - y1 - along * dy) ** 2 <= reach * reach
    canvas[top:bottom, left:right][near] = colour


def _places(network: Network) -> list[tuple[float, float]]:
    room = _SIZE / 2 - _MARGIN
    return [(_SIZE / 2 + room * x, _SIZE / 2 + room * y) for x, y in positions(network.topology)]


def _lines(network: Network) -> Iterator[_Line]:
    places = _places(network)
    busy: dict[tuple[int, int], tuple[int, int]] = dict.fromkeys(network.links, (0, 0))
    for flow in network.traffic:
        messages, size = busy[flow.link]
        busy[flow.link] = messages + flow.messages, size + flow.bytes
    most = max((messages for messages, _ in busy.values()), default=0)
    for (a, b), (messages, size) in sorted(busy.items(), key=lambda each: each[1][0]):
        share = sqrt(messages / most) if most else 0.0
        colour = _between(share)
        title = f"{a} – {b}: {messages:,} messages, {size:,} bytes"
        yield _Line((a, b), places[a], places[b], 1 + 7 * share, colour, title)


def _discs(network: Network) -> Iterator[_Disc]:
    radius = max(2.0, min(7.0, 120 / network.topology.brokers**0.5))
    tables = network.tables
    for number, centre in enumerate(_places(network)):
        stored = tables.get(number, {})
        count = sum(map(len, stored.values()))
        colour = _SUBSCRIBED if stored.get("clients") else _BROKER
        yield _Disc(number, centre, radius, colour, f"broker {number}: {count:,} filters")


def _between(share: float) -> _Colour:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(_QUIET, _BUSY, strict=True))
    return red, green, blue
