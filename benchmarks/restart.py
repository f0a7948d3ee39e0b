"""Restart time of a broker: from the start of its process until a confirmed event is delivered.

    python benchmarks/restart.py          empty, and with 100,000 subscriptions and 1,000,000 events
    python benchmarks/restart.py --subscriptions 1000 --events 0

Two figures for each: wall time until `GET /ready` and a confirmed publication are answered, and processor time of the
broker until then. Files are in the page cache and compiled code in its cache, as at the restart of a running service.
The subscriptions are durable, since no others outlive a broker; each has its own condition, and the events wait in
their queues by turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final, NamedTuple

from harness.clock import with_bytecode
from rich.console import Console
from rich.table import Table

import palio
from palio.events import Event
from palio.filters.filter import Filter
from palio.network.store.sqlite import SqliteStore
from palio.routing import codec
from palio.routing.client_messages import SubscribeClient
from palio.routing.effects import Queued, Record
from palio.routing.messages import EventId, Publish

_GROUP: Final = 1_000  # entries that are submitted together
_NAMES_PER_PRINCIPAL: Final = 1_000
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class Start(NamedTuple):
    """One start: seconds of wall time, and of the broker's processor."""

    wall: float
    processor: float


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    figures: dict[str, list[Start]] = {}
    with tempfile.TemporaryDirectory(prefix="palio-bench-") as folder:
        empty, full = Path(folder) / "empty", Path(folder) / "full"
        environment = with_bytecode(Path(folder))
        measure_start(empty, environment)  # for the bytecode, which installing a package makes
        figures["empty"] = [measure_start(empty, environment) for _ in range(options.starts)]
        fill_store(full, options.subscriptions, options.events)
        label = f"{options.subscriptions:,} subscriptions, {options.events:,} events"
        figures[label] = [measure_start(full, environment) for _ in range(options.starts)]
    if options.json:
        print(json.dumps({name: [each._asdict() for each in starts] for name, starts in figures.items()}))
    else:
        _print(figures)
    return 0


def fill_store(path: Path, subscriptions: int, events: int) -> None:
    """Write a store as a broker leaves it that was killed."""
    store = SqliteStore(path, safety="relaxed")
    store.open()
    owners = [_owner(number) for number in range(subscriptions)]
    for start in range(0, subscriptions, _GROUP):
        store.write(
            [
                Record(client, SubscribeClient(name, Filter.parse(f"symbol = 'S{number % 977}' AND price > {number}"),
                                               "no", True))
                for number, (client, name) in enumerate(owners[start : start + _GROUP], start)
            ]
        )  # fmt: skip
    for start in range(0, events, _GROUP):
        store.write(
            [
                Queued(client, (name,), _event(number))
                for number in range(start, min(events, start + _GROUP))
                for client, name in [owners[number % subscriptions]]
            ]
        )
    store.close()


def _owner(number: int) -> tuple[str, str]:
    name = f"orders-{number}"
    return f"durable desk-{number // _NAMES_PER_PRINCIPAL}/{name}", name


def _event(number: int) -> Publish:
    body = codec.encode_event(Event({"symbol": f"S{number % 977}", "price": float(number), "quantity": 100}))
    return Publish(EventId(7, 1, number + 1), body)


def measure_start(data: Path, environment: dict[str, str]) -> Start:
    """Start a broker, wait until it serves, and end it as a crash would."""
    began = time.perf_counter()
    command = ["-m", "palio", "serve", "--json", "--listen", "palio://127.0.0.1:0", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, *command, "--data", str(data)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        announced = json.loads(process.stdout.readline())
        with urllib.request.urlopen(f"{announced['http']}/ready", timeout=60) as answer:
            assert answer.status == 200
        asyncio.run(_publish(announced["addresses"][0]))
        return Start(time.perf_counter() - began, _processor_seconds(process.pid))
    finally:
        process.kill()
        process.communicate()


async def _publish(url: str) -> None:
    async with palio.connect(url) as broker:
        await broker.publish({"symbol": "none"}, confirm=True)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def _print(figures: dict[str, list[Start]]) -> None:
    table = Table("store", "starts", "wall, median", "wall, longest", "processor, median", title="ready after")
    for name, starts in figures.items():
        wall = [each.wall for each in starts]
        processor = statistics.median(each.processor for each in starts)
        table.add_row(name, str(len(starts)), f"{statistics.median(wall):.2f} s", f"{max(wall):.2f} s",
                      f"{processor:.2f} s")  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
