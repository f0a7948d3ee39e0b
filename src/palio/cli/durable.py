"""`palio durable`: durable subscriptions of a broker, their queues, consumers and limits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import BrokerLocation, broker_options
from palio.cli.durable_limits import durable_limit_options
from palio.errors import InvalidArgument
from palio.routing.durable_settings import DurableSettings

_NEEDS_NOTHING: Final = "nothing to change: give at least one of --max-events, --max-bytes, --on-full, …"


def _owner_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--owner", default="", metavar="PRINCIPAL", help="The principal that it belongs to, for admins; else your own."
    )(command)


@click.group()
def durable() -> None:
    """Show durable subscriptions with their queues and consumers, limit them, or delete them.

    One's own, or as an admin those of all principals. A durable subscription lives at one broker, its home; `show`,
    `limit` and `delete` find it from every broker, `list` lists those of the broker that is asked.

    \b
    Examples:
      palio durable list
      palio durable show desk-7 --json
      palio durable limit desk-7 --max-events 10000 --on-full drop_oldest --expires-after 30d
      palio durable promote desk-7 --connect palio://other:7420
      palio durable delete desk-7 --owner alice --connect palio://hub:7420 --token admin.secret
    """


@durable.command(name="list")
@broker_options
def list_durables(place: BrokerLocation, as_json: bool) -> None:
    """List the durable subscriptions that a broker holds, the fullest queue first."""

    async def list_all() -> None:
        async with place.connect(patience=0) as broker:
            found = await broker.durables()
        durables = sorted(found["durables"], key=lambda each: (-each["queued"], each["owner"], each["name"]))
        if as_json:
            for each in durables:
                terminal.print_json({"broker": found["broker"], "address": found["address"], **each})
            return
        numbers = ("waiting", "bytes", "oldest", "consumers", "dead letters")
        table = terminal.table("name", "owner", *map(terminal.numbers, numbers), "condition")
        for each in durables:
            table.add_row(
                each["name"],
                each["owner"],
                f"{each['queued']:,}",
                f"{each['bytes']:,}",
                _age(each["oldest_seconds"]),
                f"{len(each['consumers']):,}",
                f"{each['dead_letters']:,}",
                terminal.shorten(each["where"], 60),
            )
        console = terminal.results()
        console.print(f"at broker {found['broker']}, {found['address'] or 'without an address for clients'}")
        console.print(table)
        if found["other_homes"]:
            others = ", ".join(map(str, found["other_homes"]))
            terminal.messages().print(f"other brokers with durable subscriptions, to be asked there: {others}")

    asyncio.run(list_all())


@durable.command()
@click.argument("name")
@_owner_option
@broker_options
def show(name: str, owner: str, place: BrokerLocation, as_json: bool) -> None:
    """Show the durable subscription NAME: condition, queue, consumers, limits and dead letters."""

    async def show_one() -> None:
        async with place.connect(patience=0) as broker:
            found = await broker.durable(name, owner=owner)
        if as_json:
            terminal.print_json(found)
        else:
            terminal.results().print(terminal.facts(_facts(found)))

    asyncio.run(show_one())


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    lag = f", the oldest for {_age(found['oldest_seconds'])}" if found["queued"] else ""
    failures = found["oldest_failures"]
    failed = f", after {terminal.plural(failures, 'failed delivery', 'failed deliveries')}" if failures else ""
    rows = [
        ("name", found["name"]),
        ("owner", found["owner"]),
        ("home", f"broker {found['broker']}, {found['address'] or 'without an address for clients'}"),
        ("condition", found["where"]),
        ("waiting", f"{terminal.plural(found['queued'], 'event')}, {found['bytes']:,} bytes{lag}{failed}"),
        ("dropped", f"{found['dropped']:,}"),
        ("dead letters", f"{found['dead_letters']:,}"),
        ("read", _way_of_reading(found)),
    ]
    if found["standby"]:
        rows.append(("standby", _standby(found["standby"])))
    rows += [("consumer", _consumer(each)) for each in found["consumers"]]
    limits = {name: value for name, value in found["limits"].items() if value is not None}
    rows.append(("limits", ", ".join(f"{name} {_shown(name, value)}" for name, value in limits.items()) or "defaults"))
    return rows


def _standby(found: dict[str, Any]) -> str:
    if found["broker"] is None:
        return f"none since epoch {found['epoch']}"
    where = f"broker {found['broker']}, {found['address']}, epoch {found['epoch']}"
    if found["state"] == "protected":
        return f"{where}: each confirmed event is on both disks"
    while_away = "are not confirmed" if found["while_away"] == "refuse" else "are confirmed unprotected"
    return f"{where}: away; events {while_away}"


def _way_of_reading(found: dict[str, Any]) -> str:
    if not found["consumers"]:
        return "by no consumer now"
    if not found["is_group"]:
        return "by one consumer alone"
    key = f", in order of {found['key']}" if found["key"] else ""
    return f"by a group of {terminal.plural(len(found['consumers']), 'member')}{key}"


def _consumer(each: dict[str, Any]) -> str:
    since = datetime.fromtimestamp(each["since"], UTC)
    held = "" if each["in_flight"] is None else f", {each['in_flight']:,} unacknowledged"
    app = f" ({each['app']})" if each["app"] else ""
    return (
        f"{each['principal']} at {each['address'] or 'no address'}{app} since {since:%Y-%m-%d %H:%M:%S}Z, "
        f"{each['delivered']:,} delivered{held}"
    )


def _shown(name: str, value: Any) -> str:
    if name == "expires_after":
        return terminal.duration(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _age(seconds: float | None) -> str:
    return "" if seconds is None else terminal.duration(seconds)


@durable.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_owner_option
@broker_options
def delete(name: str, yes: bool, owner: str, place: BrokerLocation, as_json: bool) -> None:
    """Delete the durable subscription NAME, with all events that wait for it; its consumers are told.

    On a terminal the command asks first. `palio unsubscribe` is the same for your own, and does not ask.
    """

    async def delete_one() -> None:
        async with place.connect(patience=0) as broker:
            found = await broker.durable(name, owner=owner)
            if not yes and _is_interactive():
                waiting, at = terminal.plural(found["queued"], "event"), f"broker {found['broker']}"
                click.confirm(f"Delete {name} of {found['owner']} at {at}, with {waiting}?", abort=True, err=True)
            await broker.unsubscribe(name, owner=owner)
        if as_json:
            terminal.print_json({"deleted": name, "owner": found["owner"], "broker": found["broker"]})
        else:
            terminal.results().print(f"{name} of {found['owner']} is deleted at broker {found['broker']}.")

    asyncio.run(delete_one())


@durable.command()
@click.argument("name")
@_owner_option
@broker_options
def promote(name: str, owner: str, place: BrokerLocation, as_json: bool) -> None:
    """Make the standby of the durable subscription NAME its home; ask the broker that is the standby.

    For when the home does not come back, or is to be stopped. The broker that was the home ends its queue as soon as it
    learns of that, and its consumers go on here; some events may be delivered again.

    \b
    Example:
      palio durable promote desk-7 --connect palio://other:7420 --token admin.secret
    """

    async def promote_one() -> None:
        async with place.connect(patience=0) as broker:
            await broker.promote_durable(name, owner=owner)
            address = str(broker.address)
        if as_json:
            terminal.print_json({"promoted": name, "address": address})
        else:
            terminal.results().print(f"{name} is at home at {address} now.")

    asyncio.run(promote_one())


def _is_interactive() -> bool:
    return sys.stdin.isatty()


@durable.command()
@click.argument("name")
@durable_limit_options()
@_owner_option
@broker_options
def limit(name: str, limits: dict[str, Any], owner: str, place: BrokerLocation, as_json: bool) -> None:
    """Limit the durable subscription NAME, at once and without a restart of its consumers.

    Limits that are not given stay as they are; `default` sets one back to that of the broker.
    """
    if not limits:
        raise InvalidArgument(_NEEDS_NOTHING)

    async def change() -> None:
        async with place.connect(patience=0) as broker:
            before = (await broker.durable(name, owner=owner))["limits"]
            known = {each.name for each in fields(DurableSettings)}
            settings = DurableSettings(**{key: value for key, value in {**before, **limits}.items() if key in known})
            await broker.limit_durable(name, settings, owner=owner)
            found = await broker.durable(name, owner=owner)
        if as_json:
            terminal.print_json({"name": name, "broker": found["broker"], "limits": found["limits"]})
        else:
            terminal.results().print(terminal.facts([("name", name), _facts(found)[-1]]))

    asyncio.run(change())
