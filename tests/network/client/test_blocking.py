"""Parity of the blocking and the asynchronous client: calls and errors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from inspect import signature

import pytest

import palio
from palio import ConnectionFailed, InvalidArgument
from palio.network.client.blocking import BlockingBroker, BlockingSubscription
from palio.network.client.broker import Broker
from palio.network.client.subscription import Subscription
from tests.network.processes import Broker as Serving
from tests.network.processes import served

# What the parts of a client say to each other, which `with` does for everybody else.
INNER = {"open", "close", "at_home", "raise_refused", "resubscribe", "put", "on_cancelled", "on_ended", "fail", "move"}


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")} - INNER


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with served() as serving:
        yield serving


def test_they_have_the_same_calls() -> None:
    assert public(BlockingBroker) == public(Broker)
    inherited = {"get", "name", "wanted", "is_durable", "dropped", "complete_up_to"}
    assert public(BlockingSubscription) - inherited == public(Subscription)
    for name in public(Broker) - {"address", "events_per_second"}:
        asked = [list(signature(getattr(kind, name)).parameters) for kind in (Broker, BlockingBroker)]
        assert asked[0] == asked[1], name


def test_many_events_are_published_at_once(serving: Serving) -> None:
    shown: list[int] = []
    with palio.connect_blocking(serving.url) as broker, broker.subscribe("x > 0") as events:
        assert broker.address == serving.url
        assert broker.publish_all([{"x": 1}, {"x": 2}], confirm=True, show=shown.append) == 2
        assert broker.publish_all(({"x": x} for x in (3, 4)), confirm=True) == 2
        assert [next(events).get("x") for _ in range(4)] == [1, 2, 3, 4]
        with pytest.raises(ValueError, match="three"):
            broker.publish_all(failing(), confirm=True)
        assert next(events).get("x") == 5
    assert shown[-1] == 2


def failing() -> Iterator[dict[str, int]]:
    yield {"x": 5}
    raise ValueError("three")


def test_what_is_over_says_so(serving: Serving) -> None:
    with palio.connect_blocking(serving.url) as broker:
        events = broker.subscribe("TRUE")
        with pytest.raises(InvalidArgument, match="entered before"):
            next(events)
        events = broker.subscribe("TRUE").__enter__()
    for doing in (broker.status, lambda: broker.publish({"x": 1}), lambda: next(events)):
        with pytest.raises(ConnectionFailed, match="the connection was closed"):
            doing()
    events.__exit__(None, None, None)


def test_a_time_is_a_datetime_or_seconds(serving: Serving) -> None:
    with palio.connect_blocking(serving.url) as broker:
        broker.publish({"late": True}, confirm=True)
        for since in (0, 0.0, datetime(2020, 1, 1, tzinfo=UTC)):
            assert len(broker.read_log("late", since=since).events) == 1
            assert len(broker.replay("late", since=since).events) == 1
        for wrong in (-1, float("nan"), True, "yesterday"):
            with pytest.raises(InvalidArgument, match="a datetime, or seconds since 1970"):
                broker.read_log(since=wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidArgument, match="a datetime, or seconds since 1970"):
                broker.replay(since=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="whole number from 0 on, not -5"):
            broker.read_log(start=-5)
