"""Cost of covering: relation graphs on subscriptions that come and go.

    python benchmarks/routing_covering.py                           small, all graphs
    python benchmarks/routing_covering.py --operations 10000 --attributes 6 --graphs forest 'G1 k-d tree' 'G1 columnar'
    python benchmarks/routing_covering.py --part parents            how many parents pay
    python benchmarks/routing_covering.py --part approximate        what a partial search saves and wastes

Shen §4.5.1: boxes of d attributes, each side between two random numbers; each operation removes one of those that are
there with some probability, and otherwise adds one; one router, one interface. Measured is the time of all operations,
without reading the conditions, in CPU seconds on one core. Looks are pairs of filters that were compared, and for
indexes the filters and nodes that were looked at: they do not depend on the machine, nor on the language a graph is
written in. Graphs and the comparison of two filters are Python here, the indexes' searches are compiled. All exact
graphs forward the same filters, or the run ends.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from harness.clock import pin_to_one_core, timed
from harness.report import figure
from rich.console import Console
from rich.table import Table

from palio.covering.classical.kdtree import KdTreeIndex
from palio.covering.classical.posets import DenseGraph, PosetForest, SienaPoset
from palio.covering.classical.zcurve import ZCurveIndex, greedy_search
from palio.covering.covering_index import ColumnarIndex, LinearIndex
from palio.covering.relation_graph import FlatGraph, LazyFlatGraph, RelationGraph
from palio.filters.filter import Filter
from palio.workloads.shen import Shen

FOREST = "forest"
CLAIMED = "G1 k-d tree"
CLAIMED_AT, AT_MOST = 6, 0.2
GRAPHS: dict[str, Callable[[], RelationGraph]] = {
    "dense G*": DenseGraph,
    "Siena poset": SienaPoset,
    FOREST: PosetForest,
    "G1 linear": partial(FlatGraph, index=LinearIndex),
    CLAIMED: partial(FlatGraph, index=KdTreeIndex),
    "G1 columnar": partial(FlatGraph, index=ColumnarIndex),
    "G3 k-d tree": partial(FlatGraph, k=3, index=KdTreeIndex),
    "lazy G1 k-d tree": partial(LazyFlatGraph, index=KdTreeIndex),
    "lazy G1 columnar": partial(LazyFlatGraph, index=ColumnarIndex),
}
CURVE = "G1 Z-curve"
PARENTS = (1, 2, 3, 5, 10)
SHARES = (0.0, 0.05, 0.2, 0.5)
_WARMUP_OPERATIONS = 600  # operations that compile the kernels, those of trees too, before anything is measured


@dataclass
class Row:
    """One graph on one history; `of_forest` are its seconds over the forest's."""

    attributes: int
    graph: str
    operations: int
    seconds: float
    looks: int
    searches: int | None
    filters: int
    forwarded: int
    of_forest: float | None = None
    looks_of_forest: float | None = None


def graph_of(name: str, attributes: int) -> Callable[[], RelationGraph]:
    """How a graph is made; the curve must know the attributes."""
    return partial(FlatGraph, index=partial(ZCurveIndex, domains(attributes))) if name == CURVE else GRAPHS[name]


def domains(attributes: int) -> dict[str, tuple[float, float]]:
    return {f"x{at}": (0.0, 1.0) for at in range(1, attributes + 1)}


class History:
    """Filters that come and go, read and hashed before anything is measured."""

    def __init__(self, attributes: int, operations: int, removals: float) -> None:
        workload = Shen("boxes", attributes=attributes)
        self.attributes = attributes
        self.operations = list(workload.operations(operations, removals))
        count = 1 + max(each.subscription for each in self.operations)
        self.filters = [Filter.parse(where) for where in workload.subscriptions(count)["where"].to_pylist()]
        for each in self.filters:
            hash(each)

    def run(self, name: str, make: Callable[[], RelationGraph]) -> tuple[Row, RelationGraph]:
        self._replay(make(), _WARMUP_OPERATIONS)
        graph = make()
        with timed() as watch:
            self._replay(graph, len(self.operations))
        searches = graph.searches if isinstance(graph, LazyFlatGraph) else None
        forwarded = len(graph.forwarded)
        cost = (len(self.operations), watch.seconds, graph.comparisons, searches)
        row = Row(self.attributes, name, *cost, len(graph), forwarded)
        return row, graph

    def _replay(self, graph: RelationGraph, count: int) -> None:
        for kind, number in self.operations[:count]:
            if kind == "add":
                graph.insert(self.filters[number])
            else:
                graph.remove(self.filters[number])


def measure_graphs(history: History, names: Sequence[str]) -> list[Row]:
    """Every graph on the same history, beside the forest where that is among them."""
    rows: list[Row] = []
    expected: set[Filter] | None = None
    for name in names:
        row, graph = history.run(name, graph_of(name, history.attributes))
        rows.append(row)
        if not name.startswith("lazy"):
            expected = set(graph.forwarded) if expected is None else expected
            if set(graph.forwarded) != expected:
                raise SystemExit(f"{name} forwards other filters than {names[0]}")
        elif expected is not None and not expected <= set(graph.forwarded):
            raise SystemExit(f"{name} leaves out what must be forwarded")
    forest = next((row for row in rows if row.graph == FOREST), None)
    for row in rows if forest is not None else ():
        row.of_forest = row.seconds / forest.seconds
        row.looks_of_forest = row.looks / forest.looks
    return rows


def measure_parents(history: History) -> list[Row]:
    """The source's flat graph with more and more parents: fewer searches, each dearer (Figure 4.3)."""
    rows = []
    for name, index in (("k-d tree", KdTreeIndex), ("columnar", ColumnarIndex)):
        rows += [history.run(f"lazy G{k} {name}", partial(LazyFlatGraph, k=k, index=index))[0] for k in PARENTS]
    return rows


def measure_approximate(history: History, budget: int) -> list[Row]:
    """What is forwarded when a share of the space is not searched: the rest is sent in vain, nothing is lost."""
    known = domains(history.attributes)
    rows = [history.run("lazy G1 columnar", GRAPHS["lazy G1 columnar"])[0]]
    for share in SHARES:
        index = partial(ZCurveIndex, known, epsilon=share)
        rows.append(history.run(f"lazy G1 curve, ε = {share}", partial(LazyFlatGraph, index=index))[0])
    for share in SHARES[1:]:
        index = partial(ZCurveIndex, known, epsilon=share, budget=budget, search=greedy_search)
        name = f"lazy G1 curve, greedy, ε = {share}, {budget} probes"
        rows.append(history.run(name, partial(LazyFlatGraph, index=index))[0])
    return rows


def show(rows: Sequence[Row], title: str) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)
    table = Table(title=title, title_justify="left")
    table.add_column("d", justify="right")
    table.add_column("graph", no_wrap=True)
    for header in ("seconds", "µs/change", "looks", "searches", "filters", "forwarded", "of forest's time", "looks"):
        table.add_column(header, justify="right", no_wrap=True)
    previous = None
    for row in rows:
        if previous not in (None, row.attributes):
            table.add_section()
        previous = row.attributes
        searches = "–" if row.searches is None else f"{row.searches:,}"
        shares = (f"{each:.1%}" if each is not None else "–" for each in (row.of_forest, row.looks_of_forest))
        counts = (f"{row.looks:,}", searches, f"{row.filters:,}", f"{row.forwarded:,}")
        change = figure(row.seconds / row.operations * 1e6)
        table.add_row(str(row.attributes), row.graph, figure(row.seconds), change, *counts, *shares)
    console.print(table)


def conclude(rows: Sequence[Row]) -> None:
    """Beside the source's claim, that the flat graph with a k-d tree takes little of the forest's time (Shen §4.5)."""
    for row in rows:
        if (row.graph, row.attributes) == (CLAIMED, CLAIMED_AT) and row.of_forest is not None:
            verdict = "confirmed" if row.of_forest <= AT_MOST else "not confirmed"
            print(
                f"{CLAIMED} takes at most {AT_MOST:.0%} of the forest's time at d = 6: {verdict} ({row.of_forest:.1%})"
            )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["graphs", "parents", "approximate"], default="graphs")
    parser.add_argument("--operations", type=int, default=2_000)
    parser.add_argument("--removals", type=float, default=0.2, help="the share of operations that remove")
    parser.add_argument("--attributes", nargs="+", type=int, default=[2, 3, 4, 5, 6])
    parser.add_argument("--graphs", nargs="+", choices=[*GRAPHS, CURVE], default=[*GRAPHS, CURVE])
    parser.add_argument("--budget", type=int, default=1_000, help="probes of an approximate search")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    pin_to_one_core()
    rows: list[Row] = []
    for attributes in options.attributes:
        history = History(attributes, options.operations, options.removals)
        match options.part:
            case "graphs":
                rows += measure_graphs(history, options.graphs)
            case "parents":
                rows += measure_parents(history)
            case "approximate":
                rows += measure_approximate(history, options.budget)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows, f"{options.operations:,} operations, of which {options.removals:.0%} remove")
        conclude(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
