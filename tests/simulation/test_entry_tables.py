"""Headers written ahead, in whole networks: believed, completed or refused, every event arrives."""

from __future__ import annotations

from typing import Any

import pytest

from palio.errors import InvalidArgument
from palio.events import Event
from palio.simulation import Network

FORWARDINGS: list[dict[str, Any]] = [
    {"propagation": "identity", "forwarding": "bloom"},
    {"propagation": "simple", "forwarding": "bloom"},
    {"propagation": "identity", "forwarding": "reuse"},
    {"propagation": "simple", "forwarding": "reuse", "options": {"mode": "always"}},
    {"propagation": "covering", "forwarding": "reuse"},
    {"propagation": "merging", "forwarding": "reuse"},
]
EVENTS = [Event.from_dict({"price": price, "symbol": symbol}) for price in (50, 120, 190) for symbol in ("A", "B")]


def headers(net: Network, at: int) -> list[bytes]:
    table = net.entry_table(at)
    rows, numbers = table.matcher().match_events(EVENTS)
    written: list[bytes] = table.writer.write(rows, numbers, len(EVENTS)).to_pylist()
    return written


@pytest.mark.parametrize("choices", FORWARDINGS, ids=str)
def test_every_event_arrives_whatever_became_of_the_table(choices: dict[str, Any]) -> None:
    net = Network.tree(9, children=2, **choices)
    wants = [net.subscribe(at, f"price > {40 * at}") for at in range(5)]
    wants += [net.subscribe(8, "price > 100 AND symbol = 'A'"), net.subscribe(2, "symbol = 'B'")]
    net.run()
    written = headers(net, 3)
    looked_for = list(EVENTS)

    def publish(at: int) -> None:
        for event, header in zip(looked_for, written, strict=True):
            net.publish(at, event.to_dict(), header=header)
        net.run()
        assert net.verdict().is_right, str(net.verdict())

    publish(3)
    publish(6)  # for which it was not written
    net.subscribe(7, "price > 110")
    net.subscribe(4, "symbol = 'A'")
    net.unsubscribe(wants[6])
    publish(3)
    net.crash(3)
    net.run()
    net.restart(3)
    publish(3)
    assert net.deliveries


def test_who_believes_a_header_does_not_look_at_content() -> None:
    net = Network.line(3, propagation="identity", forwarding="bloom")
    far = net.subscribe(2, "price > 100")
    net.run()
    table = net.entry_table(0)
    (nothing,) = table.writer.write(*table.matcher().match_events([Event.from_dict({"price": 1})]), 1).to_pylist()
    net.publish(0, {"price": 120}, header=nothing)
    net.run()
    assert net.deliveries == []  # the header lies, and broker 0 at this version believes it
    net.publish(1, {"price": 121}, header=nothing)
    net.run()
    assert [(each.subscription, each.event.get("price")) for each in net.deliveries] == [(far, 121)]


def test_where_no_header_can_be_written_ahead_that_is_said() -> None:
    with pytest.raises(InvalidArgument, match="content forwarding has no headers"):
        Network.line(2).entry_table(0)
