"""Topologies of every shape, and the drawing of them."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from random import Random

import pytest

from palio import InvalidArgument
from palio.errors import MissingExtra
from palio.simulation import Network, Topology, topologies
from palio.simulation.drawing import positions


def degrees(topology: Topology) -> list[int]:
    return sorted(sum(each in (a, b) for a, b, _ in topology.links) for each in range(topology.brokers))


def test_regular_shapes() -> None:
    assert degrees(topologies.line(4)) == [1, 1, 2, 2]
    assert degrees(topologies.star(5)) == [1, 1, 1, 1, 4]
    assert degrees(topologies.tree(13)) == [1] * 9 + [3] + [4] * 3
    assert topologies.line(1).links == ()


def test_random_shapes_are_whole_and_have_circles_only_where_they_say_so() -> None:
    for seed in range(20):
        random = Random(seed)
        tree, mesh = topologies.random_tree(12, random), topologies.random_mesh(12, 5, random)
        stubs = topologies.transit_stub(4, 2, 3, random)
        assert stubs.brokers == 4 + 4 * 2 * 3
        assert [each.components for each in (tree, mesh, stubs)] == [1, 1, 1]
        assert [each.has_circles for each in (tree, mesh, stubs)] == [False, True, False]
        assert len(mesh.links) == 11 + 5
    assert len(topologies.random_mesh(3, 10, Random(1)).links) == 3


@pytest.mark.parametrize("links", [((0, 0, None),), ((0, 3, None),), ((0, 1, None), (1, 0, None))])
def test_links_that_cannot_be_are_refused(links: tuple[tuple[int, int, None], ...]) -> None:
    with pytest.raises(InvalidArgument):
        Topology(3, links)


def test_a_real_network_with_its_circles_and_delays(data_folder: Path) -> None:
    path = data_folder / "networks" / "topohub_topozoo_sndlib_caida_backbone_json.tar.xz"
    with tarfile.open(path) as archive:
        names = [each for each in archive.getnames() if each.endswith(("Geant2012.json", "BeyondTheNetwork.json"))]
        for name in sorted(names):
            file = archive.extractfile(name)
            assert file is not None
            topology, places = topologies.from_topohub(json.load(file))
            assert topology.has_circles
            assert len(places) == topology.brokers
            net = Network(topology, propagation="covering")
            random = Random(1)
            for _ in range(20):
                net.subscribe(random.randrange(topology.brokers), f"x > {random.randrange(10)}")
            for _ in range(20):
                net.publish(random.randrange(topology.brokers), {"x": random.randrange(12)})
            net.run()
            assert net.verdict().is_right
            assert net.deliveries
            assert len(net.tree_links) == topology.brokers - topology.components


@pytest.mark.parametrize(
    "topology", [topologies.tree(40), topologies.line(1), Topology(5, ((0, 1, None), (2, 3, None))), topologies.star(9)]
)
def test_every_broker_has_a_place_of_its_own(topology: Topology) -> None:
    places = positions(topology)
    assert len({(round(x, 6), round(y, 6)) for x, y in places}) == topology.brokers
    assert all(-1.001 <= coordinate <= 1.001 for place in places for coordinate in place)


def test_pictures_show_links_and_brokers(tmp_path: Path) -> None:
    net = Network.star(5)
    net.subscribe(1, "x > 1")
    net.publish(2, {"x": 2})
    net.run()
    net.draw(tmp_path / "net.svg")
    net.draw(tmp_path / "again.svg")
    picture = (tmp_path / "net.svg").read_text()
    assert picture == (tmp_path / "again.svg").read_text()
    for text in (
        "content forwarding",
        "messages over 4 links",
        ">6<",
        "a broker with subscribers",
    ):
        assert text in picture
    net.draw(tmp_path / "net.png")
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidArgument, match=r"not '\.gif'"):
        net.draw("net.gif")


def test_a_network_of_one_broker_and_a_large_one_are_drawn(tmp_path: Path) -> None:
    for brokers in (1, 300):
        Network.tree(brokers).draw(tmp_path / f"{brokers}.png")
        assert (tmp_path / f"{brokers}.png").stat().st_size > 1000


def test_without_a_library_to_draw_with_an_error_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'palio\[draw\]'"):
        Network.line(2).draw("net.png")


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (topologies.line(1), 0),
        (topologies.line(5), 4),
        (topologies.star(6), 2),
        (topologies.tree(13), 4),
        (Topology(5, ((0, 1, None), (2, 3, None), (3, 4, None))), 2),
    ],
)
def test_the_longest_path_of_a_tree_or_of_several(topology: Topology, expected: int) -> None:
    assert topologies.longest_path(topology.brokers, [(a, b) for a, b, _ in topology.links]) == expected
