"""`palio status`: how is a broker? Neighbours, subscriptions, rates, queues, lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from palio.cli import terminal
from palio.cli.connecting import Place, broker_options, run

_SHOWN = 20
_SURVIVE = {  # what a confirmed event survives, by the safety of the store
    "durable": "survive a loss of power",
    "relaxed": "survive a kill; a loss of power may take the last",
    "memory": "last as long as the broker",
}


@click.command()
@broker_options
def status(place: Place, as_json: bool) -> None:
    """Say how a broker is: its neighbours, its clients, what waits for them, what was dropped.

    \b
    Examples:
      palio status
      palio status --connect palio://hub:7420 --json
    """

    async def doing() -> None:
        async with place.connect(patience=0) as broker:
            found = await broker.status()
        if as_json:
            terminal.print_json(found)
        else:
            _print(terminal.results(), found)

    run(doing())


def _print(console: Console, found: dict[str, Any]) -> None:
    network = found["network"]
    advertised = ", advertisements" if network["advertisements"] else ""
    console.print(f"broker {found['node']}, palio {found['version']}", style="title")
    rows = [
        ("listens at", ", ".join(found["addresses"])),
        ("runs for", f"{terminal.duration(found['uptime'])}, in its life number {found['incarnation']:,}"),
        ("network", f"{network['propagation']} propagation, {network['forwarding']} forwarding{advertised}"),
        ("confirmed events", _SURVIVE[found["safety"]]),
        ("subscriptions", f"{found['subscriptions']:,}"),
        ("events", _rates(found["rates"])),
        ("waiting", f"{terminal.plural(found['queued'], 'event')}{', publishers wait' if found['is_blocked'] else ''}"),
    ]
    if found["dead_letters"]:
        rows.append(("not delivered", f"{terminal.plural(found['dead_letters'], 'dead letter')}"))
    if found["unfinished"]:
        rows.append(("confirmed", f"{terminal.plural(found['unfinished'], 'event')} under way{_waited_for(found)}"))
    if found["inversions"]:
        rows.append(("out of order", f"{terminal.plural(found['inversions'], 'event')} of durable subscriptions"))
    dropped = [f"{count:,} ({reason})" for reason, count in sorted(found["drops"].items())]
    console.print(terminal.facts([*rows, ("dropped", ", ".join(dropped) or "nothing")]))
    tables = {
        "Neighbours": _neighbours(found),
        "Clients": _clients(found),
        "Durable subscriptions": _durable(found),
    }
    for title, table in tables.items():
        if table.row_count:
            console.print()
            console.print(title, style="title")
            console.print(table)
    left_out = sum(max(0, len(found[name]) - _SHOWN) for name in ("clients", "durable"))
    if left_out:
        console.print(f"and {left_out:,} more; --json has all", style="quiet")


def _waited_for(found: dict[str, Any]) -> str:
    away = [f"{broker}, which is away" for broker in found["away"]]
    full = [f"{broker}, whose disk takes no more" for broker in found["not_writing"]]
    return "".join(f"; waiting for broker {each}" for each in (*away, *full))


def _rates(rates: dict[str, float]) -> str:
    return ", ".join(f"{terminal.rate(rates[name], 1)} a second {name}" for name in ("in", "out"))


def _neighbours(found: dict[str, Any]) -> Table:
    table = terminal.table("address", "broker", terminal.numbers("waiting"), "")
    for each in found["neighbours"]:
        state = Text("up", style="good") if each["up"] else Text(each["reason"] or "away", style="bad")
        table.add_row(each["address"], str(each["node"] or ""), f"{each['queued']:,}", state)
    return table


def _clients(found: dict[str, Any]) -> Table:
    table = terminal.table(
        "client", "principal", "address", *map(terminal.numbers, ("subscriptions", "waiting", "dropped", "published"))
    )
    for each in found["clients"][:_SHOWN]:
        table.add_row(
            each["app"] or each["client"],
            each["principal"],
            each["address"],
            f"{len(each['subscriptions']):,}",
            _sum(each["subscriptions"], "queued"),
            _sum(each["subscriptions"], "dropped"),
            f"{each['published']:,}",
        )
    return table


def _durable(found: dict[str, Any]) -> Table:
    """Those that wait longest first."""
    table = terminal.table("name", "principal", *map(terminal.numbers, ("waiting", "dropped", "lag")), "")
    for each in sorted(found["durable"], key=lambda each: -each["lag"])[:_SHOWN]:
        state = Text("connected", style="good") if each["connected"] else Text("away", style="warning")
        lag = terminal.duration(each["lag"]) if each["queued"] else ""
        table.add_row(each["name"], each["principal"], f"{each['queued']:,}", f"{each['dropped']:,}", lag, state)
    return table


def _sum(subscriptions: Iterable[dict[str, Any]], what: str) -> str:
    return f"{sum(each[what] for each in subscriptions):,}"
