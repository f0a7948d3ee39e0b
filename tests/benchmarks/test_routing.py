"""Routing: every part runs small, and what it compares agrees."""

from __future__ import annotations

import pytest
import routing
import routing_bloom
import routing_choices
import routing_covering
import routing_forwarding
import routing_paths
import routing_prefix
import routing_propagation
import routing_reuse
import routing_simulation
from harness import hops


def test_the_module_names_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert routing.main([]) == 0
    assert {"bloom", "prefix", "reuse"} <= set(routing.parts())
    assert "Parts: " in capsys.readouterr().out
    assert routing.main(["nothing"]) == 2
    assert set(routing.ALL) <= set(routing.parts())


def test_every_way_to_the_links_of_an_event_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    rows = routing_bloom.measure(60, events=20, poset_up_to=60)
    assert {row.way for row in rows} >= {hops.POSET, hops.COLUMNAR, "sbstree", "digest: batches"}
    assert all(row.operations is not None for row in rows if "columnar" not in row.way)
    hops.show(rows)
    assert "Siena poset" in capsys.readouterr().out


def test_every_strategy_is_beside_content_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert routing.main("forwarding --sizes 60 --events 20".split()) == 0
    assert "60 filters, prefix: batches: " in capsys.readouterr().out
    rows = routing_forwarding.measure(60, events=20, poset_up_to=60)
    assert all(row.operations is not None for row in rows)
    assert {row.way.partition(":")[0] for row in rows} == {"content", "prefix", "digest", "reuse, partial(20)"}


def test_every_way_along_a_forwarding_tree_agrees() -> None:
    rows = routing_prefix.measure(60, events=20, poset_up_to=60)
    assert {row.way for row in rows} >= {hops.POSET, hops.COLUMNAR, routing_prefix.HEADER}
    assert all(row.operations is not None for row in rows if "columnar" not in row.way)
    by_way = {row.way: row for row in rows}
    assert by_way[routing_prefix.HEADER].false_links == 0


def test_every_mode_of_reuse_delivers_the_same_with_fewer_looks(capsys: pytest.CaptureFixture[str]) -> None:
    small = "--densities 0.1 --routers 7 --subscriptions 70 --events 14 --rounds 1 --seeds 2"
    assert routing.main(f"reuse {small}".split()) == 0
    assert "partial:20 is at most 1.05" in capsys.readouterr().out
    scale = routing_reuse.Scale(7, 70, 14, 1, "uniform")
    never, partial, always = routing_reuse.measure(0.1, ["never", "partial:2", "always"], scale, seed=1)
    assert always.looks < partial.looks < never.looks
    assert never.lookups == 0 < partial.lookups


def test_every_relation_graph_forwards_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    history = routing_covering.History(attributes=2, operations=150, removals=0.2)
    names = [*routing_covering.GRAPHS, routing_covering.CURVE]
    rows = {row.graph: row for row in routing_covering.measure_graphs(history, names)}
    exact = {row.forwarded for name, row in rows.items() if not name.startswith("lazy")}
    assert len(exact) == 1
    assert rows["forest"].of_forest == 1.0
    assert rows["G1 k-d tree"].looks < rows["dense G*"].looks
    assert routing.main([*"covering --operations 60 --attributes 6 --graphs forest".split(), "G1 k-d tree"]) == 0
    assert "of the forest's time at d = 6" in capsys.readouterr().out
    small = "--operations 80 --attributes 1"
    assert routing.main(f"covering --part parents {small}".split()) == 0
    assert routing.main(f"covering --part approximate --budget 20 {small}".split()) == 0
    assert "lazy G10 columnar" in capsys.readouterr().out


def test_more_parents_ask_less_often_and_leaving_space_out_forwards_more() -> None:
    history = routing_covering.History(attributes=1, operations=150, removals=0.4)
    searches = [row.searches for row in routing_covering.measure_parents(history)[:5]]
    assert searches == sorted(searches, reverse=True)
    exact, *curves = routing_covering.measure_approximate(history, budget=5)
    assert curves[0].forwarded == exact.forwarded
    assert all(row.forwarded >= exact.forwarded for row in curves)


def test_a_simulated_network_is_measured_small(capsys: pytest.CaptureFixture[str]) -> None:
    small = "--brokers 4 --subscriptions 5 --events 20 --large 30"
    assert routing_simulation.main(small.split()) == 0
    assert "30 brokers: " in capsys.readouterr().out


def test_an_idle_broker_is_small() -> None:
    assert routing_simulation.bytes_of_an_idle_broker(200) < 21_000


def test_covering_sends_no_more_than_identity_and_that_no_more_than_simple_routing() -> None:
    rows = {name: routing_propagation.measure(name, False, 40, 6, 2) for name in ("simple", "identity", "covering")}
    assert rows["simple"].messages >= rows["identity"].messages
    assert rows["identity"].filters_per_broker >= rows["covering"].filters_per_broker
    assert routing.main("propagation --sizes 20 --brokers 4 --json".split()) == 0
    by_value = [routing_propagation.measure(name, False, 40, 3, 1, "values") for name in ("covering", "merging")]
    assert by_value[0].filters_per_broker > 2 * by_value[1].filters_per_broker


def test_trees_of_publishers_are_shorter_and_use_more_links(capsys: pytest.CaptureFixture[str]) -> None:
    shared, own = (routing_paths.measure(paths, "group", 10, 10, 20, 30) for paths in ("shared", "publisher"))
    assert own.mean_hops < shared.mean_hops
    assert own.links_used > shared.links_used
    assert routing.main("paths --brokers 4 --extra 2 --subscriptions 4 --events 4".split()) == 0
    assert "publisher" in capsys.readouterr().out


def test_headers_let_content_be_read_at_both_ends_and_a_hierarchy_tells_only_the_way_to_the_root() -> None:
    rows = {choice: routing_choices.measure(choice, 6, 40) for choice in routing_choices.CHOICES}
    content = rows["covering, content"]
    for choice, row in rows.items():
        assert row.deliveries == content.deliveries
        assert row.in_vain == 0 or choice == "flooding"
        if row.header_bytes and choice != "covering, reuse partial":
            assert row.looks <= 1 + row.deliveries
            assert row.looks < content.looks
    assert rows["covering, content, hierarchy"].subscription_messages < content.subscription_messages
    leaf = {spread: routing_choices.messages_of_one_subscription(spread) for spread in routing_choices.SPREADS}
    assert leaf == {"covering": 39, "covering, hierarchy": 3}
    assert routing.main("choices --brokers 3 --events 10 --json".split()) == 0
