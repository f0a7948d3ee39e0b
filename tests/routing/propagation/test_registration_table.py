"""Counter-based tables: the worked examples, and random networks against the maximal filters of each interface."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, InvalidArgument
from palio.routing.messages import Registration
from palio.routing.propagation.registration_table import RegistrationTable
from tests.routing.propagation.registration_network import RegistrationNetwork, check_entries
from tests.simulation.scenarios import condition


@cache
def of(*members: int) -> Filter:
    """A filter that is a set, so that covering is inclusion."""
    return Filter.parse(f"v IN ({', '.join(map(str, members))})")


def xpath(text: str) -> Filter:
    return Filter.parse(text, language="xpath")


def test_a_filter_that_only_substitutes_others_brings_them_back_when_it_goes() -> None:
    # The printed algorithm ends with an empty table at P: the filter represents nothing on its own interface.
    wide, narrow = of(1, 2), of(1)
    net = RegistrationNetwork([("C1", "N1"), ("C2", "N1"), ("N1", "P")], ["P"])
    net.register("C1", wide)
    net.register("C2", narrow)
    net.settle()
    net.cancel("C1", wide)
    net.settle()
    assert net.column("N1", "C2") == {narrow: (1, 0)}
    assert net.column("P", "N1") == {narrow: (1, 0)}
    net.check()


def test_a_registration_that_covers_and_its_cancellation() -> None:
    s0, s1, s2, s3 = of(1, 2, 3), of(1, 4), of(1), of(2)
    net = RegistrationNetwork([("C1", "N1"), ("C2", "N1"), ("N1", "N3"), ("N3", "P")], ["P"])
    for at, wanted, count in (("C1", s1, 2), ("C1", s3, 1), ("C2", s2, 3)):
        net.register(at, wanted, count)
        net.settle()
    assert net.column("N1", "C1") == {s1: (2, 0), s3: (1, 0)}
    assert net.column("N1", "C2") == {s2: (3, 0)}
    assert net.substitutes("N1", "N3") == {s1: None, s2: s1, s3: None}
    assert net.totals("N1", "N3") == {s1: 3, s2: 0, s3: 0}
    before = net.column("N3", "N1"), net.column("P", "N3")
    assert before == ({s1: (2, 3), s3: (1, 0)},) * 2

    net.register("C2", s0)
    assert net.settle() == [
        ("C2", "N1", [(s0, 1, 0)]),
        ("N1", "N3", [(s0, 1, 3), (s1, 0, -3)]),
        ("N3", "P", [(s0, 1, 3), (s1, 0, -3)]),
    ]
    assert net.substitutes("C2", "N1") == {s0: None, s2: s0}
    assert net.column("N1", "C1") == {s1: (2, 0), s3: (1, 0)}
    assert net.column("N1", "C2") == {s0: (1, 3)}
    assert net.totals("N1", "N3") == {s0: 4, s1: 0, s3: 0}
    assert net.column("P", "N3") == {s1: (2, 0), s0: (1, 4)}

    net.cancel("C2", s0)
    sent = net.settle()
    assert sent[0] == ("C2", "N1", [(s0, -1, 0), (s2, 3, 0)])
    for hop in sent[1:]:
        assert hop[2][0] == (s0, -1, 0)
        assert set(hop[2][1:]) == {(s3, 1, 0), (s1, 0, 3)}
    assert (net.column("N3", "N1"), net.column("P", "N3")) == before
    net.check()


def test_two_producers() -> None:
    s1, s2, s3, s4 = of(1, 2), of(1), of(1, 2, 3), of(1, 2, 4)
    net = RegistrationNetwork([("C1", "N1"), ("N1", "N2"), ("N2", "C2"), ("P1", "N1"), ("P2", "N2")], ["P1", "P2"])
    net.register("C2", s1)
    net.settle()
    net.register("C1", s2)
    assert sorted(net.settle(), key=str) == sorted(
        [
            ("C1", "N1", [(s2, 1, 0)]),
            ("N1", "N2", [(s2, 1, 0)]),
            ("N2", "P2", [(s1, 0, 1)]),
            ("N1", "P1", [(s1, 0, 1)]),
        ],
        key=str,
    )
    assert net.substitutes("N1", "P1")[s2] == s1
    assert net.substitutes("N1", "N2")[s2] is None
    first = [net.column(*each) for each in (("P1", "N1"), ("P2", "N2"), ("N1", "N2"), ("N2", "N1"))]
    net.register("C2", s3)
    assert {message for _, _, messages in net.settle() for message in messages} == {(s3, 1, 0)}
    assert net.column("P1", "N1") == {s3: (1, 2)}
    assert net.totals("N2", "P2")[s3] == 2
    assert net.substitutes("N2", "P2")[s2] == s3
    net.register("C1", s4)
    sent = {(a, b): message for a, b, message in net.settle()}
    assert sent["N1", "N2"] == [(s4, 1, 0)]
    assert sent["N1", "P1"] == sent["N2", "P2"] == [(s4, 1, 1), (s3, 0, -1)]
    assert net.column("P1", "N1") == net.column("P2", "N2") == {s3: (1, 1), s4: (1, 1)}
    net.cancel("C2", s3)
    sent = {(a, b): message for a, b, message in net.settle()}
    assert sent["C2", "N2"] == sent["N2", "N1"] == [(s3, -1, 0), (s1, 1, 0)]
    assert sent["N2", "P2"] == sent["N1", "P1"] == [(s3, -1, 0), (s4, 0, 1)]
    assert net.column("P1", "N1") == net.column("P2", "N2") == {s4: (1, 2)}
    net.cancel("C1", s4)
    sent = {(a, b): message for a, b, message in net.settle()}
    assert sent["C1", "N1"] == sent["N1", "N2"] == [(s4, -1, 0), (s2, 1, 0)]
    assert sent["N1", "P1"] == sent["N2", "P2"] == [(s4, -1, 0), (s1, 1, 1)]
    assert [net.column(*each) for each in (("P1", "N1"), ("P2", "N2"), ("N1", "N2"), ("N2", "N1"))] == first
    net.check()


def test_a_partial_cancellation_changes_counts_alone() -> None:
    wanted = of(1)
    net = RegistrationNetwork([("C", "N"), ("N", "P")], ["P"])
    net.register("C", wanted, 5)
    net.settle()
    net.cancel("C", wanted, 2)
    assert net.settle() == [("C", "N", [(wanted, -2, 0)]), ("N", "P", [(wanted, -2, 0)])]
    assert net.column("N", "C") == net.column("P", "N") == {wanted: (3, 0)}


def test_a_substituted_filter_is_cancelled_under_its_substitute() -> None:
    wide, narrow = of(1, 2), of(1)
    net = RegistrationNetwork([("C", "N"), ("N", "P")], ["P"])
    net.register("C", wide)
    net.register("C", narrow)
    net.settle()
    assert net.column("N", "C") == {wide: (1, 1)}
    net.cancel("C", narrow)
    assert net.settle() == [("C", "N", [(wide, 0, -1)]), ("N", "P", [(wide, 0, -1)])]
    assert net.column("N", "C") == {wide: (1, 0)}


def test_failover_registers_at_the_backup_and_cancels_where_the_lost_router_was() -> None:
    """Vector FO-1, with its counts."""
    wide, narrow = of(1, 2), of(1)
    child, backup, above, producer = (RegistrationTable() for _ in range(4))
    lost = RegistrationTable()
    for interface, wanted, count in ((1, wide, 1), (2, narrow, 2)):
        for out in [child.register(interface, wanted, count, 0)]:
            producer.receive(1, above.receive(1, lost.receive(1, out)))
    # The count is that of the interfaces below: the field that the source names is empty.
    moved = child.registrations()
    assert [(each.wanted, each.own, each.others) for each in moved] == [(wide, 1, 2)]
    for each in moved:
        producer.receive(2, backup.receive(1, [each]))
    [entry] = producer.entries.values()
    assert {interface: (each.own, each.others) for interface, each in entry.columns.items()} == {1: (1, 2), 2: (1, 2)}
    assert entry.others == 4
    for message in above.drop_column(1):
        assert [(each.wanted, each.own, each.others) for each in message] == [(wide, -1, 0)]
        producer.receive(1, message)
    assert not above.entries
    assert {interface: (each.own, each.others) for interface, each in entry.columns.items()} == {2: (1, 2)}
    assert entry.others == 2


def test_two_ways_to_a_producer_carry_one_registration_each_as_its_tables_say() -> None:
    """Vector RP-1, with its counts: R–A1–C and R–B1–B2–C, and A1 has a filter that covers the one of R."""
    wide, narrow = of(1, 2), of(1)
    router, a1, b1, b2, crossing = (RegistrationTable() for _ in range(5))
    crossing.receive(1, a1.register(9, wide, 1, 0))
    told = router.register(9, narrow, 1, 0)
    by_a, by_b = a1.receive(1, told), b2.receive(1, b1.receive(1, told))
    assert [(each.wanted, each.own, each.others) for each in by_a] == [(wide, 0, 1)]
    assert [(each.wanted, each.own, each.others) for each in by_b] == [(narrow, 1, 0)]
    crossing.receive(1, by_a)
    crossing.receive(2, by_b)
    found = {
        key: {link: (each.own, each.others) for link, each in entry.columns.items()}
        for key, entry in crossing.entries.items()
    }
    assert found == {wide.digest: {1: (1, 1)}, narrow.digest: {2: (1, 0)}}
    assert crossing.entries[narrow.digest].substitute is crossing.entries[wide.digest]


def conditions(random: Random) -> Filter:
    kind = random.random()
    if kind < 0.5:
        return of(*sorted(random.sample(range(5), random.randrange(1, 5))))
    if kind < 0.7:
        parsed = Filter.parse(condition(random))
        return of(9) if parsed == Filter.nothing else parsed
    steps = "".join(random.choice(["/", "/", "//"]) + random.choice("ab*") for _ in range(random.randrange(1, 4)))
    return xpath(steps + random.choice(["", "", "[b]", "[.='1']"]))


@pytest.mark.parametrize("are_queued", [False, True], ids=["one at a time", "several under way"])
@given(seed=st.integers(0, 2**32))
def test_every_interface_has_the_maximal_filters_below_it(seed: int, are_queued: bool) -> None:
    random = Random(seed)
    nodes = [f"N{each}" for each in range(random.randrange(2, 7))]
    links = [(random.choice(nodes[:place]), nodes[place]) for place in range(1, len(nodes))]
    net = RegistrationNetwork(links, random.sample(nodes, random.randrange(1, 4) if len(nodes) > 3 else 1))
    pool = [conditions(random) for _ in range(6)]
    for _ in range(12):
        at = random.choice(nodes)
        known = net.population[at]
        if known and random.random() < 0.45:
            wanted = random.choice(sorted(known, key=str))
            net.cancel(at, wanted, random.randrange(1, known[wanted] + 1))
        else:
            net.register(at, random.choice(pool), random.choice([1, 1, 2, 3]))
        if not are_queued:
            net.settle()
            net.check()
        else:
            for _ in range(random.randrange(4)):
                if net.under_way:
                    net.deliver(random.choice(list(net.under_way)))
    while net.under_way:
        net.deliver(random.choice(list(net.under_way)))
    net.check()


@given(seed=st.integers(0, 2**32))
def test_a_registration_and_its_cancellation_leave_no_trace(seed: int) -> None:
    random = Random(seed)
    table = RegistrationTable()
    for _ in range(10):
        table.register(random.randrange(3), conditions(random), random.randrange(1, 3), 0)
    before = {each: table.column(each) for each in range(3)}
    sent = {each.filter: each.own for each in table.tops()}
    wanted = conditions(random)
    interface = 0  # of clients, which keeps what it covers; a neighbour would bring back what it alone has
    table.register(interface, wanted, 2, 0)
    table.cancel(interface, wanted, 2)
    assert {each: table.column(each) for each in range(3)} == before
    assert {each.filter: each.own for each in table.tops()} == sent
    check_entries(table)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ([], "at least one"),
        ([Registration(of(9), 0, 1)], "cannot be cancelled"),
        ([Registration(of(1), -2, 0)], "of 1 registrations 2 cannot"),
        ([Registration(Filter.nothing, 1, 0)], "never matches"),
        ([Registration(of(2), 1, 0), Registration(of(2), 1, 0)], "names a filter once"),
        ([Registration(of(2), 1, 0), Registration(of(3), 1, 0)], "only the first"),
        ([Registration(of(2), 1, 0), Registration(of(3), 0, 1)], "of a filter that has none"),
        ([Registration(of(1, 2), 1, 0), Registration(of(1), 0, 1)], "stands for those below it"),
        ([Registration(of(1), -1, 0), Registration(of(2), 1, 0)], "stands for those below it"),
        ([Registration(of(2), 2**50, 0)], "at most"),
    ],
)
def test_a_message_that_no_router_could_have_sent_changes_nothing(message: list[Registration], said: str) -> None:
    table = RegistrationTable()
    table.register(1, of(1), 1, 0)
    with pytest.raises(InvalidArgument, match=said):
        table.receive(1, message)
    assert table.column(1) == {of(1).digest: of(1)}
    check_entries(table)
