"""`palio subscribe` and `palio unsubscribe`: print matching events; end a durable subscription."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from palio.cli import terminal
from palio.cli.common_options import BrokerLocation, broker_options, language_option, parse_seconds
from palio.cli.durable_limits import durable_limit_options
from palio.filters.filter import Filter
from palio.network.client.event_stream import ReceivedEvent
from palio.routing.durable_settings import DurableSettings


@click.command()
@click.argument("where", metavar="WHERE")
@click.option(
    "--durable",
    metavar="NAME",
    help="A durable subscription of this name: its events wait while no client is connected.",
)
@click.option("--standby", metavar="URL",
              help="A second home of the durable subscription, palio://…: it has each confirmed event too, and can "
                   "take over.")  # fmt: skip
@click.option("--group", metavar="NAME", help="A consumer group of this name: each event goes to one of its members.")
@click.option("--key", metavar="ATTRIBUTE", help="Events of a group with the same value of it are processed in order.")
@click.option("--for", "lease", metavar="TIME",
              help="A lease, such as 10m, 12h or 90s: the broker ends the subscription when it has heard nothing of "
                   "this program for so long.")  # fmt: skip
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N events.")
@click.option("--queue", type=click.IntRange(1), metavar="N", help="Size of the delivery queue at the broker.")
@click.option("--overflow", type=click.Choice(["block", "drop_oldest", "drop_newest", "disconnect"]),
              help="Overflow policy of the delivery queue.")  # fmt: skip
@durable_limit_options("Of a durable subscription or group: ")
@language_option(help="The language of the condition.")
@broker_options
def subscribe(
    where: str,
    durable: str | None,
    standby: str | None,
    group: str | None,
    key: str | None,
    lease: str | None,
    count: int | None,
    queue: int | None,
    overflow: Any,
    limits: dict[str, Any],
    language: str,
    place: BrokerLocation,
    as_json: bool,
) -> None:
    """Print the events that match a condition as they come, each as JSON on a line, until Ctrl-C.

    With --json each line has the event's id, source and time beside its data and, if brokers run with --timeliness,
    the seconds that it is old at most, with --stamps the links that it passed. An event of a --durable subscription or
    of a --group is acknowledged after it is printed. One program at a time reads a durable subscription; the members of
    a group share one, and each event is printed by one of them.

    Limits of a durable subscription that are given replace all that it has; without any, it keeps those. `palio durable
    limit` changes one at a time.

    \b
    Examples:
      palio subscribe "symbol = 'ACME' AND price > 100"
      palio subscribe "TRUE" --json --count 10
      palio subscribe "price > 100" --durable desk-7
      palio subscribe "price > 100" --durable desk-7 --standby palio://other:7420
      palio subscribe "price > 100" --durable desk-7 --max-events 10000 --on-full drop_oldest
      palio subscribe "price > 100" --for 10m
      palio subscribe "kind = 'payment'" --group billing --key account
    """
    from palio.cli.condition_diagnostics import doubtful_dates

    wanted = Filter.parse(where, language)
    seconds = None if lease is None else parse_seconds(lease)
    for doubt in doubtful_dates(where, language):
        terminal.warning(doubt)

    async def print_events() -> None:
        seen, began = 0, time.perf_counter()
        console = terminal.messages()
        async with place.connect() as broker:
            subscription = broker.subscribe(
                wanted,
                durable=durable,
                settings=DurableSettings(**limits) if limits else None,
                standby=standby,
                group=group,
                key=key,
                queue=queue or 0,
                overflow=overflow,
                lease=seconds,
            )
            try:
                async with subscription as events:
                    if console.is_terminal:
                        console.print(f"waiting for events from {broker.address}; Ctrl-C ends", style="quiet")
                    async for event in events:
                        terminal.print_json(_envelope(event) if as_json else terminal.as_json(event), at_once=True)
                        # After printing: an event that was not printed is delivered again.
                        await event.ack()
                        seen += 1
                        if seen == count:
                            return
            finally:  # the summary comes after Ctrl-C, too
                if console.is_terminal:
                    dropped = f"; {subscription.dropped:,} more were dropped" if subscription.dropped else ""
                    took = terminal.duration(time.perf_counter() - began)
                    console.print(f"{terminal.plural(seen, 'event')} in {took}{dropped}", style="quiet")

    asyncio.run(print_events())


def _envelope(event: ReceivedEvent) -> dict[str, Any]:
    envelope: dict[str, Any] = {"id": event.id}
    if event.source is not None:
        envelope["source"] = event.source
    if event.time is not None:
        envelope["time"] = event.time.isoformat()
    if event.age is not None:
        envelope["age"] = event.age
    if event.stamps:
        envelope["stamps"] = [stamp._asdict() for stamp in event.stamps]
    return {**envelope, "data": terminal.as_json(event)}


@click.command()
@click.argument("name")
@broker_options
def unsubscribe(name: str, place: BrokerLocation, as_json: bool) -> None:
    """End the durable subscription NAME, and discard its queue.

    `palio durable list` lists the durable subscriptions.

    \b
    Example:
      palio unsubscribe desk-7
    """

    async def end_subscription() -> None:
        async with place.connect(patience=0) as broker:
            await broker.unsubscribe(name)
        if as_json:
            terminal.print_json({"unsubscribed": name})
        else:
            terminal.results().print(f"No event waits for {name} any more.")

    asyncio.run(end_subscription())
