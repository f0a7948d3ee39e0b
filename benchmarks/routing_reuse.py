"""Cost of reuse forwarding: all brokers of a network together, by the share of filters that match.

    python benchmarks/routing_reuse.py --densities 0.001 0.01 0.1 0.2 --seeds 1
    python benchmarks/routing_reuse.py --routers 100 --modes never partial:20

Shen §3.4.2: routers in a balanced binary tree, subscriptions and events spread evenly over them, five numeric
attributes, everything announced before anything is published. The cost is the time of all routers for all events: looks
at content, for links and for local clients, and look-ups of keys. A router handles the events of one publisher that
arrive together as one batch. Seconds are CPU seconds on one core; modes take turns, and the best round of each counts.
Every mode delivers the same and uses the same links, or the run ends. The densities are the source's; for each of the
seeds filters and events are drawn anew, and the table has their means. Claimed: Partial(20) is at most a twentieth
worse than Never at any density.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from statistics import mean
from typing import Any

from harness.clock import pin_to_one_core, timed
from harness.report import figure
from rich.console import Console
from rich.table import Table

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.codec import Arrival, encode_event
from palio.routing.forwarding.headers import encode
from palio.routing.forwarding.reuse.reuse_forwarding import InterfaceIndex, ReuseForwarding
from palio.routing.forwarding.strategy import ForwardingConfig
from palio.routing.messages import LOCAL, EventId, Publish
from palio.workloads.shen import Shen

DENSITIES = [0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.15, 0.2]
MODES = ["never", "partial:20", "partial:60", "always"]
CLAIMED = "partial:20"
MAX_COST_RATIO = 1.05


@dataclass
class Row:
    """One mode at one density; `looks` count an event and a link or the local clients."""

    density: float
    mode: str
    seed: int
    seconds: float
    looks: int
    lookups: int
    messages: int
    header_bytes: int
    deliveries: int
    to_never: float = 1.0


class Routers:
    """A balanced binary tree of reuse forwardings, with an index for the local clients of each."""

    def __init__(self, count: int, filters: Sequence[Filter]) -> None:
        self.count = count
        self._links = [self._neighbours(node) for node in range(count)]
        self._forwardings = [ReuseForwarding(ForwardingConfig(node=node)) for node in range(count)]
        self._clients = [InterfaceIndex() for _ in range(count)]
        towards = [[self._towards(node, target) for target in range(count)] for node in range(count)]
        for place, wanted in enumerate(filters):
            home, key = place % count, blake2b(place.to_bytes(8, "big"), digest_size=16).digest()
            self._clients[home].add(place, wanted)
            for node in range(count):
                self._forwardings[node].add_filter(towards[node][home], key, wanted)

    def choose(self, mode: str) -> None:
        """Have all routers work in a mode, on the indexes they have."""
        name, _, limit = mode.partition(":")
        for each in self._forwardings:
            each.choose(name, int(limit or 1))

    def publish(self, at: int, bodies: Sequence[bytes], tally: Row) -> set[tuple[int, int, int]]:
        """Let a batch in at a router and follow it; the links that each event of it went over."""
        used: set[tuple[int, int, int]] = set()
        waiting = [(at, [(place, LOCAL, b"") for place in range(len(bodies))])]
        while waiting:
            node, batch = waiting.pop()
            arrivals = [
                Arrival(came_by, Publish(EventId(at, 0, place), bodies[place], header))
                for place, came_by, header in batch
            ]
            routes = self._forwardings[node].route(arrivals)
            unknown = [arrival.event for arrival, route in zip(arrivals, routes, strict=True) if route.local is None]
            if unknown:
                tally.looks += len(unknown)
                tally.deliveries += sum(map(len, self._clients[node].find_all(unknown)))
            following: dict[int, list[tuple[int, int, bytes]]] = {}
            for (place, _, _), route in zip(batch, routes, strict=True):
                tally.deliveries += len(route.local or ())
                for header, links in route.sends:
                    data = encode(header)
                    tally.messages += len(links)
                    tally.header_bytes += len(data) * len(links)
                    for link in links:
                        other = self._links[node][link - 1]
                        used.add((place, node, other))
                        following.setdefault(other, []).append((place, self._links[other].index(node) + 1, data))
            waiting += following.items()
        return used

    def costs(self) -> tuple[int, int]:
        return (
            sum(each.costs.matches for each in self._forwardings),
            sum(each.costs.lookups for each in self._forwardings),
        )

    def _neighbours(self, node: int) -> list[int]:
        near = [(node - 1) // 2] if node else []
        return near + [each for each in (2 * node + 1, 2 * node + 2) if each < self.count]

    def _towards(self, node: int, target: int) -> int:
        if node == target:
            return LOCAL
        above = target
        while above > node and (above - 1) // 2 != node:
            above = (above - 1) // 2
        is_below = above > node
        return self._links[node].index(above if is_below else (node - 1) // 2) + 1


@dataclass(frozen=True)
class Scale:
    """How large a network is, and what goes through it how often."""

    routers: int
    subscriptions: int
    events: int
    rounds: int
    profile: Any = "norm-1"


def measure(density: float, modes: Sequence[str], scale: Scale, seed: int) -> list[Row]:
    made = Shen(scale.profile, density=density, seed=seed)
    routers = scale.routers
    filters = [Filter.parse(where) for where in made.subscriptions(scale.subscriptions)["where"].to_pylist()]
    network = Routers(routers, filters)
    bodies = [encode_event(event) for event in Event.from_arrow(made.events(scale.events))]
    batches = [(node, bodies[node::routers]) for node in range(routers)]
    best: dict[str, Row] = {}
    links: dict[str, list[set[tuple[int, int, int]]]] = {}
    for turn in range(scale.rounds + 1):  # the first settles the indexes
        for mode in modes:
            network.choose(mode)
            before = network.costs()
            row = Row(density, mode, seed, 0.0, 0, 0, 0, 0, 0)
            with timed() as watch:
                links[mode] = [network.publish(node, batch, row) for node, batch in batches]
            looks, lookups = network.costs()
            row.seconds, row.looks, row.lookups = watch.seconds, row.looks + looks - before[0], lookups - before[1]
            if turn and (mode not in best or row.seconds < best[mode].seconds):
                best[mode] = row
    for mode in modes:
        if links[mode] != links[modes[0]] or best[mode].deliveries != best[modes[0]].deliveries:
            raise AssertionError(f"{mode} does not deliver what {modes[0]} does")
        best[mode].to_never = best[mode].seconds / best[modes[0]].seconds
    return [best[mode] for mode in modes]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--densities", nargs="+", type=float, default=DENSITIES, help="shares of filters that match")
    parser.add_argument("--modes", nargs="+", default=MODES, help="the first is what the others are compared with")
    parser.add_argument("--profile", default="norm-1", choices=["norm-1", "norm-2", "uniform"])
    parser.add_argument("--routers", type=int, default=15, help="the source has 100")
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=300, help="the source has 1,000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    pin_to_one_core()
    scale = Scale(options.routers, options.subscriptions, options.events, options.rounds, options.profile)
    rows = [
        row
        for density in options.densities
        for seed in range(1, options.seeds + 1)
        for row in measure(density, options.modes, scale, seed)
    ]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows, options.modes[0])
        conclude(rows)
    return 0


def show(rows: Sequence[Row], compared: str) -> None:
    table = Table(title="Events through a whole network, one core, CPU time", title_justify="left")
    names = (
        "density",
        "mode",
        "seconds",
        f"× {compared}",
        "of each seed",
        "looks",
        "look-ups",
        "messages",
        "bytes/header",
    )
    for name in names:
        table.add_column(name, justify="right")
    before = None
    for density, mode in dict.fromkeys((row.density, row.mode) for row in rows):
        if before not in (None, density):
            table.add_section()
        own = [row for row in rows if (row.density, row.mode) == (density, mode)]
        table.add_row(
            f"{density:.1%}" if density != before else "",
            mode,
            f"{mean(row.seconds for row in own):.2f}",
            f"{mean(row.to_never for row in own):.2f}",
            " ".join(f"{row.to_never:.2f}" for row in own),
            figure(mean(row.looks for row in own)),
            figure(mean(row.lookups for row in own)),
            figure(mean(row.messages for row in own)),
            figure(mean(row.header_bytes / max(1, row.messages) for row in own)),
        )
        before = density
    Console(width=None if sys.stdout.isatty() else 130).print(table)


def conclude(rows: Sequence[Row]) -> None:
    """Whether the claim holds at every density, over all seeds together."""
    ratios = {
        density: mean(row.to_never for row in rows if (row.density, row.mode) == (density, CLAIMED))
        for density, mode in dict.fromkeys((row.density, row.mode) for row in rows)
        if mode == CLAIMED
    }
    if ratios:
        worst = max(ratios, key=ratios.__getitem__)
        verdict = "confirmed" if ratios[worst] <= MAX_COST_RATIO else "not confirmed"
        found = f"{ratios[worst]:.2f} at {worst:.1%}"
        print(f"{CLAIMED} is at most {MAX_COST_RATIO} × never at any density: {verdict} ({found})")


if __name__ == "__main__":
    sys.exit(main())
