"""XRoute benchmark: sizes of routing tables, work of its two routers, and XSearch beside comparing pairs.

    python benchmarks/xroute.py                          all parts at 1k and 5k; some minutes
    python benchmarks/xroute.py tables --sizes 1k 20k 200k
    python benchmarks/xroute.py search --sizes 1k 10k 100k
    python benchmarks/xroute.py work

Patterns come from the NITF schema with the parameters of Chand §6.2. `tables` registers that many of them, duplicates
among them, each up to a hundred times at one of 24 consumer nodes at the edge of 64 routers (four transit routers, each
with fifteen in its stubs) that form a tree of shortest paths from one producer. Entries of routers are counted with
simple routing, one for each distinct subscription below, and with XRoute's counters; those of consumer nodes are not.
The claim is 4,862 entries beside 415 at 200k (Table 6.5). The generator makes `//*`, which covers everything, so that
the table of many subscribers has hardly more than it; rows with named leaves leave out patterns that end in `*`.

`work` counts the messages that both routers send for the same registrations and cancellations, and CPU seconds.
`search` compares a search in the factorisation tree with a loop over all patterns, in CPU time on one core; both find
the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice, product
from random import Random
from statistics import fmean, pstdev
from time import process_time

from harness.nitf import read_schema
from harness.report import short
from rich.console import Console
from rich.table import Table

from palio.covering.xpath_index import pattern_of
from palio.filters.filter import Filter
from palio.routing.messages import LOCAL, Registration
from palio.routing.propagation.registration_table import RegistrationTable
from palio.simulation import Network
from palio.workloads.xml_schema import Schema
from palio.workloads.xpath_patterns import XPathPatterns
from palio.xml.containment import contains
from palio.xml.factorisation_tree import FactorisationTree
from palio.xml.xpath_parser import parse_xpath

PARTS = ("tables", "work", "search")
TRANSIT, STUBS, CONSUMER_NODES = 4, 15, 24
MAX_OCCURRENCES = 100
STOP = 0.15  # the chance that a path ends where it may: patterns then have about as many nodes as in the source
CLAIMED = {1_000: (34, 58), 2_000: (52, 105), 5_000: (86, 225), 10_000: (120, 408), 20_000: (176, 714),
           50_000: (258, 1_533), 100_000: (334, 2_729), 200_000: (415, 4_862)}  # fmt: skip
QUERIES = 100
LOOP_SECONDS = 10.0


def parents_of(random: Random) -> list[int | None]:
    """For each router and then each consumer node the router towards the producer, which is router 0's."""
    routers = TRANSIT * (1 + STUBS)
    parents: list[int | None] = [None if each == 0 else 0 if each < TRANSIT else -1 for each in range(routers)]
    for each in range(TRANSIT, routers):
        stub = (each - TRANSIT) // 5  # three stubs of five routers at each transit router
        first = TRANSIT + stub * 5
        parents[each] = stub // 3 if each == first else random.randrange(first, each)
    used = {each for each in parents if each is not None}
    edge = [each for each in range(routers) if each not in used]
    return parents + [random.choice(edge) for _ in range(CONSUMER_NODES)]


def has_named_leaves(wanted: Filter) -> bool:
    """Whether no branch of a pattern ends in `*`."""
    asked = pattern_of(wanted)
    nodes = () if asked is None else asked[1].root.walk()
    return not any(node.is_bare and node.name.is_any for node in nodes)


def measure_tables(schema: Schema, size: int, named: bool) -> tuple[list[int], list[int], float]:
    """The entries of each router, by XRoute and by simple routing, and CPU seconds."""
    random = Random(size)
    parents = parents_of(random)
    routers = TRANSIT * (1 + STUBS)
    tables = [RegistrationTable() for _ in parents]
    distinct: list[set[bytes]] = [set() for _ in parents]
    texts = XPathPatterns(schema, distinct=False, stop=STOP).patterns()
    begun = process_time()
    filters = (Filter.parse(each, language="xpath") for each in texts)
    for wanted in islice((each for each in filters if not named or has_named_leaves(each)), size):
        at = routers + random.randrange(CONSUMER_NODES)
        occurrences = random.randint(0, MAX_OCCURRENCES)
        if not occurrences:
            continue
        message = [Registration(wanted, occurrences, 0)]
        interface, place = LOCAL, at
        while True:
            message = tables[place].receive(interface, message)
            above = parents[place]
            if above is None or not message:
                break
            interface, place = place + 1, above
        way: int | None = at
        while way is not None:
            distinct[way].add(wanted.digest)
            way = parents[way]
    seconds = process_time() - begun
    inner = [each for each in range(routers) if distinct[each]]
    return [len(tables[each]) for each in inner], [len(distinct[each]) for each in inner], seconds


def measure_work(schema: Schema, size: int, router: str) -> tuple[int, float]:
    """Messages for so many registrations and cancellations in a network of 40 brokers, and CPU seconds."""
    random = Random(size)
    net = Network.tree(40, propagation="xroute", advertisements=True, options={"router": router})
    net.advertise(0, "TRUE")
    net.run()
    texts = islice(XPathPatterns(schema, distinct=False, stop=STOP).patterns(), size)
    filters = [Filter.parse(each, language="xpath") for each in texts]
    begun = process_time()
    live = []
    for wanted in filters:
        live.append(net.subscribe(random.randrange(1, 40), wanted))
        if random.random() < 0.4:
            net.unsubscribe(live.pop(random.randrange(len(live))))
        net.run()
    seconds = process_time() - begun
    return sum(net.traffic.messages(kind) for kind in ("subscribe", "unsubscribe", "register")), seconds


def measure_search(schema: Schema, size: int) -> Iterator[tuple[str, float, float, int, int]]:
    """By mode: milliseconds of a search in the tree and by the loop, nodes of the tree and of all patterns."""
    generated = XPathPatterns(schema, descendant=0.05, stop=STOP).patterns()
    patterns = list(dict.fromkeys(map(parse_xpath, islice(generated, size))))
    others = XPathPatterns(schema, descendant=0.05, stop=STOP, seed=7).patterns()
    sought = [parse_xpath(each) for each in islice(others, QUERIES)]
    tree = FactorisationTree()
    for each in patterns:
        tree.add(each)
    for mode, search in (("contained", tree.contained), ("containing", tree.containing)):
        begun = process_time()
        found = [search(each) for each in sought]
        by_tree = (process_time() - begun) / len(sought)
        begun, loops = process_time(), 0
        for each, expected in zip(sought, found, strict=True):
            pairs = ((each, other) if mode == "contained" else (other, each) for other in patterns)
            held = {other for other, pair in zip(patterns, pairs, strict=True) if contains(*pair)}
            assert held == expected
            loops += 1
            if process_time() - begun > LOOP_SECONDS:
                break
        by_loop = (process_time() - begun) / loops
        yield mode, 1e3 * by_tree, 1e3 * by_loop, tree.node_count, sum(each.size for each in patterns)


def parse_size(text: str) -> int:
    return int(text.removesuffix("k")) * (1_000 if text.endswith("k") else 1)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=PARTS)
    parser.add_argument("--sizes", type=parse_size, nargs="+", default=[1_000, 5_000])
    given = parser.parse_args(arguments)
    schema = read_schema()
    if schema is None:
        print("the NITF schema is not here; set PALIO_DATA to the folder that has it", file=sys.stderr)
        return 0
    console = Console(width=110)
    if "tables" in given.parts:
        heads = ("registrations", "leaves", "XRoute", "simple", "ratio", "deviations", "claimed", "ratio", "seconds")
        table = Table(*heads)
        for size, named in product(given.sizes, (False, True)):
            xroute, simple, seconds = measure_tables(schema, size, named)
            means = fmean(xroute), fmean(simple)
            claimed = CLAIMED.get(size)
            table.add_row(
                short(size),
                "named" if named else "all",
                f"{means[0]:,.0f}",
                f"{means[1]:,.0f}",
                f"{means[0] / means[1]:.3f}",
                f"{pstdev(xroute):,.0f}, {pstdev(simple):,.0f}",
                "" if claimed is None else f"{claimed[0]:,}, {claimed[1]:,}",
                "" if claimed is None else f"{claimed[0] / claimed[1]:.3f}",
                f"{seconds:.0f}",
            )
        console.print(table)
    if "work" in given.parts:
        table = Table("registrations", "router", "messages", "seconds")
        for size in given.sizes:
            for router in ("counters", "difference"):
                messages, seconds = measure_work(schema, size, router)
                table.add_row(short(size), router, f"{messages:,}", f"{seconds:.1f}")
        console.print(table)
    if "search" in given.parts:
        table = Table("patterns", "mode", "tree ms", "loop ms", "ratio", "nodes of the tree", "of all patterns")
        for size in given.sizes:
            for mode, by_tree, by_loop, nodes, total in measure_search(schema, size):
                ratio = f"{by_loop / by_tree:,.0f}"
                table.add_row(short(size), mode, f"{by_tree:.2f}", f"{by_loop:.1f}", ratio, f"{nodes:,}", f"{total:,}")
        console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
