"""Cost of an event at one broker, by its content and by its forwarding tree, for growing numbers of filters.

    python benchmarks/routing_prefix.py --sizes 1000 10000 100000

Filters and events are those of `harness.hops`. `operations` are filters asked about an event for the poset, and nodes
of the forwarding tree for prefix forwarding. Beside the whole tree: forwarding trees cut at a height, and a tree that
is older than a fifth of the filters, which then send events too far.
"""

from __future__ import annotations

import sys
from typing import Any

from harness.clock import timed
from harness.hops import BATCH, Links, Row, Work, agree, beside_content, drawn, read, routed, row, run

from palio.routing.announcements import ROUTING_TREES_TOPIC
from palio.routing.conjunctions import CONJUNCTION_LIMIT, to_conjunctions
from palio.routing.forwarding.headers import encode
from palio.routing.forwarding.prefix.forwarding_tree import PrefixHeader
from palio.routing.forwarding.prefix.prefix_forwarding import PrefixForwarding
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.tree_version import TreeVersion, encode_tree
from palio.routing.forwarding.strategy import ForwardingConfig
from palio.routing.strategies import Prefix

HEADER = "prefix: batches"
_CUT = 2


def measure(size: int, events: int, poset_up_to: int) -> list[Row]:
    return beside_content(drawn(size, events), poset_up_to, _by_prefix)


def by_tree(work: Work, wanted: Links) -> list[Row]:
    """What prefix forwarding costs at the first broker and at each later one."""
    tree, building = _tree(work, len(work.filters))
    whole = _broker(work, tree)
    nodes = f"{len(tree):,} nodes, {building / len(work.filters) * 1e6:,.0f} µs/filter"
    return [
        _first(work, whole, wanted, nodes),
        _hop(work, whole, wanted, "prefix: one by one", 1),
        _hop(work, whole, wanted, HEADER, BATCH),
    ]


def _by_prefix(work: Work, wanted: Links) -> list[Row]:
    cut = _broker(work, _tree(work, len(work.filters))[0], height=_CUT)
    stale = _broker(work, _tree(work, len(work.filters) * 4 // 5)[0])
    return [
        *by_tree(work, wanted),
        _hop(work, cut, wanted, f"prefix: batches, cut at height {_CUT}", BATCH),
        _hop(work, stale, wanted, "prefix: batches, a fifth of the filters newer", BATCH),
    ]


def _tree(work: Work, count: int) -> tuple[TreeVersion, float]:
    """The tree of the first so many filters, and the seconds that inserting them takes."""
    conjunctions = [each for wanted in work.filters[:count] for each in to_conjunctions(wanted, CONJUNCTION_LIMIT)]
    tree = RoutingTree()
    with timed() as watch:
        for each in conjunctions:
            tree.insert(each)
    return TreeVersion.of(tree, b""), watch.seconds


def _broker(work: Work, tree: TreeVersion, **options: Any) -> PrefixForwarding:
    """A broker with the optimiser's tree, on which any node may have tags."""
    forwarding: PrefixForwarding = work.told(
        PrefixForwarding(ForwardingConfig(propagation="covering", chosen=Prefix(**options)))
    )
    forwarding.on_announcement(ROUTING_TREES_TOPIC, 1, encode_tree(tree))
    return forwarding


def _first(work: Work, broker: PrefixForwarding, wanted: Links, nodes: str) -> Row:
    seconds, found = routed(broker, lambda: read(work.arrivals()), BATCH)
    own = row(work, f"prefix: first broker, batches ({nodes})", seconds, _nodes(_headers(work, broker)))
    own.false_links = agree(own.way, found, wanted) / len(work.events)
    return own


def _hop(work: Work, broker: PrefixForwarding, wanted: Links, way: str, batch: int) -> Row:
    headers = _headers(work, broker)
    encoded = [encode(each) for each in headers]
    seconds, found = routed(broker, lambda: work.arrivals(encoded), batch)
    own = row(work, way, seconds, _nodes(headers))
    own.header_bytes = sum(map(len, encoded)) / len(encoded)
    own.false_links = agree(way, found, wanted) / len(work.events)
    return own


def _headers(work: Work, broker: PrefixForwarding) -> list[PrefixHeader]:
    tree = broker._trees.current(0)
    assert tree is not None
    return tree.headers([event.attributes for event in work.events])


def _nodes(headers: list[PrefixHeader]) -> float:
    return sum(len(header.tree) for header in headers) / len(headers)


def main(arguments: list[str] | None = None) -> int:
    return run(__doc__, measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
