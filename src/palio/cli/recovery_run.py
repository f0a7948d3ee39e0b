"""One simulated recovery for `palio simulate --corrupt`: errors of tables and of deliveries, round by round."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.simulation_run import Scenario, ScenarioRun

if TYPE_CHECKING:
    from palio.simulation import Network

_EVENTS_OF_A_ROUND: Final = 50  # that are published after each round, to count wrong deliveries
_CORRECTIONS: Final = ("subscribe", "unsubscribe", "register", "advertise", "unadvertise")
_IDLE_ROUNDS: Final = 4  # in which the cost of a network with right tables is measured


class _Share(click.ParamType[float]):
    """A share: a percentage such as 20%, or a number from 0 to 1."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{text!r} is no share; write a percentage up to 100%, or a number from 0 to 1", param, ctx)
        return share


SHARE: Final = _Share()


@dataclass(frozen=True, slots=True)
class RecoveryRound:
    """The state of a network after a round."""

    round: int
    missing_entries: int
    wrong_entries: int
    corrections: int
    """Messages that changed tables since the round before."""
    published: int
    missed: int
    """Deliveries of the published events that did not come."""
    unwanted: int
    """Deliveries that should not have come."""

    @property
    def is_right(self) -> bool:
        return not (self.missing_entries or self.wrong_entries or self.missed or self.unwanted)


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery from corrupted tables; the first round is the state before any."""

    combination: str
    brokers: int
    seed: int
    changes: int
    """Changes that corrupted the tables."""
    bound: int
    """Rounds after which all must be right."""
    rounds: list[RecoveryRound]
    idle_messages_per_minute: float
    """Of all links, with right tables and no events."""
    idle_bytes_per_minute: float

    @property
    def healed_after(self) -> int | None:
        """The round after which all stayed right."""
        wrong = [each.round for each in self.rounds if not each.is_right]
        if not wrong:
            return 0
        return wrong[-1] + 1 if wrong[-1] < self.rounds[-1].round else None

    @property
    def is_healed(self) -> bool:
        return self.rounds[-1].is_right


def recover(net: Network, scenario: Scenario, share: float) -> Recovery:
    """Corrupt a network that is at rest, and let it recover."""
    run = ScenarioRun(net, scenario)
    run.subscribe()
    bound_seconds, bound = net.stabilisation_bound or 0.0, net.stabilisation_rounds
    changes = net.corrupt("all", share, scenario.seed).total
    begun = net.now
    rounds = []
    with terminal.progress(terminal.messages(), "rounds", bound) as progress:
        task = progress.add_task("", total=bound, done="")
        for number in range(bound + 1):
            before = net.traffic.snapshot()
            net.run(max(0.0, begun + number * bound_seconds / bound - net.now))
            net.run()
            corrections = sum(map((net.traffic - before).messages, _CORRECTIONS)) if number else 0
            errors = net.table_errors()
            published, missed, unwanted = _probe(net, run, scenario, number)
            rounds.append(RecoveryRound(number, *errors, corrections, published, missed, unwanted))
            progress.update(task, completed=number, done=terminal.plural(number, "round"))
    before, since = net.traffic.snapshot(), net.now
    net.run(_IDLE_ROUNDS * bound_seconds / bound)
    idle, minutes = net.traffic - before, (net.now - since) / 60
    return Recovery(
        str(net.combination),
        net.topology.brokers,
        net.seed,
        changes,
        bound,
        rounds,
        idle.messages() / minutes,
        idle.bytes() / minutes,
    )


def _probe(net: Network, run: ScenarioRun, scenario: Scenario, round: int) -> tuple[int, int, int]:
    """Publish some events of the feed: how many, and the deliveries that were missing, and those that were wrong."""
    known = len(scenario.feed.events)
    numbers = [(round * _EVENTS_OF_A_ROUND + each) % known for each in range(min(known, _EVENTS_OF_A_ROUND))]
    delivered_before = len(net.deliveries)
    events = [run.publish(number) for number in numbers]
    net.run()
    delivered = Counter((each.subscription, each.event.id) for each in net.deliveries[delivered_before:])
    expected = Counter(
        (subscription, event.id)
        for subscription, life in net.history.subscriptions.items()
        if life.ended is None
        for event in events
        if subscription.wanted.matches(event)
    )
    return len(events), (expected - delivered).total(), (delivered - expected).total()


def print_recovery(recovery: Recovery, as_json: bool) -> None:
    """Print a recovery as a table with a line for each round, or as one JSON object."""
    if as_json:
        terminal.print_json(asdict(recovery) | {"healed_after": recovery.healed_after}, at_once=True)
        return
    console = terminal.results()
    brokers = terminal.plural(recovery.brokers, "broker")
    console.print(f"{brokers}, {recovery.combination}, seed {recovery.seed}", style="title", soft_wrap=True)
    console.print(f"{terminal.plural(recovery.changes, 'change')} corrupted the tables of all brokers", soft_wrap=True)
    console.print()
    names = ("round", "missing", "wrong", "corrections", "events", "missed", "unwanted")
    table = terminal.table(*map(terminal.numbers, names))
    for each in recovery.rounds:
        table.add_row(*(f"{value:,}" for value in asdict(each).values()))
    console.print(table)
    console.print("Entries of tables that are missing and wrong; deliveries of events that are.", style="quiet")
    console.print()
    after, bound = recovery.healed_after, terminal.plural(recovery.bound, "round")
    if recovery.is_healed:
        console.print(f"All tables and deliveries are right after {after} of {bound}.", style="good", soft_wrap=True)
    else:
        console.print(f"Tables or deliveries are still wrong after {bound}.", style="bad", soft_wrap=True)
    console.print(
        f"With right tables and no events: {recovery.idle_messages_per_minute:,.0f} messages and "
        f"{recovery.idle_bytes_per_minute / 1000:,.1f} KB a minute over all links",
        style="quiet",
        soft_wrap=True,
    )
