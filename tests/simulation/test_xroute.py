"""XRoute in whole networks: after every operation each interface has the maximal filters below it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from palio import Filter, IllegalCombination
from palio.routing.combinations import Combination
from palio.routing.counted_tables import CountedTables
from palio.routing.messages import LOCAL
from palio.simulation import Network, Topology
from tests.routing.propagation.registration_network import check_entries, maximal
from tests.simulation.scenarios import FAULTY_LINKS, Scenario, condition, hosts
from tests.simulation.test_durable_delivery import KeptScenario
from tests.simulation.test_recovery import assert_right

COUNTERS = {"propagation": "xroute", "options": {"router": "counters"}}
DIFFERENCE = {"propagation": "xroute"}
ROUTERS = [pytest.param(COUNTERS, id="counters"), pytest.param(DIFFERENCE, id="difference")]


def xpath(random: Random) -> Filter:
    steps = "".join(random.choice(["/", "/", "//"]) + random.choice("ab*") for _ in range(random.randrange(1, 4)))
    return Filter.parse(steps + random.choice(["", "", "[b]", "[.='1']"]), language="xpath")


def document(random: Random) -> dict[str, Any]:
    def element(depth: int) -> str:
        name = random.choice("ab")
        inner = "".join(element(depth - 1) for _ in range(random.randrange(3))) if depth else random.choice(["1", ""])
        return f"<{name}>{inner}</{name}>"

    return {"xml": element(3), "x": random.randrange(7)}


def check_tables(net: Network) -> None:
    """Compare the tables of all running brokers with the registrations below their links, one by one."""
    behind = _registrations_behind(net)
    for (at, near), registrations in behind.items():
        host = hosts(net)[at]
        link = next(place for place, way in enumerate(host.ways, 1) if way.to == near)
        tables = host.node.broker.tables
        if not _hears_from(net, near, at):
            assert not tables.remote_subscriptions.get(link)
            continue
        known = set(tables.remote_subscriptions.get(link, {}).values())
        assert known == maximal(registrations), (at, near)
        if isinstance(tables, CountedTables):
            entries = tables.all_registrations.entries.values()
            counts = {each.filter: each.columns[link] for each in entries if link in each.columns}
            own = {wanted: count.own for wanted, count in counts.items()}
            assert own == {each: registrations[each] for each in known}
            assert sum(count.total for count in counts.values()) == registrations.total()
    for host in hosts(net):
        if host.node is not None and isinstance(host.node.broker.tables, CountedTables):
            for table in host.node.broker.tables.upstream_tables.values():
                check_entries(table)


def _hears_from(net: Network, sender: str | int, receiver: int) -> bool:
    """Whether a broker is sent filters by a neighbour: with advertisements where it has offered something."""
    if not net.combination.advertisements:
        return True
    broker = hosts(net)[int(sender)].node.broker
    link = next(place for place, way in enumerate(hosts(net)[int(sender)].ways, 1) if way.to == receiver)
    return bool(broker.tables.remote_advertisements.get(link))


def _registrations_behind(net: Network) -> dict[tuple[int, int], Counter[Filter]]:
    near: dict[int, list[int]] = {host.number: [] for host in hosts(net)}
    for a, b in net.tree_links:
        near[a].append(b)
        near[b].append(a)
    own = {
        host.number: Counter(
            each
            for each in (host.node.broker.tables.subscriptions.entries().values() if host.node is not None else ())
            if each != Filter.nothing
        )
        for host in hosts(net)
    }

    def below(at: int, link: int) -> Counter[Filter]:
        found = Counter(own[link])
        for further in near[link]:
            if further != at:
                found += below(link, further)
        return found

    return {(at, link): below(at, link) for at, links in near.items() for link in links}


class CheckedScenario(Scenario):
    """A scenario whose tables are compared whenever the network is at rest."""

    def rest(self) -> None:
        super().rest()
        check_tables(self.net)


@pytest.mark.parametrize("choices", ROUTERS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("circles", [False, True], ids=["tree", "circles"])
def test_every_interface_has_the_maximal_filters_below_it(choices: dict[str, Any], seed: int, circles: bool) -> None:
    scenario = CheckedScenario(seed, choices, breaks=True, circles=circles)
    net = scenario.run(60)
    check_tables(net)
    assert net.verdict().is_right
    assert not [each for each in net.drops if "cannot be" in each]
    counted = net.traffic.messages("register"), net.traffic.messages("subscribe")
    assert bool(counted[0]) is (choices is COUNTERS)
    assert not all(counted)


@pytest.mark.parametrize("seed", range(4))
def test_with_producers_only_the_links_towards_them_carry_registrations(seed: int) -> None:
    random = Random(seed)
    net = Network.random(7, seed=seed, advertisements=True, **COUNTERS)
    net.run()
    feeds, desks = [], []
    for _ in range(30):
        kind = random.random()
        if kind < 0.15:
            feeds.append(net.advertise(random.randrange(7), "TRUE"))
        elif kind < 0.25 and feeds:
            net.unadvertise(feeds.pop(random.randrange(len(feeds))))
        elif kind < 0.45 and desks:
            net.unsubscribe(desks.pop(random.randrange(len(desks))))
        else:
            desks.append(net.subscribe(random.randrange(7), condition(random)))
        net.run()
        check_tables(net)
    for feed in feeds:
        net.publish(feed.at, {"x": 3, "s": "ab"})
    net.run()
    assert net.verdict().is_right


@pytest.mark.parametrize("choices", ROUTERS)
@pytest.mark.parametrize("seed", range(3))
def test_xpath_subscriptions_are_aggregated(choices: dict[str, Any], seed: int) -> None:
    random = Random(seed)
    net = Network.random(5, seed=seed, **choices)
    desks = []
    for _ in range(30):
        if desks and random.random() < 0.35:
            net.unsubscribe(desks.pop(random.randrange(len(desks))))
        else:
            wanted = xpath(random) if random.random() < 0.8 else Filter.parse(f"x > {random.randrange(6)}")
            desks.append(net.subscribe(random.randrange(5), wanted))
        if random.random() < 0.5:
            net.run()
            check_tables(net)
    for _ in range(6):
        net.publish(random.randrange(5), document(random))
    net.run()
    assert net.verdict().is_right


def test_equal_subscriptions_of_several_clients_are_counted_and_leave_one_by_one() -> None:
    net = Network.line(3, **COUNTERS)
    desks = [net.subscribe(0, "x > 1", client=name) for name in ("a", "b", "c")]
    net.run()
    [entry] = hosts(net)[2].node.broker.tables.all_registrations.entries.values()
    assert entry.own == 3
    for left in (2, 1):
        net.unsubscribe(desks.pop())
        net.run()
        assert entry.own == left
        assert net.tables[2] == {1: [Filter.parse("x > 1")]}
    net.unsubscribe(desks.pop())
    net.run()
    assert not any(net.tables.values())


def test_the_difference_of_maximal_filters_is_what_covering_sends() -> None:
    # So what is tested of covering, in every combination, holds for it. Handshakes name the propagation.
    one, other = (
        [str(step) for step in Scenario(5, {"propagation": each}, breaks=True).run(60).trace if step.what != "hello"]
        for each in ("covering", "xroute")
    )
    assert one == other


def test_a_client_that_replaces_its_filter_misses_nothing_meanwhile() -> None:
    net = Network.line(3, **COUNTERS)
    net.run()
    first = net.subscribe(0, "x > 1")
    net.run()
    second = net.subscribe(0, "x > 0")
    net.unsubscribe(first)
    net.run()
    event = net.publish(2, {"x": 5})
    net.run()
    assert [each.event for each in net.deliveries_of(second)] == [event]
    check_tables(net)
    assert hosts(net)[0].node.broker.tables.all_registrations.has(LOCAL, Filter.parse("x > 0").digest)


UPKEEPS: dict[str, dict[str, Any]] = {
    "recover": {"crash_log": "recover"},
    "failover": {"paths": "failover", "options": {"circles": True, "handover": 0.5}},
    "redundant": {
        "paths": "redundant",
        "crash_log": "recover",
        "forwarding": "group",
        "options": {"trees": "publisher", "circles": True},
    },
}


@pytest.mark.parametrize("name", UPKEEPS)
@pytest.mark.parametrize("seed", range(4))
def test_crashes_and_lost_paths_leave_the_tables_of_a_network_that_had_none(name: str, seed: int) -> None:
    upkeep = UPKEEPS[name]
    options = {**upkeep.get("options", {}), **(FAULTY_LINKS if seed % 2 else {})}
    choices = {"propagation": "xroute", **upkeep, "options": options}
    scenario = KeptScenario(seed, choices, circles="circles" in options)
    net = scenario.run(40)
    assert_right(net, f"seed {seed}")
    assert net.table_errors() == (0, 0)
    if name != "redundant":  # whose filters have home brokers, and are reduced at these
        check_tables(net)


#     U is the upstream of R, whose child D has two subscribers; B is the backup of D
P, U, R, D, B = range(5)
BESIDE_A_BACKUP = Topology(5, ((P, U, None), (U, R, None), (R, D, None), (P, B, None), (B, D, None)))


def test_when_a_router_is_lost_its_children_register_at_a_backup_and_those_above_it_cancel() -> None:
    net = Network(BESIDE_A_BACKUP, propagation="xroute", paths="failover", options={"handover": 0.5})
    wide, narrow = net.subscribe(D, "x > 1"), net.subscribe(D, "x > 2")
    net.run()
    net.crash(R)
    net.run()
    event = net.publish(P, {"x": 3})
    net.run()
    assert {each.subscription for each in net.deliveries} == {wide, narrow}
    assert net.tables[P] == net.tables[P] | {B: [Filter.parse("x > 1")]}
    assert not net.tables[U].get(R)
    assert net.verdict().is_right
    check_tables(net)
    assert event is not None


#     R has the ways R–A1–C and R–B1–B2–C; a publisher is at C
A1, B1, B2, C = 1, 2, 3, 4
TWO_WAYS = Topology(5, tuple((a, b, None) for a, b in ((0, A1), (A1, C), (0, B1), (B1, B2), (B2, C))))


@pytest.mark.parametrize("crashed", [None, A1, B1])
def test_an_event_comes_once_by_two_ways_and_once_when_one_is_lost(crashed: int | None) -> None:
    choices = {"propagation": "xroute", "forwarding": "group", "paths": "redundant"}
    net = Network(TWO_WAYS, **choices, options={"trees": "publisher"})
    net.subscribe(A1, "x > 1")
    desk = net.subscribe(0, "x > 2")
    net.run()
    if crashed is not None:
        net.crash(crashed)
    event = net.publish(C, {"x": 5}, settled=False)
    net.run()
    assert [each.event.id for each in net.deliveries_of(desk)] == [event.id]


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"forwarding": "group"}, "several"),
        ({"options": {"trees": "publisher"}}, "several"),
        ({"options": {"hierarchy": True}}, "parent alone"),
        ({"tables": "leases"}, "must be told"),
        ({"tables": "stabilising"}, "cannot be compared"),
        ({"crash_log": "recover"}, "difference of filters"),
        ({"paths": "failover", "options": {"circles": True}}, "difference of filters"),
        ({"forwarding": "bloom"}, "not every filter reaches every broker"),
    ],
)
def test_counters_go_with_what_they_can_be_kept_right_for(choices: dict[str, Any], said: str) -> None:
    options = {"router": "counters", **choices.get("options", {})}
    with pytest.raises(IllegalCombination, match=said):
        Combination("xroute", **{**choices, "options": options})
