"""One simulated run for `palio simulate`: its scenario in virtual time, and its costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from random import Random
from typing import TYPE_CHECKING, Final

from palio.cli import terminal
from palio.workloads.network_workload import PLACEMENTS, PROCESSES, Feed, churn, recorded, times_of

if TYPE_CHECKING:
    from palio.events import Event
    from palio.simulation import Network, Topology
    from palio.simulation.history import Subscription

QUIET: Final = "quiet"
RECORDED: Final = "recorded"
ARRIVALS: Final = (QUIET, *PROCESSES, RECORDED)
_EVENTS_PER_ROUND: Final = 100  # between two quiescent states, and two updates of the progress

_Action = tuple[float, int, Callable[[], object]]  # time, priority, call


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload with its placement, its arrivals and its churn."""

    feed: Feed
    placement: str
    arrivals: str
    rate: float
    stay: float
    """Mean seconds that a subscriber stays; 0 is for ever."""
    seed: int


class ScenarioRun:
    """One scenario in one network."""

    def __init__(self, net: Network, scenario: Scenario) -> None:
        self._net = net
        self._scenario = scenario
        brokers = net.topology.brokers
        random = Random(scenario.seed)
        self._broker_of = {each: random.randrange(brokers) for each in scenario.feed.advertisements}
        self._place = PLACEMENTS[scenario.placement](brokers, scenario.seed)
        self._subscribed: dict[int, Subscription] = {}

    def run(self, done: Callable[[int], None]) -> None:
        """Run all of it; `done` is called with the number of published events."""
        net, feed = self._net, self._scenario.feed
        self.subscribe()
        if self._scenario.arrivals == QUIET:
            for number in range(len(feed.events)):
                self.publish(number)
                if number % _EVENTS_PER_ROUND == 0:
                    net.run()
                    done(number)
        else:
            self._run_in_time(done)
        net.run()

    def subscribe(self) -> None:
        """Let publishers advertise and subscribers subscribe, until all brokers know."""
        net, feed = self._net, self._scenario.feed
        if net.combination.advertisements:
            for publisher, where in feed.advertisements.items():
                net.advertise(self._broker_of[publisher], where)
        for number in range(len(feed.subscriptions)):
            self._join(number)
        net.run()

    def _run_in_time(self, done: Callable[[int], None]) -> None:
        begun = self._net.now
        times = list(self._publication_times())
        published: Iterator[_Action] = ((time, 0, partial(self.publish, number)) for number, time in enumerate(times))
        last = times[-1] if times else 0.0
        # At equal times a publication goes before a change of subscribers.
        actions = merge(published, self._churn(last), key=lambda each: each[:2])
        for number, (time, _, act) in enumerate(actions):
            self._net.run(max(0.0, begun + time - self._net.now))
            act()
            if number % _EVENTS_PER_ROUND == 0:
                done(min(number, len(times)))

    def _publication_times(self) -> Iterator[float]:
        """The time of each publication, in seconds from now."""
        scenario, events = self._scenario, self._scenario.feed.events
        if scenario.arrivals != RECORDED:
            yield from islice(PROCESSES[scenario.arrivals](scenario.rate, scenario.seed), len(events))
        elif events:
            # Scaled in time, so that the mean rate is the requested one.
            span = (events[-1].time - events[0].time).total_seconds()
            yield from recorded(times_of(events), max(1.0, span) * scenario.rate / len(events))

    def _churn(self, last: float) -> Iterator[_Action]:
        """Subscribers that leave and others that join, up to a time; the first ones have joined."""
        scenario, population = self._scenario, len(self._scenario.feed.subscriptions)
        if not scenario.stay:
            return
        for change in takewhile(lambda each: each.time <= last, churn(population, scenario.stay, scenario.seed)):
            if change.time > 0:
                yield change.time, 1, partial(self._join if change.comes else self._leave, change.number)

    def publish(self, number: int) -> Event:
        """Publish an event of the feed at the broker of its publisher."""
        event = self._scenario.feed.events[number]
        return self._net.publish(self._broker_of[event.publisher], event.content, settled=False)

    def _join(self, number: int) -> None:
        known = self._scenario.feed.subscriptions
        where = known[number % len(known)]
        self._subscribed[number] = self._net.subscribe(self._place(where), where)

    def _leave(self, number: int) -> None:
        self._net.unsubscribe(self._subscribed.pop(number))


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of one combination of strategies."""

    propagation: str
    forwarding: str
    advertisements: bool
    subscription_messages: int
    subscription_bytes: int
    event_messages: int
    event_bytes: int
    deliveries: int
    unwanted: int
    """Events that reached a broker without a match (false positives)."""
    useless_hops: int
    """Links that those events crossed since they were last of use."""
    filters: int
    """Filters in the routing tables of all brokers for their neighbours."""
    virtual_seconds: float
    seconds: float
    hash: str
    verdict: str


def cost_of(net: Network, seconds: float) -> Cost:
    """The costs of a network after its run; `seconds` is the real time."""
    control = ("subscribe", "unsubscribe", "register", "advertise", "unadvertise")
    return Cost(
        propagation=net.combination.propagation,
        forwarding=net.combination.forwarding,
        advertisements=net.combination.advertisements,
        subscription_messages=sum(map(net.traffic.messages, control)),
        subscription_bytes=sum(map(net.traffic.bytes, control)),
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
    """Print a table with a line for each combination, and the verdict on the deliveries."""
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
