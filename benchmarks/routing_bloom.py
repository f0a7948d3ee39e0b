"""What does an event cost at a broker that knows so many filters, by its content and by its digest?

    python benchmarks/routing_bloom.py --sizes 1000 10000 100000

The filters and events of Jerzak §9.2.1: two to five conditions on names of 20,000, some far more popular than others;
values normal in [0, 200,000]. Filters are spread evenly over four links. `operations` are what each structure counts
itself by: filters asked about an event, places of a trie, counters, fingers, predicates found, digests tested. All that
answer are compared: by digest an event may go too far, never too short. Seconds are CPU seconds on one core.

The Siena poset compares each new filter with most others, so it is built up to `--poset` filters only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from harness.clock import pin_to_one_core, timed
from harness.report import figure, short
from rich.console import Console
from rich.table import Table

from palio.covering.matchers import PosetMatcher
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.routing.codec import decode_event, encode_event
from palio.routing.conjunctive import conjunctive
from palio.routing.constants import CONJUNCTION_LIMIT
from palio.routing.forwarding.bloom import BloomForwarding
from palio.routing.forwarding.bloom.bits import union
from palio.routing.forwarding.bloom.counting import CountingSbstree
from palio.routing.forwarding.bloom.header import BloomHeader
from palio.routing.forwarding.bloom.sbsposet import Sbsposet
from palio.routing.forwarding.bloom.sbstree import Sbstree
from palio.routing.forwarding.bloom.shape import BloomShape, predicate_text
from palio.routing.forwarding.bloom.skiptree import Skiptree
from palio.routing.forwarding.headers import encode
from palio.routing.forwarding.protocol import Arrival, Setting
from palio.routing.messages import EventId, Publish
from palio.workloads.distributions import Extent, Normal, Pareto
from palio.workloads.xsiena import Side, XSiena

LINKS = 4
BATCH = 64
NAMES = 20_000
VALUES = Extent(0, 200_000, Normal())
SLOW = 200  # events for the structures that take long with each

Links = list[frozenset[int]]


@dataclass
class Row:
    """One way to find the links of an event."""

    filters: int
    way: str
    microseconds: float
    operations: float | None = None
    header_bytes: float | None = None
    false_links: float | None = None
    times_poset: float | None = None
    times_columnar: float | None = None


@dataclass(frozen=True)
class Work:
    """Filters with their links, and events."""

    filters: Sequence[Filter]
    events: Sequence[Event]

    def link(self, place: int) -> int:
        return place % LINKS + 1

    def told(self, forwarding: Any) -> Any:
        for place, wanted in enumerate(self.filters):
            forwarding.added(self.link(place), blake2b(place.to_bytes(8, "big"), digest_size=16).digest(), wanted)
        return forwarding

    def arrivals(self, headers: Sequence[bytes] | None = None) -> list[Arrival]:
        given = headers or [b""] * len(self.events)
        return [
            Arrival(0, Publish(EventId(0, 0, place), encode_event(event), header))
            for place, (event, header) in enumerate(zip(self.events, given, strict=True))
        ]


def workload(seed: int = 2009) -> XSiena:
    def side() -> Side:
        return Side(Extent(1, 1), Extent(2, 5), NAMES, Pareto(), VALUES)

    return XSiena(side(), side(), seed=seed, form="columns")


def measure(size: int, events: int, poset_up_to: int) -> list[Row]:
    made = workload()
    filters = [Filter.parse(where) for where in made.subscriptions(size)["where"].to_pylist()]
    work = Work(filters, [Event.from_dict(each) for each in made.event_dicts(events)])
    rows, wanted = _by_content(work)
    rows += _by_digest(work, wanted)
    if size <= poset_up_to:
        rows.insert(0, _by_poset(work, wanted))
    poset = next((row.microseconds for row in rows if row.way == POSET), None)
    columnar = next(row.microseconds for row in rows if row.way == COLUMNAR)
    for row in rows:
        row.times_poset = None if poset is None else poset / row.microseconds
        row.times_columnar = columnar / row.microseconds
    return rows


POSET = "content: Siena poset"
COLUMNAR = "content: columnar, batches"


def _by_poset(work: Work, wanted: Links) -> Row:
    matcher = PosetMatcher()
    for place, each in enumerate(work.filters):
        matcher.add(str(place), each)
    some = work.events[:SLOW]
    matcher.graph.questions = 0
    with timed() as watch:
        found = [frozenset(work.link(int(id)) for id in matcher.match(event)) for event in some]
    _agree(POSET, found, wanted[: len(some)])
    return Row(len(work.filters), POSET, 1e6 * watch.seconds / len(some), matcher.graph.questions / len(some))


def _by_content(work: Work) -> tuple[list[Row], Links]:
    matcher = Matcher()
    names = [str(place) for place in range(len(work.filters))]
    matcher.add_many(names, [str(each) for each in work.filters])
    matcher.merge()
    bodies = [encode_event(event) for event in work.events]
    batches = [list(work.events[start : start + BATCH]) for start in range(0, len(work.events), BATCH)]

    def links(batch: list[Event]) -> Links:
        rows, numbers = matcher.match_events(batch)
        found: list[set[int]] = [set() for _ in batch]
        for row, link in set(zip(rows.tolist(), (numbers % LINKS + 1).tolist(), strict=True)):
            found[row].add(link)
        return [frozenset(each) for each in found]

    found = [each for batch in batches for each in links(batch)]
    with timed() as together:
        for batch in batches:
            links(batch)
    with timed() as single:
        for event in work.events:
            links([event])
    with timed() as reading:
        for start in range(0, len(bodies), BATCH):
            links([decode_event(body) for body in bodies[start : start + BATCH]])
    rows = [
        _row(work, "content: columnar, one by one", single.seconds),
        _row(work, COLUMNAR, together.seconds),
        _row(work, "content: columnar, batches, bodies to be read", reading.seconds),
    ]
    return rows, found


def _by_digest(work: Work, wanted: Links) -> list[Row]:
    forwarding = work.told(BloomForwarding(Setting()))
    _routed(forwarding, _read(work.arrivals()), BATCH)
    forwarding._predicates._filters._matcher.merge()  # as it would be after some time, with nothing to do beside
    predicates = len(forwarding._predicates)
    seconds, found = _routed(forwarding, _read(work.arrivals()), BATCH)
    starts, bits = forwarding._predicates.digests(work.events)
    digests = [tuple(bits[low:high].tolist()) for low, high in pairwise(starts)]
    headers = [encode(BloomHeader.of(forwarding.shape.width, each)) for each in digests]
    room = sum(map(len, headers)) / len(headers)
    _agree("first broker", found, wanted)
    first = _row(work, f"digest: first broker, batches, {predicates:,} predicates", seconds)
    first.operations = len(bits) / forwarding.shape.hashes / len(work.events)
    rows = [first]
    for way, batch in (("digest: one by one", 1), ("digest: batches", BATCH)):
        forwarding._table.operations = 0
        seconds, found = _routed(forwarding, work.arrivals(headers), batch)
        row = _row(work, way, seconds)
        row.operations = forwarding._table.operations / len(work.events)
        row.header_bytes, row.false_links = room, _agree(way, found, wanted) / len(work.events)
        rows.append(row)
    return [*rows, *_by_structures(work, forwarding.shape, digests, wanted)]


def _by_structures(work: Work, shape: BloomShape, digests: Sequence[tuple[int, ...]], wanted: Links) -> list[Row]:
    """The structures of the source, one digest at a time, and its way from an event to a digest."""
    poset, trees = (
        Sbsposet(),
        {"sbstree": Sbstree(), "counting sbstree": CountingSbstree(), "skiptree": Skiptree(shape.width)},
    )
    if len(work.filters) > SKIPTREE_UP_TO:
        del trees["skiptree"]
    for place, each in enumerate(work.filters):
        for conjunction in conjunctive(each, CONJUNCTION_LIMIT):
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
        _agree(name, found, wanted[: len(some)])
        rows.append(Row(len(work.filters), name, 1e6 * watch.seconds / len(some), tree.operations / len(some)))
    return rows


SKIPTREE_UP_TO = 10_000  # by exclusion, every event begins with all filters


def _read(arrivals: list[Arrival]) -> list[Arrival]:
    """The same with their bodies read, so that only matching is measured."""
    for each in arrivals:
        assert each.event is not None
    return arrivals


def _routed(forwarding: Any, arrivals: list[Arrival], batch: int) -> tuple[float, Links]:
    routes = []
    with timed() as watch:
        for start in range(0, len(arrivals), batch):
            routes += forwarding.route(arrivals[start : start + batch])
    return watch.seconds, [frozenset(link for _, links in route.sends for link in links) for route in routes]


def _row(work: Work, way: str, seconds: float) -> Row:
    return Row(len(work.filters), way, 1e6 * seconds / len(work.events))


def _agree(way: str, found: Links, wanted: Links) -> int:
    """How many links more than are wanted; an error where one is missing."""
    for own, right in zip(found, wanted, strict=True):
        if not own >= right:
            raise AssertionError(f"{way} loses links {sorted(right - own)}")
    return sum(len(own - right) for own, right in zip(found, wanted, strict=True))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000], help="filters")
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--poset", type=int, default=10_000, help="filters up to which the Siena poset is built")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    pin_to_one_core()
    rows = [row for size in options.sizes for row in measure(size, options.events, options.poset)]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows)
    return 0


_COLUMNS: list[tuple[str, Callable[[Row], float | None]]] = [
    ("µs/event", lambda row: row.microseconds),
    ("operations/event", lambda row: row.operations),
    ("× poset", lambda row: row.times_poset),
    ("× columnar", lambda row: row.times_columnar),
    ("header bytes", lambda row: row.header_bytes),
    ("false links/event", lambda row: row.false_links),
]


def show(rows: Sequence[Row]) -> None:
    table = Table(title="The links of an event at one broker, one core, CPU time", title_justify="left")
    table.add_column("filters", justify="right")
    table.add_column("way", no_wrap=True)
    for name, _ in _COLUMNS:
        table.add_column(name, justify="right")
    before = None
    for row in rows:
        if before not in (None, row.filters):
            table.add_section()
        table.add_row(
            short(row.filters) if row.filters != before else "", row.way, *(figure(get(row)) for _, get in _COLUMNS)
        )
        before = row.filters
    Console(width=None if sys.stdout.isatty() else 150).print(table)


if __name__ == "__main__":
    sys.exit(main())
