"""HTML reports of a run: one self-contained page with SVG plots (bars, columns, a line over time).

The plots are shapes here: a plotting library would be fifty megabytes for three kinds of picture. Colours and fonts are
the page's, by CSS classes, so that a plot is readable in a dark theme too. Text from data is escaped, and shown whole
in a tooltip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from palio import __version__
from palio.cli.terminal import duration, shorten

_Command = TypeVar("_Command", bound=Callable[..., Any])
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2330; --quiet: #667085; --bar: #2f7fb8; --grid: #d9dee6; --page: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --quiet: #98a2b3; --bar: #5fb0e5; --grid: #344054; --page: #14181f; }
}
body { margin: 2rem auto; max-width: 46rem; padding: 0 1rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
p, footer { color: var(--quiet); margin: .2rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 1.2rem 0; }
dt { color: var(--quiet); text-align: right; }
dd { margin: 0; overflow-wrap: anywhere; }
ul { columns: 3; padding-left: 1.1rem; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; font-size: 12px; }
svg text { fill: var(--ink); }
.name { text-anchor: end; }
.below { text-anchor: middle; fill: var(--quiet); }
.bar, .mark { fill: var(--bar); }
.line { fill: none; stroke: var(--bar); stroke-width: 1.5; }
.grid { stroke: var(--grid); }
footer { margin-top: 3rem; font-size: .85rem; }
"""
_WIDTH: Final = 720
_NAME_WIDTH: Final = 230  # at the left of bars
_NUMBER_WIDTH: Final = 90  # at the right of bars, at least
_BAR_HEIGHT: Final = 22
_HEIGHT: Final = 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 40, 12, 36  # half a label of time fits at the right
_CHARACTER_WIDTH: Final = 7  # of a digit at 12 pixels in the widest of the usual fonts
_MAX_TICKS: Final = 6  # over time; a label such as `23 h 30 min` has a sixth of the width
_MAX_NAME_LENGTH: Final = 28
_MAX_COLUMNS: Final = 200
_NEGLIGIBLE: Final = 1e-9
_DAY_SECONDS: Final = 86_400
_ROUND_SECONDS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * each for each in (1, 2, 5, 10, 15, 30)),
    *(3600 * each for each in (1, 2, 3, 6, 12, 24)),
)

NumberFormat = Callable[[float], str]


class Scale(NamedTuple):
    """How values of an axis are written, and the round value at which the axis ends: four round steps."""

    number: NumberFormat
    end: Callable[[float], float]


class Point(NamedTuple):
    """A value at a time in seconds since the start."""

    at: float
    value: float


def plain(value: float) -> str:
    """A number with separators, or with three significant digits if it is small."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def bars(rows: Sequence[tuple[str, float]], number: NumberFormat = plain) -> str:
    """A horizontal bar for each name, from top to bottom."""
    most = max((value for _, value in rows), default=0) or 1
    longest = max((len(number(value)) for _, value in rows), default=0)
    room = _WIDTH - _NAME_WIDTH - max(_NUMBER_WIDTH, longest * _CHARACTER_WIDTH + 8)
    shapes = []
    for place, (name, value) in enumerate(rows):
        top, width = place * _BAR_HEIGHT, max(1.0, room * value / most)
        label = escape_html(shorten(name, _MAX_NAME_LENGTH))
        shapes.append(
            f"<g><title>{escape_html(name)}: {escape_html(number(value))}</title>"
            f'<text class="name" x="{_NAME_WIDTH - 8}" y="{top + 15}">{label}</text>'
            f'<rect class="bar" x="{_NAME_WIDTH}" y="{top + 4}" width="{width:.1f}" height="{_BAR_HEIGHT - 8}" rx="2"/>'
            f'<text x="{_NAME_WIDTH + width + 6:.1f}" y="{top + 15}">{escape_html(number(value))}</text></g>'
        )
    return _svg(len(rows) * _BAR_HEIGHT, shapes)


def columns(values: Sequence[float], of: str) -> str:
    """A vertical bar for each value, in order; of very many, the largest of each group of neighbours."""
    step = math.ceil(len(values) / _MAX_COLUMNS)
    shown = [max(values[start : start + step]) for start in range(0, len(values), step)] if values else []
    most = round_up(max(shown, default=0))
    left, shapes = _draw_grid(most, plain)
    room = _WIDTH - left - _RIGHT
    width = room / max(1, len(shown))
    for place, value in enumerate(shown):
        height, label = _HEIGHT * value / most, f"{place * step + 1:,}: {plain(value)}"
        shapes.append(
            f'<rect class="bar" x="{left + place * width + width * 0.1:.1f}" y="{_TOP + _HEIGHT - height:.1f}" '
            f'width="{width * 0.8:.1f}" height="{height:.1f}">'
            f"<title>{escape_html(label)}</title></rect>"
        )
    shapes.append(_axis_label(left + room / 2, of))
    return _svg(_TOP + _HEIGHT + _BOTTOM, shapes)


def line(points: Sequence[Point], of: str, scale: Scale | None = None) -> str:
    """A line through values over time, with a mark at each; `DURATIONS` is the scale of values in seconds."""
    if not points:
        return ""
    scale = scale or NUMBERS
    ticks = _time_ticks(points[-1].at)
    end = max(ticks[-1], points[-1].at)
    most = scale.end(max(point.value for point in points))
    left, shapes = _draw_grid(most, scale.number)
    room = _WIDTH - left - _RIGHT
    places = [(left + room * point.at / end, _TOP + _HEIGHT - _HEIGHT * point.value / most) for point in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    shapes.append(f'<polyline class="line" points="{path}"/>')
    for point, (x, y) in zip(points, places, strict=True):
        label = f"{scale.number(point.value)} at {duration(point.at)}"
        shapes.append(
            f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape_html(label)}</title></circle>'
        )
    for tick in ticks:
        label = duration(tick) if tick else "0"
        shapes.append(_axis_label(left + room * tick / end, label, 16))
    shapes.append(_axis_label(left + room / 2, of))
    return _svg(_TOP + _HEIGHT + _BOTTOM, shapes)


def escape_html(value: str) -> str:
    """A text escaped for HTML; unprintable characters become visible."""
    return escape("".join(each if each.isprintable() else "�" for each in value))


def _draw_grid(most: float, number: NumberFormat) -> tuple[float, list[str]]:
    """Grid lines across, with their values; and where they begin, right of the longest value."""
    labels = ["0", *(number(most * part / 4) for part in range(1, 5))]
    left = max(_LEFT, max(map(len, labels)) * _CHARACTER_WIDTH + 10)
    shapes = []
    for part, label in enumerate(labels):
        y = _TOP + _HEIGHT - _HEIGHT * part / 4
        shapes.append(f'<line class="grid" x1="{left}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        shapes.append(f'<text class="name" x="{left - 8}" y="{y + 4:.1f}">{escape_html(label)}</text>')
    return left, shapes


def _time_ticks(end: float) -> list[float]:
    """Round times from 0 to the end or beyond it, at most `_MAX_TICKS`, at least two."""
    step = round_duration(max(end, _NEGLIGIBLE) / (_MAX_TICKS - 1))
    return [place * step for place in range(max(1, math.ceil(end / step - _NEGLIGIBLE)) + 1)]


def _axis_label(x: float, text: str, down: int = 32) -> str:
    return f'<text class="below" x="{x:.1f}" y="{_TOP + _HEIGHT + down}">{escape_html(text)}</text>'


def round_up(value: float) -> float:
    """The next round number: 4, 8, 12, 20 or 40 times a power of ten, all of which have round quarters."""
    if value < _NEGLIGIBLE:
        return 1.0
    # 10 ** 0.6 is about 4, so the value is between 4 and 40 times this power.
    power = 10.0 ** math.floor(math.log10(value) - 0.6)
    return next(each * power for each in (4, 8, 12, 20, 40, 80) if each * power >= value * (1 - 1e-9))


def round_duration(seconds: float) -> float:
    """The next duration that a clock counts in: 5 s, 15 min, 6 h; parts of a second and many days are decimal."""
    for each in _ROUND_SECONDS:
        if seconds <= each and seconds > 0.5:
            return float(each)
    unit = 1 if seconds <= 0.5 else _DAY_SECONDS
    power = 10.0 ** math.floor(math.log10(max(seconds, _NEGLIGIBLE) / unit))
    return next(each * power * unit for each in (1, 2, 5, 10) if each * power * unit >= seconds * (1 - 1e-9))


NUMBERS: Final = Scale(plain, round_up)
DURATIONS: Final = Scale(duration, lambda most: 4 * round_duration(most / 4))


def _svg(height: float, shapes: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">{"".join(shapes)}</svg>'


@dataclass
class Page:
    """A page under construction: facts first, then plots and lists in the order of the calls."""

    title: str
    facts: Sequence[tuple[str, str]]
    _parts: list[str] = field(default_factory=list)

    def plot(self, heading: str, svg: str, note: str = "") -> None:
        """Add a plot, with a sentence about it."""
        paragraph = f"<p>{escape_html(note)}</p>" if note else ""
        self._parts.append(f"<section><h2>{escape_html(heading)}</h2>{paragraph}{svg}</section>")

    def names(self, heading: str, names: Iterable[str], note: str = "") -> None:
        """Add a list of names."""
        items = "".join(f"<li>{escape_html(name)}</li>" for name in names)
        self.plot(heading, f"<ul>{items}</ul>", note)

    def html(self) -> str:
        facts = "".join(f"<dt>{escape_html(name)}</dt><dd>{escape_html(value)}</dd>" for name, value in self.facts)
        made = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape_html(self.title)}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
            f"<h1>{escape_html(self.title)}</h1><dl>{facts}</dl>{''.join(self._parts)}"
            f"<footer>Palio {escape_html(__version__)}, {escape_html(made)}</footer></body></html>\n"
        )


def write_page(page: Page, path: str) -> None:
    """Write a page to a file; an existing file is overwritten."""
    Path(path).write_text(page.html(), encoding="utf-8")


def report_option(command: _Command) -> _Command:
    """The option that asks for a page."""
    return click.option(
        "--report", metavar="FILE", callback=_check_writable, help="Write a page with plots of the run: report.html."
    )(command)


def _check_writable(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """Refuse a file that cannot be created, before an hour of work and not after."""
    if given is not None and (Path(given).is_dir() or not Path(given).absolute().parent.is_dir()):
        raise click.BadParameter(f"{given!r} is a folder, or in a folder that is not there")
    return given
