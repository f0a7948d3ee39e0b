"""One broker: batches in, effects out."""

from __future__ import annotations

from palio.routing.broker import Broker
from palio.routing.client_messages import (
    AdvertiseClient,
    Confirmed,
    PublishClient,
    Refused,
    SubscribeClient,
    UnadvertiseClient,
    UnsubscribeClient,
)
from palio.routing.combinations import Combination
from palio.routing.effects import (
    ClientGone,
    Deliver,
    Drop,
    LinkUp,
    Persist,
    Persisted,
    Recipient,
    Record,
    Remembered,
    Reply,
    Requested,
)
from palio.routing.messages import Announce, Begin, EventId, Publish, Settle, Settled, Unsubscribe
from tests.routing.lone_broker import Alone, event, sends, subscription, wanted


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


def test_the_events_of_each_publisher_are_numbered_where_they_are_let_in() -> None:
    broker = Alone(links=1)
    broker.says(1, subscription("x > 1"))
    publish = PublishClient(event(x=2))
    effects = broker(*(Requested(each, publish, 0.0) for each in ("a", "b", "a")))
    effects += broker(ClientGone("a"), Requested("a", publish, 0.0), Requested("b", publish, 0.0))
    sent = [message for _, message in sends(effects) if isinstance(message, Publish)]
    assert [(each.id.sequence, each.publisher) for each in sent] == [(1, 1), (2, 1), (3, 2), (4, 1), (5, 2)]


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


def test_confirmation_at_the_edge_and_by_all() -> None:
    broker = Alone(links=2)
    assert Reply("desk", Confirmed("a")) in broker.asks(SubscribeClient("a", wanted("x > 1"), "edge"))
    effects = broker.asks(SubscribeClient("b", wanted("x > 2"), "network"))
    query_id = EventId(7, 1, 1)
    assert sends(effects) == [((1, 2), subscription("x > 2")), ((1, 2), Settle(query_id))]
    assert broker.says(1, Settled(query_id)) == []
    assert broker.says(2, Settled(query_id)) == [Reply("desk", Confirmed("b"))]


def test_announcements_reach_everybody_once_and_newcomers_too() -> None:
    broker = Alone(links=2)
    assert sends(broker.says(1, Announce("tree", 2, b"new"))) == [((2,), Announce("tree", 2, b"new"))]
    assert broker.says(2, Announce("tree", 1, b"old")) == []
    assert sends(broker.up(3)) == [((3,), Begin()), ((3,), Announce("tree", 2, b"new"))]
    assert sends(broker.says(1, Announce("tree", 3, b"newer"))) == [((2, 3), Announce("tree", 3, b"newer"))]


def test_of_two_announcements_with_one_version_all_brokers_take_the_same() -> None:
    broker = Alone(links=2)
    broker.says(1, Announce("tree", 2, b"b"))
    assert broker.says(2, Announce("tree", 2, b"a")) == []
    assert sends(broker.says(2, Announce("tree", 2, b"c"))) == [((1,), Announce("tree", 2, b"c"))]


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
