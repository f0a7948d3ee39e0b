"""`palio spark generate`: workloads of any size."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from palio.cli import terminal
from palio.cli.spark.options import session_options
from palio.cli.spark.output import OutputFolder
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
    from palio.cli.spark.running import run
    from palio.spark import generate as generate_on_spark
    from palio.spark.places import inside
    from palio.spark.session import open_session
    from palio.workloads.generated import workload as workload_by_name

    if not events and not subscriptions:
        raise click.UsageError("say how many: --events N, --subscriptions N, or both")
    made = workload_by_name(workload, seed=seed, **_parameters(parameters))  # before Spark starts
    counts: dict[Kind, int] = {"events": events, "subscriptions": subscriptions}
    folders = {kind: OutputFolder(inside(out, kind)) for kind, count in counts.items() if count}
    times = Times()
    with times.measure("starting"):
        spark = open_session(master, settings)
    try:
        for kind, folder in folders.items():
            frame = generate_on_spark(spark, made, kind, counts[kind], partitions=partitions)
            with times.measure(kind):
                run(spark, f"Making {kind}", partial(folder.write, frame))
    finally:
        spark.stop()
    if as_json:
        rows = {kind: counts[kind] for kind in folders}
        terminal.print_json({"workload": workload, "seed": seed, "out": out, **rows, "seconds": times.rounded})
        return
    facts = [
        (
            kind,
            f"{counts[kind]:,} in {folder.address}, {terminal.rate(counts[kind], times.seconds[kind])} a second",
        )
        for kind, folder in folders.items()
    ]
    terminal.results().print(terminal.facts([*facts, time_fact(times.seconds)]))


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
