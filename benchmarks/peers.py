"""Costs of rings of peers: the settings of Baldoni et al. §5, m-cast beside unicast with and without churn, growth.

    python benchmarks/peers.py mappings                  # keys, nodes, hops of each mapping, 500 peers
    python benchmarks/peers.py churn                     # who is reached over tables that churn has made wrong
    python benchmarks/peers.py growth --sizes 100 1000 10000

Seconds are virtual; counts are the same on every machine. Only memory is this machine's.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import log2
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from palio import Filter
from palio.peers.chord import Membership
from palio.peers.histograms import Histogram
from palio.peers.messages import Effect, Send
from palio.peers.multicast import split_keys
from palio.peers.peer import Peer
from palio.peers.rendezvous_mappings import AttributeSplit, KeyMapping, KeySpaceSplit, SelectiveAttribute
from palio.peers.ring import Ring, Runs, subtract_runs
from palio.routing import codec
from palio.simulation.peer_network import ChordNetwork

ATTRIBUTES = ("a", "b", "c", "d")
DOMAIN = 1_000_000  # values of each attribute
MAX_RANGE = 30_000  # 3 % of the domain: the non-selective ranges of the source
BITS = 13
MILLION = 1_000_000
JOIN_SECONDS = 4.0  # in which a newcomer is on the ring, and its neighbours know it


def source_mappings() -> dict[str, KeyMapping]:
    """The mappings with the even cells of the source: 2^13 keys of each attribute, or 2^3 in each digit."""
    wide = {name: Histogram.even(DOMAIN, 1 << BITS) for name in ATTRIBUTES}
    digits = {name: Histogram.even(DOMAIN, 1 << (BITS // 4)) for name in ATTRIBUTES}
    return {
        "attribute-split": AttributeSplit(wide),
        "key-space-split": KeySpaceSplit(digits),
        "selective-attribute": SelectiveAttribute(wide),
    }


def draw_condition(random: Random) -> str:
    parts = []
    for name in ATTRIBUTES:
        length = random.randint(1, MAX_RANGE)
        low = random.randrange(DOMAIN - length)
        parts.append(f"{name} BETWEEN {low} AND {low + length - 1}")
    return " AND ".join(parts)


def draw_event(random: Random) -> dict[str, int]:
    return {name: random.randrange(DOMAIN) for name in ATTRIBUTES}


# m-cast and unicast over the tables that peers have at one moment, dead ones included


@dataclass
class Spread:
    """What one message to the owners of some keys took, and whom it reached."""

    hops: int = 0
    dilation: int = 0
    received: Counter[int] = field(default_factory=Counter)  # times, by owner


Places = Mapping[int, Membership]


def m_cast(places: Places, ring: Ring, start: int, keys: Runs) -> Spread:
    done = Spread()
    under_way = [(start, start, keys, 0)]
    while under_way:
        node, sender, own_keys, hops = under_way.pop()
        place = places.get(node)
        if place is None or hops > 4 * ring.bits:
            continue
        own = place.own_keys(own_keys, sender)
        if own:
            done.received[node] += 1
            done.dilation = max(done.dilation, hops)
        routes = split_keys(ring, node, place.routes(), subtract_runs(own_keys, own))
        done.hops += len(routes)
        under_way += [(to, node, part, hops + 1) for to, part in routes.items()]
    return done


def aggressive(places: Places, ring: Ring, start: int, keys: Runs) -> Spread:
    """One message for each key, all at once."""
    done = Spread()
    for key in (key for low, high in keys for key in range(low, high + 1)):
        one = m_cast(places, ring, start, ((key, key),))
        done.hops += one.hops
        done.dilation = max(done.dilation, one.dilation)
        done.received.update(one.received)
    return done


def conservative(places: Places, ring: Ring, start: int, keys: Runs) -> Spread:
    """One message for each range of keys, routed to its first key and passed on from owner to owner."""
    done = Spread()
    for low, high in keys:
        first = m_cast(places, ring, start, ((low, low),))
        done.hops += first.hops
        hops = first.dilation
        for node in first.received:
            rest: Runs = ((low, high),)
            while (place := places.get(node)) is not None and hops < 4 * ring.bits + len(places):
                done.received[node] += 1
                rest = subtract_runs(rest, place.own_keys(rest, node))
                if not rest:
                    break
                node, hops, done.hops = place.successors[0], hops + 1, done.hops + 1
        done.dilation = max(done.dilation, hops)
    return done


SCHEMES = {"m-cast": m_cast, "conservative unicast": conservative, "aggressive unicast": aggressive}


def owners(nodes: list[int], ring: Ring, keys: Runs) -> set[int]:
    """The nodes that own some of these keys, on a ring whose tables are right."""
    found = set()
    for low, high in keys:
        place = bisect_left(nodes, low)
        while True:
            node = nodes[place % len(nodes)]
            found.add(node)
            if place >= len(nodes) or node >= high:
                break
            place += 1
    return found


@dataclass
class MappingRow:
    mapping: str
    keys_per_subscription: float
    nodes_per_subscription: float
    m_cast: float
    conservative: float
    aggressive: float
    saved: float
    hops_per_publication: float
    keys_per_event: float
    stored_mean: float
    stored_max: int


def measure_mapping(
    name: str, mapping: KeyMapping, peers: int, subscriptions: int, probes: int, seed: int
) -> MappingRow:
    """Subscriptions per node as the protocol stores them; hops of a subscription over its stable tables."""
    random = Random(seed)
    net = ChordNetwork(peers, mapping=mapping, replicas=1, seed=seed, bits=BITS, lease=1e6)
    wanted = [net.subscribe(random.randrange(peers), draw_condition(random)).wanted for _ in range(subscriptions)]
    net.run()
    stored = net.stored()
    net.hops.clear()
    publications = 200
    for _ in range(publications):
        net.publish(random.randrange(peers), draw_event(random))
    net.run()
    places, nodes = net.memberships(), sorted(net.memberships())
    keys = net._keys
    assert keys is not None
    arcs = [keys.arcs_of(each) for each in wanted[:probes]]
    count_keys = fmean(sum(arc.last - arc.first + 1 for arc in each) for each in arcs)
    positions = [keys.positions_of(each) for each in arcs]
    hops: dict[str, list[int]] = {scheme: [] for scheme in SCHEMES}
    for each in positions:
        start = random.choice(nodes)
        for scheme, send in SCHEMES.items():
            hops[scheme].append(send(places, net.ring, start, each).hops)
    mean = {scheme: fmean(each) for scheme, each in hops.items()}
    return MappingRow(
        name,
        count_keys,
        fmean(len(owners(nodes, net.ring, each)) for each in positions),
        mean["m-cast"],
        mean["conservative unicast"],
        mean["aggressive unicast"],
        1 - mean["m-cast"] / mean["aggressive unicast"],
        net.hops["Occurrence"] / publications,
        fmean(len(mapping.event_keys(draw_event(random))) for _ in range(200)),
        fmean(stored),
        max(stored),
    )


@dataclass
class ChurnRow:
    scheme: str
    seconds: float
    reached: float
    repeated: float
    hops: float
    dilation: float


def measure_churn(peers: int, crashes: int, probes: int, seed: int) -> list[ChurnRow]:
    """The share of owners that one attempt reaches, without repetition, so long after some peers crashed at once."""
    random = Random(seed)
    net = ChordNetwork(peers, mapping=source_mappings()["attribute-split"], seed=seed, bits=BITS)
    net.run(1.0)
    for doomed in random.sample(range(peers), crashes):
        net.crash(doomed)
    rows = []
    keys = net._keys
    assert keys is not None
    for seconds in (0.0, 2.0, 5.0, 20.0):
        if seconds:
            net.run(seconds - net.now + 1.0)
        places, nodes = net.memberships(), sorted(net.memberships())
        found: dict[str, list[tuple[float, float, int, int]]] = {scheme: [] for scheme in SCHEMES}
        for _ in range(probes):
            wanted = keys.positions_of(keys.arcs_of(Filter.parse(draw_condition(random))))
            target, start = owners(nodes, net.ring, wanted), random.choice(nodes)
            for scheme, send in SCHEMES.items():
                got = send(places, net.ring, start, wanted)
                reached = len(target & got.received.keys()) / len(target)
                repeated = sum(got.received.values()) / max(1, len(got.received)) - 1
                found[scheme].append((reached, repeated, got.hops, got.dilation))
        for scheme, each in found.items():
            rows.append(ChurnRow(scheme, seconds, *(fmean(column) for column in zip(*each, strict=True))))
    return rows


@dataclass
class GrowthRow:
    peers: int
    hops_per_publication: float
    known_per_peer: float
    nodes_per_subscription: float
    messages_per_join: float
    bytes_per_join: float
    upkeep_bytes_per_second: float  # of each peer
    memory_kib_per_peer: float


class _CountedNetwork(ChordNetwork):
    """A network that counts the encoded bytes of what is sent."""

    sent_bytes = 0
    sent = 0

    def _carry_out_one(self, peer: Peer, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.sent += 1
            self.sent_bytes += len(codec.encode_any(effect.message))
        super()._carry_out_one(peer, effect)


def measure_growth(peers: int, subscriptions: int, publications: int, joins: int, seed: int) -> GrowthRow:
    before = _resident_kib()
    net, wanted, random = _subscribed(peers, subscriptions, seed)
    memory = _resident_kib() - before
    places, nodes = net.memberships(), sorted(net.memberships())
    known = fmean(len(each.routes()) for each in places.values())
    keys = net._keys
    assert keys is not None
    reached = fmean(len(owners(nodes, net.ring, keys.positions_of(keys.arcs_of(each)))) for each in wanted)
    net.sent = net.sent_bytes = 0
    net.run(JOIN_SECONDS)
    idle, idle_bytes = net.sent, net.sent_bytes
    net.hops.clear()
    for _ in range(publications):
        net.publish(random.randrange(peers), draw_event(random))
    net.run()
    hops = net.hops["Occurrence"] / publications
    # The same network over the same seconds: what is more comes from the newcomers.
    twin, _, _ = _subscribed(peers, subscriptions, seed)
    twin.sent = twin.sent_bytes = 0
    for _ in range(joins):
        twin.join()
    twin.run(JOIN_SECONDS)
    assert sum(each.is_member for each in twin.memberships().values()) == peers + joins
    return GrowthRow(
        peers,
        hops,
        known,
        reached,
        (twin.sent - idle) / joins,
        (twin.sent_bytes - idle_bytes) / joins,
        idle_bytes / JOIN_SECONDS / peers,
        memory / peers,
    )


def _subscribed(peers: int, subscriptions: int, seed: int) -> tuple[_CountedNetwork, list[Filter], Random]:
    random = Random(seed)
    wide = {name: Histogram.even(DOMAIN, 4 * peers) for name in ATTRIBUTES}
    net = _CountedNetwork(peers, mapping=SelectiveAttribute(wide), seed=seed, lease=1e6, replicas=3)
    wanted = [net.subscribe(random.randrange(peers), draw_condition(random)).wanted for _ in range(subscriptions)]
    net.run()
    return net, wanted, random


def _resident_kib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1024


def fit(rows: list[GrowthRow], name: str) -> tuple[float, float]:
    """a and b of a + b·log2(n), by least squares."""
    xs, ys = [log2(row.peers) for row in rows], [getattr(row, name) for row in rows]
    mean_x, mean_y = fmean(xs), fmean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0
    return mean_y - slope * mean_x, slope


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("mappings", "churn", "growth"))
    parser.add_argument("--peers", type=int, default=500)
    parser.add_argument("--subscriptions", type=int, default=500)
    parser.add_argument("--probes", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    given = parser.parse_args(arguments)
    if given.what == "mappings":
        choices = source_mappings().items()
        rows: list[Any] = [
            measure_mapping(name, each, given.peers, given.subscriptions, given.probes, given.seed)
            for name, each in choices
        ]
    elif given.what == "churn":
        rows = measure_churn(given.peers, given.peers // 10, given.probes, given.seed)
    else:
        measure_growth(10, 10, 1, 1, given.seed)  # what is loaded at first is no memory of peers
        rows = [measure_growth(each, given.subscriptions, 200, 5, given.seed) for each in given.sizes]
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        _print_table(rows)
        if given.what == "growth" and len(rows) > 1:
            for name in ("hops_per_publication", "known_per_peer", "messages_per_join"):
                start, slope = fit(rows, name)
                million = start + slope * log2(MILLION)
                print(f"{name}: {start:.2f} + {slope:.2f} log2(n), so {million:.1f} at a million peers")
    return 0


def _print_table(rows: list[Any]) -> None:
    table = Table(*(name.replace("_", " ") for name in asdict(rows[0])))
    for row in rows:
        table.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in asdict(row).values()))
    Console(width=200).print(table)


if __name__ == "__main__":
    sys.exit(main())
