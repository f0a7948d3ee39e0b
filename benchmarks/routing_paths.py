"""Cost of paths: one spanning tree for all events, or a tree for each publisher's broker, by forwarding.

    python benchmarks/routing_paths.py
    python benchmarks/routing_paths.py --brokers 60 --extra 60 --events 2000 --json

Subscriptions to one of some values are made at random brokers of a mesh, and events published at random ones. Trees of
publishers (Jerzak §2.4.4) shorten paths and spread the load over all links; filters are then known by home broker, so
that equal ones of two brokers are sent twice. Counts are the same on every machine; seconds are CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from random import Random
from time import process_time

from rich.console import Console
from rich.table import Table

from palio.simulation import Network

VALUES = 40


@dataclass
class Row:
    """One choice of paths with one forwarding."""

    paths: str
    forwarding: str
    subscribe_messages: int
    event_messages: int
    mean_hops: float
    links_used: int
    busiest_link: int
    content_reads: int
    header_bytes: int
    seconds: float


def measure(paths: str, forwarding: str, brokers: int, extra: int, subscriptions: int, events: int) -> Row:
    random = Random(1)
    net = Network.mesh(brokers, extra, seed=3, forwarding=forwarding, options={"trees": paths})
    for _ in range(subscriptions):
        net.subscribe(random.randrange(brokers), f"x = {random.randrange(VALUES)}")
    net.run()
    subscribing, traffic, measures = net.traffic.messages("subscribe"), net.traffic.snapshot(), net.measures
    begun = process_time()
    for _ in range(events):
        net.publish(random.randrange(brokers), {"x": random.randrange(VALUES)})
    net.run()
    seconds = process_time() - begun
    assert net.verdict().is_right
    loads = [flow.messages for flow in net.traffic - traffic if flow.kind == "publish"]
    spent = net.measures - measures
    hops = [each.hops for each in net.deliveries]
    return Row(
        paths,
        forwarding,
        subscribing,
        sum(loads),
        sum(hops) / max(1, len(hops)),
        len(loads),
        max(loads, default=0),
        spent.content_reads,
        spent.header_bytes,
        seconds,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=30)
    parser.add_argument("--extra", type=int, default=30, help="links beyond those of a tree")
    parser.add_argument("--subscriptions", type=int, default=120)
    parser.add_argument("--events", type=int, default=600)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = [
        measure(paths, forwarding, given.brokers, given.extra, given.subscriptions, given.events)
        for forwarding in ("content", "reuse", "prefix", "bloom", "group")
        for paths in ("shared", "publisher")
    ]
    if given.json:
        for row in rows:
            print(json.dumps(asdict(row)))
        return 0
    table = Table("forwarding", "paths", "subscribes", "events", "hops", "links", "busiest", "reads", "header B", "s")
    for row in rows:
        table.add_row(
            row.forwarding,
            row.paths,
            f"{row.subscribe_messages:,}",
            f"{row.event_messages:,}",
            f"{row.mean_hops:.2f}",
            f"{row.links_used:,}",
            f"{row.busiest_link:,}",
            f"{row.content_reads:,}",
            f"{row.header_bytes:,}",
            f"{row.seconds:.2f}",
        )
    Console(width=110).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
