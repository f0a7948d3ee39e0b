"""Feeds of real events: in time order, covered by their publishers' advertisements."""

from __future__ import annotations

from pathlib import Path

import pytest

from palio import Event, Filter
from palio.routing.propagation.neighbour_updates import is_advertised
from palio.simulation import Network
from palio.workloads import padres
from palio.workloads.generated import WORKLOADS
from palio.workloads.network_workload import Feed, flights_feed, generated_feed, padres_feed


def judged(feed: Feed) -> None:
    times = [each.time for each in feed.events]
    assert times == sorted(times)
    offered = {publisher: Filter.parse(where) for publisher, where in feed.advertisements.items()}
    for each in feed.events:
        assert is_advertised([offered[each.publisher]], Event.from_dict(each.content).attributes)


def test_flights() -> None:
    feed = flights_feed(20, 300)
    judged(feed)
    assert (len(feed.subscriptions), len(feed.events), len(feed.advertisements)) == (20, 300, 15)
    assert flights_feed(20, 300) == feed
    assert flights_feed(40, 3, seed=1).subscriptions[20:] != flights_feed(40, 3, seed=2).subscriptions[20:]


@pytest.mark.parametrize("name", WORKLOADS)
def test_generated_workloads_run_in_networks_as_they_are(name: str) -> None:
    feed = generated_feed(name, 30, 20, seed=3)
    judged(feed)
    assert (len(feed.subscriptions), len(feed.events)) == (30, 20)
    assert generated_feed(name, 30, 20, seed=3) == feed != generated_feed(name, 30, 20, seed=4)
    net = Network.line(3, propagation="covering", forwarding="reuse")
    for number, where in enumerate(feed.subscriptions):
        net.subscribe(number % 3, where)
    for number, each in enumerate(feed.events):
        net.publish(number % 3, each.content)
    net.run()
    assert net.verdict().is_right


def test_a_year_of_flights_is_followed_by_the_next() -> None:
    feed = flights_feed(0, 10_100)
    times = [each.time for each in feed.events]
    assert times == sorted(times)
    assert (times[-1] - times[0]).days > 365


@pytest.fixture(scope="module")
def stocks(data_folder: Path) -> Feed:
    return padres_feed(
        data_folder / "events" / "padres_stockquotes_245k.txt.xz",
        data_folder / "subscriptions" / "padres_subscriptions_11.9k.tar.xz",
        subscriptions=60,
        events=150,
    )


def test_padres_stocks_with_their_advertisements(stocks: Feed) -> None:
    judged(stocks)
    assert (len(stocks.advertisements), len(stocks.events)) == (47, 150)
    assert (stocks.events[0].time.year, stocks.events[-1].time.year) == (2004, 2004)
    net = Network.tree(9, propagation="covering", advertisements=True)
    symbols = sorted(stocks.advertisements)
    for number, symbol in enumerate(symbols):
        net.advertise(number % 9, stocks.advertisements[symbol])
    for number, where in enumerate(stocks.subscriptions):
        net.subscribe(number % 7, where)
    for each in stocks.events:
        net.publish(symbols.index(each.publisher) % 9, each.content)
    net.run()
    assert net.verdict().is_right
    assert net.deliveries


@pytest.mark.parametrize("cycles", ["dynamiccycles/DemoDynamicCycles", "fixedcycles/DemoFixedCycles"])
def test_padres_demonstrations_of_circles(data_folder: Path, cycles: str) -> None:
    """Advertised at one end, subscribed at the other, published once, delivered once."""
    archive = data_folder / "subscriptions" / "padres_subscriptions_11.9k.tar.xz"
    name = Path(cycles).name
    [offered] = padres.read_demonstration(archive, f"{name}Adv.txt" if "Fixed" in name else f"{name}Adv1.txt")
    [wanted] = padres.read_demonstration(archive, f"{name}Sub.txt")
    [published] = padres.read_demonstration(archive, f"{name}Pub.txt")
    assert (offered.kind, wanted.kind, published.kind) == ("a", "s", "p")
    net = Network.mesh(6, extra=4, seed=2, advertisements=True)
    net.advertise(0, padres.to_sql(offered.text))
    net.subscribe(5, padres.to_sql(wanted.text))
    net.publish(0, padres.parse_publication(published.text))
    net.run()
    assert len(net.deliveries) == 1
    assert net.verdict().is_right


def test_padres_historic_advertisement_lets_its_own_publications_in(data_folder: Path) -> None:
    lines = padres.read_demonstration(data_folder / "subscriptions" / "padres_subscriptions_11.9k.tar.xz", "2-pubs.txt")
    net = Network.line(2, advertisements=True)
    for line in lines:
        if line.kind == "a":
            net.advertise(0, padres.to_sql(line.text))
    published = [line for line in lines if line.kind == "p"]
    net.subscribe(1, "class = 'stock' AND volume > 0")
    for line in published:
        net.publish(0, padres.parse_publication(line.text))
    net.run()
    assert len(net.deliveries) == len(published) > 0
