"""Accuracy and cost of semantic communities, beside what their source claims (Chand §9).

    python benchmarks/communities.py                              100 and 1,000 peers, about a minute
    python benchmarks/communities.py --sizes 100 1000 10000       some minutes, less than 400 MB
    python benchmarks/communities.py --overlay tree --sizes 1000 10000 50000      the source's sizes
    python benchmarks/communities.py --xpath                      patterns and documents of NITF, where its schema is

Every peer has one subscription, of which a quarter wants an average event, and events are published by members that
want them. The default workload has conditions on a topic, by Zipf's law, a price and a region, so that many contain
others; `--xpath` has that of the source. False positives are members that get an event in vain, as a share of all;
false negatives members that miss it, as a share of those that want it. `probed` is the number of answers to the search
of one more subscription for its place, as a share of the members; a graph is flooded, and members that are asked again
answer again. All counts are the same on every machine; seconds are CPU seconds of building the network. The last table
fits a power of the number of peers to each column.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from harness.nitf import read_schema
from rich.console import Console
from rich.table import Table

from palio.events import Event
from palio.filters.filter import Filter
from palio.simulation import CommunityNetwork, Network
from palio.workloads.xml_documents import XmlDocuments
from palio.workloads.xml_schema import Schema
from palio.workloads.xpath_patterns import XPathPatterns

SAMPLE_EVENTS = 256
TOPICS = 20
JOINS = 10
CHOICES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("tree, full", "FP < 10 %, falling with N; full < adaptive < basic", {"join": "full"}),
    ("tree, adaptive", "", {"join": "adaptive"}),
    ("tree, basic", "joins ask few", {"join": "basic"}),
    ("graph, n = 5", "FN < 5 %, FP about 20 %; degree 9.8 at 1,000", {"overlay": "similarity", "semantic": 5}),
    ("graph, n = 10", "fewer FN, more FP; degree 17.5 at 1,000, 18.6 at 10,000", {"overlay": "similarity"}),
    ("graph, ρ = 50 %", "FP a third lower, FN slightly higher", {"overlay": "similarity", "random_share": 0.5}),
    ("graph, ρ = 0", "few FP, many FN, which grow with N", {"overlay": "similarity", "random_share": 0.0}),
)
COLUMNS = ("false_positives", "false_negatives", "hops", "messages", "probed", "degree", "build_seconds")


@dataclass
class Row:
    """One overlay at one size."""

    overlay: str
    claim: str
    peers: int
    interested: float
    false_positives: float
    false_negatives: float
    hops: float
    messages: float
    probed: float
    degree: float
    max_degree: int
    depth: float | None
    build_seconds: float
    memory_mb: float
    """The most that this process has used so far."""


class Conditions:
    """Conditions of which many contain others."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def _topic(self) -> str:
        return f"t{min(TOPICS, int(self._random.paretovariate(1.0)))}"

    def interest(self) -> Filter:
        topic, price = self._topic(), self._random.randrange(0, 100, 5)
        region = self._random.randrange(5)
        return Filter.parse(
            self._random.choice(
                (
                    f"topic = '{topic}'",
                    f"price > {price}",
                    f"topic = '{topic}' AND price > {price}",
                    f"topic = '{topic}' AND price > {price} AND region = 'r{region}'",
                )
            )
        )

    def event(self) -> Event:
        random = self._random
        made = {"topic": self._topic(), "price": random.randrange(100), "region": f"r{random.randrange(5)}"}
        return Event(made, id=str(random.getrandbits(64)))


class Patterns:
    """XPaths and documents of the source's parameters, such that a quarter matches."""

    def __init__(self, schema: Schema, seed: int) -> None:
        # With walks that end early a quarter of the patterns matches a document, as in the source.
        self._patterns = XPathPatterns(schema, seed=seed, distinct=False, stop=0.8)
        self._documents = XmlDocuments(schema, seed=seed, tags=22)
        self._row = self._document = 0

    def interest(self) -> Filter:
        self._row += 1
        return Filter.parse(self._patterns.pattern(self._row), language="xpath")

    def event(self) -> Event:
        self._document += 1
        return Event.from_xml(self._documents.document(self._document))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000], metavar="PEERS")
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--overlay", choices=("tree", "graph"), help="only these")
    parser.add_argument("--xpath", action="store_true", help="patterns and documents of NITF")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the tables")
    given = parser.parse_args(arguments)
    schema = read_schema() if given.xpath else None
    if given.xpath and schema is None:
        parser.error("the NITF schema is not here; PALIO_DATA names the folder that has it")
    rows = [
        measure(name, claim, choices, peers, given.events, schema)
        for name, claim, choices in CHOICES
        if given.overlay is None or name.startswith(given.overlay)
        for peers in given.sizes
    ]
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    _print(rows)
    return 0


def measure(
    name: str, claim: str, choices: dict[str, Any], peers: int, events: int, schema: Schema | None = None
) -> Row:
    source = Conditions(peers) if schema is None else Patterns(schema, peers)
    random = Random(1)
    sample = [source.event() for _ in range(SAMPLE_EVENTS)]
    began = time.process_time()
    net = Network.communities(peers, seed=1, sample=sample, **choices)
    for at in range(peers):
        net.subscribe(at, source.interest())
    net.run()
    built = time.process_time() - began
    published = 0
    while published < events:
        event = source.event()
        wanting = [each.at for each in net.members() if each.wanted.matches(event)]
        if wanting:
            net.publish(random.choice(wanting), event)
            net.run()
            published += 1
    reach, degrees = net.reach(), net.degrees()
    is_tree = net.overlay == "containment"
    return Row(
        name,
        claim,
        peers,
        _mean([each.interested / each.members for each in reach]),
        _mean([each.false_positives for each in reach]),
        _mean([each.false_negatives for each in reach]),
        _mean([each.hops for each in reach]),
        _mean([each.messages for each in reach]),
        _probed(net, source, random),
        _mean(degrees),
        max(degrees),
        _mean(list(net.depths().values())) if is_tree else None,
        built,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def _probed(net: CommunityNetwork, source: Conditions | Patterns, random: Random) -> float:
    """The share of members that one more subscription asks; it ends before the next one."""
    asked = "Found" if net.overlay == "containment" else "Similar"
    members, before = len(net.members()), net.messages[asked]
    for _ in range(JOINS):
        made = net.subscribe(random.randrange(net.peers), source.interest())
        net.run()
        net.unsubscribe(made)
        net.run()
    return (net.messages[asked] - before) / JOINS / members


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def exponent(rows: Sequence[Row], column: str) -> float | None:
    """The power of the number of peers that fits a column best, by least squares of logarithms."""
    points = [(math.log(row.peers), math.log(getattr(row, column))) for row in rows if getattr(row, column) > 0]
    if len({x for x, _ in points}) < 2:
        return None
    middle, height = _mean([x for x, _ in points]), _mean([y for _, y in points])
    return sum((x - middle) * (y - height) for x, y in points) / sum((x - middle) ** 2 for x, _ in points)


def _print(rows: list[Row]) -> None:
    titles = "overlay peers interested FP FN hops messages probed degree max depth build MB claimed".split()
    table = Table(*titles)
    for row in rows:
        table.add_row(
            row.overlay,
            f"{row.peers:,}",
            *(f"{each:.1%}" for each in (row.interested, row.false_positives, row.false_negatives)),
            f"{row.hops:.1f}",
            f"{row.messages:,.0f}",
            f"{row.probed:.1%}",
            f"{row.degree:.2f}",
            str(row.max_degree),
            "–" if row.depth is None else f"{row.depth:.1f}",
            f"{row.build_seconds:.1f} s",
            f"{row.memory_mb:.0f}",
            row.claim,
        )
    fits = Table("overlay", *COLUMNS, title="exponents of the number of peers")
    for name in dict.fromkeys(row.overlay for row in rows):
        own = [row for row in rows if row.overlay == name]
        found = [exponent(own, column) for column in COLUMNS]
        fits.add_row(name, *("–" if each is None else f"{each:.2f}" for each in found))
    console = Console(width=190)
    console.print(table)
    console.print(fits)


if __name__ == "__main__":
    sys.exit(main())
