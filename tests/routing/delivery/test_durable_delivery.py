"""Durable delivery at one broker: batches in, effects out."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Event
from palio.routing import codec
from palio.routing.broker import Broker
from palio.routing.client_messages import (
    Accepted,
    Confirmed,
    Proceed,
    PublishBatch,
    PublishClient,
    Refused,
    SubscribeClient,
)
from palio.routing.codec import encode_event
from palio.routing.combinations import Combination
from palio.routing.delivery.event_log import event_identity, log_key
from palio.routing.effects import (
    BrokerStanding,
    ClientGone,
    Deliver,
    Finished,
    LinkDown,
    LinkUp,
    Logged,
    NotPersisted,
    Persist,
    Persisted,
    Queued,
    QueueFree,
    QueueFull,
    Received,
    Recipient,
    Remembered,
    Reply,
    Requested,
    SetTimer,
    TimerFired,
)
from palio.routing.messages import (
    Acknowledge,
    Announce,
    AttemptOutcome,
    Begin,
    DeliveryTag,
    EventId,
    Publish,
    Reach,
    Settle,
    Settled,
)
from tests.routing.test_broker import Alone, sends, subscription, wanted

FAR = EventId(9, 1, 1)  # an event that another broker let in
HOME = 1 << 2 | 1  # the standing of a broker with durable subscriptions, in its first life


def event(id: str = "one", **content: Any) -> bytes:
    return encode_event(Event.from_dict(content, id=id))


def kept(id: EventId = FAR, attempt: int = 1, identity: bytes = b"i" * 16, **content: Any) -> Publish:
    return Publish(id, event(**content), kept=DeliveryTag(identity, attempt))


def written(effects: list[Any]) -> list[Any]:
    return [record for each in effects if isinstance(each, Persist) for record in each.records]


def replies(effects: list[Any]) -> list[Any]:
    return [each.answer for each in effects if isinstance(each, Reply)]


def acknowledged(effects: list[Any]) -> list[tuple[int, int, bool]]:
    """The links that were answered, with attempts and whether those were whole."""
    said = [(links, message) for links, message in sends(effects) if isinstance(message, Acknowledge)]
    return [(link, each.attempt, each.whole) for [link], message in said for each in message.events]


def test_an_event_is_confirmed_and_routed_when_it_is_on_disk_and_not_before() -> None:
    broker = Broker(7, 1, Combination("identity"))
    broker.handle_batch([LinkUp(1, 101, 100), Received(1, Begin(), 0.0), Received(1, subscription("x > 1"), 0.0)], 0.0)
    publish = PublishClient(event(x=2), confirm=True, number=5)
    said, persist = broker.handle_batch([Requested("feed", publish, 0.0)], 0.0)
    assert sends([said]) == [((1,), Reach(((7, 1 << 2 | 2),)))]  # there is a log here
    assert isinstance(persist, Persist)
    logged = [each for each in persist.records if isinstance(each, Logged)]
    assert [(each.publisher, each.event.body) for each in logged] == [("feed", event(x=2))]
    effects = broker.handle_batch([Persisted(persist.token)], 0.0)
    assert replies(effects) == [Accepted(5)]
    [sent] = [message for _, message in sends(effects) if isinstance(message, Publish)]
    assert sent.kept is not None
    [finished] = broker.handle_batch(
        [Received(1, Acknowledge((AttemptOutcome(sent.id, sent.kept.attempt),)), 0.0)], 0.0
    )
    assert isinstance(finished, Persist)
    assert finished.records == (Finished(sent.id),)


def test_a_hop_acknowledges_when_all_links_have_and_its_own_queues_are_written() -> None:
    broker = Broker(7, 1, Combination("identity"))
    inputs: list[Any] = [each for link in (1, 2, 3) for each in (LinkUp(link, link, 9), Received(link, Begin(), 0.0))]
    broker.handle_batch([*inputs, *(Received(link, subscription("x > 1"), 0.0) for link in (2, 3))], 0.0)
    subscribe = Requested("desk", SubscribeClient("a", wanted("x > 1"), durable=True), 0.0)
    for each in broker.handle_batch([subscribe], 0.0):
        broker.handle_batch([Persisted(each.token)] if isinstance(each, Persist) else [], 0.0)
    effects = broker.handle_batch([Received(1, kept(x=2), 0.0)], 0.0)
    [queueing] = [each for each in effects if isinstance(each, Persist) and type(each.records[0]) is Queued]
    done = Acknowledge((AttemptOutcome(FAR, 1),))
    assert acknowledged(effects) == []
    assert acknowledged(broker.handle_batch([Received(2, done, 0.0)], 0.0)) == []
    assert acknowledged(broker.handle_batch([Persisted(queueing.token)], 0.0)) == []
    assert acknowledged(broker.handle_batch([Received(3, done, 0.0)], 0.0)) == [(1, 1, True)]


def test_what_comes_again_is_acknowledged_and_queued_once() -> None:
    broker = Alone(links=1)
    broker.asks(SubscribeClient("a", wanted("x > 1"), durable=True))
    effects = broker.says(1, kept(x=2))
    assert [type(each) for each in written(effects)] == [Queued]
    assert acknowledged(effects) == [(1, 1, True)]
    effects = broker.says(1, kept(x=2, attempt=2)) + broker.says(1, kept(EventId(8, 1, 1), x=2))  # also by another
    assert written(effects) == []
    assert acknowledged(effects) == [(1, 2, True), (1, 1, True)]


def test_homes_behind_a_broker_are_told_after_what_they_want_and_taken_back_first() -> None:
    broker = Alone(links=2)
    effects = broker.says(1, Reach(((9, HOME),)), subscription("x > 1"))
    assert [(links, type(message).__name__) for links, message in sends(effects)] == [
        ((2,), "Subscribe"),
        ((2,), "Reach"),
    ]
    broker.says(2, kept(x=2))
    effects = broker(LinkDown(1))
    assert sends(effects)[0] == ((2,), Reach((), (9,)))
    assert acknowledged(effects) == [(2, 1, False)]


def test_an_event_that_could_not_reach_every_home_is_routed_again_when_it_can() -> None:
    broker = Alone(links=1)
    broker.says(1, subscription("x > 1"), Reach(((9, HOME),)))
    broker(LinkDown(1))
    effects = broker.asks(PublishClient(event(x=2), confirm=True))
    assert replies(effects) == [Accepted(0)]
    assert not any(isinstance(each, Finished) for each in written(effects))
    broker.up(1)
    effects = broker.says(1, subscription("x > 1"), Reach(((9, HOME),)))
    assert [type(message) for _, message in sends(effects)] == [Publish]


def test_a_new_life_routes_what_the_last_one_did_not_finish_and_knows_whom_it_is_for() -> None:
    who = event_identity("feed", Event.from_dict({"x": 2}, id="one"))
    logged = Logged(kept(EventId(7, 1, 1), 0, who, x=2), "feed", log_key(who))
    remembered = Remembered(
        unfinished=(logged,), seen=(logged.key,), homes=(BrokerStanding(9, HOME), BrokerStanding(7, 1 << 2 | 2))
    )
    broker = Alone(links=1)
    broker.broker = Broker(7, 2, Combination("identity"), remembered)
    broker.logged[logged.event.id] = logged.event
    broker.up(1)
    assert broker.broker.delivery.missing == [9]
    effects = broker.says(1, subscription("x > 1"), Reach(((9, HOME),)))
    [(_, sent)] = [each for each in sends(effects) if isinstance(each[1], Publish)]
    assert sent.kept.attempt > 2 << 32
    effects = broker.asks(PublishClient(event(x=2), confirm=True, number=4), client="feed")
    assert (replies(effects), sends(effects)) == ([Accepted(4)], [])


def test_a_full_queue_is_announced_and_refuses_its_events_until_there_is_room() -> None:
    broker = Alone(links=1)
    broker.asks(
        SubscribeClient("a", wanted("x > 1"), durable=True), SubscribeClient("b", wanted("x > 2"), durable=True)
    )
    effects = broker(QueueFull("desk", "a"))
    assert [type(message) for _, message in sends(effects)] == [Announce]
    effects = broker.says(1, kept(x=2))
    assert (written(effects), acknowledged(effects)) == ([], [(1, 1, False)])
    effects = broker.says(1, kept(EventId(9, 1, 2), identity=b"other identity..", x=3))
    assert [each.names for each in written(effects)] == [("b",)]
    assert acknowledged(effects) == [(1, 1, False)]
    effects = broker(QueueFree("desk", "a"))
    assert [type(message) for _, message in sends(effects)] == [Announce]
    assert [type(each) for each in written(broker.says(1, kept(x=2, attempt=2)))] == [Queued]
    effects = broker.says(1, kept(EventId(9, 1, 2), 2, identity=b"other identity..", x=3))
    assert [each.names for each in written(effects)] == [("a",)]
    assert acknowledged(effects) == [(1, 2, True)]


def test_what_cannot_be_written_is_refused_or_tried_again() -> None:
    broker = Broker(7, 1, Combination("identity"))
    publish = Requested("feed", PublishClient(event(x=2), confirm=True, number=3), 0.0)
    [persist] = broker.handle_batch([publish], 0.0)
    assert isinstance(persist, Persist)
    effects = broker.handle_batch([NotPersisted(persist.token, "no room", "full")], 0.0)
    assert replies(effects) == [Refused("no room", "full", number=3)]
    [persist, *_] = broker.handle_batch([publish], 0.0)
    assert isinstance(persist, Persist)  # it is not taken for one that was logged
    subscribe = Requested("desk", SubscribeClient("a", wanted("x > 1"), "edge"), 0.0)
    [persist] = broker.handle_batch([subscribe], 0.0)
    assert isinstance(persist, Persist)
    effects = broker.handle_batch([NotPersisted(persist.token, "no room", "full")], 0.0)
    assert replies(effects) == [Refused("no room", "full", name="a")]
    home = Alone(links=1)
    home.asks(SubscribeClient("a", wanted("x > 1"), durable=True))
    effects = home.broker.handle_batch([Received(1, kept(x=2), 0.0)], 0.0)
    [queueing] = [each for each in effects if isinstance(each, Persist)]
    effects = home.broker.handle_batch([NotPersisted(queueing.token, "no room")], 0.0)
    assert acknowledged(effects) == [(1, 1, False)]
    assert [type(each) for each in written(home.says(1, kept(x=2, attempt=2)))] == [Queued]


def test_a_subscription_is_known_everywhere_only_when_its_home_is_on_every_disk() -> None:
    broker = Broker(7, 1, Combination("identity"))
    broker.handle_batch([LinkUp(1, 101, 100), Received(1, Begin(), 0.0)], 0.0)
    asked = [Received(1, each, 0.0) for each in (subscription("x > 1"), Reach(((9, HOME),)), Settle(FAR))]
    effects = broker.handle_batch(asked, 0.0)
    [persist] = effects
    assert isinstance(persist, Persist)
    assert persist.records == (BrokerStanding(9, HOME),)
    assert sends(broker.handle_batch([Persisted(persist.token)], 0.0)) == [((1,), Settled(FAR))]


def test_what_is_durable_outlives_the_connection_of_its_client() -> None:
    broker = Alone(links=1)
    broker.asks(SubscribeClient("a", wanted("x > 1"), "edge", durable=True), SubscribeClient("b", wanted("x > 0")))
    broker(ClientGone("desk"))
    effects = broker.says(1, Publish(FAR, event(x=2)))
    assert [(each.client, each.names) for each in written(effects)] == [("desk", ("a",))]
    assert not any(isinstance(each, Deliver) for each in effects)


def test_who_hears_of_an_event_as_it_passes_gets_it_once_too() -> None:
    broker = Alone(links=1)
    assert Confirmed("a") in replies(broker.asks(SubscribeClient("a", wanted("x > 1"), "edge")))
    delivered = [each for each in broker.says(1, kept(x=2), kept(x=2, attempt=2)) if isinstance(each, Deliver)]
    assert [each.clients for each in delivered] == [(Recipient("desk", ("a",)),)]


def test_an_attempt_that_was_not_whole_although_all_can_be_reached_is_made_again_after_a_while() -> None:
    broker = Alone(links=1)
    broker.says(1, subscription("x > 1"), Reach(((9, HOME),)))
    effects = broker.asks(PublishClient(event(x=2), confirm=True))
    [(_, sent)] = [each for each in sends(effects) if isinstance(each[1], Publish)]
    [timer] = broker.says(1, Acknowledge((AttemptOutcome(sent.id, sent.kept.attempt, whole=False),)))
    [(_, again)] = sends(broker(TimerFired(timer.name)))  # type: ignore[union-attr]
    assert again.kept.attempt > sent.kept.attempt


def test_who_was_refused_for_want_of_room_is_told_to_proceed() -> None:
    broker = Alone(links=1, options={"spill": 1})
    broker.says(1, subscription("x > 1"), Reach(((9, HOME),)))
    effects = broker.asks(PublishClient(event("one", x=2), confirm=True))
    [(_, sent)] = [each for each in sends(effects) if isinstance(each[1], Publish)]
    [refused] = replies(broker.asks(PublishClient(event("two", x=2), confirm=True, number=2), client="feed"))
    assert (refused.kind, refused.number) == ("busy", 2)
    effects = broker.says(1, Acknowledge((AttemptOutcome(sent.id, sent.kept.attempt),)))
    assert [each for each in effects if isinstance(each, Reply)] == [Reply("feed", Proceed())]


def test_what_comes_after_a_later_one_of_the_same_broker_is_counted() -> None:
    broker = Alone(links=1)
    broker.asks(SubscribeClient("a", wanted("TRUE"), durable=True))
    for sequence in (1, 5, 3, 6):
        broker.says(1, kept(EventId(9, 1, sequence), identity=bytes([sequence]) * 16))
    assert broker.broker.durable_queues.inversions == 1


def test_nothing_overtakes_what_was_refused_before_it() -> None:
    broker = Alone(links=1, options={"spill": 2})
    broker.says(1, subscription("x > 0"))
    publish = [PublishClient(event(str(x), x=x), confirm=True, number=x) for x in range(1, 6)]
    said = broker.asks(*publish[:3])
    sent = [message for _, message in sends(said) if isinstance(message, Publish)]
    assert [each.number for each in replies(said) if isinstance(each, Refused)] == [3]
    [first, second] = [Acknowledge((AttemptOutcome(each.id, each.kept.attempt),)) for each in sent if each.kept]
    later = broker(Received(1, first, 0.0), Requested("desk", publish[3], 0.0))
    assert replies(later)[0] == Refused(replies(later)[0].reason, "busy", 4)
    assert Proceed() in replies(later)
    broker(Received(1, second, 0.0))
    assert replies(broker.asks(*publish[2:4])) == [Accepted(3), Accepted(4)]


def test_several_events_are_let_in_together_or_not_at_all() -> None:
    broker = Alone(links=1, options={"spill": 2})
    broker.says(1, subscription("x > 0"))
    publish = [PublishClient(event(str(x), x=x), confirm=True, number=x) for x in range(1, 8)]
    unreadable = PublishClient(b"no event", confirm=True, number=9)
    said = broker.asks(PublishBatch((publish[0], unreadable)))
    assert [each.number for each in replies(said)] == [1, 9]
    assert written(said) == []
    said = broker.asks(PublishBatch(tuple(publish[:4])))  # more than the bound, because there was room
    assert replies(said) == [Accepted(x) for x in range(1, 5)]
    [together] = [each for each in said if isinstance(each, Persist) and isinstance(each.records[-1], Logged)]
    assert len([record for record in together.records if isinstance(record, Logged)]) == 4
    [busy] = replies(broker.asks(PublishBatch(tuple(publish[4:]))))
    assert (busy.kind, busy.number) == ("busy", 5)


def test_a_confirmed_event_is_decoded_once_by_the_broker_that_accepts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    # Decodings are counted where they happen.
    decode = codec._decode_body

    def counted(body: bytes) -> Any:
        decoded.append(body)
        return decode(body)

    # Private: every way to decode an event's body ends here.
    monkeypatch.setattr(codec, "_decode_body", counted)
    broker = Alone(links=1)
    broker.says(1, subscription("x > 1"), Reach(((9, HOME),)))
    effects = broker.asks(PublishClient(event(x=2), confirm=True))
    assert [type(message) for _, message in sends(effects)] == [Reach, Publish]
    assert len(decoded) == 1


@pytest.mark.parametrize("topic", ["wants {} 1", "wants 9 {}", "gone {}", "blocked {}"])
def test_a_number_in_a_topic_that_no_broker_has_is_none(topic: str) -> None:
    broker = Alone(links=2)
    for number in ("9" * 5_000, "", "-1", "x"):  # Python refuses to read thousands of digits
        broker.says(1, Announce(topic.format(number), 1, b"\x91\x00"))
    assert broker.broker.delivery.missing == []
    assert broker.broker.delivery.blocked.brokers == []


def test_what_is_announced_as_blocked_is_bounded_in_time_and_ends_when_it_is_taken_back() -> None:
    full = Alone(links=1)
    full.asks(SubscribeClient("a", wanted("x > 1")))
    effects = full(QueueFull("desk", "a", 5.0))
    [(_, blocked)] = [each for each in sends(effects) if isinstance(each[1], Announce)]
    [(_, free)] = [each for each in sends(full(QueueFree("desk", "a"))) if isinstance(each[1], Announce)]
    other = Broker(8, 1, Combination("identity"))
    other.handle_batch([LinkUp(1, 7, 100), Received(1, Begin(), 0.0)], 0.0)
    effects = other.handle_batch([Received(1, blocked, 0.0)], 0.0)
    assert [each.after for each in effects if isinstance(each, SetTimer)] == [5.0]
    assert other.delivery.blocked.brokers == [7]
    other.handle_batch([Received(1, free, 0.0)], 0.0)
    assert other.delivery.blocked.brokers == []
    # The announcement of before comes again, by another way say.
    other.handle_batch([Received(1, blocked, 0.0)], 0.0)
    assert other.delivery.blocked.brokers == []
