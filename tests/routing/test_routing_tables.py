"""Routing tables of one broker: what its neighbours are sent as filters come and go."""

from __future__ import annotations

from palio.routing.client_messages import AdvertiseClient, Cancelled, SubscribeClient, UnsubscribeClient
from palio.routing.effects import (
    ClientGone,
    LinkDown,
    LinkUp,
    Reply,
)
from palio.routing.messages import Advertise, Begin, Unadvertise, Unsubscribe
from tests.routing.lone_broker import Alone, sends, subscription, wanted


def test_replacements_go_before_the_withdrawal() -> None:
    broker = Alone("covering", links=3)
    broker.says(1, subscription("x > 1"))
    assert sends(broker.says(2, subscription("x > 5"))) == [((1,), subscription("x > 5"))]
    effects = sends(broker.says(1, Unsubscribe(wanted("x > 1").digest)))
    assert effects == [((3,), subscription("x > 5")), ((2, 3), Unsubscribe(wanted("x > 1").digest))]


def test_identical_filters_of_four_interfaces() -> None:
    """Jerzak, Figures 2.11 and 2.13: where a filter that all four want was sent."""
    broker = Alone(links=4)
    sent = [sends(broker.says(link, subscription("x > 1"))) for link in (1, 2, 3, 4)]
    assert sent == [[((2, 3, 4), subscription("x > 1"))], [((1,), subscription("x > 1"))], [], []]
    # What is left is wanted by three, so that all but the first still need it, and the first as well.
    assert sends(broker.says(1, Unsubscribe(wanted("x > 1").digest))) == []
    broker.says(2, Unsubscribe(wanted("x > 1").digest))
    # Only the fourth wants it when the third has gone, and need not be told.
    assert sends(broker.says(3, Unsubscribe(wanted("x > 1").digest))) == [((4,), Unsubscribe(wanted("x > 1").digest))]


def test_equal_filters_of_two_subscribers_are_told_apart_by_simple_routing() -> None:
    broker = Alone("simple", links=1)
    [first, second] = [
        sends(broker.asks(SubscribeClient("a", wanted("x > 1")), client=client))[0][1].key
        for client in ("desk", "home")
    ]
    assert first != second
    assert sends(broker.asks(UnsubscribeClient("a"), client="desk")) == [((1,), Unsubscribe(first))]


def test_link_down_withdraws_all_that_came_by_it_and_link_up_tells_what_is_there() -> None:
    broker = Alone(links=2)
    broker.says(1, subscription("x > 1"), subscription("y > 1"))
    broker.asks(SubscribeClient("a", wanted("y > 1")))
    assert sends(broker(LinkDown(1))) == [((2,), Unsubscribe(wanted("x > 1").digest))]
    assert sends(broker(LinkUp(1, 101, 100))) == [((1,), Begin()), ((1,), subscription("y > 1"))]


def test_subscriptions_go_only_where_they_may_be_served() -> None:
    broker = Alone(links=2, advertisements=True)
    assert sends(broker.asks(SubscribeClient("a", wanted("x > 5")))) == []
    offer = wanted("x < 9")
    effects = sends(broker.says(1, Advertise(offer.digest, offer)))
    assert effects == [((2,), Advertise(offer.digest, offer)), ((1,), subscription("x > 5"))]
    other = wanted("x < 2")
    assert sends(broker.says(2, Advertise(other.digest, other))) == [((1,), Advertise(other.digest, other))]
    # The last that could serve it goes: the neighbour is told, and so is the subscriber.
    effects = broker.says(1, Unadvertise(offer.digest))
    assert sends(effects) == [((1,), Unsubscribe(wanted("x > 5").digest)), ((2,), Unadvertise(offer.digest))]
    assert [each for each in effects if isinstance(each, Reply)] == [Reply("desk", Cancelled("a"))]


def test_a_client_that_left_wants_and_offers_nothing() -> None:
    broker = Alone(links=1, advertisements=True)
    offer = wanted("x > 5")
    broker.asks(SubscribeClient("a", offer), AdvertiseClient("b", offer))
    broker.says(1, Advertise(offer.digest, offer))
    assert sends(broker(ClientGone("desk"))) == [
        ((1,), Unsubscribe(offer.digest)),
        ((1,), Unadvertise(offer.digest)),
    ]
