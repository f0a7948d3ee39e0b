"""Command `palio spark ring`."""

from __future__ import annotations

from pathlib import Path

import click

from palio.cli import terminal
from palio.cli.common_options import language_option
from palio.cli.spark.event_source import FORMATS, read_events
from palio.cli.spark.job import Stopwatch, command_session, time_fact
from palio.cli.spark.options import session_options
from palio.cli.spark.subscription_checks import gather, refused_as_dicts, refused_facts
from palio.errors import InputError


@click.command()
@click.argument("subscriptions")
@click.option(
    "--over", "archive", required=True, metavar="PATHS", help="The archive: 'events/*.parquet', a folder, a table."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the plan there, for `palio peer --plan FILE`.")  # fmt: skip
@click.option("--peers", type=click.IntRange(1, 10**9), default=100, show_default=True,
              help="About how many peers the ring will have.")  # fmt: skip
@click.option("--events-per-second", type=click.FloatRange(0, min_open=True), metavar="N",
              help="Events that will be published; with many, few keys of events count more.")  # fmt: skip
@click.option("--format", type=click.Choice(FORMATS), help="The format of the archive, if its name does not say.")
@click.option("--sample", type=click.IntRange(1), default=100_000, show_default=True, metavar="N",
              help="Approximate number of sampled events.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the sample.")
@language_option()
@session_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def ring(
    subscriptions: str,
    archive: str,
    out: Path | None,
    peers: int,
    events_per_second: float | None,
    format: str | None,
    sample: int,
    seed: int,
    language: str,
    master: str | None,
    settings: dict[str, str],
    as_json: bool,
) -> None:
    """Plan a ring of peers for an archive: how subscriptions and events get their keys.

    \b
    Examples:
      palio spark ring wants.jsonl --over 'archive/*.parquet' --peers 500 --out ring.plan
      palio spark ring wants.jsonl --over db.orders --events-per-second 1000
      palio peer --plan ring.plan

    The archive is sampled and matched; each mapping is tried on the sample.
    """
    from palio.cli.spark.job import run
    from palio.spark import ring_plan

    times = Stopwatch()
    with command_session(master, settings, times) as spark:
        with times.measure("indexing"):
            wants = gather(spark, subscriptions, language)
        events = read_events(spark, archive, format)
        with times.measure("planning"):
            plan = run(
                spark,
                "Planning",
                lambda: ring_plan(
                    events, wants, peers=peers, events_per_second=events_per_second, sample=sample, seed=seed,
                ),
            )  # fmt: skip
    if out is not None:
        try:
            plan.save(out)
        except OSError as error:
            raise InputError(str(out), error.strerror or str(error)) from None
    if as_json:
        terminal.print_json({
            "mapping": plan.mapping, "attributes": plan.attributes, "peers": peers, "events": plan.events,
            "sampled": plan.sampled, "subscriptions": plan.subscriptions, "matches_per_event": plan.matches_per_event,
            "event_copies": plan.event_copies, "subscription_copies": plan.subscription_copies,
            "out": None if out is None else str(out), "refused": refused_as_dicts(wants), "seconds": times.rounded,
        })  # fmt: skip
        return
    matched = f"{plan.matches_per_event:,.2f} of {terminal.plural(plan.subscriptions, 'subscription')}"
    facts = [
        ("mapping", f"{plan.mapping} on {', '.join(plan.attributes) or 'whatever attributes there are'}"),
        ("an event", f"goes to {plan.event_copies:.2f} peers by its keys, and matches {matched}"),
        ("a subscription", f"has {plan.subscription_copies:.2f} of {peers:,} peers by its keys"),
        ("sample", f"{plan.sampled:,} of {terminal.plural(plan.events, 'event')} in {archive}"),
        *([("written to", f"{out}; palio peer --plan {out}")] if out is not None else []),
        time_fact(times.seconds),
        *refused_facts(wants),
    ]
    terminal.results().print(terminal.facts(facts))
