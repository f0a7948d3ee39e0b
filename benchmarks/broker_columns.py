"""Cost of events that are published as batches of columns, beside the same events published one by one.

Two measures, each with a broker and subscribers in processes of their own:

- through: one subscription that wants every event and takes batches. Events go as fast as the subscriber confirms
  them; the rate per CPU second of the broker is what one core of it carries.
- fan-out: subscriptions on connections of their own, each of which wants one event in a hundred, and single ones.
  Subscribers are Python clients in one process, which then does most of the work; or, with `--sockets`, plain sockets
  that count what they read, so that the broker is what is measured.

    python benchmarks/broker.py columns
    python benchmarks/broker.py columns --sockets --connections 1000 --only "one by one"
    python benchmarks/broker.py columns --connections 1000 --seconds 5 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from beside.of_palio import serve
from beside.system import each_on_its_own, in_background
from beside.tally import Tally
from beside.work import Expected, condition, event
from broker_beside import raise_file_limit
from broker_processes import cpu_of_pid, own_cpu
from rich.console import Console
from rich.table import Table

import palio
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.channel import FrameReader
from palio.network.event_loop import run_event_loop
from palio.network.protocol import ClientHello, Done, Matched, Ping, Subscribe

BATCH = 1_000
READ_BYTES = 256 * 1024
HEARTBEAT_SECONDS = 3.0
MOST_UNDER_WAY = 8_000  # events
WARMING_SECONDS = 1.0
CONNECTING_SECONDS = 120.0
DRAINING_SECONDS = 60.0


@dataclass(frozen=True)
class Row:
    """One way of publishing at one number of connections."""

    connections: int
    published: str
    events_per_second: float
    deliveries_per_second: float
    events_per_broker_cpu_second: float
    deliveries_per_broker_cpu_second: float
    deliveries_per_cpu_second: float  # of broker, publisher and subscribers together


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(
        prog="broker.py columns", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--connections", type=int, nargs="*", default=[100, 1_000], help="of the fan-out")
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--only", choices=["columns", "one by one"], nargs="+", default=["one by one", "columns"])
    options.add_argument("--sockets", action="store_true", help="subscribers of the fan-out are plain sockets")
    options.add_argument("--json", action="store_true")
    given = options.parse_args(arguments)
    raise_file_limit()
    rows = [
        measure(connections, published, given.seconds, given.sockets)
        for connections in ((0, *given.connections) if not given.sockets else given.connections)
        for published in given.only
    ]
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        Console(width=max(130, Console().width)).print(table_of(rows))
    return 0


def measure(connections: int, published: str, seconds: float, sockets: bool = False) -> Row:
    """With 0 connections: through one subscription to everything."""
    tally = Tally()
    with serve() as server:
        process = multiprocessing.get_context("spawn").Process(
            target=_read_sockets if sockets else _listen, args=(server.url, connections, tally), daemon=True
        )
        process.start()
        try:
            begun = time.perf_counter()
            while tally.standing < max(1, connections):
                if time.perf_counter() - begun > CONNECTING_SECONDS or not process.is_alive():
                    raise RuntimeError(f"only {tally.standing:,} subscribers were connected")
                time.sleep(0.05)
            pids = (server.pid, process.pid or 0)
            return asyncio.run(_publish(server.url, pids, connections, published, tally, seconds))
        finally:
            process.kill()
            process.join()


def _listen(url: str, connections: int, tally: Tally) -> None:
    run_event_loop(_take_single(url, connections, tally) if connections else _take_batches(url, tally))


async def _take_batches(url: str, tally: Tally) -> None:
    async with (
        palio.connect(url, timeout=60) as client,
        client.subscribe("price >= 0", queue=100_000, window=65_536) as events,
    ):
        tally.ready()
        # By an old client there are no batches of a stream; the broker before them is measured with this, too.
        if not hasattr(events, "batches"):
            async for each in events:
                tally.aged(each["sent"], 1)
        async for batch in events.batches():
            tally.aged(batch.to_arrow().column("sent")[0].as_py(), len(batch))


async def _take_single(url: str, connections: int, tally: Tally) -> None:
    async def listen(events: Any) -> None:
        async for each in events:
            tally.saw(each.get("sent"))

    async def one(number: int) -> None:
        client = await palio.connect(url, timeout=60).__aenter__()
        events = await client.subscribe(condition(number), queue=100_000).__aenter__()
        in_background(listen(events))
        tally.ready()

    await each_on_its_own(range(connections), one)


def _read_sockets(url: str, connections: int, tally: Tally) -> None:
    raise_file_limit()
    address = Address.parse(url)
    ready = selectors.DefaultSelector()
    beaten = time.monotonic()
    for number in range(connections):
        wanted = Subscribe(1, "one", Filter.parse(condition(number)), credit=2**62, queue=100_000)
        connection, reader = socket.create_connection((address.host, address.port)), FrameReader()
        # An old broker knows no batches.
        batches = {"columns": True} if "columns" in ClientHello.__struct_fields__ else {}
        _send(connection, ClientHello(protocol.VERSION, **batches))
        _send(connection, wanted)
        while not any(isinstance(each, Done) for each in _messages(connection, reader)):
            pass
        ready.register(connection, selectors.EVENT_READ, reader)
        beaten = _beat(ready, beaten)
        tally.ready()
    while True:
        for key, _ in ready.select(1.0):
            count = sum(map(_count_events, _messages(key.fileobj, key.data)))
            tally.aged(time.perf_counter(), count)  # of ages nothing is said
        beaten = _beat(ready, beaten)


def _send(connection: Any, message: Any) -> None:
    frame = protocol.encode(message)
    connection.sendall(len(frame).to_bytes(4, "big") + frame)


def _beat(ready: selectors.BaseSelector, beaten: float) -> float:
    """Send heartbeats when they are due: a broker takes a silent client for dead."""
    if time.monotonic() - beaten < HEARTBEAT_SECONDS:
        return beaten
    for key in ready.get_map().values():
        _send(key.fileobj, Ping())
    return time.monotonic()


def _messages(connection: Any, reader: FrameReader) -> list[Any]:
    data = connection.recv(READ_BYTES)
    if not data:
        raise RuntimeError("the broker has closed a connection")
    return list(map(protocol.decode_from_server, reader.feed(data)))


def _count_events(message: Any) -> int:
    if isinstance(message, Matched):
        return 1
    if hasattr(message, "bodies"):
        return len(message.bodies)
    return sum(len(rows) // 4 for _, rows in getattr(message, "groups", ()))


async def _publish(
    url: str, pids: tuple[int, int], connections: int, published: str, tally: Tally, seconds: float
) -> Row:
    """`pids` are those of the broker and of the subscribers."""
    expected = Expected(connections) if connections else None

    def upto(events: int) -> int:
        return events if expected is None else expected.upto(events)

    upto(2_000_000 if expected is None else 400_000)
    sent = 0

    def cpu_seconds() -> tuple[float, float]:
        return cpu_of_pid(pids[0]), cpu_of_pid(pids[1]) + own_cpu()

    async with palio.connect(url) as broker:

        async def publish_for(duration: float) -> None:
            nonlocal sent
            end = time.perf_counter() + duration
            while (now := time.perf_counter()) < end:
                if upto(sent) - tally.seen > upto(sent) - upto(max(0, sent - MOST_UNDER_WAY)):
                    await asyncio.sleep(0.0005)
                elif published == "columns":
                    await broker.publish_many(_table(sent, now))
                    sent += BATCH
                else:
                    for number in range(sent, sent + 50):
                        await broker.publish(event(number, now))
                    sent += 50

        await publish_for(WARMING_SECONDS)
        seen, used, begun = tally.seen, cpu_seconds(), time.perf_counter()
        await publish_for(seconds)
        seen, took = tally.seen - seen, time.perf_counter() - begun
        broker_cpu, others = (now - before for now, before in zip(cpu_seconds(), used, strict=True))
        end = time.perf_counter() + DRAINING_SECONDS
        while tally.seen < upto(sent):
            if time.perf_counter() > end:
                raise RuntimeError(f"{tally.seen:,} of {upto(sent):,} deliveries arrived")
            await asyncio.sleep(0.01)
    share = upto(20_000) / 20_000
    per_broker_cpu = seen / broker_cpu
    return Row(
        connections,
        published,
        seen / share / took,
        seen / took,
        per_broker_cpu / share,
        per_broker_cpu,
        seen / (broker_cpu + others),
    )


_WHOLE = [event(number, 0.0) for number in range(20_000)]  # after which the workload repeats itself
_COLUMNS = pa.table({name: [each[name] for each in _WHOLE] for name in ("group", "price", "text")})


def _table(first: int, sent: float) -> pa.Table:
    columns = _COLUMNS.slice(first % len(_WHOLE), BATCH)
    return columns.append_column("sent", pa.array([sent] * BATCH))


def table_of(rows: list[Row]) -> Table:
    table = Table(title=f"Events of 200 bytes, in batches of {BATCH:,} and one by one")
    names = (
        "connections",
        "published",
        "events/s",
        "deliveries/s",
        "events / broker CPU s",
        "deliveries / broker CPU s",
        "deliveries / CPU s",
    )
    for name in names:
        table.add_column(name, justify="left" if name == "published" else "right")
    for row in rows:
        what = f"{row.connections:,}, 1 % each" if row.connections else "1, takes batches"
        figures = list(asdict(row).values())[2:]
        table.add_row(what, row.published, *(f"{figure:,.0f}" for figure in figures))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
