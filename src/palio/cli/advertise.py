"""`palio advertise`: say what is going to be published, for as long as this runs."""

from __future__ import annotations

import asyncio

import click

from palio.cli import terminal
from palio.cli.connecting import Place, broker_options, run
from palio.cli.language import language_option
from palio.filters.filter import Filter


@click.command()
@click.argument("where", metavar="WHERE")
@language_option(help="The language of the condition.")
@broker_options
def advertise(where: str, language: str, place: Place, as_json: bool) -> None:
    """Say what is going to be published, until Ctrl-C.

    In a network with advertisements subscriptions go only where they may be served. Publishers of events that nobody
    advertised are refused: `palio publish --advertise` does both. When this ends, subscribers that nobody serves any
    more are told.

    \b
    Example:
      palio advertise "symbol = 'ACME'"
    """
    offered = Filter.parse(where, language)

    async def doing() -> None:
        async with place.connect() as broker:
            await broker.advertise(offered)
            if as_json:
                terminal.print_json({"advertised": str(offered)}, at_once=True)
            else:
                terminal.messages().print(f"advertised at {broker.address}; Ctrl-C withdraws it", style="good")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await broker.unadvertise(offered)

    run(doing())
