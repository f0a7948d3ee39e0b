"""Speed of the simulation, memory of an idle broker, and a network of 10,000 brokers.

    python benchmarks/routing_simulation.py
    python benchmarks/routing_simulation.py --brokers 1000 --subscriptions 500 --json

A hop is one message on one link: written, carried, read, handled, counted and hashed. Seconds are CPU seconds on one
core. Networks are trees; subscriptions have two conditions, one of them an equality, at random brokers; events are
published at all brokers at once, when all is settled and every index is built. Targets: 50,000 hops a second, less
than 20 KB for an idle broker, and 10,000 brokers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tracemalloc
from dataclasses import asdict, dataclass
from random import Random
from time import process_time

from rich.console import Console
from rich.table import Table

from palio.simulation import Network

STRATEGIES = (
    ("flooding", "content"),
    ("identity", "content"),
    ("covering", "content"),
    ("identity", "reuse"),
    ("identity", "bloom"),
    ("identity", "prefix"),
)


@dataclass
class Speed:
    """Hops a second of one strategy, of subscriptions and of events."""

    propagation: str
    forwarding: str
    brokers: int
    subscribing_hops: int
    subscribing_hops_per_second: float
    event_hops: int
    event_hops_per_second: float
    deliveries: int


def speed(propagation: str, forwarding: str, brokers: int, subscriptions: int, events: int) -> Speed:
    random = Random(1)
    small = Network.line(2, propagation=propagation, forwarding=forwarding)  # loads compiled kernels
    small.subscribe(1, "x > 0 AND y = 0")
    small.publish_all(0, [{"x": 1, "y": 0}] * 64)
    small.run()
    net = Network.tree(brokers, propagation=propagation, forwarding=forwarding)
    net.run()
    for _ in range(subscriptions):
        net.subscribe(random.randrange(brokers), f"x > {random.randrange(100)} AND y = {random.randrange(20)}")
    told, begun = net.hops, process_time()
    net.run()
    telling = process_time() - begun
    told = net.hops - told
    contents = [{"x": random.randrange(100), "y": random.randrange(20)} for _ in range(events)]
    # Warm-up: each broker builds its index after some matches, and a routing tree after one for each filter.
    enough = subscriptions if forwarding == "prefix" else 10
    for _ in range(2):
        for at in range(brokers):
            net.publish_all(at, contents[:enough])
        net.run()
    moved, begun = net.hops, process_time()
    for at in range(brokers):
        net.publish_all(at, contents[at::brokers])
    net.run()
    moving = process_time() - begun
    moved = net.hops - moved
    return Speed(
        propagation, forwarding, brokers, told, told / max(telling, 1e-9), moved, moved / moving, len(net.deliveries)
    )


def bytes_of_an_idle_broker(brokers: int = 2000) -> float:
    """Memory of a broker of a tree whose links are up and that has no filters."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    net = Network.tree(brokers)
    net.run()
    net.trace.forget()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / net.topology.brokers


def large_network(brokers: int) -> tuple[float, int, bool]:
    """Seconds for a large network from nothing to deliveries, its hops, and whether they were right."""
    random = Random(1)
    begun = process_time()
    net = Network.tree(brokers, propagation="covering")
    for _ in range(10):
        net.subscribe(random.randrange(brokers), f"x > {random.randrange(100)}")
    for _ in range(20):
        net.publish(random.randrange(brokers), {"x": random.randrange(100)})
    net.run()
    return process_time() - begun, net.hops, net.verdict().is_right


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--subscriptions", type=int, default=100)
    parser.add_argument("--events", type=int, default=6000)
    parser.add_argument("--large", type=int, default=10_000, help="brokers of the large network; 0 leaves it out")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    speeds = [
        speed(*strategy, given.brokers, given.subscriptions, given.events // (10 if strategy[0] == "flooding" else 1))
        for strategy in STRATEGIES
    ]
    idle = bytes_of_an_idle_broker()
    large = large_network(given.large) if given.large else None
    if given.json:
        print(json.dumps({"speeds": [asdict(each) for each in speeds], "idle_bytes": idle, "large": large}))
        return 0
    table = Table("strategy", "subscribing, hops/s", "events, hops/s", "event hops", "deliveries")
    for each in speeds:
        table.add_row(
            f"{each.propagation}, {each.forwarding}",
            f"{each.subscribing_hops_per_second:,.0f}",
            f"{each.event_hops_per_second:,.0f}",
            f"{each.event_hops:,}",
            f"{each.deliveries:,}",
        )
    console = Console()
    console.print(table)
    console.print(f"an idle broker: {idle / 1000:.1f} KB")
    if large is not None:
        seconds, hops, right = large
        verdict = "right" if right else "wrong"
        console.print(f"{given.large:,} brokers: {hops:,} hops in {seconds:.1f} s, deliveries {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
