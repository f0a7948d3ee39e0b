"""Messages beyond the limits: they fail at once, and affect no other client."""

from __future__ import annotations

from typing import Any

import pytest

import palio
from palio.errors import InvalidArgument, LimitReached, WireError
from palio.network.security.quotas import BrokerLimits
from palio.routing.codec import MAX_FRAME_BYTES, encode_event
from tests.network.running import broker, line, run, url

LONGEST = 4_000
LIMITS = BrokerLimits(frame_bytes=2 * LONGEST)


def event(size: int) -> dict[str, str]:
    """An event of this length in bytes as it is sent; its id has the same length in all of them."""
    beside = len(encode_event(palio.Event({"text": "x" * 1_000}))) - 1_000
    return {"text": "x" * (size - beside)}


def test_the_longest_event_that_is_let_in_reaches_everybody_and_a_longer_one_nobody() -> None:
    async def test() -> None:
        async with (
            line(3, limits=LIMITS) as servers,
            palio.connect(url(servers[0])) as publisher,
            palio.connect(url(servers[2])) as far,
            palio.connect(url(servers[0])) as near,
            far.subscribe("TRUE", durable="x" * 200, confirm="network") as at_the_end,
            near.subscribe("TRUE", name="y" * 200) as at_the_entrance,
        ):
            for confirm in (True, False):
                with pytest.raises(LimitReached, match="event_bytes"):
                    await publisher.publish(event(LONGEST + 1), confirm=confirm)
                await publisher.publish(event(LONGEST), confirm=confirm)
            for events in (at_the_end, at_the_entrance):
                for _ in range(2):
                    received = await anext(events)
                    assert len(encode_event(received)) == LONGEST
                    await received.ack()

    run(test)


def test_a_broker_does_not_rely_on_what_its_clients_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.network.client.connection.Connection.check_event", lambda self, size: None)

    async def test() -> None:
        async with broker(limits=LIMITS) as server, palio.connect(url(server)) as client:
            with pytest.raises(LimitReached, match="event_bytes"):
                await client.publish(event(LONGEST + 1), confirm=True)
            with pytest.raises(LimitReached, match="frame_bytes"):
                await client.publish(event(2 * LONGEST), confirm=True)
            await client.publish(event(LONGEST), confirm=True)

    run(test)


def test_a_client_that_is_not_understood_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.network.client.subscription.check_subscription_options", lambda *given: None)
    wrong: list[dict[str, Any]] = [{"overflow": "often"}, {"confirm": "maybe"}, {"queue": "5"}, {"name": "x" * 201}]

    async def test() -> None:
        async with broker() as server:
            for options in wrong:
                async with palio.connect(url(server)) as client:
                    with pytest.raises(WireError):
                        await client.subscribe("TRUE", **options).__aenter__()

    run(test)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"overflow": "often"}, "overflow is one of block, drop_oldest, drop_newest, disconnect, not 'often'"),
        ({"confirm": "maybe"}, "confirm is one of .*, not 'maybe'"),
        ({"queue": "5"}, "queue is a number of events, not '5'"),
        ({"queue": -1}, "queue is a number of events, not -1"),
        ({"durable": "x" * 201}, "from 1 to 200 characters"),
        ({"name": 7}, "is a text, not a value of type int"),
    ],
)
def test_what_a_broker_would_not_understand_is_not_said(options: dict[str, Any], says: str) -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(InvalidArgument, match=says):
                client.subscribe("TRUE", **options)

    run(test)


def test_events_of_a_subscription_that_is_not_entered_are_no_silence() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(InvalidArgument, match="entered"):
                await anext(client.subscribe("TRUE"))

    run(test)


def test_a_refusal_of_one_event_keeps_no_other_from_being_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.network.client.connection.Connection.check_event", lambda self, size: None)

    async def test() -> None:
        async with (
            broker(limits=LIMITS) as server,
            palio.connect(url(server)) as client,
            client.subscribe("n >= 0") as events,
        ):
            await client.publish(event(LONGEST + 1))
            await client.publish({"n": 0}, confirm=True)
            with pytest.raises(LimitReached, match="event_bytes"):
                await client.publish({"n": 1})
            await client.publish({"n": 2})
            assert [(await anext(events)).get("n") for _ in range(3)] == [0, 1, 2]

    run(test)


def test_every_event_that_any_broker_lets_in_fits_into_a_frame_of_a_link() -> None:
    assert BrokerLimits(frame_bytes=2**40).event_bytes <= BrokerLimits().event.json_bytes
    assert 2 * BrokerLimits(frame_bytes=2**40).event_bytes <= MAX_FRAME_BYTES
