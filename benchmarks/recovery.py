"""Cost of a crash: messages about tables, events lost and the time without delivery, by upkeep.

    python benchmarks/recovery.py
    python benchmarks/recovery.py --brokers 30 --filters 20 --down 5 --json

A broker inside the network crashes while events are published at two others, one every ten milliseconds, for each
other. In a tree it comes back after some seconds: with `recover` it goes on with its tables. In a ring it stays away:
brokers agree on another tree, attach to backups, or send all events by two ways to begin with. All times are virtual,
of links of ten milliseconds, and everything is the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from palio.simulation import Network, Topology

EVENT_SECONDS = 0.01
UPKEEP: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("tree", "none", {}),
    ("tree", "recover", {"crash_log": "recover"}),
    ("ring", "tree repair", {}),
    ("ring", "failover", {"paths": "failover"}),
    ("ring", "redundant", {"paths": "redundant", "forwarding": "group", "options": {"trees": "publisher"}}),
)
TABLE_KINDS = ("subscribe", "unsubscribe", "update", "stored")


@dataclass
class Row:
    """One upkeep."""

    network: str
    upkeep: str
    table_messages: int
    table_bytes: int
    tree_messages: int
    lost: int
    of: int
    longest_gap: float
    back_after: float | None
    event_messages: int


def ring(brokers: int) -> Topology:
    """A circle, in which the neighbour that is left to a broker is farther from the root than the one that it lost."""
    return Topology(brokers, tuple((each, (each + 1) % brokers, None) for each in range(brokers)))


def line(brokers: int) -> Topology:
    return Topology(brokers, tuple((each, each + 1, None) for each in range(brokers - 1)))


def middle(net: Network, last: int) -> int:
    """The broker in the middle of the way from the first to the last one in the spanning tree."""
    ways = [[0]]
    for way in ways:
        following = [b if a == way[-1] else a for a, b in net.tree_links if way[-1] in (a, b)]
        ways += [[*way, each] for each in following if each not in way]
    return next(way[len(way) // 2] for way in ways if way[-1] == last)


def measure(network: str, upkeep: str, choices: dict[str, Any], brokers: int, filters: int, down: float) -> Row:
    topology = line(brokers) if network == "tree" else ring(brokers)
    net = Network(topology, propagation="simple", **choices)
    last = topology.brokers - 1 if network == "tree" else topology.brokers // 2 - 1
    for at in range(topology.brokers):
        for number in range(filters):
            net.subscribe(at, f"for{at} = {number}")
    desks = [net.subscribe(at, f"to = {at}") for at in (0, last)]
    net.run()
    crashed = middle(net, last)
    before, published, restarted = net.traffic.snapshot(), 0, None
    begun = net.now
    for step in range(int(2 * down / EVENT_SECONDS)):
        if step == 50:
            net.crash(crashed)
        if network == "tree" and step == 50 + int(down / EVENT_SECONDS):
            restarted = net.now
            net.restart(crashed)
        for at, to in ((0, last), (last, 0)):
            net.publish(at, {"to": to}, settled=False)
            published += 1
        net.run(EVENT_SECONDS)
    net.run()
    assert net.verdict().is_right
    since = net.traffic - before
    times = {desk: [begun, *(each.time for each in net.deliveries_of(desk))] for desk in desks}
    gaps = [following - one for each in times.values() for one, following in pairwise(each)]
    after = [time - restarted for each in times.values() for time in each if restarted is not None and time > restarted]
    return Row(
        network,
        upkeep,
        sum(since.messages(kind) for kind in TABLE_KINDS),
        sum(since.bytes(kind) for kind in TABLE_KINDS),
        sum(since.messages(kind) for kind in ("offer", "request", "begin", "resume")),
        published - len(net.deliveries),
        published,
        round(max(gaps), 3),
        round(min(after), 3) if after else None,
        since.messages("publish"),
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--filters", type=int, default=20, help="of each broker")
    parser.add_argument("--down", type=float, default=2.0, help="seconds")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = [measure(*each, given.brokers, given.filters, given.down) for each in UPKEEP]
    if given.json:
        print(json.dumps([asdict(each) for each in rows], indent=2))
        return
    table = Table("network", "upkeep", "updates", "bytes", "tree", "lost", "gap", "back after", "events")
    for each in rows:
        table.add_row(
            each.network,
            each.upkeep,
            f"{each.table_messages:,}",
            f"{each.table_bytes:,}",
            f"{each.tree_messages:,}",
            f"{each.lost:,} of {each.of:,}",
            f"{each.longest_gap:.3f} s",
            "" if each.back_after is None else f"{each.back_after:.3f} s",
            f"{each.event_messages:,}",
        )
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
