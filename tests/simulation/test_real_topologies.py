"""Topologies of real networks, with measured delays."""

from __future__ import annotations

import json
import tarfile
from itertools import combinations
from math import inf
from pathlib import Path
from random import Random

import pytest

from palio import InputError, InvalidArgument
from palio.simulation import Network
from palio.simulation.topologies import Topology, component_labels, from_file, from_round_trips, from_topohub

TIMES = [[0, 2, 9, 0], [4, 0, 5, 0], [9, 5, 0, 0], [0, 0, 0, 0]]


def test_hosts_are_joined_by_the_shortest_tree_and_a_link_takes_half_of_a_round_trip() -> None:
    tree = from_round_trips(TIMES)
    assert tree == Topology(4, ((0, 1, 0.0015), (1, 2, 0.0025)))  # nobody measured the last host
    assert [each[:2] for each in from_round_trips(TIMES, extra=1).links] == [(0, 1), (0, 2), (1, 2)]
    assert from_round_trips([[0, 1], [1, 0]], unit=1.0).links == ((0, 1, 0.5),)


def test_no_other_tree_is_shorter() -> None:
    """All trees of five hosts, by trying them."""
    for seed in range(20):
        random = Random(seed)
        times = [[random.choice([0, 1, 2, 5, 9]) for _ in range(5)] for _ in range(5)]
        delays = {(a, b): [t / 2000 for t in (times[a][b], times[b][a]) if t] for a, b in combinations(range(5), 2)}
        known = {pair: sum(each) / len(each) for pair, each in delays.items() if each}
        found = from_round_trips(times)
        joined = component_labels(5, known)
        assert component_labels(5, [(a, b) for a, b, _ in found.links]) == joined
        count = 5 - len(set(joined))
        best = min(
            (sum(known[each] for each in chosen) for chosen in combinations(known, count)
             if component_labels(5, chosen) == joined),
            default=inf,
        )  # fmt: skip
        assert len(found.links) == count
        assert sum(delay or 0.0 for _, _, delay in found.links) == pytest.approx(best)


@pytest.mark.parametrize("times", [[[0, 1]], [[0, 1], [1, 0, 2]], [[0, inf], [1, 0]], []])
def test_what_is_no_matrix_is_refused(times: list[list[float]]) -> None:
    with pytest.raises(InvalidArgument):
        from_round_trips(times)


@pytest.mark.parametrize("text", ["", "1 2\n3", "a b\nc d", "0 nan\nnan 0"])
def test_a_file_that_is_no_matrix_is_told_what_one_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "times"
    file.write_text(text)
    with pytest.raises(InputError, match="a matrix of round-trip times"):
        from_file(file)


def test_planetlab(data_folder: Path, tmp_path: Path) -> None:
    archive = data_folder / "networks" / "planetlab490_seattle99_rtt.tar.xz"
    with tarfile.open(archive) as opened:
        member = next(each for each in opened if each.name.endswith("PlanetLab/PlanetLabData_1"))
        file = opened.extractfile(member)
        assert file is not None
        (tmp_path / "planetlab").write_bytes(file.read())
    whole = from_file(tmp_path / "planetlab")
    assert (whole.brokers, len(whole.links), whole.has_circles) == (490, 489, False)
    net = Network.from_file(tmp_path / "planetlab", 60, propagation="covering")
    net.run()
    random = Random(1)
    wanted = [net.subscribe(random.randrange(60), f"x > {random.randrange(9)}", confirm="network") for _ in range(20)]
    for _ in range(20):
        net.publish(random.randrange(60), {"x": random.randrange(10)})
    net.run()
    assert net.verdict().is_right
    assert net.deliveries
    assert len(set(net.confirmations.values())) > 10  # real links take different times
    assert len(net.confirmations) == len(wanted)


def test_every_real_topology_becomes_one_tree_for_each_of_its_parts(data_folder: Path) -> None:
    path = data_folder / "networks" / "topohub_topozoo_sndlib_caida_backbone_json.tar.xz"
    seen = 0
    with tarfile.open(path) as archive:
        members = [each for each in archive if each.name.endswith(".json") and "topozoo" in each.name]
        for member in members[::20]:
            file = archive.extractfile(member)
            assert file is not None
            topology, names = from_topohub(json.load(file))
            if topology.brokers > 120:
                continue
            assert len(names) == topology.brokers
            net = Network(topology)
            net.run()
            assert len(net.tree_links) == net.topology.brokers - net.topology.components
            assert all(delay is not None and delay >= 0 for _, _, delay in net.topology.links)
            seen += 1
    assert seen >= 8
