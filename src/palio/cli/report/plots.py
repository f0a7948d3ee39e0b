"""Plots as SVG, drawn here: bars with names, columns without, and a line over time. Each is a text to put into a page.

A plotting library would be fifty megabytes for three kinds of picture. Colours and fonts are the page's, by classes, so
that a plot is readable on a dark page too. Whatever comes from data is escaped, and shown whole in a tooltip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

from palio.cli.terminal import shorten

_WIDTH: Final = 720
_NAMES: Final = 230  # for the names of bars, at the left
_NUMBERS: Final = 90  # for what bars amount to, at the right
_BAR: Final = 22
_HEIGHT: Final = 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 26, 12, 36
_LONGEST_NAME: Final = 32
_MOST_COLUMNS: Final = 200
_NOTHING: Final = 1e-9

Number = Callable[[float], str]


class Point(NamedTuple):
    """A value at a time, in seconds from the begin."""

    at: float
    value: float


def plain(value: float) -> str:
    """A number as people read it."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def bars(rows: Sequence[tuple[str, float]], number: Number = plain) -> str:
    """A bar for each name, from above to below."""
    most = max((value for _, value in rows), default=0) or 1
    room = _WIDTH - _NAMES - _NUMBERS
    drawn = []
    for place, (name, value) in enumerate(rows):
        top, width = place * _BAR, max(1.0, room * value / most)
        drawn.append(
            f"<g><title>{text(name)}: {text(number(value))}</title>"
            f'<text class="name" x="{_NAMES - 8}" y="{top + 15}">{text(shorten(name, _LONGEST_NAME))}</text>'
            f'<rect class="bar" x="{_NAMES}" y="{top + 4}" width="{width:.1f}" height="{_BAR - 8}" rx="2"/>'
            f'<text x="{_NAMES + width + 6:.1f}" y="{top + 15}">{text(number(value))}</text></g>'
        )
    return _svg(len(rows) * _BAR, drawn)


def columns(values: Sequence[float], of: str, number: Number = plain) -> str:
    """A column for each value, in their order; of very many, the largest of each group of neighbours."""
    step = math.ceil(len(values) / _MOST_COLUMNS)
    shown = [max(values[start : start + step]) for start in range(0, len(values), step)] if values else []
    most = _ceiling(max(shown, default=0))
    room, width = _WIDTH - _LEFT - _RIGHT, (_WIDTH - _LEFT - _RIGHT) / max(1, len(shown))
    drawn = _scale(most, number)
    for place, value in enumerate(shown):
        height, label = _HEIGHT * value / most, f"{place * step + 1:,}: {number(value)}"
        drawn.append(
            f'<rect class="bar" x="{_LEFT + place * width + width * 0.1:.1f}" y="{_TOP + _HEIGHT - height:.1f}" '
            f'width="{width * 0.8:.1f}" height="{height:.1f}">'
            f"<title>{text(label)}</title></rect>"
        )
    drawn.append(_below(_LEFT + room / 2, of))
    return _svg(_TOP + _HEIGHT + _BOTTOM, drawn)


def line(points: Sequence[Point], of: str, number: Number = plain) -> str:
    """A line through values over time, with a mark at each."""
    if not points:
        return ""
    begin, end = points[0].at, max(points[-1].at, points[0].at + 1e-9)
    most = _ceiling(max(point.value for point in points))
    room = _WIDTH - _LEFT - _RIGHT
    places = [
        (_LEFT + room * (point.at - begin) / (end - begin), _TOP + _HEIGHT - _HEIGHT * point.value / most)
        for point in points
    ]
    drawn = _scale(most, number)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    drawn.append(f'<polyline class="line" points="{path}"/>')
    for point, (x, y) in zip(points, places, strict=True):
        label = f"{number(point.value)} at {plain(point.at)} s"
        drawn.append(f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{text(label)}</title></circle>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawn.append(_below(_LEFT + room * share, f"{plain(begin + (end - begin) * share)} s", 16))
    drawn.append(_below(_LEFT + room / 2, of))
    return _svg(_TOP + _HEIGHT + _BOTTOM, drawn)


def text(value: str) -> str:
    """A text as HTML shows it: nothing in it means anything, and nothing in it is invisible."""
    return escape("".join(each if each.isprintable() else "�" for each in value))


def _scale(most: float, number: Number) -> list[str]:
    """Lines across, with what they stand for."""
    drawn = []
    for part in range(5):
        y = _TOP + _HEIGHT - _HEIGHT * part / 4
        drawn.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        said = number(most * part / 4) if part else "0"
        drawn.append(f'<text class="name" x="{_LEFT - 8}" y="{y + 4:.1f}">{text(said)}</text>')
    return drawn


def _below(x: float, said: str, down: int = 32) -> str:
    return f'<text class="below" x="{x:.1f}" y="{_TOP + _HEIGHT + down}">{text(said)}</text>'


def _ceiling(value: float) -> float:
    """A round number that is not less: 4, 8, 12, 20 or 40 times a power of ten, all of which have round quarters."""
    if value < _NOTHING:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value) - 0.6)
    return next(each * power for each in (4, 8, 12, 20, 40, 80) if each * power >= value * (1 - 1e-9))


def _svg(height: float, drawn: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">{"".join(drawn)}</svg>'
