"""Leases in simulated networks: renewal, silent expiry, loss without retransmission, convergence."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from palio import Filter, IllegalCombination, InvalidArgument
from palio.routing.combinations import Combination, legal_combinations
from palio.routing.messages import Renewal, Subscribe
from palio.routing.strategies import Leases, SimulationOptions
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS, Scenario, condition, event, hosts, topology

SHORT: dict[str, Any] = {"validity": 0.6, "refresh": 0.15, "max_validity": 2.0}
LONGER: dict[str, Any] = {"validity": 2.4, "refresh": 0.6, "max_validity": 8.0}  # than retransmission takes
LOSSY: dict[str, Any] = {"loss": 0.25, "duplication": 0.1, "reordering": 0.2, "session": False}


def leased(choice: Combination, **further: Any) -> Combination | None:
    """A combination with leases; None where it is refused."""
    options = {**choice.options, **SHORT, **further}
    try:
        return Combination(
            choice.propagation, choice.forwarding, choice.advertisements, tables="leases", options=options
        )
    except IllegalCombination:
        return None


ALL = [each for each in legal_combinations() if leased(each) is not None]
WITHOUT_SESSION = [each for each in ALL if leased(each, **LOSSY) is not None]


def choices(combination: Combination, **further: Any) -> dict[str, Any]:
    return {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "tables": "leases",
        "options": {**combination.options, **SHORT, **further},
    }


def set_loss(net: Network, loss: float, *links: tuple[int, int]) -> None:
    """Let links lose a share of their messages, all of them unless some are named; nobody is told."""
    net._disturb()
    for pair, edge in net._engine.links.edges.items():
        if not links or pair in links:
            edge.model = replace(edge.model, loss=loss, duplication=0.0, reordering=0.0)
            edge.keeps_time = edge.model.keeps_time


def bound(net: Network, path: float) -> float:
    """The time within which every table is right after the last fault."""
    chosen = net.combination.table_upkeep
    assert isinstance(chosen, Leases)
    return chosen.max_validity + chosen.refresh + path


def settle(net: Network) -> None:
    net.run(bound(net, path=0.5))
    net.run()


def expiries(net: Network) -> int:
    return sum(each.expiries for each in net.leases.values())


@pytest.mark.parametrize("combination", ALL, ids=str)
def test_what_is_delivered_is_what_flooding_delivers_while_links_and_brokers_break(combination: Combination) -> None:
    for seed in range(2):
        further = {**FAULTY_LINKS, **LONGER, "max_drift": 0.001} if seed else {}
        net = Scenario(seed, choices(combination, **further), breaks=True).run(30)
        assert net.verdict().is_right, f"seed {seed}\n{net.verdict()}"


@pytest.mark.parametrize("combination", WITHOUT_SESSION, ids=str)
def test_tables_become_right_after_losses_that_nobody_repaired(combination: Combination) -> None:
    for seed in range(2):
        lossy_run(combination, seed)


@pytest.mark.deep
@pytest.mark.parametrize("combination", WITHOUT_SESSION, ids=str)
def test_a_hundred_seeds_of_losses_that_nobody_repaired(combination: Combination) -> None:
    for seed in range(100, 200):
        lossy_run(combination, seed)


@pytest.mark.deep
@pytest.mark.parametrize("combination", ALL, ids=str)
def test_a_hundred_seeds_of_broken_links_and_brokers(combination: Combination) -> None:
    for seed in range(100, 200):
        further = {**FAULTY_LINKS, **LONGER, "max_drift": 0.001} if seed % 2 else {}
        net = Scenario(seed, choices(combination, **further), breaks=True).run(30)
        assert net.verdict().is_right, f"seed {seed}\n{net.verdict()}"


def lossy_run(combination: Combination, seed: int) -> None:
    """Clients come and go, brokers crash and links are cut off in silence; then all faults end."""
    random = Random(seed)
    net = Network(topology(random), seed=seed, **choices(combination, **LOSSY))
    brokers = net.topology.brokers
    live: list[Any] = []
    for _ in range(25):
        net._disturb()
        turn = random.random()
        if turn < 0.5:
            live.append(net.subscribe(random.randrange(brokers), condition(random)))
            if combination.advertisements:
                net.advertise(random.randrange(brokers), condition(random))
        elif turn < 0.7 and live:
            net.unsubscribe(live.pop(random.randrange(len(live))))
        elif turn < 0.8 and net.links:
            set_loss(net, 0.999999, random.choice(net.links))
        elif turn < 0.9 and brokers > 1:
            at = random.randrange(brokers)
            net.crash(at)
            net.run(random.random())
            net.restart(at)
        net.run(random.random() * 0.4)
    set_loss(net, 0.0)
    for at in range(brokers) if combination.advertisements else ():
        net.advertise(at, "TRUE")
    settle(net)
    for _ in range(12):
        net.publish(random.randrange(brokers), event(random), settled=False)
        net.run()
    verdict = net.verdict()
    assert verdict.is_right, f"seed {seed}\n{verdict}"


def test_a_lost_subscription_comes_with_the_next_renewal() -> None:
    net = Network.line(2, tables="leases", options={**SHORT, **LOSSY})
    set_loss(net, 0.0)
    net.run(1.0)
    set_loss(net, 0.999999)
    net.subscribe(0, "x > 1")
    net.run(0.01)
    assert not net.tables[1]
    set_loss(net, 0.0)
    net.run(SHORT["refresh"] + 0.02)
    assert net.tables[1] == {0: [Filter.parse("x > 1")]}


def test_a_covered_renewal_goes_no_further_and_a_covering_one_is_not_swallowed() -> None:
    net = Network.line(4, propagation="covering", tables="leases", options=SHORT)
    net.subscribe(0, "x > 1")
    net.subscribe(0, "x > 5")
    net.subscribe(1, "x > 7")
    net.run()
    before = net.traffic.messages("renewal")
    net.run(20 * SHORT["validity"])
    assert expiries(net) == 0
    assert all(filters == [Filter.parse("x > 1")] for at in (1, 2, 3) for filters in [net.tables[at][at - 1]])
    # Towards the end of the line one message for each refresh and link; towards the beginning that of broker 1.
    periods = 20 * SHORT["validity"] / SHORT["refresh"]
    assert 3 * periods <= net.traffic.messages("renewal") - before <= 4 * (periods + 1)


def test_expiry_sends_nothing() -> None:
    net = Network.line(4, propagation="covering", tables="leases", options={**SHORT, **LOSSY})
    set_loss(net, 0.0)
    net.subscribe(0, "x > 1")
    net.subscribe(1, "x > 5")
    net.run(1.0)
    assert net.tables[3] == {2: [Filter.parse("x > 1")]}
    set_loss(net, 0.999999, (0, 1))
    sent = net.traffic.messages("unsubscribe")
    # Until the last of the leases along the line is over.
    net.run(SHORT["validity"] + 0.2)
    assert expiries(net) == 4  # at the three brokers behind, and that of broker 1 at broker 0
    assert net.traffic.messages("unsubscribe") == sent
    net.run(SHORT["refresh"] + 0.1)
    assert net.tables[3] == {2: [Filter.parse("x > 5")]}
    assert net.traffic.messages("unsubscribe") == sent


def test_a_filter_that_an_expiry_uncovers_may_miss_events_until_its_next_renewal_and_no_longer() -> None:
    net = Network.line(3, propagation="covering", tables="leases", options={**SHORT, **LOSSY, "delay": 0.001})
    set_loss(net, 0.0)
    net.subscribe(0, "x > 1")
    narrow = net.subscribe(1, "x > 5")
    net.run(3.0)
    set_loss(net, 0.999999, (0, 1))
    silent_since = net.now
    arrived: list[tuple[float, bool]] = []
    while net.now < silent_since + 2 * SHORT["validity"] + 2 * SHORT["refresh"]:
        time, before = net.now, len(net.deliveries_of(narrow))
        net.publish(2, {"x": 9}, settled=False)
        net.run(0.004)
        arrived.append((time, len(net.deliveries_of(narrow)) > before))
    missed = [time for time, came in arrived if not came]
    assert missed, "the covering filter expired just when the covered one was renewed; take another seed"
    # One stretch, no longer than a refresh period, the delay of the way, and the pause between two events.
    assert all(came for time, came in arrived if not missed[0] <= time <= missed[-1])
    assert missed[-1] - missed[0] <= SHORT["refresh"] + 0.01
    assert missed[0] - silent_since <= SHORT["validity"] + 0.1


def test_a_merger_is_renewed_by_the_broker_that_made_it() -> None:
    net = Network.line(4, propagation="merging", tables="leases", options=SHORT)
    net.subscribe(0, "x = 1")
    net.subscribe(1, "x = 2")
    net.run()
    net.run(20 * SHORT["validity"])
    assert expiries(net) == 0
    assert [str(each) for each in net.tables[3][2]] == ["x IN (1, 2)"]
    net.publish(3, {"x": 1})
    net.publish(3, {"x": 2})
    net.run()
    assert len(net.deliveries) == 2


def test_merged_advertisements_are_renewed_where_filters_have_home_brokers() -> None:
    options = {**SHORT, "trees": "publisher"}
    net = Network.line(
        3, propagation="merging", forwarding="group", advertisements=True, tables="leases", options=options
    )
    net.subscribe(2, "x > 0")
    net.advertise(0, "x = 1")
    net.advertise(0, "x = 2")
    net.run()
    net.run(20 * SHORT["validity"])
    assert expiries(net) == 0
    net.publish(0, {"x": 1})
    net.run()
    assert len(net.deliveries) == 1


def test_mergers_of_mergers_are_forgotten_within_one_lease() -> None:
    net = Network.line(6, propagation="merging", tables="leases", options={**SHORT, **LOSSY})
    set_loss(net, 0.0)
    for at in range(5):
        net.subscribe(at, f"x = {at}")
    net.run(3.0)
    assert [str(each) for each in net.tables[5][4]] == ["x IN (0, 1, 2, 3, 4)"]
    set_loss(net, 0.999999, (0, 1))
    net.run(SHORT["validity"] + SHORT["refresh"] + 0.5)
    assert [str(each) for each in net.tables[5][4]] == ["x IN (1, 2, 3, 4)"]


def test_renewals_change_nothing_but_timers() -> None:
    net = Network.tree(7, propagation="covering", tables="leases", options=SHORT)
    for at in range(7):
        net.subscribe(at, f"x > {at}")
    net.run()
    tables = net.tables
    for _ in range(10):
        net.run(0.1)
        assert net.tables == tables


def test_all_brokers_forget_a_silent_client_within_its_extended_lease() -> None:
    net = Network.line(5, tables="leases", options={**SHORT, **LOSSY, "delay": 0.02})
    set_loss(net, 0.0)
    net.subscribe(0, "x > 1")
    net.run(2.0)
    set_loss(net, 0.999999, (0, 1))
    # A renewal may be under way; bounds on delays are those of round trips.
    net.run(4 * 0.02 + SHORT["validity"] + 4 * 2 * 0.02 + 0.02)
    assert all(not net.tables[at] for at in range(1, 5))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("propagation", ["simple", "identity", "covering", "merging"])
def test_damaged_tables_become_those_of_a_fresh_network(propagation: str, seed: int) -> None:
    random = Random(seed)
    net = Network.random(7, propagation=propagation, tables="leases", options=SHORT, seed=seed)
    for _ in range(9):
        net.subscribe(random.randrange(7), condition(random))
    net.run()
    right = net.tables
    for host in hosts(net):
        assert host.node is not None
        tables = host.node.broker.tables
        for link in range(1, len(host.ways) + 1):
            known = tables.remote_subscriptions.setdefault(link, {})
            for key in [key for key in known if random.random() < 0.3]:
                tables.on_unsubscribe(link, key)
            # Entries that no neighbour has sent, without leases.
            for _ in range(random.randrange(3)):
                wrong = Filter.parse(condition(random))
                tables.on_subscribe(
                    link, Subscribe(random.randbytes(16) if propagation == "simple" else wrong.digest, wrong)
                )
    net._disturb()
    net.run(bound(net, path=0.5))
    assert net.tables == right


def test_a_broker_that_restarts_is_told_all_again() -> None:
    net = Network.line(3, propagation="covering", tables="leases", options=SHORT)
    net.subscribe(0, "x > 1")
    net.run()
    net.crash(1)
    net.run(5.0)
    net.restart(1)
    net.run()
    net.publish(2, {"x": 3})
    net.run()
    assert len(net.deliveries) == 1
    assert net.verdict().is_right


def test_an_advertisement_that_comes_after_a_subscription_draws_it() -> None:
    # Jerzak's race: the subscription is at the first broker before the advertisement of the second is.
    net = Network.line(
        2, propagation="covering", advertisements=True, tables="leases", options={**SHORT, "delay": 0.02}
    )
    net.run()
    net.advertise(0, "x > 0", client="one")
    net.advertise(1, "x > 0", client="two")
    net.run(0.01)
    net.subscribe(0, "x > 5")
    net.run()
    net.publish(1, {"x": 7}, client="two")
    net.run()
    assert len(net.deliveries) == 1


def test_advertisements_are_leased_and_clients_learn_when_the_last_one_expires() -> None:
    net = Network.line(3, propagation="covering", advertisements=True, tables="leases", options={**SHORT, **LOSSY})
    set_loss(net, 0.0)
    net.advertise(2, "x > 0")
    wanted = net.subscribe(0, "x > 5")
    net.run(1.0)
    assert not net.cancellations
    set_loss(net, 0.999999, (1, 2))
    net.run(SHORT["validity"] + 0.2)
    assert net.cancellations == [wanted]
    set_loss(net, 0.0)
    settle(net)
    net.publish(2, {"x": 7})
    net.run()
    assert len(net.deliveries_of(wanted)) == 1


@pytest.mark.parametrize("extension", ["upper_bound", "uncertainty"])
def test_live_leases_hold_on_slow_links_with_jitter(extension: str) -> None:
    options = {"validity": 1.3, "refresh": 1.0, "delay": 0.25, "jitter": 0.25, "extension": extension}
    net = Network.line(7, propagation="covering", tables="leases", options=options)
    net.subscribe(0, "x > 1")
    # For a time: on so long a way a renewal is always under way, and the network is never quiet.
    net.run(60.0)
    assert expiries(net) == 0


def test_without_extension_live_leases_end_on_slow_links() -> None:
    options = {"validity": 1.3, "refresh": 1.0, "delay": 0.25, "jitter": 0.8, "extension": "none"}
    net = Network.line(7, propagation="covering", tables="leases", options=options)
    net.subscribe(0, "x > 1")
    net.run(60.0)
    assert expiries(net) > 0


def test_a_validity_time_does_not_reach_brokers_that_are_too_far_away() -> None:
    net = Network.line(4, tables="leases", options={"validity": 5.0, "refresh": 4.9, "lease": "time", "delay": 2.0})
    net.run(5.0)
    net.subscribe(0, "x > 1")
    net.run(20.0)
    # The third broker never had it, although the first two did.
    assert [net.leases[at].entries + net.leases[at].expiries > 0 for at in (1, 2, 3)] == [True, True, False]


def test_leases_are_extended_by_the_bound_on_the_delay_of_each_broker() -> None:
    net = Network.line(3, tables="leases", options={"validity": 5.0, "refresh": 1.0, "delay": 0.5})
    net.subscribe(0, "x > 1")
    net.run()
    net.run(20.0)
    utilisation = [net.leases[at].max_utilisation for at in (1, 2)]  # the first lease of each was the longest
    # 1 / (5 + bound), where the bound is from the delay up to a round trip of each link, and drift.
    assert 1 / 6.1 <= utilisation[0] <= 1 / 5.4
    assert 1 / 7.2 <= utilisation[1] <= 1 / 5.9
    assert utilisation[1] < utilisation[0]


def test_durable_subscriptions_are_refused_with_the_reason() -> None:
    net = Network.line(2, tables="leases", options=SHORT)
    net.run()
    with pytest.raises(InvalidArgument, match="could miss a durable queue; take other tables than leases"):
        net.subscribe(0, "x > 1", durable=True)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"propagation": "flooding"}, "nothing to lease"),
        ({"options": {"timeliness": False}}, "need timeliness"),
        ({"options": {"validity": 5, "refresh": 5}}, "ends before its renewal"),
        ({"options": {"validity": 5, "refresh": 1, "max_validity": 4}}, "above max_validity"),
        ({"options": {"completeness": 1.0}}, "watermarks"),
        ({"options": {"circles": True, **LOSSY}}, "agree on a tree"),
        ({"options": {"hierarchy": True, **LOSSY}}, "agree on a tree"),
        ({"forwarding": "prefix", "options": {"tree": "optimiser", **LOSSY}}, "optimiser's tree"),
    ],
)
def test_what_does_not_go_with_leases_is_refused_with_the_reason(choice: dict[str, Any], reason: str) -> None:
    with pytest.raises(IllegalCombination, match=reason):
        Network.line(2, tables="leases", **choice)


def test_options_of_leases_need_leases() -> None:
    with pytest.raises(IllegalCombination, match="option of leases tables"):
        Network.line(2, options={"validity": 5.0})
    with pytest.raises(InvalidArgument, match="above 0"):
        Network.line(2, tables=Leases(validity=0.0))
    assert Network.line(2, tables=Leases(validity=50.0)).combination.options["validity"] == 50.0


def test_a_renewal_where_there_are_no_leases_is_dropped() -> None:
    net = Network.line(2)
    net.run()
    host = hosts(net)[0]
    assert host.node is not None
    host.node.broker._on_renewal(1, Renewal(5.0))
    net.publish(0, {"x": 1})
    net.run()
    assert net.drops["no leases here"] == 1


def test_lossy_links_need_leases_or_a_session() -> None:
    with pytest.raises(IllegalCombination, match="needs the session, or tables under lease"):
        Network.line(2, options=[SimulationOptions(loss=0.1, session=False)])


@pytest.mark.parametrize("tables", ["hard", "leases"])
def test_the_lease_of_a_client_ends_everywhere_whatever_the_tables(tables: str) -> None:
    net = Network.line(3, propagation="covering", tables=tables)
    brief = net.subscribe(0, "x > 1", lease=10.0)
    wide = net.subscribe(0, "x > 0", lease=10.0)
    net.run()
    assert net.now < 10
    net.run(8.0)
    net.extend(brief)
    net.run(4.0)
    net.run()
    assert net.tables[2] == {1: [Filter.parse("x > 1")]}
    net.publish(2, {"x": 2})
    net.run(8.0)
    net.run()
    net.publish(2, {"x": 3})
    net.run()
    assert not net.tables[2]
    assert [each.subscription for each in net.deliveries] == [brief]
    assert net.verdict().is_right
    for ended in (brief, wide):
        with pytest.raises(InvalidArgument, match="has ended"):
            net.extend(ended)


def test_a_lease_that_ends_while_its_broker_is_down_is_over_after_its_restart() -> None:
    net = Network.line(2)
    net.subscribe(0, "x > 1", lease=5.0)
    net.run()
    net.crash(0)
    net.run(10.0)
    net.restart(0)
    net.run()
    assert not net.tables[1]
    assert net.verdict().is_right


@pytest.mark.parametrize(("wrong", "match"), [({"lease": 0}, "above 0"), ({"lease": 5, "durable": True}, "durable")])
def test_a_wrong_lease_of_a_client_is_refused(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        Network.line(2).subscribe(0, "x > 1", **wrong)
