"""What did a simulated network cost? One line of a table for each combination of choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palio.cli import terminal

if TYPE_CHECKING:
    from palio.simulation import Network, Topology


@dataclass(frozen=True, slots=True)
class Cost:
    """What one combination cost."""

    propagation: str
    forwarding: str
    advertisements: bool
    subscription_messages: int
    subscription_bytes: int
    event_messages: int
    event_bytes: int
    deliveries: int
    unwanted: int
    """Events that came to a broker for nothing."""
    useless_hops: int
    """Links that they went over, each since it was last of use."""
    filters: int
    """Filters that all brokers store for their neighbours, together."""
    virtual_seconds: float
    seconds: float
    hash: str
    verdict: str


def cost_of(net: Network, seconds: float) -> Cost:
    """What a network that has run cost, and took here."""
    telling = ("subscribe", "unsubscribe", "advertise", "unadvertise")
    return Cost(
        propagation=net.combination.propagation,
        forwarding=net.combination.forwarding,
        advertisements=net.combination.advertisements,
        subscription_messages=sum(map(net.traffic.messages, telling)),
        subscription_bytes=sum(map(net.traffic.bytes, telling)),
        event_messages=net.traffic.messages("publish"),
        event_bytes=net.traffic.bytes("publish"),
        deliveries=len(net.deliveries),
        unwanted=net.traffic.false_positives(),
        useless_hops=net.traffic.useless_hops,
        filters=sum(
            len(filters)
            for interfaces in net.tables.values()
            for interface, filters in interfaces.items()
            if interface != "clients"
        ),
        virtual_seconds=net.now,
        seconds=seconds,
        hash=net.trace.hash,
        verdict=str(net.verdict()),
    )


def print_costs(costs: list[Cost], shape: Topology, network: Network | None) -> None:
    """The table, a line for each combination, and whether deliveries were right."""
    from rich.table import Column

    if network is None:
        return
    console = terminal.results()
    linked = terminal.plural(len(shape.links), "link")
    advertised = ", with advertisements" if network.combination.advertisements else ""
    brokers = terminal.plural(shape.brokers, "broker")
    console.print(f"{brokers}, {linked}{advertised}, seed {network.seed}", style="title")
    console.print()
    table = terminal.table(
        Column("strategy", no_wrap=True),
        *map(terminal.numbers, ("told", "KB", "events", "KB", "in vain", "filters", "delivered")),
    )
    table.padding = (0, 1, 0, 0)  # so that it fits into eighty columns
    for cost in costs:
        table.add_row(
            f"{cost.propagation}, {cost.forwarding}",
            f"{cost.subscription_messages:,}",
            f"{cost.subscription_bytes / 1000:,.0f}",
            f"{cost.event_messages:,}",
            f"{cost.event_bytes / 1000:,.0f}",
            f"{cost.unwanted:,}",
            f"{cost.filters:,}",
            f"{cost.deliveries:,}",
        )
    console.print(table)
    console.print()
    wrong = [cost for cost in costs if not cost.verdict.startswith("right")]
    for cost in wrong:
        console.print(f"{cost.propagation}, {cost.forwarding}: {cost.verdict}", style="bad", soft_wrap=True)
    if not wrong:
        console.print("Every delivery is what flooding would have delivered.", style="good", soft_wrap=True)
    done = network.hops
    console.print(
        f"{terminal.plural(done, 'message')} of the last line in {costs[-1].virtual_seconds:.3g} virtual seconds and "
        f"{terminal.duration(costs[-1].seconds)} here; hash {costs[-1].hash[:12]}",
        style="quiet",
        soft_wrap=True,
    )
