"""`palio spark backfill`: what new subscriptions would have been told before a stream had them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from palio.cli import terminal
from palio.cli.spark.events import Source
from palio.cli.spark.options import Flow, flow_options
from palio.cli.spark.running import run

if TYPE_CHECKING:
    from palio.spark.streaming.backfill import Backfilled


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@flow_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def backfill(ids: tuple[str, ...], flow: Flow, as_json: bool) -> None:
    """Tell new subscriptions, by their ids, what happened before the stream had them.

    The options are those of the stream, which may run meanwhile or not. Events are matched up to the point from
    which the stream does it: no event is left out and none is told twice, however often this is run.

    \b
    Example:
      palio spark subscribe wants/ --id acme --where "symbol = 'ACME'"
      palio spark backfill acme --events 'quotes/*.jsonl' --subscriptions wants/ --out hits/ --checkpoint state/
    """
    from palio.spark.session import open_session
    from palio.spark.streaming.backfill import backfill as fill_back

    source = Source(flow.events, flow.format, flow.schema)
    sink = flow.sink(source)
    spark = open_session(flow.master, flow.settings)
    try:
        done = run(
            spark,
            "Backfilling",
            lambda: fill_back(
                lambda point: source.before(spark, point),
                flow.subscriptions,
                sink,
                list(ids),
                checkpoint=flow.checkpoint,
                columns=flow.columns,
                json=(*flow.json, *source.json),
            ),
        )
    finally:
        spark.stop()
    if as_json:
        terminal.print_json(_as_dict(done))
    else:
        _print(done, flow.out)


def _as_dict(done: Backfilled) -> dict[str, Any]:
    point = done.handover
    return {
        "subscriptions": list(point.subscriptions),
        "version": point.version,
        "until_batch": point.batch,
        "offsets": point.offsets,
        "events": done.events,
        "matches": done.matches,
    }


def _print(done: Backfilled, out: str) -> None:
    from palio.spark.places import public

    console = terminal.results()
    if done.matches is None:
        console.print("This was done before; nothing was told again.")
        return
    point = done.handover
    facts = [
        ("subscriptions", ", ".join(point.subscriptions)),
        ("events", f"{done.events or 0:,} before batch {point.batch:,}, from which on the stream has them"),
        ("matches", f"{done.matches:,}, in {public(out)}"),
    ]
    console.print(terminal.facts(facts))
