"""The pages of `spark match`, `spark backfill` and `spark stream`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from palio.cli import terminal
from palio.cli.report import Page, Point, bars, columns, line, plain

if TYPE_CHECKING:
    from palio.cli.spark.ranking import Ranking
    from palio.cli.spark.summary import Figures
    from palio.spark.streaming.journal import Progress

_MOST_BARS: Final = 20
_MOST_NAMES: Final = 60
Facts = Sequence[tuple[str, str]]


def match_page(what: str, facts: Facts, ranking: Ranking | None, figures: Figures) -> Page:
    """The page of a job that is over when it is over."""
    page = Page(f"Palio on Spark: {what}", facts)
    if ranking is not None:
        _rank(page, ranking)
    _share(page, figures.sizes, figures.times.seconds)
    if len(figures.seen.points) > 1:
        page.plot("Rows read", line(figures.seen.points, "seconds since the job began"), "As its tasks came to an end.")
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
    page.plot("Time", bars(list(seconds.items()), terminal.duration))
