"""Cost and effect of upkeep: idle traffic, state, and what is left of faults, for each way to keep tables true.

    python benchmarks/upkeep.py
    python benchmarks/upkeep.py --brokers 63 --subscriptions 500 --json

The same network for every row: a binary tree of brokers, subscriptions at random ones. Idle traffic is measured over
ten minutes without a change. Then a broker in the middle crashes and comes back after five seconds; then a fifth of all
tables is corrupted, where that can be mended. State is what all brokers have beside hard tables: in memory as Python
allocates it, and the rows of their recovery databases. Seconds are virtual, of links of ten milliseconds: all figures
but the memory are the same on every machine. `benchmarks/recovery.py` compares paths.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tracemalloc
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from palio.simulation import Network

IDLE_SECONDS = 600.0
DOWN_SECONDS = 5.0
CONNECT_SECONDS = 0.025  # in which both ends of a link have greeted each other
STEP_SECONDS = 0.1
UPKEEP: tuple[tuple[str, dict[str, Any]], ...] = (
    ("hard", {}),
    ("hard, recover", {"crash_log": "recover"}),
    ("leases", {"tables": "leases"}),
    ("stabilising", {"tables": "stabilising"}),
)


@dataclass
class Row:
    """One upkeep."""

    upkeep: str
    entries: int
    memory_bytes: int  # of all brokers, more than those with hard tables have
    disk_bytes: int
    idle_messages_per_minute: float
    idle_bytes_per_minute: float
    crash_messages: int
    crash_bytes: int
    right_after_crash: float | None
    right_after_corruption: float | None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=31)
    parser.add_argument("--subscriptions", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    given = parser.parse_args(arguments)
    rows = [measure(name, choices, given.brokers, given.subscriptions) for name, choices in UPKEEP]
    for row in reversed(rows):
        row.memory_bytes -= rows[0].memory_bytes
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        _print(rows)
    return 0


def measure(name: str, choices: dict[str, Any], brokers: int, subscriptions: int) -> Row:
    tracemalloc.start()
    net = _network(choices, brokers, subscriptions)
    memory_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    entries = sum(len(filters) for here in net.tables.values() for filters in here.values())
    # Private: a network does not show what its brokers have on disk.
    rows = [row for host in net._engine.hosts for row in host.disk._links.values()]
    disk_bytes = sum(len(row.key or b"") + len(row.data or b"") for row in rows)
    before = net.traffic.snapshot()
    net.run(IDLE_SECONDS)
    idle = net.traffic - before
    net.crash(1)
    net.run(DOWN_SECONDS)
    before = net.traffic.snapshot()
    net.restart(1)
    net.run(CONNECT_SECONDS)
    right_after_crash = _right_after(net)
    crash = net.traffic - before
    return Row(
        name,
        entries,
        memory_bytes,
        disk_bytes,
        idle.messages() / (IDLE_SECONDS / 60),
        idle.bytes() / (IDLE_SECONDS / 60),
        crash.messages(),
        crash.bytes(),
        right_after_crash,
        _right_after_corruption(net),
    )


def _network(choices: dict[str, Any], brokers: int, subscriptions: int) -> Network:
    random = Random(5)
    net = Network.tree(brokers, seed=5, **choices)
    for number in range(subscriptions):
        net.subscribe(at=random.randrange(brokers), where=f"price > {number}")
    net.run()
    gc.collect()
    return net


def _right_after_corruption(net: Network) -> float | None:
    if net.combination.tables != "stabilising":
        return None
    net.corrupt(share=0.2, seed=5)
    return _right_after(net)


def _right_after(net: Network, longest: float = 1_000.0) -> float | None:
    """Seconds until all tables are as they should be; None where they never are."""
    since = net.now
    while net.now - since < longest:
        errors = net.table_errors()
        if not errors.missing and not errors.wrong:
            return round(net.now - since, 1)
        net.run(STEP_SECONDS)
    return None


def _print(rows: list[Row]) -> None:
    table = Table("tables", "entries", "KB in memory", "KB on disk", "idle messages/min", "idle KB/min",
                  "after a crash", "KB", "right after a crash", "right after corruption")  # fmt: skip
    for row in rows:
        table.add_row(
            row.upkeep,
            f"{row.entries:,}",
            f"{row.memory_bytes / 1000:+,.0f}",
            f"{row.disk_bytes / 1000:,.0f}",
            f"{row.idle_messages_per_minute:,.0f}",
            f"{row.idle_bytes_per_minute / 1000:,.1f}",
            f"{row.crash_messages:,}",
            f"{row.crash_bytes / 1000:,.1f}",
            _seconds(row.right_after_crash),
            _seconds(row.right_after_corruption),
        )
    Console().print(table)


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:g} s"


if __name__ == "__main__":
    sys.exit(main())
