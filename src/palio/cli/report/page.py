"""The page around the plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from palio import __version__
from palio.cli.report.plots import text

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


@dataclass
class Page:
    """A page in the making."""

    title: str
    facts: Sequence[tuple[str, str]]
    _parts: list[str] = field(default_factory=list)

    def plot(self, heading: str, svg: str, said: str = "") -> None:
        """Add a plot, with a sentence about it."""
        note = f"<p>{text(said)}</p>" if said else ""
        self._parts.append(f"<section><h2>{text(heading)}</h2>{note}{svg}</section>")

    def names(self, heading: str, names: Iterable[str], said: str = "") -> None:
        """Add a list of names."""
        items = "".join(f"<li>{text(name)}</li>" for name in names)
        self.plot(heading, f"<ul>{items}</ul>", said)

    def html(self) -> str:
        facts = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in self.facts)
        made = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{text(self.title)}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
            f"<h1>{text(self.title)}</h1><dl>{facts}</dl>{''.join(self._parts)}"
            f"<footer>Palio {text(__version__)}, {text(made)}</footer></body></html>\n"
        )


def write_page(page: Page, path: str) -> None:
    """Write a page to a file, over one that is there."""
    Path(path).write_text(page.html(), encoding="utf-8")


def report_option(command: _Command) -> _Command:
    """The option that asks for a page."""
    return click.option(
        "--report", metavar="FILE", callback=_check, help="Write a page with plots of the run: report.html."
    )(command)


def _check(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """Whether there is a place for it, asked before an hour of work and not after."""
    if given is not None and (Path(given).is_dir() or not Path(given).absolute().parent.is_dir()):
        raise click.BadParameter(f"{given!r} is a folder, or in a folder that is not there")
    return given
