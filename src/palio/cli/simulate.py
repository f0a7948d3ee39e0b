"""`palio simulate`: the costs of subscriptions and events in a network of brokers, by strategy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import options_epilog, parse_option, strategy_options, upkeep_options
from palio.cli.simulation_run import ARRIVALS, QUIET, Cost, Scenario, ScenarioRun, cost_of, print_costs
from palio.errors import IllegalCombination, InvalidArgument
from palio.routing.combinations import FORWARDINGS, PROPAGATIONS
from palio.workloads.generated import WORKLOADS
from palio.workloads.network_workload import PLACEMENTS, flights_feed, generated_feed, padres_feed

if TYPE_CHECKING:
    from palio.routing.combinations import Combination
    from palio.simulation import Network, Topology

_TOPOLOGIES: Final = ("line", "star", "tree", "random", "mesh", "transit-stub")
_FLIGHTS: Final = "flights"
_EXIT_WRONG: Final = 1


@click.command(epilog=options_epilog())
@click.option("--topology", default="tree", show_default=True, metavar="SHAPE",
              help=f"How brokers are linked: {', '.join(_TOPOLOGIES)}, or a file: JSON with `nodes` and `edges`, or a "
                   "matrix of round-trip times in milliseconds.")  # fmt: skip
@click.option("--brokers", type=click.IntRange(1), default=27, show_default=True, metavar="N",
              help="Number of brokers; of a matrix, only its first hosts.")  # fmt: skip
@click.option("--propagation", "propagations", multiple=True, type=click.Choice([*PROPAGATIONS, "all"]),
              default=("identity",), show_default=True, help="How subscriptions spread; may be repeated.")  # fmt: skip
@click.option("--forwarding", "forwardings", multiple=True, type=click.Choice([*FORWARDINGS, "all"]),
              default=("content",), show_default=True, help="How events move; may be repeated.")  # fmt: skip
@click.option("--advertisements", is_flag=True, help="Publishers advertise, and subscriptions go only towards them.")
@upkeep_options(tables="hard", crash_log="none", paths="tree")
@click.option("--subscriptions", type=click.IntRange(0), default=200, show_default=True, metavar="N",
              help="How many subscriptions: to flights, made from real ones.")  # fmt: skip
@click.option("--events", type=click.IntRange(0), default=500, show_default=True, metavar="N", help="How many flights.")
@click.option("--workload", type=click.Choice([_FLIGHTS, *WORKLOADS]), default=_FLIGHTS, show_default=True,
              help="What is published and subscribed to: real flights, or something generated.")  # fmt: skip
@click.option("--placement", type=click.Choice(list(PLACEMENTS)), default="uniform", show_default=True,
              help="Placement of subscribers: uniform, most at few brokers, or near similar interests.")  # fmt: skip
@click.option("--arrivals", type=click.Choice(ARRIVALS), default=QUIET, show_default=True,
              help="When events are published: a hundred at once whenever all is quiet, by a process, or as they "
                   "happened.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(0, min_open=True), default=100.0, show_default=True, metavar="N",
              help="Events in a virtual second, in the mean.")  # fmt: skip
@click.option("--stay", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
              help="How long subscribers stay in the mean, while others come; 0 is for ever.")  # fmt: skip
@click.option("--padres", nargs=2, type=click.Path(exists=True, dir_okay=False, path_type=Path), default=None,
              metavar="QUOTES SUBSCRIPTIONS",
              help="Publish PADRES's stock quotes instead of flights, each symbol with its advertisement, and take "
                   "their subscriptions.")  # fmt: skip
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the random choices; a seed determines the run."
)
@strategy_options("loss=0.1, mode=always or trees=publisher")
@click.option("--draw", type=click.Path(dir_okay=False, path_type=Path), default=Path("network.svg"), show_default=True,
              metavar="FILE", help="Draw the network and its traffic, as .svg or .png (extra `draw`).")  # fmt: skip
@click.option("--no-draw", is_flag=True, help="Draw nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each combination, on a line each.")
@click.pass_context
def simulate(
    ctx: click.Context,
    topology: str,
    brokers: int,
    propagations: tuple[str, ...],
    forwardings: tuple[str, ...],
    advertisements: bool,
    tables: str,
    crash_log: str,
    paths: str,
    subscriptions: int,
    events: int,
    workload: str,
    placement: str,
    arrivals: str,
    rate: float,
    stay: float,
    padres: tuple[Path, Path] | None,
    seed: int,
    options: tuple[str, ...],
    draw: Path,
    no_draw: bool,
    as_json: bool,
) -> None:
    """Simulate a network of brokers: the costs of subscriptions and events, by strategy.

    Real flights are published, each airline's at a broker of its own; subscriptions to them are made at random
    brokers. Every run is compared with what flooding would deliver.

    For each strategy: the messages with subscriptions between brokers, those with events, the events that reached a
    broker in vain, the filters in routing tables, and the deliveries.

    \b
    Examples:
      palio simulate
      palio simulate --topology random --brokers 100 --propagation all
      palio simulate --propagation identity --forwarding all --subscriptions 2000
      palio simulate --advertisements --option loss=0.1 --draw network.png
      palio simulate --topology mesh --brokers 40 --json
      palio simulate --arrivals bursts --rate 500 --stay 5 --placement popular

    Exit code 0: every delivery was right; 1: some were not; 2: choices that do not go together.
    """
    from palio.simulation.drawing import check_drawing

    if not no_draw:
        check_drawing(draw)
    # The default of --brokers must not cut a matrix of round-trip times down to its first hosts.
    is_given = ctx.get_parameter_source("brokers") is click.core.ParameterSource.COMMANDLINE
    shape = _topology(topology, brokers, brokers if is_given else None, seed)
    if stay and arrivals == QUIET:
        raise InvalidArgument("--stay needs time to pass between events: give --arrivals as well")
    if padres:
        feed = padres_feed(*padres, subscriptions, events, seed)
    elif workload == _FLIGHTS:
        feed = flights_feed(subscriptions, events, seed)
    else:
        feed = generated_feed(workload, subscriptions, events, seed)
    scenario = Scenario(feed, placement, arrivals, rate, stay, seed)
    given = dict(map(parse_option, options))
    upkeep = tables, crash_log, paths
    combinations = list(_combinations(propagations, forwardings, advertisements, upkeep, given))
    costs = []
    network: Network | None = None
    for combination in combinations:
        network, cost = _run(shape, combination, scenario)
        costs.append(cost)
        if as_json:
            terminal.print_json(asdict(cost), at_once=True)
    if not as_json:
        print_costs(costs, shape, network)
    if network is not None and not no_draw:
        network.draw(draw)
        terminal.messages().print(f"The network of the last line is drawn in {draw}.", soft_wrap=True)
    ctx.exit(0 if all(cost.verdict.startswith("right") for cost in costs) else _EXIT_WRONG)


def _topology(name: str, brokers: int, hosts: int | None, seed: int) -> Topology:
    from random import Random

    from palio.simulation import topologies
    from palio.simulation.topologies import from_file

    random = Random(seed)
    match name:
        case "line":
            return topologies.line(brokers)
        case "star":
            return topologies.star(brokers)
        case "tree":
            return topologies.tree(brokers)
        case "random":
            return topologies.random_tree(brokers, random)
        case "mesh":
            return topologies.random_mesh(brokers, max(1, brokers // 2), random)
        case "transit-stub":
            return topologies.transit_stub(max(1, brokers // 10), 3, 3, random)
    path = Path(name)
    if not path.is_file():
        raise InvalidArgument(f"there is no topology {name!r}; known are {', '.join(_TOPOLOGIES)} and files")
    return from_file(path, hosts)


def _combinations(
    propagations: tuple[str, ...],
    forwardings: tuple[str, ...],
    advertisements: bool,
    upkeep: tuple[str, str, str],
    options: dict[str, Any],
) -> Iterator[Combination]:
    """The requested combinations that are legal; an illegal one is an error if it is the only one."""
    from palio.routing.combinations import Combination, own_options

    asked = [
        (propagation, forwarding)
        for propagation in (PROPAGATIONS if "all" in propagations else propagations)
        for forwarding in (FORWARDINGS if "all" in forwardings else forwardings)
    ]
    # Of several combinations each takes the options that it has; one that none of them has is an error.
    own = [own_options((*names, *upkeep), options) for names in asked]
    unused = options.keys() - {name for each in own for name in each}
    for (propagation, forwarding), taken in zip(asked, own, strict=True):
        chosen = options if unused else taken
        try:
            yield Combination(propagation, forwarding, advertisements, *upkeep, chosen)
        except IllegalCombination as error:
            if len(asked) == 1 or unused:
                raise
            terminal.messages().print(f"left out: {error}", soft_wrap=True)


def _run(shape: Topology, choices: Combination, scenario: Scenario) -> tuple[Network, Cost]:
    from palio.simulation import Network

    begun = time.perf_counter()
    net = Network(
        shape,
        propagation=choices.propagation,
        forwarding=choices.forwarding,
        advertisements=choices.advertisements,
        tables=choices.tables,
        crash_log=choices.crash_log,
        paths=choices.paths,
        seed=scenario.seed,
        options=choices.options,
    )
    events = len(scenario.feed.events)
    with terminal.progress(terminal.messages(), f"{choices.propagation}, {choices.forwarding}", events) as progress:
        task = progress.add_task("", total=events, done="")
        ScenarioRun(net, scenario).run(
            lambda done: progress.update(task, completed=done, done=terminal.plural(done, "event"))
        )
    return net, cost_of(net, time.perf_counter() - begun)
