"""Hop timestamps on the envelopes of events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from palio.routing.codec import Stamp, stamp_read, stamp_written, stamps_in
from palio.routing.messages import DeliveryTag, EventId, Publish
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS


def passed(event: Publish, broker: int, written: float, read: float) -> Publish:
    """An event that passed a link."""
    event = stamp_written(event, broker, written)
    stamp_read(event, read)
    return event


EVENT = Publish(EventId(1, 1, 1), b"", hops=3, publisher=7, kept=DeliveryTag(b"i" * 16, 1))


@given(st.lists(st.tuples(st.integers(0, 99), st.floats(0, 1e9), st.floats(0, 1e9)), max_size=5))
def test_what_is_stamped_is_read_in_the_order_of_the_way(way: list[tuple[int, float, float]]) -> None:
    event = EVENT
    for broker, written, read in way:
        event = passed(event, broker, written, read)
    assert stamps_in(event.stamps) == tuple(map(Stamp._make, way))
    assert replace(event, stamps=b"") == EVENT


@given(st.binary(max_size=100))
def test_what_strangers_wrote_there_does_no_harm(written: bytes) -> None:
    event = passed(Publish(EVENT.id, b"", stamps=written), 1, 2.0, 3.0)
    assert all(isinstance(each, Stamp) for each in stamps_in(event.stamps))


def test_a_long_way_is_stamped_in_part() -> None:
    event = EVENT
    for broker in range(100):
        event = passed(event, broker, 1.0, 2.0)
    assert [each.broker for each in stamps_in(event.stamps)] == list(range(64))


@pytest.mark.parametrize("options", [{}, {**FAULTY_LINKS, "delay": 0.02}])
def test_deliveries_tell_the_way_and_the_times(options: dict[str, float]) -> None:
    net = Network.line(4, options={"stamps": True, **options}, seed=2)
    net.subscribe(0, "x > 1")
    net.publish(3, {"x": 2})
    net.run()
    [delivery] = net.deliveries
    assert (delivery.hops, delivery.sequence) == (3, 1)
    assert [each.broker for each in delivery.stamps] == [3, 2, 1]
    times = [time for each in delivery.stamps for time in (each.written, each.read)]
    assert times == sorted(times)
    assert times[-1] == delivery.time


def test_wall_clocks_are_apart_from_each_other_and_from_time() -> None:
    net = Network.line(3, options={"stamps": True, "skew": 5.0}, seed=1)
    net.subscribe(0, "x > 1")
    net.publish(2, {"x": 2})
    net.run()
    [delivery] = net.deliveries
    first, second = delivery.stamps
    assert first.read == second.written
    assert abs(first.read - first.written - 0.01) > 0.1
    assert all(abs(time - delivery.time) < 6 for each in delivery.stamps for time in (each.written, each.read))


def test_without_a_wall_clock_nothing_is_stamped() -> None:
    net = Network.line(3)
    net.subscribe(0, "x > 1")
    net.publish(2, {"x": 2})
    net.run()
    assert net.deliveries[0].stamps == ()
