"""Cost of propagation: messages, bytes, and filters that brokers must store, by strategy.

    python benchmarks/routing_propagation.py
    python benchmarks/routing_propagation.py --sizes 200 1000 --brokers 15 --attributes 2 --json
    python benchmarks/routing_propagation.py --conditions values --sizes 400 --brokers 3

Boxes of random sides (Shen §4.5) are subscribed at random brokers of a tree, then a tenth of them withdrawn, then
events are published. Each box is subscribed twice on average, so that there are identical filters. With `values`
every condition is one value of one attribute, so that every subscription changes a merger. Jerzak §2.5.5
claims that covering sends no more than identity, and identity no more than simple routing; merging sends fewer filters
still. Messages and filters are counted, and the same on every machine; seconds are CPU seconds on one core.
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
from palio.workloads.shen import Shen

EVENTS = 100


@dataclass
class Row:
    """One propagation at one size."""

    propagation: str
    advertisements: bool
    subscriptions: int
    messages: int
    kilobytes: float
    withdrawal_messages: int
    filters_per_broker: float
    event_messages: int
    seconds: float


def measure(
    propagation: str, advertisements: bool, size: int, brokers: int, attributes: int, conditions_are: str = "boxes"
) -> Row:
    workload = Shen("boxes", attributes=attributes)
    conditions = (
        workload.subscriptions(max(1, size // 2))["where"].to_pylist()
        if conditions_are == "boxes"
        else [f"x1 = {number / size}" for number in range(max(1, size // 2))]
    )
    random = Random(size)
    net = Network.tree(brokers, propagation=propagation, advertisements=advertisements)
    feeds = [random.randrange(brokers) for _ in range(3)]
    for place, at in enumerate(feeds if advertisements else []):
        net.advertise(at, f"x1 >= {place / 3} AND x1 <= {(place + 1) / 3}")
    net.run()
    begun = process_time()
    made = [net.subscribe(random.randrange(brokers), random.choice(conditions)) for _ in range(size)]
    net.run()
    seconds = process_time() - begun
    messages = net.traffic.messages("subscribe") + net.traffic.messages("unsubscribe")
    size_in_bytes = net.traffic.bytes("subscribe") + net.traffic.bytes("unsubscribe")
    for subscription in made[::10]:
        net.unsubscribe(subscription)
    net.run()
    withdrawing = net.traffic.messages("subscribe") + net.traffic.messages("unsubscribe") - messages
    kept = sum(
        len(filters)
        for interfaces in net.tables.values()
        for interface, filters in interfaces.items()
        if interface != "clients"
    )
    for event in workload.events(EVENTS).to_pylist():
        net.publish(feeds[min(2, int(event["x1"] * 3))], event)
    net.run()
    assert net.verdict().is_right
    return Row(
        propagation,
        advertisements,
        size,
        messages,
        size_in_bytes / 1000,
        withdrawing,
        kept / brokers,
        net.traffic.messages("publish"),
        seconds,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--brokers", type=int, default=15)
    parser.add_argument("--attributes", type=int, default=2)
    parser.add_argument("--conditions", choices=("boxes", "values"), default="boxes")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = [
        measure(propagation, advertisements, size, given.brokers, given.attributes, given.conditions)
        for size in given.sizes
        for advertisements in (False, True)
        for propagation in ("flooding", "simple", "identity", "covering", "merging")
    ]
    if given.json:
        for row in rows:
            print(json.dumps(asdict(row)))
        return 0
    table = Table(
        "propagation", "subs", "messages", "KB", "to withdraw 10 %", "filters/broker", "event msgs", "seconds"
    )
    for row in rows:
        table.add_row(
            row.propagation + (" + adv." if row.advertisements else ""),
            f"{row.subscriptions:,}",
            f"{row.messages:,}",
            f"{row.kilobytes:,.0f}",
            f"{row.withdrawal_messages:,}",
            f"{row.filters_per_broker:,.1f}",
            f"{row.event_messages:,}",
            f"{row.seconds:.2f}",
        )
    Console(width=110).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
