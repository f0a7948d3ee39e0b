"""`palio unsubscribe`: a durable subscription is not wanted any more."""

from __future__ import annotations

import click

from palio.cli import terminal
from palio.cli.connecting import Place, broker_options, run


@click.command()
@click.argument("name")
@broker_options
def unsubscribe(name: str, place: Place, as_json: bool) -> None:
    """End the durable subscription NAME, with all events that wait for it.

    `palio status` names those that there are.

    \b
    Example:
      palio unsubscribe desk-7
    """

    async def doing() -> None:
        async with place.connect(patience=0) as broker:
            await broker.unsubscribe(name)
        if as_json:
            terminal.print_json({"unsubscribed": name})
        else:
            terminal.results().print(f"No event waits for {name} any more.")

    run(doing())
