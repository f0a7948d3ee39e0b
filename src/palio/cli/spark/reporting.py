"""The pages of the commands of `palio spark`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from palio.cli import terminal
from palio.cli.report import Page, Point, bars, columns, line, plain

if TYPE_CHECKING:
    from palio.cli.spark.ranking import Ranking
    from palio.cli.spark.running import Seen
    from palio.cli.spark.summary import Figures
    from palio.spark.estimating import Estimate
    from palio.spark.generating import Kind
    from palio.spark.streaming.journal import Progress

_MOST_BARS: Final = 20
_MOST_NAMES: Final = 60
Facts = Sequence[tuple[str, str]]
Ranked = Sequence[tuple[str, int]]


def match_page(what: str, facts: Facts, ranking: Ranking | None, figures: Figures) -> Page:
    """The page of a job that is over when it is over."""
    page = Page(f"Palio on Spark: {what}", facts)
    if ranking is not None:
        _rank(page, ranking)
    _share(page, figures.sizes, figures.times.seconds)
    _rows(page, "Rows read", figures.seen)
    return page


def stream_page(
    facts: Facts,
    ranking: Ranking | None,
    sizes: list[int],
    seconds: dict[str, float],
    batches: Sequence[Progress],
) -> Page:
    """The page of a stream, or of the part of it that was followed."""
    page = Page("Palio on Spark: a stream", facts)
    if batches:
        begin = batches[0].begun
        ends = [(each.finished - begin).total_seconds() for each in batches]
        speeds = [Point(at, each.events_per_second or 0.0) for at, each in zip(ends, batches, strict=True)]
        page.plot("Events a second", line(speeds, "seconds since the first batch began"), "In each batch, at its end.")
        found = [Point(at, float(each.matches or 0)) for at, each in zip(ends, batches, strict=True)]
        page.plot("Matches in each batch", line(found, "seconds since the first batch began"))
        lags = [Point(at, each.lag) for at, each in zip(ends, batches, strict=True) if each.lag is not None]
        if lags:
            page.plot("Lag", line(lags, "seconds since the first batch began", lambda lag: f"{plain(lag)} s"))
    if ranking is not None:
        _rank(page, ranking)
    _share(page, sizes, seconds)
    return page


def estimate_page(condition: str, facts: Facts, found: Estimate, seconds: dict[str, float]) -> Page:
    """The page of an estimate."""
    page = Page(f"Palio on Spark: how often {condition}?", facts)
    counted = found.sampled == found.events
    rates = [("rate", found.rate)] if counted else [("low", found.low), ("rate", found.rate), ("high", found.high)]
    page.plot("Share of events", bars(rates, terminal.percent))
    if found.overlaps:
        alike = [(each.id, each.similarity) for each in found.overlaps]
        said = "Of the events that either fires for, those that both fire for."
        page.plot("Fires with", bars(alike, terminal.percent), said)
    _time(page, seconds)
    return page


def covering_page(facts: Facts, covered: int, left: int, widest: Ranked, seconds: dict[str, float]) -> Page:
    """The page of a covering."""
    page = Page("Palio on Spark: subscriptions that others cover", facts)
    page.plot("Subscriptions", bars([("covered", covered), ("left", left)]))
    if widest:
        page.plot("Cover most others", bars(widest))
    _time(page, seconds)
    return page


def generate_page(workload: str, facts: Facts, made: Mapping[Kind, Seen], seconds: dict[str, float]) -> Page:
    """The page of a workload that was made."""
    page = Page(f"Palio on Spark: a workload of {workload}", facts)
    for kind, seen in made.items():
        if len(seen.points) > 1:
            page.plot(
                f"Rows of {kind}", line(seen.points, "seconds since the job began"), "As its tasks came to an end."
            )
    _time(page, seconds)
    return page


def _rank(page: Page, ranking: Ranking) -> None:
    if ranking.ranked:
        page.plot("Most matched subscriptions", bars(ranking.most(_MOST_BARS)))
    if len(ranking.ranked) > _MOST_BARS:  # else all are shown already
        page.plot("Least matched subscriptions", bars(ranking.least(_MOST_BARS)), "Of those that were matched at all.")
    never = ranking.never
    if never:
        more = f" The first {_MOST_NAMES}:" if len(never) > _MOST_NAMES else ""
        said = f"{terminal.plural(len(never), 'subscription')}.{more}"
        page.names("Never matched", never[:_MOST_NAMES], said)


def _share(page: Page, sizes: list[int], seconds: dict[str, float]) -> None:
    from palio.cli.spark.counting import skew

    if sizes:
        said = f"The largest is {skew(sizes):.1f} times the average."
        page.plot("Matches in each partition", columns(sizes, f"{terminal.plural(len(sizes), 'partition')}"), said)
    _time(page, seconds)


def _rows(page: Page, heading: str, seen: Seen) -> None:
    if len(seen.points) > 1:
        page.plot(heading, line(seen.points, "seconds since the job began"), "As its tasks came to an end.")


def _time(page: Page, seconds: dict[str, float]) -> None:
    page.plot("Time", bars(list(seconds.items()), terminal.duration))
