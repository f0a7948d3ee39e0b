"""`palio demo`: real flights against subscriptions, to see what Palio does before one has data at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from palio.cli import terminal
from palio.cli.demo.sigma import sigma

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from palio.workloads.flights import Subscription

_GENERATED: Final = 5_000


@click.group(invoke_without_command=True)
@click.option(
    "--subscriptions", "generated", type=click.IntRange(0), default=_GENERATED, show_default=True,
    metavar="N", help="How many subscriptions to generate beside the dozen.",
)  # fmt: skip
@click.option(
    "--events", type=click.IntRange(1), metavar="N",
    help="How many flights to match; the 10,000 of the sample come again where more are asked for.",
)  # fmt: skip
@click.option("--spark", is_flag=True, help="Match on Spark, on all cores of this machine. Needs palio[spark].")
@click.option(
    "--save", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="Also write the subscriptions and the flights there, for `palio match` and `palio check`.",
)  # fmt: skip
@click.pass_context
def demo(ctx: click.Context, generated: int, events: int | None, spark: bool, folder: Path | None) -> None:
    """See it work: real flights against thousands of subscriptions.

    The flights are a sample of those that left New York City in 2013. A dozen subscriptions were written by
    hand; the others are generated from the flights.

    \b
    Examples:
      palio demo
      palio demo --subscriptions 100000
      palio demo --spark
      palio demo --save flights
      palio demo sigma
    """
    if ctx.invoked_subcommand is not None:
        return
    import pyarrow as pa

    from palio.cli.demo.answers import print_answers
    from palio.workloads.flights import SUBSCRIPTIONS, generated_subscriptions, sample

    if spark:
        from palio.cli.demo.on_spark import match
    else:
        from palio.cli.demo.here import match

    with terminal.status("Reading flights and making subscriptions"):
        flights = sample()
        wants = [*SUBSCRIPTIONS, *generated_subscriptions(generated)]
        if events is not None:
            flights = pa.concat_tables([flights] * -(-events // len(flights))).slice(0, events)
        flights = flights.combine_chunks()
    answers, facts = match(wants, flights)
    console = terminal.results()
    print_answers(console, wants, len(SUBSCRIPTIONS), flights, answers)
    console.print()
    console.print(terminal.facts(facts))
    if folder is not None:
        _save(folder, wants, flights)
    _print_hints(console, folder)


def _print_hints(console: Console, folder: Path | None) -> None:
    from rich.text import Text

    where = "flights" if folder is None else str(folder)
    hints = [
        ("why one condition matches, or not", f"palio explain \"{_WHY}\" '{_FLIGHT}'"),
        (
            "the same from files" if folder else "the same from files, which this makes",
            f"palio match {where}/wants.jsonl {where}/flights.parquet" if folder else "palio demo --save flights",
        ),
    ]
    console.print()
    console.print(Text("Try next", style="title"))
    for what, command in hints:
        console.print(Text.assemble(("  $ ", "quiet"), command), soft_wrap=True)
        console.print(Text(f"    {what}", style="quiet"), soft_wrap=True)


_WHY: Final = "dest = 'SFO' AND arr_delay > 60"
_FLIGHT: Final = json.dumps({"dest": "SFO", "arr_delay": 12})


def _save(folder: Path, wants: list[Subscription], flights: pa.Table) -> None:
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "wants.jsonl", "w", encoding="utf-8") as file:
        for each in wants:
            line = {"id": each.id, "subscriber": each.subscriber, "where": each.where, "wants": each.wants}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    pq.write_table(flights, folder / "flights.parquet")


demo.add_command(sigma)
