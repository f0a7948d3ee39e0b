"""Cost of an event at one broker, strategy by strategy, beside matching its content; all in one run.

    python benchmarks/routing_forwarding.py
    python benchmarks/routing_forwarding.py --sizes 10000 --poset 0

Filters and events are those of `harness.hops`. Each strategy at the first broker, which looks at the content and writes
the header, and at a later one, which reads it. Operations: filters asked for the poset, filters found for the columnar
matcher; nodes of the forwarding tree; predicates satisfied, then digests tested; looks at indexes of links, then keys
looked up. The source's claim, stated after the table: at large tables a hop by header costs a hundredth of a look into
the Siena poset (Jerzak §9.1).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import routing_bloom
import routing_prefix
from harness.hops import BATCH, PASSES, POSET, Links, Row, Work, agree, beside_content, drawn, read, routed, row, run

from palio.routing.forwarding.bloom.bloom_forwarding import BloomForwarding
from palio.routing.forwarding.headers import encode
from palio.routing.forwarding.reuse.reuse_forwarding import ReuseForwarding
from palio.routing.forwarding.strategy import ForwardingConfig

CLAIMED = 100.0
CLAIMED_AT = 10_000
_KEYS = "reuse, partial(20): batches"


def measure(size: int, events: int, poset_up_to: int) -> list[Row]:
    return beside_content(drawn(size, events), poset_up_to, _by_header)


def _by_header(work: Work, wanted: Links) -> list[Row]:
    return [
        *routing_prefix.by_tree(work, wanted),
        *routing_bloom.by_digest(work, wanted, work.told(BloomForwarding(ForwardingConfig()))),
        *_by_keys(work, wanted),
    ]


def _by_keys(work: Work, wanted: Links) -> list[Row]:
    """Lists that a broker wrote behind one of whose links all filters are, divided among the links of this one."""
    here = work.told(ReuseForwarding(ForwardingConfig()))
    before = work.told(ReuseForwarding(ForwardingConfig()), one_link=True)
    seconds, found = routed(here, lambda: read(work.arrivals()), BATCH)
    rows = [row(work, "reuse, partial(20): first broker, batches", seconds, here.costs.matches / PASSES / len(found))]
    agree(rows[0].way, found, wanted)
    headers = [encode(route.sends[0][0]) for route in before.route(work.arrivals())]
    for way, batch in (("reuse, partial(20): one by one", 1), (_KEYS, BATCH)):
        here.costs.lookups = 0
        seconds, found = routed(here, lambda: work.arrivals(headers), batch)
        own = row(work, way, seconds, here.costs.lookups / PASSES / len(headers))
        own.header_bytes = sum(map(len, headers)) / len(headers)
        own.false_links = agree(way, found, wanted) / len(headers)
        rows.append(own)
    return rows


def conclude(rows: Sequence[Row]) -> None:
    """Beside what the sources claim, and where a header wins over the columnar matcher."""
    for each in rows:
        if each.way not in (routing_prefix.HEADER, routing_bloom.HEADER, _KEYS):
            continue
        said = f"{each.filters:,} filters, {each.way}: {each.times_columnar:.2g} × the columnar matcher"
        if each.times_poset is not None:
            said += f", {each.times_poset:,.0f} × the poset"
            if each.filters == CLAIMED_AT and each.way != _KEYS:
                said += f"; claimed {CLAIMED:.0f} ×: " + (
                    "confirmed" if each.times_poset >= CLAIMED else "not confirmed"
                )
        print(said)
    if not any(each.way == POSET for each in rows):
        print("The Siena poset was left out.")


def main(arguments: list[str] | None = None) -> int:
    return run(__doc__, measure, arguments, conclude)


if __name__ == "__main__":
    sys.exit(main())
