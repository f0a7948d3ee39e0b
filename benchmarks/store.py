"""Confirmed events a second of a store, and their size on disk.

    python benchmarks/store.py
    python benchmarks/store.py --seconds 5 --directory /var/tmp --json

Publishers are closed loops: each writes an event of 200 bytes, waits until it is confirmed, and writes the next.
`alone` is the plain alternative on the same disk in the same run: each event a transaction of its own in SQLite, with
the same settings. The disk decides: the first line says how long it takes to make one write safe.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event as Flag
from time import perf_counter, process_time

from rich.console import Console
from rich.table import Table

from palio import Event
from palio.network.fast_start import freeze_garbage_collection
from palio.network.store.interface import Acknowledged, Writable
from palio.network.store.sqlite import SqliteStore
from palio.routing import codec
from palio.routing.effects import Finished, Logged, Queued
from palio.routing.messages import EventId, Publish

PUBLISHERS = (1, 10, 100, 1_000)


@dataclass
class Speed:
    """Of one kind of write: how many a second, and what each costs."""

    what: str
    safety: str
    publishers: int
    events_per_second: float
    cpu_microseconds: float
    bytes_per_event: float
    p99: float  # milliseconds until a confirmation
    longest: float


# A store does not look into a body.
BODY = codec.encode_event(
    Event.from_dict({"symbol": "ACME", "price": 120, "note": "x" * 134}, id="0123456789abcdef", source="/exchange")
)


def event(number: int) -> Publish:
    return Publish(EventId(1, 1, number), BODY)


def logged(number: int) -> list[Writable]:
    return [Logged(event(number), "exchange", b"%016d" % number)]


def logged_and_finished(number: int) -> list[Writable]:
    """As at an entry broker: what was logged a hundred events ago has arrived everywhere."""
    return [*logged(number), Finished(EventId(1, 1, number - 100))]


def queued_and_acknowledged(number: int) -> list[Writable]:
    """As at a home broker: one event for a durable subscription, and one that was dealt with."""
    return [Queued("desk", ("all",), event(number)), Acknowledged("desk", "all", (number - 100,))]


KINDS: dict[str, Callable[[int], list[Writable]]] = {
    "logged": logged,
    "logged, finished": logged_and_finished,
    "queued, acknowledged": queued_and_acknowledged,
}


def speed(what: str, safety: str, publishers: int, seconds: float, directory: Path) -> Speed:
    make = KINDS[what]
    store = SqliteStore(directory, safety=safety)  # type: ignore[arg-type]
    store.open()
    waits: list[float] = []
    running, done = publishers, Flag()
    end = perf_counter() + seconds

    def publish(number: int) -> None:
        asked = perf_counter()

        def confirmed(error: Exception | None) -> None:
            nonlocal running
            if error is not None:
                raise error
            now = perf_counter()
            waits.append(now - asked)
            if now < end:
                publish(len(waits) + publishers)
            else:
                running -= 1
                if not running:
                    done.set()

        store.submit(make(number), confirmed)

    begun, worked = perf_counter(), process_time()
    for number in range(1, publishers + 1):
        publish(number)
    done.wait()
    took, worked = perf_counter() - begun, process_time() - worked
    store.close()
    size = sum(each.stat().st_size for each in directory.iterdir())
    return speed_of(what, safety, publishers, waits, took, worked, size)


def alone(seconds: float, directory: Path) -> Speed:
    """Each event a transaction of its own."""
    path = directory / "alone.sqlite3"
    waits: list[float] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, data BLOB)")
        begun, worked = perf_counter(), process_time()
        while (asked := perf_counter()) < begun + seconds:
            connection.execute("INSERT INTO log (data) VALUES (?)", (codec.encode(event(len(waits))),))
            waits.append(perf_counter() - asked)
        took, worked = perf_counter() - begun, process_time() - worked
    return speed_of("alone", "durable", 1, waits, took, worked, path.stat().st_size)


def speed_of(
    what: str, safety: str, publishers: int, waits: list[float], took: float, worked: float, size: int
) -> Speed:
    written = len(waits)
    waits.sort()
    p99, longest = 1e3 * waits[int(0.99 * written)], 1e3 * waits[-1]
    return Speed(what, safety, publishers, written / took, 1e6 * worked / written, size / written, p99, longest)


def milliseconds_to_sync(directory: Path, times: int = 50) -> float:
    with open(directory / "sync", "wb") as file:
        begun = perf_counter()
        for _ in range(times):
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
    return 1e3 * (perf_counter() - begun) / times


def measure(seconds: float, directory: Path | None) -> tuple[float, list[Speed]]:
    first, *others = KINDS
    runs = [(first, safety, publishers) for safety in ("durable", "relaxed") for publishers in PUBLISHERS]
    runs += [(what, "durable", PUBLISHERS[-1]) for what in others]
    with tempfile.TemporaryDirectory(dir=directory) as place:
        sync = milliseconds_to_sync(Path(place))
        found = [alone(seconds, Path(place))]
    for what, safety, publishers in runs:
        with tempfile.TemporaryDirectory(dir=directory) as place:
            found.append(speed(what, safety, publishers, seconds, Path(place)))
    return sync, found


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--directory", type=Path, help="on the disk to be measured")
    options.add_argument("--json", action="store_true")
    given = options.parse_args(arguments)
    freeze_garbage_collection()  # as a broker does
    sync, found = measure(given.seconds, given.directory)
    if given.json:
        json.dump({"milliseconds_to_sync": sync, "speeds": [asdict(each) for each in found]}, sys.stdout)
        print()
        return
    print(f"making one write safe takes this disk {sync:.1f} ms")
    table = Table()
    for name in ("what", "safety", "publishers", "events/s", "CPU µs each", "bytes each", "p99 ms", "longest ms"):
        table.add_column(name, justify="left" if name in ("what", "safety") else "right")
    for each in found:
        table.add_row(
            each.what,
            each.safety,
            f"{each.publishers:,}",
            f"{each.events_per_second:,.0f}",
            f"{each.cpu_microseconds:.1f}",
            f"{each.bytes_per_event:,.0f}",
            f"{each.p99:.2f}",
            f"{each.longest:.1f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
