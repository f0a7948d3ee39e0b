"""The source files that one event, one condition and one batch cross, found by a profiler.

    python benchmarks/journeys.py                 all three journeys
    python benchmarks/journeys.py --only event --json

A journey is measured when everything on its way is warm, so that it shows what each event or condition costs a reader
of the code. *Files* are those of Palio in which a function was called; *switches* counts how often the next call is in
another file than the last one of its thread. `docs/design.md` draws the three journeys.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import palio
from palio.network.addresses import Address
from palio.network.server.process import Server
from palio.network.server.settings import Settings
from palio.spark import record_batches

_ROOT = str(Path(palio.__file__).parent)
_WARM_UP_EVENTS = 20


class Journey:
    """Calls by file, from entering the context to leaving it, in all threads that were started after the import."""

    current: Journey | None = None

    def __init__(self, title: str) -> None:
        self.title = title
        self.calls: Counter[str] = Counter()
        self.switches = 0
        self._last_file: dict[int, str] = {}

    def __enter__(self) -> Journey:
        Journey.current = self
        return self

    def __exit__(self, *_: object) -> None:
        Journey.current = None

    def count(self, frame: FrameType) -> None:
        name = frame.f_code.co_filename
        if not name.startswith(_ROOT):
            return
        file = name[len(_ROOT) + 1 :]
        thread = threading.get_ident()
        self.calls[file] += 1
        self.switches += self._last_file.get(thread) != file
        self._last_file[thread] = file

    def as_json(self) -> dict[str, Any]:
        files = dict(sorted(self.calls.items()))
        return {"journey": self.title, "files": len(files), "switches": self.switches, "calls": files}


def _profile(frame: FrameType, what: str, _: object) -> None:
    if what == "call" and Journey.current is not None:
        Journey.current.count(frame)


async def follow_event() -> Journey:
    """One confirmed event, from `publish` to a durable subscriber at the next broker and its acknowledgement."""
    any_port = Settings(listen=(Address("127.0.0.1", 0),))
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for _ in range(2):
            data = stack.enter_context(tempfile.TemporaryDirectory())
            server = Server(any_port.with_changes({"data": data, "connect": servers[-1].addresses if servers else ()}))
            await server.start()
            stack.push_async_callback(server.stop)
            servers.append(server)
        publisher, subscriber = [
            await stack.enter_async_context(palio.connect(str(server.addresses[0]))) for server in servers
        ]
        events = await stack.enter_async_context(subscriber.subscribe("x > 0", durable="desk"))
        for x in range(1, _WARM_UP_EVENTS):
            await publisher.publish({"x": x}, confirm="network")
            await (await anext(events)).ack()
        with Journey("a confirmed event, publisher to durable subscriber at the next broker") as journey:
            await publisher.publish({"x": 100}, confirm=True)
            await (await anext(events)).ack()
        await events.unsubscribe()
    return journey


def follow_condition() -> Journey:
    """A condition that is seen for the first time, from its text to the live segment of a matcher."""
    matcher = palio.Matcher()
    matcher.add("warm", "a = 1 AND b LIKE 'x%'")
    matcher.match({"a": 1, "b": "xy"})
    with Journey("a condition seen for the first time, Matcher.add") as journey:
        matcher.add("new", "price > 100 AND city = 'Oslo' AND name LIKE 'a%b'")
    return journey


def follow_batch() -> Journey:
    """An Arrow batch in a Spark worker, against an index of two segments and some new subscriptions."""
    matcher = palio.Matcher()
    numbers = range(5_000)
    matcher.add_many(list(map(str, numbers)), [f"city = 'c{n}' AND price > {n % 90}" for n in numbers])
    matcher.merge()
    batch = pa.record_batch({"city": [f"c{n}" for n in range(512)], "price": list(range(512))})
    record_batches.match_batch(matcher, batch, ())
    with Journey("an Arrow batch in a Spark worker") as journey:
        record_batches.match_batch(matcher, batch, ())
    return journey


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["event", "condition", "batch"], help="one journey instead of all three")
    parser.add_argument("--json", action="store_true", help="print one JSON object a journey")
    options = parser.parse_args(arguments)
    chosen = [options.only] if options.only else ["event", "condition", "batch"]
    # Threads inherit the profiler only when it is set before they start.
    threading.setprofile(_profile)
    sys.setprofile(_profile)
    try:
        journeys = [follow_condition() for name in chosen if name == "condition"]
        journeys += [follow_batch() for name in chosen if name == "batch"]
        journeys += [asyncio.run(follow_event()) for name in chosen if name == "event"]
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    for journey in journeys:
        if options.json:
            print(json.dumps(journey.as_json()))
            continue
        table = Table(title=f"{journey.title}: {len(journey.calls)} files, {journey.switches} switches")
        table.add_column("file")
        table.add_column("calls", justify="right")
        for file, calls in sorted(journey.calls.items()):
            table.add_row(file, str(calls))
        Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
