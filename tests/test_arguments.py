"""Public calls with arguments of wrong types and values: a result or a `PalioError`, never an error of Python's own.

Each argument of each call gets every wrong value in turn, the others being right. Where a value happens to be right,
the call simply works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import palio
from palio import Event, Filter, Matcher, PalioError, Subscription, col
from palio.events import DEFAULT_LIMITS
from palio.simulation import Bloom, Merging, Network, Prefix, Reuse, Topology
from palio.simulation.topologies import line
from tests.wrong_arguments import WRONG, check

EVENT = {"x": 1}
SUBSCRIPTION = {"where": "x > 1", "language": "sql", "subscriber": "s", "metadata": {}, "timezone": "UTC"}
IDENTITY = {"id": "i", "source": "s", "time": None, "limits": DEFAULT_LIMITS}


def matcher() -> Matcher:
    return Matcher({"a": "x > 1"}, background=False)


def test_a_matcher_refuses_what_is_no_subscription() -> None:
    check(Matcher, subscriptions={"a": "x > 1"})
    check(lambda **given: matcher().add(**given), id="b", **SUBSCRIPTION)
    check(lambda **given: matcher().replace(**given), id="a", **SUBSCRIPTION)
    check(lambda id, where: matcher().__setitem__(id, where), id="a", where="x > 1")
    check(lambda **given: matcher().add_many(**given), ids=["b"], wheres=["x > 1"], language="sql", timezone="UTC")
    check(lambda **given: matcher().add_subscriptions(**given), subscriptions=[Subscription("z", "x > 1")])
    check(Subscription, id="b", **SUBSCRIPTION)


def test_a_matcher_refuses_what_is_no_id_and_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a wrong path is saved to all the same
    for call in (Matcher.remove, Matcher.discard, Matcher.__getitem__, Matcher.__delitem__, Matcher.get):
        check(lambda call=call, **given: call(matcher(), **given), id="a")
    check(lambda **given: matcher().remove_many(**given), ids=["a"])
    check(lambda **given: matcher().match(**given), event=EVENT)
    check(lambda **given: matcher().match_batch(**given), events=[EVENT])
    check(lambda **given: matcher().match_event(**given), event=Event(EVENT))
    check(lambda **given: matcher().match_events(**given), events=[Event(EVENT)])
    check(lambda **given: matcher().explain(**given), id="a", event=EVENT)
    check(Matcher.open, path=str(tmp_path / "none"))
    check(lambda **given: matcher().save(**given), path=str(tmp_path / "saved"))


def test_one_subscription_by_itself_is_not_many() -> None:
    with pytest.raises(PalioError, match="remove_many takes a list of ids, not str; remove takes one"):
        matcher().remove_many("a")
    with pytest.raises(PalioError, match="a Subscription is needed, not str"):
        matcher().add_subscriptions(["x > 1"])  # type: ignore[list-item]


def test_a_filter_refuses_what_is_none() -> None:
    wanted = Filter("x > 3")
    check(Filter, condition="x > 1")
    check(Filter.parse, condition="x > 1", language="sql", timezone="UTC")
    for call in (Filter.covers, Filter.overlaps, Filter.merge):
        check(lambda call=call, **given: call(wanted, **given), other=wanted)
    check(wanted, event=EVENT)
    check(col, name="x")
    check(lambda value: col("x") > value, value=1)
    check(lambda values: col("x").isin(values), values=[1])
    check(lambda low, high: col("x").between(low, high), low=1, high=2)


def test_an_event_refuses_what_is_none() -> None:
    check(Event, attributes=EVENT, **IDENTITY)
    check(Event.from_dict, content=EVENT, **IDENTITY)
    check(Event.from_json, text='{"x": 1}', **IDENTITY)
    check(Event.from_cloudevent, event=EVENT, headers={"ce-id": "1"}, limits=DEFAULT_LIMITS)
    check(lambda **given: list(Event.from_arrow(**given)), data=None, limits=DEFAULT_LIMITS)


def test_a_connection_refuses_wrong_options_before_it_is_made() -> None:
    async def make(**given: Any) -> None:
        palio.connect(**given)

    options = {"token": None, "app": None, "tls": None, "patience": 1.0, "timeout": 1.0, "publisher": None}
    check(lambda **given: asyncio.run(make(**given)), url="palio://127.0.0.1:1", **options)
    with pytest.raises(PalioError, match="timeout is a number of seconds from 0 on, not '3'"):
        palio.connect(timeout="3")  # type: ignore[arg-type]


def test_numbers_of_matches_are_asked_for_by_events() -> None:
    with pytest.raises(PalioError, match=r"match_event takes an Event, not dict; Event\.read makes one"):
        matcher().match_event(EVENT)  # type: ignore[arg-type]
    with pytest.raises(PalioError, match="match_events takes a list of Events, not str"):
        matcher().match_events("x")  # type: ignore[arg-type]


def test_a_simulation_reads_and_draws_files_that_can_exist(tmp_path: Path) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text('{"nodes": [{"id": 1}, {"id": 2}], "edges": [{"source": 1, "target": 2}]}')
    check(Network.from_file, path=graph, hosts=2)
    check(lambda **given: Network.line(2).draw(**given), path=tmp_path / "line.svg")
    with pytest.raises(PalioError, match="cannot be read: No such file or directory"):
        Network.from_file(tmp_path / "none.json")
    with pytest.raises(PalioError, match="cannot be read: Is a directory"):
        Network.from_file(tmp_path)
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(PalioError, match=r"a picture is a file, and .*folder"):
        Network.line(2).draw(tmp_path / "folder.svg")


def test_a_topology_refuses_what_is_no_link() -> None:
    check(Topology, brokers=2, links=((0, 1, None),))
    for wrong in WRONG:
        for link in ((wrong, 1, None), (0, wrong, None), (0, 1, wrong)):
            try:
                Topology(2, (link,))
            except PalioError as error:
                assert str(error)


def test_a_refused_link_leaves_the_network_as_it_was() -> None:
    net = Network.line(3)
    for call in (lambda: net.add_broker(0, delay="x"), lambda: net.move(2, 0, delay="x")):
        with pytest.raises(PalioError, match="a link has a delay of some seconds from 0 on, not 'x'"):
            call()
    assert net.topology == line(3)
    assert net.links == [(0, 1), (1, 2)]


def test_the_options_of_strategies_are_checked() -> None:
    for strategy, role in [
        (Bloom, "forwarding"),
        (Reuse, "forwarding"),
        (Prefix, "forwarding"),
        (Merging, "propagation"),
    ]:
        for option in fields(strategy):
            check(lambda value, s=strategy, o=option, r=role: Network.line(2, **{r: s(**{o.name: value})}), value=None)


def test_a_simulation_refuses_what_it_has_not() -> None:
    chosen = {
        "propagation": "identity",
        "forwarding": "content",
        "tables": "hard",
        "crash_log": "none",
        "paths": "tree",
        "seed": 0,
        "options": {},
    }
    check(Network, topology=line(2), **chosen)
    check(Network.line, brokers=2)
    check(Network.star, brokers=2)
    check(Network.tree, brokers=2, children=1)
    check(Network.mesh, brokers=4, extra=1, seed=0)

    def call(name: str) -> Callable[..., Any]:
        def call_on_new_network(**given: Any) -> Any:
            return getattr(Network.line(2), name)(**given)

        return call_on_new_network

    check(call("subscribe"), at=0, where="x > 1", language="sql", confirm="no", client="c")
    check(call("advertise"), at=0, where="x > 1", language="sql", client="c")
    check(call("publish"), at=0, event=EVENT, client="c")
    check(call("publish_all"), at=0, events=[EVENT], client="c")
    check(call("replay"), at=0, where="x > 1", places={}, limit=1)
    check(call("forget"), at=0, broker=1)
    check(call("run"), seconds=1)
    check(call("crash"), broker=0, after=1)
    check(call("move"), broker=0, to=1)
    check(call("add_broker"), delay=None)
    check(lambda neighbour, delay: Network.line(2).add_broker(neighbour, delay=delay), neighbour=0, delay=1.0)
    check(call("restart"), broker=0)
    check(call("defuse"), broker=0)
    check(call("entry_table"), at=0)
    for name in ("cut", "mend", "add_link"):
        check(call(name), link=(0, 1))
    for name in ("unsubscribe", "deliveries_of", "queue"):
        check(call(name), subscription=None)
    check(call("unadvertise"), advertisement=None)
    check(call("is_confirmed"), event=None)
