"""`palio spark generate`: workloads of any size."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from palio.cli import terminal
from palio.cli.report import report_option, write_page
from palio.cli.spark.options import session_options
from palio.cli.spark.output import OutputFolder
from palio.cli.spark.sessions import opened_session
from palio.cli.spark.timing import Times, time_fact

if TYPE_CHECKING:
    from palio.spark.generating import Kind


@click.command()
@click.argument("workload")
@click.option("--out", required=True, metavar="FOLDER", help="Where events and subscriptions are written, as Parquet.")
@click.option("--events", type=click.IntRange(0), default=0, metavar="N", help="How many events.")
@click.option("--subscriptions", type=click.IntRange(0), default=0, metavar="N", help="How many subscriptions.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Which of all such workloads.")
@click.option("--set", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the workload, as JSON.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="How many files; the rows are the same.")
@session_options
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def generate(
    workload: str,
    out: str,
    events: int,
    subscriptions: int,
    seed: int,
    parameters: tuple[str, ...],
    partitions: int | None,
    master: str | None,
    settings: dict[str, str],
    report: str | None,
    as_json: bool,
) -> None:
    """Make events and subscriptions to test and measure with.

    \b
    Examples:
      palio spark generate mix --events 1000000 --subscriptions 10000 --out work/
      palio spark generate xsiena --subscriptions 100000 --seed 7 --out work/
      palio spark generate eq --events 100000000 --set vocabulary=5000 --out work/

    WORKLOAD is eq, mix, xsiena, shen, shen-letters or baldoni. The same seed and parameters give the same rows.
    """
    from palio.cli.spark.running import Seen, run
    from palio.spark import generate as generate_on_spark
    from palio.spark.places import inside
    from palio.workloads.generated import workload as workload_by_name

    if not events and not subscriptions:
        raise click.UsageError("say how many: --events N, --subscriptions N, or both")
    made = workload_by_name(workload, seed=seed, **_parameters(parameters))  # before Spark starts
    counts: dict[Kind, int] = {"events": events, "subscriptions": subscriptions}
    times, seen = Times(), {kind: Seen() for kind, count in counts.items() if count}
    with ExitStack() as stack:
        folders = {kind: stack.enter_context(OutputFolder(inside(out, kind))) for kind in seen}
        spark = stack.enter_context(opened_session(master, settings, times))
        for kind, folder in folders.items():
            frame = generate_on_spark(spark, made, kind, counts[kind], partitions=partitions)
            with times.measure(kind):
                run(spark, f"Making {kind}", partial(folder.write, frame), seen[kind])
    speeds = {kind: terminal.rate(counts[kind], times.seconds[kind]) for kind in folders}
    facts = [
        *((kind, f"{counts[kind]:,} in {each.address}, {speeds[kind]} a second") for kind, each in folders.items()),
        time_fact(times.seconds),
    ]
    if report is not None:
        from palio.cli.spark.reporting import generate_page

        write_page(generate_page(workload, facts, seen, times.seconds), report)
    if as_json:
        rows = {kind: counts[kind] for kind in folders}
        terminal.print_json({"workload": workload, "seed": seed, "out": out, **rows, "seconds": times.rounded})
        return
    terminal.results().print(terminal.facts(facts))


def _parameters(given: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} is no parameter; write NAME=VALUE", param_hint="--set")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[name.strip()] = tuple(value) if isinstance(value, list) else value
    return found
