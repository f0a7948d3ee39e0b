"""The benchmark of peers: the three ways to send agree on a stable ring, and m-cast takes the fewest messages."""

from __future__ import annotations

from random import Random

import peers
import peers_load


def test_all_schemes_reach_exactly_the_owners_and_m_cast_saves_what_the_source_claims() -> None:
    random = Random(3)
    net = peers.ChordNetwork(60, mapping=peers.source_mappings()["attribute-split"], seed=3, bits=peers.BITS)
    net.run(1.0)
    places, nodes, keys = net.memberships(), sorted(net.memberships()), net._keys
    assert keys is not None
    for _ in range(3):
        wanted = keys.positions_of(keys.arcs_of(peers.Filter.parse(peers.draw_condition(random))))
        start = random.choice(nodes)
        done = {name: send(places, net.ring, start, wanted) for name, send in peers.SCHEMES.items()}
        target = peers.owners(nodes, net.ring, wanted)
        assert all(each.received.keys() == target for each in done.values())
        fewest = done["m-cast"]
        assert set(fewest.received.values()) == {1}
        assert fewest.hops <= done["conservative unicast"].hops
        assert fewest.hops < 0.1 * done["aggressive unicast"].hops
        assert fewest.dilation <= min(peers.BITS, done["conservative unicast"].dilation)


def test_costs_grow_with_the_logarithm_of_the_ring() -> None:
    rows = [peers.measure_growth(count, 10, 20, 2, seed=1) for count in (16, 128)]
    assert rows[0].hops_per_publication < rows[1].hops_per_publication < 3 * rows[0].hops_per_publication
    assert all(row.messages_per_join > 0 for row in rows)


def test_churn_leaves_owners_out_until_the_ring_is_repaired() -> None:
    rows = peers.measure_churn(60, 6, 3, seed=2)
    assert [row.reached for row in rows if row.seconds == 20.0] == [1.0, 1.0, 1.0]
    assert min(row.reached for row in rows if row.seconds == 0.0) < 1.0


def test_what_nodes_store_is_counted_as_the_protocol_stores_it() -> None:
    random, mapping = Random(5), peers.source_mappings()["selective-attribute"]
    net = peers.ChordNetwork(40, mapping=mapping, seed=5, bits=peers.BITS, replicas=1)
    wanted = [net.subscribe(0, peers.draw_condition(random)).wanted for _ in range(30)]
    net.run()
    keys, nodes = net._keys, sorted(net.memberships())
    assert keys is not None
    counted = peers_load.count_stored(nodes, [keys.positions_of(keys.arcs_of(each)) for each in wanted])
    assert counted == [len(net._peers[node].store) for node in nodes]


def test_peers_store_less_than_brokers_and_as_much_as_partitions() -> None:
    rows = {row["choice"]: row for row in peers_load.measure_choices(9, 40, 10, seed=2)}
    assert rows["brokers, content"]["stored, mean"] == 40
    assert rows["peers, selective-attribute"]["stored, mean"] < 40
    assert rows["peers, key-space-split"]["messages of an event"] < 2
