"""What an event and a subscription cost by each choice of the fabric, in counts.

    python benchmarks/routing_choices.py
    python benchmarks/routing_choices.py --brokers 40 --events 1000 --json

Brokers in a line, each with a subscriber to ranges of one attribute, and events published at one end, of which half are
wanted nowhere. Looks are events whose content some broker examined, and events in vain are those that came to a broker
of no use. Last a tree of forty brokers with one subscription at a leaf: the messages that it costs (Jerzak §2.4.2). All
figures are counts, and the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from palio.simulation import BrokerOptions, Covering, Group, Network, Prefix, Reuse

HIERARCHY = BrokerOptions(hierarchy=True)
CHOICES: dict[str, dict[str, Any]] = {
    "flooding": {"propagation": "flooding"},
    "covering, content": {"propagation": "covering"},
    "covering, content, hierarchy": {"propagation": "covering", "options": HIERARCHY},
    "merging, content": {"propagation": "merging"},
    "covering, reuse partial": {"propagation": "covering", "forwarding": Reuse(mode="partial")},
    "covering, prefix": {"propagation": "covering", "forwarding": Prefix(threshold=0.0)},
    "merging, prefix": {"propagation": "merging", "forwarding": Prefix(threshold=0.0)},
    "covering, group": {"propagation": "covering", "forwarding": Group()},
    "covering, group, own trees": {
        "propagation": "covering",
        "forwarding": Group(),
        "options": BrokerOptions(trees="publisher"),
    },
    "identity, reuse always": {"forwarding": Reuse(mode="always")},
    "identity, prefix, local tree": {"forwarding": Prefix(tree="local")},
    "identity, bloom": {"forwarding": "bloom"},
}
SPREADS: dict[str, dict[str, Any]] = {
    "covering": {"propagation": Covering()},
    "covering, hierarchy": {"propagation": Covering(), "options": HIERARCHY},
}


@dataclass
class Row:
    """One choice; figures are of an event, but for those of subscriptions."""

    choice: str
    subscription_messages: int
    event_messages: float
    in_vain: float
    looks: float
    header_bytes: float
    deliveries: float


def measure(choice: str, brokers: int, events: int) -> Row:
    random = Random(1)
    net = Network.line(brokers, **CHOICES[choice])
    net.run()
    for at in range(brokers):
        net.subscribe(at, f"x BETWEEN {at} AND {at + 1}")
    net.run()
    subscribing = net.traffic.messages("subscribe") + net.traffic.messages("unsubscribe")
    # Warm-up by events that cross all links: a broker builds its own routing tree when it has seen some.
    net.publish_all(0, [{"x": brokers - 1}] * brokers)
    net.run()
    traffic, measures, delivered = net.traffic.snapshot(), net.measures, len(net.deliveries)
    for _ in range(events):
        net.publish(0, {"x": random.randrange(2 * brokers)})
    net.run()
    assert net.verdict().is_right
    spent = net.measures - measures
    return Row(
        choice,
        subscribing,
        (net.traffic - traffic).messages("publish") / events,
        spent.false_positives / events,
        spent.content_reads / events,
        spent.header_bytes / events,
        (len(net.deliveries) - delivered) / events,
    )


def messages_of_one_subscription(spread: str, brokers: int = 40) -> int:
    """The messages that one subscription at a leaf of a tree costs."""
    net = Network.tree(brokers, **SPREADS[spread])
    net.run()
    before = net.traffic.snapshot()
    net.subscribe(brokers - 1, "x > 1")
    net.run()
    return (net.traffic - before).messages("subscribe")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = [measure(choice, given.brokers, given.events) for choice in CHOICES]
    leaf = {spread: messages_of_one_subscription(spread) for spread in SPREADS}
    if given.json:
        print(json.dumps({"choices": [asdict(row) for row in rows], "messages of one subscription": leaf}))
        return 0
    table = Table("choice", "sub. messages", "messages/event", "in vain", "looks", "header B", "deliveries")
    for row in rows:
        table.add_row(
            row.choice,
            f"{row.subscription_messages:,}",
            f"{row.event_messages:.2f}",
            f"{row.in_vain:.3f}",
            f"{row.looks:.2f}",
            f"{row.header_bytes:.0f}",
            f"{row.deliveries:.2f}",
        )
    Console(width=110).print(table)
    for spread, messages in leaf.items():
        print(f"one subscription at a leaf of 40 brokers, {spread}: {messages} messages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
