"""One broker: batches in, effects out."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from palio import Event, Filter
from palio.routing.broker import Broker
from palio.routing.codec import encode_event
from palio.routing.combinations import Combination
from palio.routing.effects import (
    UNWANTED,
    ClientGone,
    Credit,
    Deliver,
    Drop,
    Effect,
    LinkDown,
    LinkUp,
    Persist,
    Persisted,
    Received,
    Recipient,
    Record,
    Remembered,
    Reply,
    Requested,
    Send,
    Work,
    WorkDone,
)
from palio.routing.messages import (
    Advertise,
    AdvertiseClient,
    Announce,
    AnnounceClient,
    Begin,
    Cancelled,
    Confirmed,
    EventId,
    Publish,
    PublishClient,
    Refused,
    Settle,
    Settled,
    Subscribe,
    SubscribeClient,
    Unadvertise,
    UnadvertiseClient,
    Unsubscribe,
    UnsubscribeClient,
)


class Alone:
    """A broker whose disk answers at once, and whose links are what a test says."""

    def __init__(self, propagation: str = "identity", links: int = 0, credit: int = 100, **choices: Any) -> None:
        self.broker = Broker(7, 1, Combination(propagation, **choices))
        for link in range(1, links + 1):
            self.up(link, credit)

    def __call__(self, *inputs: Any) -> list[Effect]:
        effects = self.broker.handle_batch(inputs, 0.0)
        for written in [each for each in effects if isinstance(each, Persist)]:
            effects += self(Persisted(written.token))
        return effects

    def up(self, link: int, credit: int = 100) -> list[Effect]:
        return self(LinkUp(link, 100 + link, credit), Received(link, Begin(), 0.0))

    def says(self, link: int, *messages: Any) -> list[Effect]:
        return self(*(Received(link, each, 0.0) for each in messages))

    def asks(self, *requests: Any, client: str = "desk") -> list[Effect]:
        return self(*(Requested(client, each, 0.0) for each in requests))


def wanted(text: str) -> Filter:
    return Filter.parse(text)


def subscription(text: str) -> Subscribe:
    return Subscribe(wanted(text).digest, wanted(text))


def event(**content: Any) -> bytes:
    return encode_event(Event.from_dict(content, id="one"))


def sends(effects: list[Effect]) -> list[tuple[tuple[int, ...], Any]]:
    return [(each.links, each.message) for each in effects if isinstance(each, Send)]


def test_nothing_is_said_before_what_was_asked_is_on_disk() -> None:
    broker = Alone(links=2)
    effects = broker.broker.handle_batch([Requested("desk", SubscribeClient("a", wanted("x > 1")), 0.0)], 0.0)
    request = SubscribeClient("a", wanted("x > 1"))
    assert effects == [Persist((Record("desk", request),), 1)]
    assert sends(broker.broker.handle_batch([Persisted(1)], 0.0)) == [((1, 2), subscription("x > 1"))]


def test_requests_of_a_batch_are_one_write_and_those_of_a_client_keep_their_order() -> None:
    broker = Alone(advertisements=True).broker
    effects = broker.handle_batch(
        [
            Requested("feed", AdvertiseClient("a", wanted("x > 1")), 0.0),
            Requested("feed", PublishClient(event(x=2)), 0.0),  # which is advertised only when the other is on disk
            Requested("desk", SubscribeClient("b", wanted("x > 1")), 0.0),
        ],
        0.0,
    )
    assert [type(each) for each in effects] == [Persist]
    effects = broker.handle_batch([Persisted(1)], 0.0)
    assert [each.clients for each in effects if isinstance(each, Deliver)] == [(Recipient("desk", ("b",)),)]


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


def test_what_is_said_before_a_neighbour_begins_is_dropped() -> None:
    broker = Alone(links=1)
    broker(LinkUp(2, 102, 100))
    assert broker.says(2, subscription("x > 1")) == [Drop("link not in use", subscription("x > 1"))]
    broker.says(2, Begin())
    assert sends(broker.says(2, subscription("x > 1"))) == [((1,), subscription("x > 1"))]
    # One that begins again has forgotten what it was told.
    broker.asks(SubscribeClient("a", wanted("y > 1")))
    effects = sends(broker.says(2, Begin()))
    assert effects == [
        ((2,), Begin(answers=True)),
        ((2,), subscription("y > 1")),
        ((1,), Unsubscribe(wanted("x > 1").digest)),
    ]
    # One that answers has not, or the two would go on for ever.
    broker.says(2, subscription("z > 1"))
    assert sends(broker.says(2, Begin(answers=True))) == [((1,), Unsubscribe(wanted("z > 1").digest))]


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


def test_an_event_that_nobody_wants_here_is_counted() -> None:
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


def test_the_events_of_each_publisher_are_numbered_where_they_are_let_in() -> None:
    broker = Alone(links=1)
    broker.says(1, subscription("x > 1"))
    publish = PublishClient(event(x=2))
    effects = broker(*(Requested(each, publish, 0.0) for each in ("a", "b", "a")))
    effects += broker(ClientGone("a"), Requested("a", publish, 0.0), Requested("b", publish, 0.0))
    sent = [message for _, message in sends(effects) if isinstance(message, Publish)]
    assert [(each.id.sequence, each.publisher) for each in sent] == [(1, 1), (2, 1), (3, 2), (4, 1), (5, 2)]


def test_a_body_that_cannot_be_read_does_not_hold_up_the_others() -> None:
    broker = Alone(links=1)
    broker.asks(SubscribeClient("a", wanted("x > 1")))
    good, bad = Publish(EventId(1, 1, 1), event(x=2)), Publish(EventId(1, 1, 2), b"\xc1")
    effects = broker.says(1, bad, good)
    assert [type(each) for each in effects] == [Drop, Deliver]
    assert [type(each) for each in broker.asks(PublishClient(b"\xc1"))] == [Reply]


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


def test_what_was_not_advertised_is_refused() -> None:
    broker = Alone(advertisements=True)
    broker.asks(AdvertiseClient("a", wanted("x > 5")), client="feed")
    assert broker.asks(PublishClient(event(x=6)), client="feed") == []
    for client, body in (("feed", event(x=5)), ("desk", event(x=6))):
        [refused] = broker.asks(PublishClient(body), client=client)
        assert isinstance(refused, Reply)
        assert isinstance(refused.answer, Refused)
        assert refused.answer.kind == "unadvertised"
    broker.asks(UnadvertiseClient("a"), client="feed")
    assert len(broker.asks(PublishClient(event(x=6)), client="feed")) == 1


def test_a_client_that_left_wants_and_offers_nothing() -> None:
    broker = Alone(links=1, advertisements=True)
    offer = wanted("x > 5")
    broker.asks(SubscribeClient("a", offer), AdvertiseClient("b", offer))
    broker.says(1, Advertise(offer.digest, offer))
    assert sends(broker(ClientGone("desk"))) == [
        ((1,), Unsubscribe(offer.digest)),
        ((1,), Unadvertise(offer.digest)),
    ]


def test_confirmation_at_the_edge_and_by_all() -> None:
    broker = Alone(links=2)
    assert Reply("desk", Confirmed("a")) in broker.asks(SubscribeClient("a", wanted("x > 1"), "edge"))
    effects = broker.asks(SubscribeClient("b", wanted("x > 2"), "network"))
    query_id = EventId(7, 1, 1)
    assert sends(effects) == [((1, 2), subscription("x > 2")), ((1, 2), Settle(query_id))]
    assert broker.says(1, Settled(query_id)) == []
    assert broker.says(2, Settled(query_id)) == [Reply("desk", Confirmed("b"))]


def test_a_question_is_passed_on_behind_what_was_said_before_it() -> None:
    broker = Alone(links=3)
    query_id = EventId(1, 1, 1)
    effects = sends(broker.says(1, subscription("x > 1"), Settle(query_id)))
    assert effects == [((2, 3), subscription("x > 1")), ((2, 3), Settle(query_id))]
    assert sends(broker.says(2, Settled(query_id))) == []
    assert sends(broker.says(3, Settled(query_id))) == [((1,), Settled(query_id))]


def test_a_question_is_asked_again_where_a_link_broke() -> None:
    broker = Alone(links=2)
    broker.asks(SubscribeClient("a", wanted("x > 1"), "network"))
    broker(LinkDown(2))
    assert sends(broker.says(1, Settled(EventId(7, 1, 1)))) == [((1,), Settle(EventId(7, 1, 2)))]
    assert broker.says(1, Settled(EventId(7, 1, 2))) == [Reply("desk", Confirmed("a"))]


def test_announcements_reach_everybody_once_and_newcomers_too() -> None:
    broker = Alone(links=2)
    assert sends(broker.says(1, Announce("tree", 2, b"new"))) == [((2,), Announce("tree", 2, b"new"))]
    assert broker.says(2, Announce("tree", 1, b"old")) == []
    assert sends(broker.up(3)) == [((3,), Begin()), ((3,), Announce("tree", 2, b"new"))]
    assert sends(broker.asks(AnnounceClient("tree", 3, b"newer"))) == [((1, 2, 3), Announce("tree", 3, b"newer"))]


def test_an_index_is_made_beside_everything_else_when_nothing_is_added_any_more() -> None:
    broker = Alone(links=1)
    broker.says(1, *(subscription(f"x > {least}") for least in range(1, 10)))  # fewer need no index
    jobs = [each for _ in range(20) for each in broker.asks(PublishClient(event(x=2))) if isinstance(each, Work)]
    [work] = jobs
    work.job()
    assert broker(WorkDone(work.token, None)) == []
    assert [links for links, _ in sends(broker.asks(PublishClient(event(x=2))))] == [(1,)]


def test_a_new_life_knows_what_the_last_one_wrote_down() -> None:
    combination = Combination("identity")
    broker = Broker(7, 2, combination, Remembered((Record("desk", SubscribeClient("a", wanted("x > 1"))),)))
    effects = broker.handle_batch([LinkUp(1, 101, 100)], 0.0)
    assert sends(effects) == [((1,), Begin()), ((1,), subscription("x > 1"))]


def test_a_client_that_leaves_takes_back_what_is_still_being_written() -> None:
    broker = Alone(links=1).broker
    request = SubscribeClient("a", wanted("x > 1"))
    [writing] = broker.handle_batch([Requested("desk", request, 0.0)], 0.0)
    assert broker.handle_batch([ClientGone("desk")], 0.0) == []
    effects = broker.handle_batch([Persisted(writing.token)], 0.0)
    assert [each.records for each in effects if isinstance(each, Persist)] == [
        (Record("desk", UnsubscribeClient("a")),)
    ]
    [taken_back] = [each for each in effects if isinstance(each, Persist)]
    broker.handle_batch([Persisted(taken_back.token)], 0.0)
    assert broker.tables.subscriptions.clients() == []
