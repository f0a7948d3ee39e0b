"""`palio subscribe`: print events as they come."""

from __future__ import annotations

import time
from typing import Any

import click

from palio.cli import terminal
from palio.cli.connecting import Place, broker_options, run
from palio.cli.language import language_option
from palio.filters.filter import Filter
from palio.network.client.received import ReceivedEvent


@click.command()
@click.argument("where", metavar="WHERE")
@click.option("--durable", metavar="NAME", help="A subscription of this name, whose events wait while nobody listens.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many events.")
@click.option("--queue", type=click.IntRange(1), metavar="N", help="How many events may wait at the broker.")
@click.option("--overflow", type=click.Choice(["block", "drop_oldest", "drop_newest", "disconnect"]),
              help="What happens to more.")  # fmt: skip
@language_option(help="The language of the condition.")
@broker_options
def subscribe(
    where: str,
    durable: str | None,
    count: int | None,
    queue: int | None,
    overflow: Any,
    language: str,
    place: Place,
    as_json: bool,
) -> None:
    """Print events that match a condition as they come, each as JSON on a line, until Ctrl-C.

    With --json each line has the event's id, source and time beside its data, and where brokers serve with --stamps
    when it passed which links. An event of a --durable subscription is
    printed before the broker may forget it.

    \b
    Examples:
      palio subscribe "symbol = 'ACME' AND price > 100"
      palio subscribe "TRUE" --json --count 10
      palio subscribe "price > 100" --durable desk-7
    """
    wanted = Filter.parse(where, language)

    async def doing() -> None:
        seen, began = 0, time.perf_counter()
        console = terminal.messages()
        async with place.connect() as broker:
            subscription = broker.subscribe(wanted, durable=durable, queue=queue or 0, overflow=overflow)
            try:
                async with subscription as events:
                    if console.is_terminal:
                        console.print(f"waiting for events from {broker.address}; Ctrl-C ends", style="quiet")
                    async for event in events:
                        terminal.print_json(_envelope(event) if as_json else terminal.as_json(event), at_once=True)
                        await event.ack()
                        seen += 1
                        if seen == count:
                            return
            finally:
                if console.is_terminal:
                    dropped = f"; {subscription.dropped:,} more were dropped" if subscription.dropped else ""
                    took = terminal.duration(time.perf_counter() - began)
                    console.print(f"{terminal.plural(seen, 'event')} in {took}{dropped}", style="quiet")

    run(doing())


def _envelope(event: ReceivedEvent) -> dict[str, Any]:
    envelope: dict[str, Any] = {"id": event.id}
    if event.source is not None:
        envelope["source"] = event.source
    if event.time is not None:
        envelope["time"] = event.time.isoformat()
    if event.stamps:
        envelope["stamps"] = [stamp._asdict() for stamp in event.stamps]
    return {**envelope, "data": terminal.as_json(event)}
