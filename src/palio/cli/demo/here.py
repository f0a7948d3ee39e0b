"""The demonstration within this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from palio.cli import terminal
from palio.cli.demo.answers import Answers

if TYPE_CHECKING:
    import pyarrow as pa

    from palio.matching.matcher import Matcher
    from palio.workloads.flights import Subscription

_MEASURED: Final = 0.4  # seconds that are measured at least


def match(wants: list[Subscription], flights: pa.Table) -> tuple[Answers, list[tuple[str, str]]]:
    """Build, compile, match; the same batch again and again until there is something to measure."""
    from palio.matching.matcher import Matcher
    from palio.matching.subscription import Subscription

    subscriptions = [Subscription(each.id, each.where, subscriber=each.subscriber) for each in wants]
    with terminal.status("Compiling for this machine"):
        started = time.perf_counter()
        first = Matcher()
        first.add_subscriptions(subscriptions[:100])
        first.match_batch(flights.slice(0, 100))
        compiling = time.perf_counter() - started
    matcher = Matcher()
    with terminal.status(f"Indexing {len(wants):,} subscriptions"):
        started = time.perf_counter()
        matcher.add_subscriptions(subscriptions)
        building = time.perf_counter() - started
    with terminal.status(f"Matching {len(flights):,} flights"):
        found = None
        rounds = 0
        started = time.perf_counter()
        while found is None or time.perf_counter() - started < _MEASURED:
            found = matcher.match_batch(flights)
            rounds += 1
        matching = (time.perf_counter() - started) / rounds
    answers = Answers.of_ids(found["row"].to_numpy(), found["subscription"].combine_chunks(), wants)
    return answers, list(_facts(matcher, len(flights), len(found), building, compiling, matching))


def _facts(
    matcher: Matcher, events: int, matches: int, building: float, compiling: float, matching: float
) -> Iterator[tuple[str, str]]:
    many = len(matcher)
    each = f"{matcher.statistics().bytes_per_subscription:.0f} bytes each"
    adding = f"{terminal.rate(many, building)} a second"
    yield "indexed", f"{terminal.plural(many, 'subscription')} in {terminal.duration(building)}: {adding}, {each}"
    yield "kernels", f"ready in {terminal.duration(compiling)}; the first run compiles them"
    speed = f"{terminal.rate(events, matching)} events/s"
    answering = f"{terminal.rate(matches, matching)} matches/s"
    yield "matched", f"{events:,} flights in {terminal.duration(matching)}: {speed}, {answering}"
    asked = f"asked one by one that is {terminal.plural(events * many, 'question')}"
    yield "answered", f"{matches:,} matches, {matches / events:.3g} for each flight; {asked}"
