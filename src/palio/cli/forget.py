"""`palio forget`: a broker is not coming back."""

from __future__ import annotations

import click

from palio.cli import terminal
from palio.cli.connecting import Place, broker_options, run


@click.command()
@click.argument("broker", type=int)
@broker_options
def forget(broker: int, place: Place, as_json: bool) -> None:
    """Give up a BROKER that is away for ever: confirmed events wait for its durable subscriptions no more.

    `palio status` names the brokers that are waited for. All brokers are told, now or when they are back. What was
    owed to its subscribers alone is lost; should it come back after all, it is waited for again.

    \b
    Examples:
      palio forget 2716057
      palio forget 2716057 --connect palio://hub:7420 --token admin.secret
    """

    async def doing() -> None:
        async with place.connect(patience=0) as connected:
            await connected.forget(broker)
        if as_json:
            terminal.print_json({"forgotten": broker})
        else:
            terminal.results().print(f"No event waits for broker {broker} any more.")

    run(doing())
