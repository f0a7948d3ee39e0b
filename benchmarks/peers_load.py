"""Load of rings of peers: what nodes store, what notifications cost, hot spots, and peers beside brokers and Spark.

    python benchmarks/peers_load.py storage         # by 25,000 subscriptions, as in Baldoni et al. §5
    python benchmarks/peers_load.py notifications   # held back and collected, by the length of the period
    python benchmarks/peers_load.py hot             # virtual nodes, and neighbours that match in a hot node's place
    python benchmarks/peers_load.py losses          # by crashes at once, of more peers than there are copies
    python benchmarks/peers_load.py choices         # one workload on peers, brokers and partitions of Spark

Everything is counted, so that it is the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from palio import Event, Filter
from palio.peers.histograms import Histogram
from palio.peers.key_space import KeySpace
from palio.peers.mapping_choice import choose_ring_mapping
from palio.peers.messages import Effect, Notification, Send
from palio.peers.peer import Peer
from palio.peers.rendezvous_mappings import SelectiveAttribute
from palio.peers.ring import Ring, Runs
from palio.simulation import Network
from palio.simulation.peer_network import ChordNetwork

sys.path.insert(0, str(Path(__file__).parent))
from peers import ATTRIBUTES, BITS, DOMAIN, MAX_RANGE, draw_condition, source_mappings

SELECTIVE_RANGE = 1_000  # 0.1 % of the domain
ZIPF_VALUES = 1_000  # of the centres of selective ranges, exponent 1

Row = dict[str, Any]


def draw_ranges(random: Random, selective: int) -> dict[str, tuple[int, int]]:
    """Four ranges as in the source, the first ones of them selective."""
    ranges = {}
    for number, name in enumerate(ATTRIBUTES):
        if number < selective:
            length = random.randint(1, SELECTIVE_RANGE)
            [rank] = random.choices(range(ZIPF_VALUES), cum_weights=_ZIPF)
            low = min(DOMAIN - length, rank * (DOMAIN // ZIPF_VALUES))
        else:
            length = random.randint(1, MAX_RANGE)
            low = random.randrange(DOMAIN - length)
        ranges[name] = low, low + length - 1
    return ranges


def condition_of(ranges: Mapping[str, tuple[int, int]]) -> Filter:
    return Filter.parse(" AND ".join(f"{name} BETWEEN {low} AND {high}" for name, (low, high) in ranges.items()))


_ZIPF = list(accumulate(1 / (rank + 1) for rank in range(ZIPF_VALUES)))


def count_stored(nodes: list[int], keys: Iterable[Runs]) -> list[int]:
    """How many of some sets of keys each node has a share of: what it stores, without copies."""
    changes = [0] * (len(nodes) + 1)
    for runs in keys:
        owned: list[tuple[int, int]] = []
        for low, high in runs:
            first, last = bisect_left(nodes, low), bisect_left(nodes, high)
            owned += [(first, min(last, len(nodes) - 1))] if first < len(nodes) else []
            if last == len(nodes):  # behind the last node, the first one owns
                owned.append((0, 0))
        end = -1
        for first, last in sorted(owned):
            if last > end:
                changes[max(first, end + 1)] += 1
                changes[last + 1] -= 1
                end = last
    return list(accumulate(changes))[:-1]


def measure_storage(sizes: list[int], subscriptions: int, seed: int) -> list[Row]:
    rows = []
    for selective in (0, 1):
        random = Random(seed)
        wanted = [condition_of(draw_ranges(random, selective)) for _ in range(subscriptions)]
        for name, mapping in source_mappings().items():
            keys = KeySpace(Ring(BITS), mapping)
            positions = [keys.positions_of(keys.arcs_of(each)) for each in wanted]
            row: Row = {"selective attributes": selective, "mapping": name}
            for peers in sizes:
                drawn = sorted(Random(seed + peers).sample(range(1 << BITS), min(peers, 1 << BITS)))
                stored = count_stored(drawn, positions)
                row[f"{peers} peers, mean"], row[f"{peers} most"] = fmean(stored), max(stored)
            rows.append(row)
    return rows


def measure_notifications(subscriptions: int, seed: int) -> list[Row]:
    """Hops of notifications for each delivery; an event in five seconds on average, as in the source."""
    rows = []
    for period, collects in ((0.0, False), *((each, way) for way in (False, True) for each in (5.0, 10.0, 25.0))):
        random = Random(seed)
        wide = {name: Histogram.even(DOMAIN, 1 << BITS) for name in ATTRIBUTES}
        net = ChordNetwork(
            500, mapping=SelectiveAttribute(wide), replicas=1, seed=seed, bits=BITS, lease=1e6, buffer=period,
            collects=collects, period=60.0,
        )  # fmt: skip
        for _ in range(subscriptions):
            low = random.randrange(400_000, 600_000)
            net.subscribe(random.randrange(500), f"a BETWEEN {low} AND {low + 15_000}")
        net.run()
        net.run(5.0)
        net.messages.clear()
        value, published = 500_000.0, {}
        for _ in range(200):
            value = min(590_000.0, max(410_000.0, value + random.gauss(0, 3_000)))  # as a ticker: close to the last
            event = net.publish(random.randrange(500), {"a": int(value), "b": 0, "c": 0, "d": 0})
            published[event.id] = net.now
            net.run(random.expovariate(1 / 5.0))
        net.run()
        verdict = net.verdict()
        assert verdict.is_right
        delays = [each.time - published[each.event.id] for each in net.deliveries]
        sent = {name: net.messages[name] for name in ("Notification", "Notifications", "Collect")}
        rows.append({
            "period": period, "collected": collects, "deliveries": len(net.deliveries),
            "to subscribers": sent["Notification"] + sent["Notifications"], "between neighbours": sent["Collect"],
            "messages of a delivery": sum(sent.values()) / len(net.deliveries), "mean delay": fmean(delays),
        })  # fmt: skip
    return rows


class _CountedNetwork(ChordNetwork):
    def __init__(self, *arguments: Any, **choices: Any) -> None:
        self.notified: Counter[int] = Counter()
        super().__init__(*arguments, **choices)

    def _carry_out_one(self, peer: Peer, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, Notification):
            self.notified[self._hosts[peer.node]] += 1
        super()._carry_out_one(peer, effect)


def measure_hot(subscriptions: int, seed: int) -> list[Row]:
    rows: list[Row] = []
    for virtual_nodes in (1, 4, 16):
        random = Random(seed)
        net = ChordNetwork(100, mapping="selective-attribute", seed=seed, replicas=1, virtual_nodes=virtual_nodes)
        for _ in range(subscriptions):
            net.subscribe(random.randrange(100), draw_condition(random))
        net.run()
        stored = net.stored()
        rows.append({
            "peers": 100, "virtual nodes": virtual_nodes, "shed above": "",
            "most to mean": max(stored) / fmean(stored), "of": "subscriptions",
        })  # fmt: skip
    for replicas, shed_above in ((3, 0), (3, 5), (5, 5)):
        hot = _CountedNetwork(100, mapping="selective-attribute", seed=seed, replicas=replicas, shed_above=shed_above)
        for at in range(20):
            hot.subscribe(at, "topic = 'goal'")
        hot.run()
        random = Random(seed)
        for _ in range(400):
            hot.publish(random.randrange(20, 100), {"topic": "goal"})
            hot.run(0.05)
        hot.run()
        assert hot.verdict().is_right
        share = max(hot.notified.values()) / sum(hot.notified.values())
        rows.append({
            "peers": 100, "virtual nodes": 1, "shed above": shed_above, "most to mean": share,
            "of": f"notifications by the busiest, {replicas} copies",
        })  # fmt: skip
    return rows


def measure_losses(peers: int, subscriptions: int, seed: int) -> list[Row]:
    """What is lost when more peers crash at once than there are copies, until the subscriptions are renewed."""
    rows = []
    for replicas in (1, 2, 3):
        for crashed in (1, 2, 3, 5, 10, 30):
            row: Row = {"replicas": replicas, "crashed of 100": crashed}
            for way in ("anywhere", "neighbours"):
                random = Random(seed)
                net = ChordNetwork(peers, mapping="selective-attribute", replicas=replicas, seed=seed)
                ordered = sorted(range(peers), key=lambda each: net._positions[each])
                doomed = set(random.sample(range(peers), crashed) if way == "anywhere" else ordered[:crashed])
                steady = [each for each in range(peers) if each not in doomed]
                ranges = [draw_ranges(random, 0) for _ in range(subscriptions)]
                for each in ranges:
                    net.subscribe(random.choice(steady), condition_of(each))
                net.run()
                net.run(3.0)
                for number in doomed:
                    net.crash(number)
                for wanted in random.sample(ranges, min(100, len(ranges))):
                    net.publish(random.choice(steady), {name: sum(ends) // 2 for name, ends in wanted.items()})
                net.run()
                verdict = net.verdict()
                row[f"{way}: lost"] = len(verdict.missing) / verdict.required
                net.run(30.0)  # leases of 60 s are renewed after 20
                before = verdict.required
                for wanted in random.sample(ranges, min(100, len(ranges))):
                    net.publish(random.choice(steady), {name: sum(ends) // 2 for name, ends in wanted.items()})
                net.run()
                after = net.verdict()
                row[f"{way}: later"] = (len(after.missing) - len(verdict.missing)) / (after.required - before)
            rows.append(row)
    return rows


def measure_choices(nodes: int, subscriptions: int, publications: int, seed: int) -> list[Row]:
    """Messages and state of one workload; a subscription and an event come from anywhere."""
    random = Random(seed)
    ranges = [draw_ranges(random, 0) for _ in range(subscriptions)]
    wanted = [condition_of(each) for each in ranges]
    # Each event is wanted by one subscription at least.
    events = [
        Event({name: random.randint(low, high) for name, (low, high) in random.choice(ranges).items()})
        for _ in range(publications)
    ]
    places = [(random.randrange(nodes), random.randrange(nodes)) for _ in range(subscriptions + publications)]
    matches = sum(each.matches(event) for each in wanted for event in events) / publications
    rows: list[Row] = []
    for mapping in ("selective-attribute", "key-space-split"):
        net = ChordNetwork(nodes, mapping=mapping, seed=seed, replicas=3, lease=1e6, sample=events)
        for where, (at, _) in zip(wanted, places, strict=False):
            net.subscribe(at, where)
        net.run()
        asked = net.hops["Interest"] + net.messages["Replicate"]
        net.messages.clear()
        net.hops.clear()
        for event, (_, at) in zip(events, places[subscriptions:], strict=True):
            net.publish(at, event)
        net.run()
        assert net.verdict().is_right
        rows.append(_choice(f"peers, {mapping}", asked / subscriptions, net.hops["Occurrence"] / publications,
                            net.messages["Notification"] / publications, net.stored(), matches))  # fmt: skip
    for propagation, forwarding in (("covering", "content"), ("simple", "bloom")):
        tree = Network.tree(nodes, propagation=propagation, forwarding=forwarding)
        for where, (at, _) in zip(wanted, places, strict=False):
            tree.subscribe(at=at, where=where)
        tree.run()
        asked = tree.traffic.messages("subscribe")
        for event, (_, at) in zip(events, places[subscriptions:], strict=True):
            tree.publish(at=at, event=event)
        tree.run()
        assert tree.verdict().is_right
        stored = [sum(map(len, table.values())) for table in tree.tables.values()]
        sent = tree.traffic.messages("publish")
        rows.append(_choice(f"brokers, {forwarding}", asked / subscriptions, sent / publications, 0.0, stored, matches))
    choice = choose_ring_mapping(wanted, events, nodes)
    if choice is not None:
        held = subscriptions * choice.subscription_copies / nodes
        rows.append(_choice(f"Spark, {choice.mapping.name}", choice.subscription_copies, choice.event_copies, 0.0,
                            [round(held)], matches))  # fmt: skip
    return rows


def _choice(name: str, asked: float, routed: float, notified: float, stored: list[int], matches: float) -> Row:
    return {
        "choice": name, "messages of a subscription": asked, "messages of an event": routed,
        "notifications of an event": notified, "stored, mean": fmean(stored), "stored, most": max(stored),
        "matches of an event": matches,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("storage", "notifications", "hot", "losses", "choices"))
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1_000, 2_500, 5_000])
    parser.add_argument("--subscriptions", type=int)
    parser.add_argument("--nodes", type=int, default=31)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    match given.what:
        case "storage":
            rows = measure_storage(given.sizes, given.subscriptions or 25_000, given.seed)
        case "notifications":
            rows = measure_notifications(given.subscriptions or 500, given.seed)
        case "hot":
            rows = measure_hot(given.subscriptions or 2_000, given.seed)
        case "losses":
            rows = measure_losses(100, given.subscriptions or 200, given.seed)
        case _:
            rows = measure_choices(given.nodes, given.subscriptions or 500, 200, given.seed)
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=200).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
