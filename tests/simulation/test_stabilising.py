"""Self-stabilising tables: from any corruption of all tables to right ones, within the stated rounds."""

from __future__ import annotations

from random import Random

import pytest

from palio import IllegalCombination, InvalidArgument, NotAdvertised
from palio.routing.combinations import Combination, legal_combinations
from palio.routing.messages import Subscribe, Unsubscribe
from palio.routing.strategies import Stabilising
from palio.simulation import Network, topologies
from tests.simulation.scenarios import Scenario, condition, event, hosts, topology

PERIOD = 10.0
ROUNDS = Stabilising(round_period=PERIOD, false_equality=1e-15)


def _stabilising() -> list[Combination]:
    found = []
    for each in legal_combinations():
        try:
            Combination(
                each.propagation, each.forwarding, each.advertisements, tables="stabilising", options=each.options
            )
        except IllegalCombination:
            continue
        found.append(each)
    return found


COMBINATIONS = _stabilising()
_UPDATES = {"listing", "subscribe", "unsubscribe", "advertise", "unadvertise"}


def network(choices: Combination, random: Random, seed: int) -> Network:
    """A network of a random shape with random subscriptions and advertisements, at rest."""
    net = Network(
        topology(random),
        propagation=choices.propagation,
        forwarding=choices.forwarding,
        advertisements=choices.advertisements,
        tables="stabilising",
        seed=seed,
        options=dict(choices.options) | ROUNDS.given(),
    )
    for broker in range(net.topology.brokers) if choices.advertisements else ():
        net.advertise(broker, "TRUE" if random.random() < 0.6 else condition(random))
    for _ in range(random.randrange(1, 16)):
        net.subscribe(random.randrange(net.topology.brokers), condition(random))
    net.run()
    return net


def publish_some(net: Network, random: Random, count: int) -> None:
    for _ in range(count):
        try:
            net.publish(random.randrange(net.topology.brokers), event(random), settled=random.random() < 0.5)
        except NotAdvertised:
            continue


def check_recovery(choices: Combination, seed: int, share: float) -> None:
    random = Random(f"{seed} {choices}")
    net = network(choices, random, seed)
    net.corrupt("all", share, seed)
    bound, begun = net.stabilisation_bound, net.now
    assert bound is not None
    # Clients go on meanwhile, with tables that may be wrong.
    publish_some(net, random, 3)
    if random.random() < 0.5:
        net.subscribe(random.randrange(net.topology.brokers), condition(random))
    net.run(begun + bound - net.now)
    net.run()
    assert net.table_errors() == (0, 0)
    publish_some(net, random, 8)
    net.run()
    verdict = net.verdict()
    assert verdict.is_right, str(verdict)
    before = net.traffic.snapshot()
    net.run(3 * PERIOD)
    net.run()
    since = net.traffic - before
    assert not _UPDATES & set(since.kinds()), since


@pytest.mark.parametrize("choices", COMBINATIONS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_tables_recover_from_any_corruption_within_the_bound(choices: Combination, seed: int) -> None:
    check_recovery(choices, seed, (0.1, 0.3, 0.6, 1.0)[seed % 4])


@pytest.mark.deep
@pytest.mark.parametrize("choices", COMBINATIONS, ids=str)
def test_tables_recover_from_any_corruption_whatever_the_seed(choices: Combination) -> None:
    for seed in range(4, 64):
        check_recovery(choices, seed, (0.05, 0.2, 0.5, 1.0)[seed % 4])


@pytest.mark.parametrize("brokers", [2, 5, 9])
@pytest.mark.parametrize("advertisements", [False, True])
def test_the_bound_holds_on_the_longest_trees(brokers: int, advertisements: bool) -> None:
    net = Network(topologies.line(brokers), advertisements=advertisements, tables=ROUNDS, seed=brokers)
    net.advertise(0, "TRUE")
    for at in range(brokers):
        net.subscribe(at, f"x > {at}")
    net.run()
    assert net.stabilisation_rounds == (2 if advertisements else 1) * (brokers - 1) + 1
    net.corrupt("all", 1.0, seed=1)
    assert net.table_errors() != (0, 0)
    net.run(net.stabilisation_bound)
    net.run()
    assert net.table_errors() == (0, 0)


def test_a_right_network_sends_one_message_each_way_in_a_round() -> None:
    net = Network.tree(7, tables=ROUNDS)
    for at in range(7):
        net.subscribe(at, f"x > {at}")
    net.run()
    net.run(PERIOD)
    before = net.traffic.snapshot()
    net.run(6 * PERIOD)
    since = net.traffic - before
    assert since.kinds() == ["observe"]
    assert 6 * 2 * 6 <= since.messages() <= 6 * 2 * 8  # rounds are three quarters of the period long, or more
    assert since.bytes() < since.messages() * 60


def test_a_missing_entry_is_corrected_by_one_message_and_passed_on() -> None:
    """Shen's chain of four brokers, where only the first has a subscription and no table knows it."""
    net = Network.line(4, tables=ROUNDS)
    net.subscribe(0, "x = 7")
    net.run()
    for host in hosts(net):
        assert host.node is not None
        host.node.broker.tables.remote_subscriptions.clear()
    net.run(PERIOD)
    net.run()
    assert net.table_errors() == (0, 0)
    assert _corrections(net) == 1


def test_a_ghost_is_corrected_by_one_message_and_passed_on() -> None:
    """The same chain, where all tables know a subscription that nobody has."""
    net = Network.line(4, tables=ROUNDS)
    ghost = net.subscribe(0, "x = 9")
    net.run()
    client_table = hosts(net)[0].node.broker.tables.subscriptions  # type: ignore[union-attr]
    client_table._owned.clear()
    hosts(net)[0].disk._requests.clear()
    assert ghost.at == 0
    net.run(PERIOD)
    net.run()
    assert net.table_errors() == (0, 0)
    assert _corrections(net) == 1


def _corrections(net: Network) -> int:
    return sum(host.node.broker.stabiliser.corrections for host in hosts(net))  # type: ignore[union-attr]


def test_a_wrong_edge_disturbs_the_far_side_alone() -> None:
    net = Network.line(5, tables=ROUNDS)
    for at in range(5):
        net.subscribe(at, f"x = {at}")
    net.run()
    tables = hosts(net)[2].node.broker.tables  # type: ignore[union-attr]
    tables.remote_subscriptions[1].clear()  # what broker 2 has of broker 1
    before = net.traffic.snapshot()
    net.run(2 * PERIOD)
    net.run()
    since = net.traffic - before
    assert net.table_errors() == (0, 0)
    assert since.messages("subscribe", (0, 1)) + since.messages("unsubscribe", (0, 1)) == 0
    assert since.messages("subscribe", (1, 2)) > 0


@pytest.mark.parametrize("seed", range(10))
def test_garbage_under_way_and_unsteady_links_delay_nothing(seed: int) -> None:
    random = Random(seed)
    options = {"jitter": 0.9, "delay": 0.1} | ROUNDS.given()
    net = Network.random(8, tables="stabilising", seed=seed, options=options)
    for _ in range(12):
        net.subscribe(random.randrange(8), condition(random))
    net.run()
    net.corrupt("all", 0.5, seed)
    for host in hosts(net):
        broker = host.node.broker  # type: ignore[union-attr]
        for link in broker.links:
            ghost = broker.tables.subscriptions.keys() or {b"k" * 16: None}
            key = random.choice(list(ghost))
            wanted = ghost[key]
            message = Unsubscribe(key) if wanted is None or random.random() < 0.5 else Subscribe(key, wanted)
            broker.tables._effects.append(_send(link, message))
    net.run(net.stabilisation_bound)
    net.run()
    assert net.table_errors() == (0, 0)
    publish_some(net, random, 10)
    net.run()
    assert net.verdict().is_right


def _send(link: int, message: Subscribe | Unsubscribe) -> object:
    from palio.routing.effects import Send

    return Send((link,), message)


def test_hard_tables_stay_wrong() -> None:
    net = Network.line(3)
    net.subscribe(2, "x > 0")
    net.run()
    net.corrupt("all", 1.0, seed=2)
    net.run(600)
    assert net.table_errors() != (0, 0)
    assert net.stabilisation_bound is None


def test_a_corrupted_broker_is_chosen_by_its_number() -> None:
    net = Network.line(3, tables=ROUNDS)
    net.subscribe(2, "x > 0")
    net.run()
    assert net.corrupt(1, 1.0, seed=0).total > 0
    assert net.tables[0] == {1: net.tables[2]["clients"]}


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"propagation": "covering", "options": {"graph": "lazy"}}, "order in which filters came"),
        (
            {"propagation": "covering", "options": {"index": "curve", "domains": "x=0:9", "epsilon": 0.1}},
            "order in which filters came",
        ),
        ({"propagation": "merging", "options": {"index": "curve", "domains": "x=0:9", "budget": 5}}, "order in which"),
        ({"options": {"trees": "publisher"}}, "keep a wrong one"),
        ({"options": {"completeness": 1.0}}, "vouches for the tables"),
    ],
)
def test_what_is_no_function_of_the_tables_is_refused(choices: dict[str, object], reason: str) -> None:
    with pytest.raises(IllegalCombination, match=reason):
        Network.line(3, tables="stabilising", **choices)


# Outages


def check_faults(choices: Combination, seed: int) -> None:
    """Links break and brokers crash, tables are corrupted, and clients go on."""
    options = dict(choices.options) | ROUNDS.given()
    strategies = {
        "propagation": choices.propagation,
        "forwarding": choices.forwarding,
        "advertisements": choices.advertisements,
        "tables": "stabilising",
        "options": options,
    }
    scenario = Scenario(seed, strategies, breaks=True, circles=seed % 3 == 0)
    net = scenario.run(40)
    verdict = net.verdict()
    assert verdict.is_right, str(verdict)
    assert net.table_errors() == (0, 0)


@pytest.mark.parametrize("choices", COMBINATIONS[::2], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_links_that_break_and_come_back_leave_right_tables(choices: Combination, seed: int) -> None:
    check_faults(choices, seed)


@pytest.mark.deep
@pytest.mark.parametrize("choices", COMBINATIONS, ids=str)
def test_links_that_break_and_come_back_leave_right_tables_whatever_the_seed(choices: Combination) -> None:
    for seed in range(3, 40):
        check_faults(choices, seed)


def test_a_short_outage_withdraws_nothing() -> None:
    told = {}
    for tables in ("hard", "stabilising"):
        net = Network.line(8, tables=tables)
        for at in range(8):
            net.subscribe(at, f"x = {at}")
        net.run()
        before = net.traffic.snapshot()
        net.cut((3, 4))
        net.run(1.0)
        net.mend((3, 4))
        net.run()
        since = net.traffic - before
        told[tables] = since.messages("subscribe") + since.messages("unsubscribe")
        net.publish(0, {"x": 7})
        net.run()
        assert net.verdict().is_right
        assert net.table_errors() == (0, 0)
    assert told["stabilising"] == 8  # over the link itself, all that its ends should know
    assert told["hard"] > 4 * told["stabilising"]


def test_useless_events_make_a_broker_withdraw_the_filters_behind_a_broken_link() -> None:
    net = Network.line(5, tables="stabilising")
    net.subscribe(4, "x = 1")
    net.run()
    net.run(60.0)  # brokers know how many there are on each side
    net.cut((3, 4))
    net.run()
    [outage] = hosts(net)[3].node.broker.stabiliser.outages.links.values()  # type: ignore[union-attr]
    threshold = outage.threshold
    assert threshold == pytest.approx(4 * 2**0.5)  # one filter, on four brokers
    for _ in range(int(threshold) + 5):
        net.publish(0, {"x": 1}, settled=False)
        net.run()
        if not net.tables[2]:
            break
    assert not any(net.tables[at] for at in range(4))
    # Each event crossed three links for nothing.
    assert net.traffic.useless_hops == 3 * (int(threshold / 3) + 1)


def test_hops_that_serve_another_subscriber_are_not_useless() -> None:
    """Vector TV-A2: the way is 0 – 1 – 2 – 3, where 1 has a subscriber, and 3 has lost the link to another one."""
    net = Network.line(5, tables="stabilising")
    net.subscribe(1, "x = 1")
    net.subscribe(4, "x = 1")
    net.run()
    net.run(60.0)  # brokers know how many there are on each side
    net.cut((3, 4))
    net.run()
    [outage] = hosts(net)[3].node.broker.stabiliser.outages.links.values()  # type: ignore[union-attr]
    net.publish(0, {"x": 1})
    net.run()
    assert net.traffic.useless_hops == 2
    assert outage.cost == 2


def test_what_changed_during_an_outage_is_right_when_the_link_is_back() -> None:
    net = Network.line(5, tables="stabilising")
    gone = net.subscribe(4, "x = 1")
    net.subscribe(4, "x = 2")
    net.run()
    net.cut((2, 3))
    net.run()
    net.unsubscribe(gone)
    net.subscribe(4, "x = 3")
    net.run()
    net.mend((2, 3))
    net.run()
    assert net.table_errors() == (0, 0)
    for x in (1, 2, 3):
        net.publish(0, {"x": x})
    net.run()
    assert [each.event.get("x") for each in net.deliveries] == [2, 3]


def outage_cost(tables: str, events: int) -> int:
    """The links that updates and useless events cross for an outage, after Shen's Figures 5.2 and 5.3."""
    random = Random(52)
    net = Network.tree(40, tables=tables, seed=5)
    below = [at for at in range(40) if _is_below(at, 1)]
    for _ in range(30):
        net.subscribe(random.choice(below), f"pattern = {random.randrange(20)}")
    net.run()
    net.run(100.0)
    before = net.traffic.snapshot()
    net.cut((0, 1))
    net.run(0.5)
    others = [at for at in range(40) if at not in below]
    for _ in range(events):
        net.publish(random.choice(others), {"pattern": random.randrange(20)}, settled=False)
        net.run(0.5)
    net.mend((0, 1))
    net.run()
    since = net.traffic - before
    net.publish(0, {"pattern": 3})
    net.run()
    assert net.verdict().is_right
    return since.messages("subscribe") + since.messages("unsubscribe") + since.useless_hops


def _is_below(broker: int, top: int) -> bool:
    """Whether a broker of a tree with three children each is another one or below it."""
    while broker > top:
        broker = (broker - 1) // 3
    return broker == top


def test_under_light_load_an_outage_costs_far_less_than_to_withdraw_at_once() -> None:
    assert outage_cost("stabilising", events=20) < outage_cost("hard", events=20) / 3


def test_under_heavy_load_an_outage_costs_a_small_multiple_of_that() -> None:
    assert outage_cost("stabilising", events=600) < (1 + 2**0.5) * outage_cost("hard", events=600)


@pytest.mark.parametrize("share", [-0.1, 1.1, "half", True])
def test_a_share_that_is_none_is_refused(share: object) -> None:
    with pytest.raises(InvalidArgument, match="share of the entries is from 0 to 1"):
        Network.line(2).corrupt("all", share)  # type: ignore[arg-type]


@pytest.mark.parametrize("broker", [7, "some", None])
def test_a_broker_that_is_not_there_is_not_corrupted(broker: object) -> None:
    with pytest.raises(InvalidArgument, match="there is no broker"):
        Network.line(2).corrupt(broker)  # type: ignore[arg-type]


def test_a_seed_corrupts_the_same_entries_every_time() -> None:
    def corrupted() -> tuple[object, object]:
        net = Network.tree(7, tables=ROUNDS)
        for at in range(7):
            net.subscribe(at, f"x > {at}")
        net.run()
        return net.corrupt("all", 0.4, seed=9).changes, net.tables

    assert corrupted() == corrupted()
