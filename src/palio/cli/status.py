"""`palio status` and `palio forget`: the state of a broker; giving up a broker that is not coming back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from palio.cli import terminal
from palio.cli.common_options import BrokerLocation, broker_options

_MAX_ROWS = 20
_MAX_CONDITION_WIDTH = 60
_SAFETY_MEANING = {  # which failures a confirmed event survives
    "durable": "survive a loss of power",
    "relaxed": "survive a kill; a loss of power may take the last",
    "memory": "last as long as the broker",
}


@click.command()
@click.option("--slowest", is_flag=True, help="Show the subscriptions whose conditions take most of the time instead.")
@broker_options
def status(place: BrokerLocation, as_json: bool, slowest: bool) -> None:
    """Show the state of a broker: its neighbours, its clients, their queues, and dropped events.

    \b
    Examples:
      palio status
      palio status --slowest
      palio status --connect palio://hub:7420 --json
    """

    async def print_status() -> None:
        # Without reconnection attempts: where no broker answers, the command says so at once.
        async with place.connect(patience=0) as broker:
            found = await broker.status()
        if slowest:
            found = {name: found[name] for name in ("slowest", "matching_seconds", "put_aside")}
        if as_json:
            terminal.print_json(found)
        elif slowest:
            _print_slowest(terminal.results(), found)
        else:
            _print(terminal.results(), found)

    asyncio.run(print_status())


def _print(console: Console, found: dict[str, Any]) -> None:
    network = found["network"]
    advertised = ", advertisements" if network["advertisements"] else ""
    is_peer = "ring" in found  # one that has no neighbours, but others on a ring or an overlay, which is shown below
    console.print(f"{'peer' if is_peer else 'broker'} {found['node']}, palio {found['version']}", style="title")
    routed = f"{network['propagation']} propagation, {network['forwarding']} forwarding{advertised}"
    rows = [
        ("listens at", ", ".join(found["addresses"])),
        ("runs for", f"{terminal.duration(found['uptime'])}, in its life number {found['incarnation']:,}"),
        *([] if is_peer else [("network", routed)]),
        ("confirmed events", _SAFETY_MEANING[found["safety"]]),
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
    if "ring" in found:
        console.print()
        console.print("Overlay" if "overlay" in found["ring"] else "Ring", style="title")
        console.print(terminal.facts(_ring(found["ring"])))
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
    left_out = sum(max(0, len(found[name]) - _MAX_ROWS) for name in ("clients", "durable"))
    if left_out:
        console.print(f"and {left_out:,} more; --json has all", style="quiet")


def _print_slowest(console: Console, found: dict[str, Any]) -> None:
    numbers = map(terminal.numbers, ("seconds", "share", "samples", "unexamined"))
    table = terminal.table("subscription", "principal", *numbers, "condition")
    for each in found["slowest"][:_MAX_ROWS]:
        table.add_row(
            each["subscription"],
            each["principal"],
            f"{each['seconds']:.3f}",
            f"{each['share']:.0%}",
            f"{each['samples']:,}",
            f"{each['unexamined']:,}",
            terminal.shorten(each["condition"], _MAX_CONDITION_WIDTH),
        )
    console.print(f"{found['matching_seconds']:.3f} seconds of matching were attributed", style="title")
    console.print(table if table.row_count else "No condition took time that counts.")
    if found["put_aside"]:
        console.print()
        console.print("Put aside", style="title")
        aside = terminal.table("subscription", "reason")
        for each in found["put_aside"][:_MAX_ROWS]:
            aside.add_row(each["subscription"], each["reason"])
        console.print(aside)


def _waited_for(found: dict[str, Any]) -> str:
    away = [f"{broker}, which is away" for broker in found["away"]]
    full = [f"{broker}, whose disk takes no more" for broker in found["not_writing"]]
    waited = [f"broker {each}" for each in (*away, *full)]
    if found["full"]:
        queues = "durable queue that is" if found["full"] == 1 else "durable queues that are"
        waited.append(f"{found['full']:,} {queues} full")
    waited += [f"broker {broker}, where a subscriber holds publishers back" for broker in found["blocking"]]
    return "".join(f"; waiting for {each}" for each in waited)


def _rates(rates: dict[str, float]) -> str:
    return ", ".join(f"{terminal.rate(rates[name], 1)} a second {name}" for name in ("in", "out"))


def _further(virtual_nodes: int) -> str:
    return f" and {terminal.plural(virtual_nodes - 1, 'other')}" if virtual_nodes > 1 else ""


def _ring(ring: dict[str, Any]) -> list[tuple[str, str]]:
    if not ring["is_member"]:
        return [("state", "joining")]
    knows = f"{terminal.plural(ring['peers_known'], 'peer')}, connected to {ring['connections']:,}"
    if "overlay" in ring:
        searching = ring["members"] - ring["placed"]
        asks = terminal.plural(ring["interests"], "condition")
        return [
            ("overlay", f"{ring['overlay']}, position {ring['position']}"),
            ("asks for", f"{asks}, {searching:,} without a place yet" if searching else asks),
            ("neighbours", f"{ring['neighbours']:,}"),
            ("in vain", f"{terminal.plural(ring['in_vain'], 'event')} that nobody here wants"),
            ("knows", knows),
        ]
    kept = f", {terminal.plural(ring['kept'], 'event')} for peers that are away" if ring["kept"] else ""
    return [
        ("position", f"{ring['position']}{_further(ring['virtual_nodes'])}, after {ring['predecessor'] or 'nobody'}"),
        ("successors", ", ".join(ring["successors"])),
        ("mapping", f"{ring['mapping']}, {ring['replicas']} replicas"),
        ("stores", f"{terminal.plural(ring['stored'], 'subscription')}{kept}"),
        ("asks for", terminal.plural(ring["interests"], "condition")),
        ("knows", knows),
    ]


def _neighbours(found: dict[str, Any]) -> Table:
    has_bounds = any(each["delay_bound"] is not None for each in found["neighbours"])
    bound = [terminal.numbers("delay at most")] if has_bounds else []
    table = terminal.table("address", "broker", terminal.numbers("waiting"), *bound, "")
    for each in found["neighbours"]:
        state = Text("up", style="good") if each["up"] else Text(each["reason"] or "away", style="bad")
        seconds = each["delay_bound"]
        bounded = ["" if seconds is None else terminal.duration(seconds)] if has_bounds else []
        table.add_row(each["address"], str(each["node"] or ""), f"{each['queued']:,}", *bounded, state)
    return table


def _clients(found: dict[str, Any]) -> Table:
    table = terminal.table(
        "client", "principal", "address", *map(terminal.numbers, ("subscriptions", "waiting", "dropped", "published"))
    )
    for each in found["clients"][:_MAX_ROWS]:
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
    """Durable subscriptions, the largest lag first."""
    table = terminal.table("name", "principal", *map(terminal.numbers, ("waiting", "dropped", "lag")), "")
    for each in sorted(found["durable"], key=lambda each: -each["lag"])[:_MAX_ROWS]:
        state = Text("connected", style="good") if each["connected"] else Text("away", style="warning")
        lag = terminal.duration(each["lag"]) if each["queued"] else ""
        table.add_row(each["name"], each["principal"], f"{each['queued']:,}", f"{each['dropped']:,}", lag, state)
    return table


def _sum(subscriptions: Iterable[dict[str, Any]], what: str) -> str:
    return f"{sum(each[what] for each in subscriptions):,}"


@click.command()
@click.argument("broker", type=int)
@broker_options
def forget(broker: int, place: BrokerLocation, as_json: bool) -> None:
    """Give up a BROKER that is away for ever: confirmed events no longer wait for its durable subscriptions.

    `palio status` lists the brokers that events wait for. All brokers learn of it, now or when they return. Events for
    subscribers of that broker only are lost; if it returns after all, events wait for it again.

    \b
    Examples:
      palio forget 2716057
      palio forget 2716057 --connect palio://hub:7420 --token admin.secret
    """

    async def forget_broker() -> None:
        async with place.connect(patience=0) as connected:
            await connected.forget(broker)
        if as_json:
            terminal.print_json({"forgotten": broker})
        else:
            terminal.results().print(f"No event waits for broker {broker} any more.")

    asyncio.run(forget_broker())
