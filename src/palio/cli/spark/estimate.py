"""`palio spark estimate`: how often would this condition fire?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from palio.cli import terminal
from palio.cli.language import language_option
from palio.cli.report import report_option, write_page
from palio.cli.spark.events import FORMATS, read_events
from palio.cli.spark.gathering import absent_facts, gather, refused_as_dicts, refused_facts
from palio.cli.spark.options import session_options
from palio.cli.spark.sessions import opened_session
from palio.cli.spark.timing import Times, time_fact

if TYPE_CHECKING:
    from rich.console import Console

    from palio.spark.estimating import Estimate
    from palio.spark.wants import Wants


@click.command()
@click.argument("condition")
@click.option(
    "--over", "archive", required=True, metavar="PATHS", help="The archive: 'events/*.parquet', a folder, a table."
)
@language_option(help="What the condition is written in, and subscriptions that do not say.")
@click.option("--format", type=click.Choice(FORMATS), help="What the archive is, where its name does not say.")
@click.option("--sample", type=click.IntRange(1), default=100_000, show_default=True, metavar="N",
              help="About how many events to look at.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95,
              show_default=True, metavar="P", help="How sure the interval is to hold the rate.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Which sample is drawn.")
@click.option("--subscriptions", metavar="PATH", help="Those that are there already: which of them fire with it?")
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many of those to show.")  # fmt: skip
@session_options
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def estimate(
    condition: str,
    archive: str,
    language: str,
    format: str | None,
    sample: int,
    confidence: float,
    seed: int,
    subscriptions: str | None,
    top: int,
    master: str | None,
    settings: dict[str, str],
    report: str | None,
    as_json: bool,
) -> None:
    """Say how often a condition would fire, from a sample of an archive.

    \b
    Examples:
      palio spark estimate "price > 100" --over 'archive/*.parquet'
      palio spark estimate "status = 'failed'" --over db.orders --sample 1000000 --confidence 0.99
      palio spark estimate "price > 100" --over archive/ --subscriptions wants.jsonl

    An archive with no more events than the sample is counted.
    """
    from palio.cli.spark.running import run
    from palio.filters.filter import Filter
    from palio.spark import estimate as estimate_on_spark
    from palio.spark.columns import needed_columns

    wanted = Filter.parse(condition, language)  # before Spark starts: what cannot be read need not wait for it
    times = Times()
    wants = None
    with opened_session(master, settings, times) as spark:
        if subscriptions is not None:
            with times.measure("indexing"):
                wants = gather(spark, subscriptions, language)
        events = read_events(spark, archive, format)
        absent = needed_columns(events, wanted.attributes).absent
        with times.measure("estimating"):
            found = run(
                spark,
                "Estimating",
                lambda: estimate_on_spark(
                    events, condition, language=language, sample=sample, confidence=confidence, seed=seed,
                    subscriptions=wants, top=top,
                ),
            )  # fmt: skip
    facts = [*_facts(found, archive, confidence, times, wants), *absent_facts(absent)]
    if report is not None:
        from palio.cli.spark.reporting import estimate_page

        write_page(estimate_page(condition, facts, found, times.seconds), report)
    if as_json:
        refused = {} if wants is None else {"refused": refused_as_dicts(wants)}
        more = {"expected": found.expected, "absent": absent, **refused, "seconds": times.rounded}
        terminal.print_json({**asdict(found), **more})
    else:
        _print(terminal.results(), found, facts)


def _print(console: Console, found: Estimate, facts: list[tuple[str, str]]) -> None:
    from rich.table import Column
    from rich.text import Text

    if found.overlaps:
        room = 24 if console.width >= terminal.WIDE else 12
        table = terminal.table(
            "fires with", terminal.numbers("matches"), terminal.numbers("both"), terminal.numbers("alike"),
            Column("", width=room),
        )  # fmt: skip
        for each in found.overlaps:
            table.add_row(
                Text(each.id, style="name"), f"{each.matches:,}", f"{each.both:,}", terminal.percent(each.similarity),
                terminal.bar(each.similarity, room),
            )  # fmt: skip
        console.print(table)
        console.print()
    console.print(terminal.facts(facts))


def _facts(
    found: Estimate, archive: str, confidence: float, times: Times, wants: Wants | None
) -> Iterator[tuple[str, str]]:
    seen = f"{found.matches:,} of {terminal.plural(found.sampled, 'event')}"
    if found.sampled == found.events:
        yield "rate", f"{terminal.percent(found.rate)}, counted: {seen}"
    else:
        between = f"between {terminal.percent(found.low)} and {terminal.percent(found.high)}"
        yield "rate", f"{terminal.percent(found.rate)}, with {confidence:.4g} {between}"
        yield "sample", seen
        low, high = round(found.low * found.events), round(found.high * found.events)
        yield "expected", f"{found.expected:,} of the {found.events:,} in {archive}, between {low:,} and {high:,}"
    yield time_fact(times.seconds)
    if wants is not None:
        yield from refused_facts(wants)
