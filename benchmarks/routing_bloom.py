"""Cost of an event at one broker, by its content and by its Bloom digest, for growing numbers of filters.

    python benchmarks/routing_bloom.py --sizes 1000 10000 100000

Filters and events are those of `harness.hops`. `operations` are what each structure counts itself by: filters asked
about an event, nodes of a trie, counters, fingers, predicates found, digests tested.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

from harness.clock import timed
from harness.hops import BATCH, PASSES, SLOW, Links, Row, Work, agree, beside_content, drawn, read, routed, row, run

from palio.routing.conjunctions import CONJUNCTION_LIMIT, to_conjunctions
from palio.routing.forwarding.bloom.bloom_forwarding import BloomForwarding
from palio.routing.forwarding.bloom.classical import CountingSbstree, Sbsposet, Sbstree, Skiptree
from palio.routing.forwarding.bloom.digest import Bits, BloomHeader, BloomShape, predicate_text, union
from palio.routing.forwarding.headers import encode
from palio.routing.forwarding.strategy import ForwardingConfig

HEADER = "digest: batches"
SKIPTREE_UP_TO = 10_000  # by exclusion, every event begins with all filters


def measure(size: int, events: int, poset_up_to: int) -> list[Row]:
    def by_both(work: Work, wanted: Links) -> list[Row]:
        forwarding = work.told(BloomForwarding(ForwardingConfig()))
        rows = by_digest(work, wanted, forwarding)
        return [*rows, *_by_structures(work, forwarding.shape, _digests(work, forwarding), wanted)]

    return beside_content(drawn(size, events), poset_up_to, by_both)


def by_digest(work: Work, wanted: Links, forwarding: BloomForwarding) -> list[Row]:
    """What forwarding by digest costs at the first broker and at each later one."""
    routed(forwarding, lambda: read(work.arrivals()), BATCH)
    forwarding._predicates._filters._matcher.merge()  # as it would be after some time, with nothing to do beside
    predicates = len(forwarding._predicates)
    seconds, found = routed(forwarding, lambda: read(work.arrivals()), BATCH)
    agree("first broker", found, wanted)
    digests = _digests(work, forwarding)
    satisfied = sum(map(len, digests)) / forwarding.shape.hashes / len(work.events)
    rows = [row(work, f"digest: first broker, batches ({predicates:,} predicates)", seconds, satisfied)]
    headers = [encode(BloomHeader.of(forwarding.shape.width, each)) for each in digests]
    for way, batch in (("digest: one by one", 1), (HEADER, BATCH)):
        forwarding._table.operations = 0
        seconds, found = routed(forwarding, lambda: work.arrivals(headers), batch)
        own = row(work, way, seconds, forwarding._table.operations / PASSES / len(work.events))
        own.header_bytes = sum(map(len, headers)) / len(headers)
        own.false_links = agree(way, found, wanted) / len(work.events)
        rows.append(own)
    return rows


def _digests(work: Work, forwarding: BloomForwarding) -> list[Bits]:
    starts, bits = forwarding._predicates.digests(work.events)
    return [tuple(bits[low:high].tolist()) for low, high in pairwise(starts)]


def _by_structures(work: Work, shape: BloomShape, digests: Sequence[Bits], wanted: Links) -> list[Row]:
    """The structures of the source, one digest at a time, and its way from an event to a digest."""
    poset, trees = (
        Sbsposet(),
        {"sbstree": Sbstree(), "counting sbstree": CountingSbstree(), "skiptree": Skiptree(shape.width)},
    )
    if len(work.filters) > SKIPTREE_UP_TO:
        del trees["skiptree"]
    for place, each in enumerate(work.filters):
        for conjunction in to_conjunctions(each, CONJUNCTION_LIMIT):
            own = [shape.bits_of(predicate_text(leaf)) for leaf in conjunction]
            for leaf, bits in zip(conjunction, own, strict=True):
                poset.add(leaf.attribute, leaf.values, bits)
            for tree in trees.values():
                tree.add(work.link(place), place, union(own))
    some = range(min(SLOW, len(work.events)))
    rows = []
    with timed() as watch:
        again = [poset.match(work.events[place].attributes) for place in some]
    assert again == list(digests[: len(some)])
    rows.append(
        Row(
            len(work.filters),
            "sbsposet: event to digest",
            1e6 * watch.seconds / len(some),
            poset.operations / len(some),
        )
    )
    for name, tree in trees.items():
        with timed() as watch:
            found = [frozenset(tree.match(digests[place])) for place in some]
        agree(name, found, wanted[: len(some)])
        rows.append(Row(len(work.filters), name, 1e6 * watch.seconds / len(some), tree.operations / len(some)))
    return rows


def main(arguments: list[str] | None = None) -> int:
    return run(__doc__, measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
