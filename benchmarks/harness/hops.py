"""Cost of an event at one broker: the common ground of the routing benchmarks that measure it.

The filters and events of Jerzak §9.2.1: two to five conditions on names of 20,000, some far more popular than others;
values normal in [0, 200,000]. As drawn, an event is wanted by nobody, and comes to no broker but the first; so each is
given the values that one of the filters asks for. Filters are spread evenly over four links. All that answer are
compared: by a header an event may go too far, never too short. Seconds are CPU seconds on one core, the best of three
rounds, while Python looks for no circles of references. Operations do not depend on the machine: filters asked for the
poset, filters found for the columnar matcher, and for headers what each way says.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.clock import pin_to_one_core, timed
from harness.report import figure, short
from palio.covering.classical.posets import SienaPoset
from palio.covering.corner_events import corner_events
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.routing.codec import Arrival, decode_event, encode_event
from palio.routing.forwarding.strategy import Route
from palio.routing.messages import EventId, Publish
from palio.workloads.distributions import Extent, Normal, Pareto
from palio.workloads.xsiena import Side, XSiena

LINKS = 4
UPSTREAM = LINKS + 1  # the link that events come by: what a client says of its events is believed by no broker
BATCH = 64
NAMES = 20_000
VALUES = Extent(0, 200_000, Normal())
SLOW = 200  # events for the structures that take long with each
_QUESTIONS = 2_000_000  # that the poset is asked at most, for one event after the other
_ROUNDS = 3
PASSES = 1 + _ROUNDS  # that `routed` makes: the first compiles and settles

Links = list[frozenset[int]]

POSET = "content: Siena poset"
COLUMNAR = "content: columnar, batches"


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

    def told(self, forwarding: Any, one_link: bool = False) -> Any:
        for place, wanted in enumerate(self.filters):
            link = 1 if one_link else self.link(place)
            forwarding.add_filter(link, blake2b(place.to_bytes(8, "big"), digest_size=16).digest(), wanted)
        return forwarding

    def arrivals(self, headers: Sequence[bytes] | None = None) -> list[Arrival]:
        given = headers or [b""] * len(self.events)
        return [
            Arrival(UPSTREAM, Publish(EventId(0, 0, place), encode_event(event), header))
            for place, (event, header) in enumerate(zip(self.events, given, strict=True))
        ]


def workload(seed: int = 2009) -> XSiena:
    def side() -> Side:
        return Side(Extent(1, 1), Extent(2, 5), NAMES, Pareto(), VALUES)

    return XSiena(side(), side(), seed=seed, form="columns")


def drawn(size: int, events: int) -> Work:
    """So many filters, and events that at least one of them wants."""
    made, choice = workload(), Random(size)
    filters = [Filter.parse(where) for where in made.subscriptions(size)["where"].to_pylist()]
    happened = []
    for each in made.event_dicts(events):
        corners = corner_events(choice.choice(filters))
        assert corners is not None
        happened.append(Event.from_dict({**each, **choice.choice(corners)}))
    return Work(filters, happened)


def beside_content(work: Work, poset_up_to: int, by_header: Callable[[Work, Links], list[Row]]) -> list[Row]:
    """What a header costs, beside content; the Siena poset for up to so many filters."""
    rows, wanted = _by_content(work)
    rows += by_header(work, wanted)
    if len(work.filters) <= poset_up_to:
        rows.insert(0, _by_poset(work, wanted))
    poset = next((row.microseconds for row in rows if row.way == POSET), None)
    columnar = next(row.microseconds for row in rows if row.way == COLUMNAR)
    for row in rows:
        row.times_poset = None if poset is None else poset / row.microseconds
        row.times_columnar = columnar / row.microseconds
    return rows


def _by_poset(work: Work, wanted: Links) -> Row:
    """Built from all filters at once: inserting one by one compares each with most others."""
    links: dict[Filter, set[int]] = {}
    for place, each in enumerate(work.filters):
        links.setdefault(each, set()).add(work.link(place))
    graph = SienaPoset.of(work.filters)
    some = work.events[: max(1, min(SLOW, _QUESTIONS // len(work.filters)))]
    with timed() as watch:
        found = [frozenset(link for each in graph.matching(event.attributes) for link in links[each]) for event in some]
    agree(POSET, found, wanted[: len(some)])
    return Row(len(work.filters), POSET, 1e6 * watch.seconds / len(some), graph.questions / len(some))


def _by_content(work: Work) -> tuple[list[Row], Links]:
    matcher = Matcher()
    matcher.add_many([str(place) for place in range(len(work.filters))], [str(each) for each in work.filters])
    matcher.merge()
    # Each round has ids of its own: what was read before may be remembered.
    unread = iter([[encode_event(Event(each.attributes)) for each in work.events] for _ in range(_ROUNDS)])

    def links(batch: list[Event]) -> Links:
        rows, numbers = matcher.match_events(batch)
        found: list[set[int]] = [set() for _ in batch]
        for place, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            found[place].add(work.link(number))
        return [frozenset(each) for each in found]

    def all_links(batch: int) -> Links:
        starts = range(0, len(work.events), batch)
        return [each for start in starts for each in links(list(work.events[start : start + batch]))]

    def from_bodies() -> None:
        bodies = next(unread)
        for start in range(0, len(bodies), BATCH):
            links([decode_event(body) for body in bodies[start : start + BATCH]])

    found = all_links(BATCH)
    operations = len(matcher.match_events(list(work.events))[0]) / len(work.events)
    rows = [
        row(work, "content: columnar, one by one", best(lambda: all_links(1)), operations),
        row(work, COLUMNAR, best(lambda: all_links(BATCH)), operations),
        row(work, "content: columnar, batches, bodies to be read", best(from_bodies), operations),
    ]
    return rows, found


def best(measured: Callable[[], object]) -> float:
    """The seconds of the best of some rounds: what disturbs a measurement only ever makes it slower."""
    seconds = []
    for _ in range(_ROUNDS):
        with timed() as watch:
            measured()
        seconds.append(watch.seconds)
    return min(seconds)


def read(arrivals: list[Arrival]) -> list[Arrival]:
    """The same with their bodies read, so that only matching is measured."""
    for each in arrivals:
        assert each.event is not None
    return arrivals


def routed(forwarding: Any, arrivals: Callable[[], list[Arrival]], batch: int) -> tuple[float, Links]:
    """The seconds of the best of some passes, and the links of each event."""
    seconds = []
    for _ in range(PASSES):
        routes: list[Route] = []
        came = arrivals()
        with timed() as watch:
            for start in range(0, len(came), batch):
                routes += forwarding.route(came[start : start + batch])
        seconds.append(watch.seconds)
    return min(seconds[1:]), [frozenset(link for _, links in route.sends for link in links) for route in routes]


def row(work: Work, way: str, seconds: float, operations: float | None = None) -> Row:
    return Row(len(work.filters), way, 1e6 * seconds / len(work.events), operations)


def agree(way: str, found: Links, wanted: Links) -> int:
    """How many links more than are wanted; an error where one is missing."""
    for own, right in zip(found, wanted, strict=True):
        if not own >= right:
            raise AssertionError(f"{way} loses links {sorted(right - own)}")
    return sum(len(own - right) for own, right in zip(found, wanted, strict=True))


def run(
    about: str | None,
    measure: Callable[[int, int, int], list[Row]],
    arguments: list[str] | None,
    conclude: Callable[[Sequence[Row]], None] = lambda rows: None,
) -> int:
    """The command of a part: measure some sizes, show the rows, and what follows from them."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000], help="filters")
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--poset", type=int, default=100_000, help="filters up to which the Siena poset is built")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    pin_to_one_core()
    gc.disable()
    try:
        rows = [row for size in options.sizes for row in measure(size, options.events, options.poset)]
    finally:
        gc.enable()
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows)
        conclude(rows)
    return 0


_COLUMNS: list[tuple[str, Callable[[Row], float | None]]] = [
    ("µs/event", lambda row: row.microseconds),
    ("operations", lambda row: row.operations),
    ("× poset", lambda row: row.times_poset),
    ("× columnar", lambda row: row.times_columnar),
    ("header bytes", lambda row: row.header_bytes),
    ("false links", lambda row: row.false_links),
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
