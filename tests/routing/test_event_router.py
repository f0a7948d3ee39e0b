"""Routing of events through one broker."""

from __future__ import annotations

from msgspec.structs import replace

from palio.routing import codec
from palio.routing.client_messages import PublishClient, SubscribeClient
from palio.routing.effects import (
    UNWANTED,
    Credit,
    Deliver,
    Drop,
    LinkDown,
    Recipient,
    Reply,
    Requested,
    Work,
    WorkDone,
)
from palio.routing.link_credit import CREDIT_WINDOW_BYTES
from palio.routing.link_sessions import BrokerIdentity, NetworkConstants, SessionOutput, StreamSession, Transmit
from palio.routing.messages import EventId, Grant, Hello, Publish, Subscribe
from tests.routing.lone_broker import Alone, event, sends, subscription, wanted

IDENTITY = BrokerIdentity(7, 1, NetworkConstants({}))


def test_one_deliver_and_one_send_for_a_fan_out() -> None:
    broker = Alone(links=4)
    for link in (1, 2, 3):
        broker.says(link, subscription("x > 1"))
    broker.asks(SubscribeClient("a", wanted("x > 0")), SubscribeClient("b", wanted("x = 5")))
    broker.asks(SubscribeClient("c", wanted("x > 0")), client="home")
    effects = broker.says(1, Publish(EventId(1, 1, 1), event(x=5)))
    assert sends(effects) == [((2, 3), Publish(EventId(1, 1, 1), event(x=5), hops=1))]
    [delivered] = [each for each in effects if isinstance(each, Deliver)]
    assert delivered.clients == (Recipient("desk", ("a", "b")), Recipient("home", ("c",)))
    assert delivered.event.body == event(x=5)


def test_events_wait_for_credit_and_control_does_not() -> None:
    broker = Alone(links=1, credit=1)
    broker.says(1, subscription("x > 1"))
    several = [Requested("feed", PublishClient(event(x=2)), 0.0)] * 3
    effects = broker(*several, Requested("desk", SubscribeClient("a", wanted("y > 1")), 0.0))
    assert [type(message) for _, message in sends(effects)] == [Publish, Subscribe]
    assert [message.id.sequence for _, message in sends(broker(Credit(1, 5)))] == [2, 3]


def test_what_does_not_fit_the_queue_is_dropped_and_counted() -> None:
    broker = Alone(links=1, credit=0, options={"queue": 2})
    broker.says(1, subscription("x > 1"))
    effects = broker(*[Requested("feed", PublishClient(event(x=2)), 0.0)] * 3)
    assert [each.reason for each in effects if isinstance(each, Drop)] == ["queue full"]
    assert [each.reason for each in broker(LinkDown(1)) if isinstance(each, Drop)] == ["link down"] * 2


def test_the_bytes_that_wait_for_a_link_are_bounded() -> None:
    long = event(x=2, text="y" * 1_000)
    broker = Alone(links=1, credit=0, options={"queue_bytes": 3_000})
    broker.says(1, subscription("x > 1"))
    effects = broker(*[Requested("feed", PublishClient(long), 0.0)] * 4)
    assert [each.reason for each in effects if isinstance(each, Drop)] == ["queue full"] * 2
    assert len(sends(broker(Credit(1, 5)))) == 2


def test_the_bytes_under_way_over_a_link_are_bounded_whatever_the_credit() -> None:
    long = event(x=2, text="y" * (CREDIT_WINDOW_BYTES // 4))
    broker = Alone(links=1, credit=1_000)
    broker.says(1, subscription("x > 1"))
    assert len(sends(broker(*[Requested("feed", PublishClient(long), 0.0)] * 6))) == 4
    assert len(sends(broker(Credit(1, 1)))) == 1  # one was taken
    assert len(sends(broker(Credit(1, 3)))) == 1


def test_a_neighbour_grants_credit_for_the_bytes_that_it_took() -> None:
    link, out = StreamSession(1, IDENTITY), SessionOutput()
    link.on_frame(Hello(8, 1, IDENTITY.constants.values, 1_024), out, 0.0)
    for number in range(3):
        link.on_frame(Publish(EventId(8, 1, number), b"y" * (CREDIT_WINDOW_BYTES // 4)), out, 0.0)
    out.effects.clear()
    link.finish_batch(out)
    [granted] = [each.data for each in out.effects if isinstance(each, Transmit)]
    assert codec.decode(granted) == Grant(3)


def test_an_event_without_a_subscription_here_is_counted() -> None:
    broker = Alone(links=1)
    message = Publish(EventId(1, 1, 1), event(x=2), hops=3, useless=1)
    assert broker.says(1, message) == [Drop(UNWANTED, replace(message, useless=2), 1)]


def test_links_are_useless_since_an_event_was_delivered_or_went_more_than_one_way() -> None:
    broker = Alone(links=4)
    for link, condition in ((1, "x = 1 OR x = 3"), (2, "x = 1 OR x = 2"), (3, "x = 1")):
        broker.says(link, subscription(condition))
    broker.asks(SubscribeClient("a", wanted("x = 3")))

    def useless(x: int) -> list[int]:
        effects = broker.says(4, Publish(EventId(1, 1, x), event(x=x), hops=5, useless=2))
        return [message.useless for _, message in sends(effects) if isinstance(message, Publish)]

    assert (useless(1), useless(2), useless(3)) == ([0], [3], [0])
    [(_, sent)] = sends(broker.asks(PublishClient(event(x=2))))
    assert isinstance(sent, Publish)
    assert sent.useless == 0


def test_a_body_that_cannot_be_read_does_not_hold_up_the_others() -> None:
    broker = Alone(links=1)
    broker.asks(SubscribeClient("a", wanted("x > 1")))
    good, bad = Publish(EventId(1, 1, 1), event(x=2)), Publish(EventId(1, 1, 2), b"\xc1")
    effects = broker.says(1, bad, good)
    assert [type(each) for each in effects] == [Drop, Deliver]
    assert [type(each) for each in broker.asks(PublishClient(b"\xc1"))] == [Reply]


def test_an_index_is_made_beside_everything_else_when_nothing_is_added_any_more() -> None:
    broker = Alone(links=1)
    broker.says(1, *(subscription(f"x > {least}") for least in range(1, 10)))  # fewer need no index
    jobs = [each for _ in range(20) for each in broker.asks(PublishClient(event(x=2))) if isinstance(each, Work)]
    [work] = jobs
    work.job()
    assert broker(WorkDone(work.token, None)) == []
    assert [links for links, _ in sends(broker.asks(PublishClient(event(x=2))))] == [(1,)]
