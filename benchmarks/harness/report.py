"""Report: one table, a section per workload and size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from harness.results import Row

_COLUMNS = (
    ("events/s", "events_per_second"),
    ("× sketch", "ratio_to_sketch"),
    ("matches/s", "matches_per_second"),
    ("µs/event", "microseconds_per_event"),
    ("build s", "build_seconds"),
    ("compile s", "compile_seconds"),
    ("adds/s\nbulk", "bulk_adds_per_second"),
    ("adds/s\nsingly", "adds_per_second"),
    ("removals/s", "removals_per_second"),
    ("index\nB/sub", "index_bytes_per_subscription"),
    ("beside\nB/sub", "beside_bytes_per_subscription"),
)


def show(rows: Sequence[Row], title: str, caption: str) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=190)
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", pad_edge=False)
    table.add_column("workload", no_wrap=True)
    table.add_column("engine", no_wrap=True)
    for header, _ in _COLUMNS:
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("answers checked", no_wrap=False)
    for (workload, subscriptions), section in groupby(rows, lambda row: (row.workload, row.subscriptions)):
        label = f"{workload} {short(subscriptions)}"
        for row in section:
            values = [figure(getattr(row, field)) for _, field in _COLUMNS]
            style = "bold" if "Palio" in row.engine else None
            table.add_row(label, row.engine, *values, _checked(row), style=style)
            label = ""
        table.add_section()
    console.print(table)


def _checked(row: Row) -> str:
    if row.differs:
        return f"[red]DIFFERS[/red] {row.note}"
    if row.checked_events is None:
        return row.note
    return f"equal on {row.checked_events:,} {row.note}".rstrip()


def figure(value: float | None) -> str:
    """A number with as many digits as a benchmark deserves."""
    if value is None:
        return "–"
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k"
    if value >= 1e3:
        return f"{value / 1e3:.1f} k"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def short(count: int) -> str:
    """1000 as 1k, 1000000 as 1M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size and count % size == 0:
            return f"{count // size}{letter}"
    return str(count)
