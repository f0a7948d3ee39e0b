"""`palio drain`: the orderly end of a broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import BrokerLocation, broker_options
from palio.errors import ConnectionFailed, Refused

if TYPE_CHECKING:
    from palio.network.client.broker import Broker

_POLL_SECONDS: Final = 0.25
_LEFT: Final = 1  # exit code


@click.command()
@click.option("--seconds", type=click.FloatRange(0, 86_400), default=60.0, show_default=True,
              help="After which the broker ends in any case.")  # fmt: skip
@broker_options
@click.pass_context
def drain(ctx: click.Context, seconds: float, place: BrokerLocation, as_json: bool) -> None:
    """End a broker once its clients have what waits for them. Needs the role admin.

    New clients are refused, and go to the next address that they were given; `/ready` is false. Connected subscribers
    get what waits for them, and then leave. Events of durable subscriptions that are away stay on disk. The exit
    code is 1 if some client was left at the time limit; the broker ends all the same.

    \b
    Examples:
      palio drain
      palio drain --connect palio://hub:7420 --seconds 300
    """

    async def drain_broker() -> str:
        async with place.connect(patience=0) as broker:
            try:
                return await _drain(broker, seconds)
            except ConnectionFailed as error:
                raise Refused(f"the broker ended before it said that it is drained: {error}") from None

    left = asyncio.run(drain_broker())
    if as_json:
        terminal.print_json({"drained": not left, "left": left})
    elif left:
        terminal.messages().print(f"warning: {left}", style="warning", soft_wrap=True)
    else:
        terminal.results().print("drained; the broker has ended")
    if left:
        ctx.exit(_LEFT)


async def _drain(broker: Broker, seconds: float) -> str:
    """Drain a broker, and show how far it is; what was left at the time limit, or nothing."""
    draining = asyncio.ensure_future(broker.drain(seconds))
    with terminal.progress(terminal.messages(), "Draining", seconds) as shown:
        task = shown.add_task("", total=seconds, done="")
        while not draining.done():
            await asyncio.wait([draining], timeout=_POLL_SECONDS)
            if not draining.done():
                now = (await broker.status())["draining"] or {"seconds_left": seconds}
                shown.update(task, completed=seconds - now["seconds_left"], done=_describe(now))
    try:
        await draining
    except Refused as left:
        return str(left)
    return ""


def _describe(now: dict[str, Any]) -> str:
    if "clients" not in now:
        return ""
    return f"{terminal.plural(now['clients'], 'client')}, {terminal.plural(now['events'], 'event')} wait"
