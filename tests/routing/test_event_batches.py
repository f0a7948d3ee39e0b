"""A batch stays columns where nothing looks at single events, and is split where something does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palio import Event
from palio.errors import WireError
from palio.events.batches import EventBatch, batch_of_events
from palio.routing.client_messages import PublishClient, SubscribeClient
from palio.routing.columnar_codec import bodies_of, decode_batch, encode_batch
from palio.routing.effects import BatchRequest, Credit, DeliverColumns, Drop, Effect, LinkDown, LinkUp, Received, Send
from palio.routing.event_batches import BatchArrival
from palio.routing.messages import LOCAL, Begin, EventId, Publish, PublishColumns
from tests.routing.lone_broker import Alone, subscription, wanted


def request(count: int) -> BatchRequest:
    batch = batch_of_events([Event({"n": number}, id=f"e{number}") for number in range(count)])
    assert batch is not None
    return BatchRequest(batch, encode_batch(batch))


def linked(credit: int = 100, columns: bool = True, **choices: Any) -> Alone:
    alone = Alone(**choices)
    alone(LinkUp(1, 101, credit, columns), Received(1, Begin(), 0.0))
    return alone


def sent(effects: list[Effect]) -> list[Any]:
    return [
        each.message for each in effects if isinstance(each, Send) if isinstance(each.message, Publish | PublishColumns)
    ]


def numbers(batch: EventBatch) -> list[int]:
    found: list[int] = batch.columns.column("n").to_pylist()
    return found


def test_rows_are_delivered_by_subscription_without_single_events() -> None:
    alone = Alone()
    alone.asks(SubscribeClient("low", wanted("n < 3")), SubscribeClient("even", wanted("n % 2 = 0")))
    alone.asks(SubscribeClient("all", wanted("n >= 0")), client="other")
    [delivered] = [each for each in alone.asks(request(6)) if isinstance(each, DeliverColumns)]
    by_client = {client: {names: rows.tolist() for names, rows in groups} for client, groups in delivered.clients}
    assert by_client == {
        "desk": {("low",): [1], ("even",): [4], ("even", "low"): [0, 2]},
        "other": {("all",): [0, 1, 2, 3, 4, 5]},
    }
    assert alone.broker.content_reads == 6


def test_a_link_gets_the_rows_that_are_wanted_behind_it_in_one_message() -> None:
    alone = linked()
    alone.says(1, subscription("n >= 4"))
    [some] = sent(alone.asks(request(6)))
    assert isinstance(some, PublishColumns)
    assert numbers(decode_batch(some.body)) == [4, 5]
    assert [(each.id.sequence, each.publisher) for each in BatchArrival(LOCAL, some).events()] == [(5, 5), (6, 6)]


def test_all_rows_go_over_a_link_in_the_bytes_in_which_they_came() -> None:
    alone, asked = linked(), request(6)
    alone.says(1, subscription("n >= 0"))
    [whole] = sent(alone.asks(asked))
    assert whole.body is asked.body
    assert (whole.rows, whole.hops) == (b"", 1)


def test_a_neighbour_that_takes_no_batches_gets_single_events() -> None:
    alone = linked(columns=False)
    alone.says(1, subscription("n >= 4"))
    some = sent(alone.asks(request(6)))
    assert [type(each) for each in some] == [Publish, Publish]
    assert [each.id for each in some] == [EventId(7, 1, 5), EventId(7, 1, 6)]


def test_a_batch_takes_credit_for_each_event_and_waits_as_a_whole() -> None:
    alone = linked(credit=4)
    alone.says(1, subscription("n >= 0"))
    assert [each.count for each in sent(alone.asks(request(6)))] == [6]  # the last batch may exceed the credit
    assert sent(alone.asks(request(3))) == []
    assert sent(alone(Credit(1, 2))) == []
    assert [each.count for each in sent(alone(Credit(1, 1)))] == [3]


def test_a_batch_without_room_to_wait_is_dropped_event_by_event() -> None:
    alone = linked(credit=1, options={"queue": 4})
    alone.says(1, subscription("n >= 0"))
    alone.asks(request(1))
    effects = alone.asks(request(6))
    assert [each.message.id.sequence for each in effects if isinstance(each, Drop)] == [6, 7]  # type: ignore[union-attr]
    waiting = sent(alone(Credit(1, 100)))
    assert [each.id.sequence for each in waiting] == [2, 3, 4, 5]


def test_events_of_a_batch_that_waits_are_lost_with_their_link() -> None:
    alone = linked(credit=1)
    alone.says(1, subscription("n >= 0"))
    alone.asks(request(1))
    alone.asks(request(5))
    assert len([each for each in alone(LinkDown(1)) if each == Drop("link down", getattr(each, "message", None))]) == 5


def test_a_batch_that_nobody_wants_is_dropped_where_it_came_by_a_link() -> None:
    alone = linked()
    asked = request(3)
    message = PublishColumns(EventId(9, 1, 1), 3, asked.body, hops=1)
    dropped = [each.message for each in alone.says(1, message) if isinstance(each, Drop)]
    assert [(each.id.sequence, each.useless) for each in dropped] == [(1, 1), (2, 1), (3, 1)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "message",
    [
        PublishColumns(EventId(9, 1, 1), 3, b"\x93\x01"),
        PublishColumns(EventId(9, 1, 1), 4, request(3).body),
        PublishColumns(EventId(9, 1, 1), 3, request(3).body, rows=b"\x00"),
        PublishColumns(EventId(9, 1, 1), 3, request(3).body, useless=b"\x00" * 8),
    ],
)
def test_a_batch_that_cannot_be_read_is_dropped_with_the_reason(message: PublishColumns) -> None:
    [dropped] = [each for each in linked().says(1, message) if isinstance(each, Drop)]
    assert dropped.reason.startswith("unreadable: ")
    with pytest.raises(WireError):
        BatchArrival(LOCAL, message)


def test_a_batch_that_comes_again_is_routed_but_for_the_events_that_are_known() -> None:
    alone = Alone(options={"circles": True})
    alone.asks(SubscribeClient("all", wanted("n >= 0")))
    asked = request(4)
    first = PublishColumns(EventId(9, 1, 2), 2, encode_batch(asked.batch.slice(1, 2)), hops=1)
    again = PublishColumns(EventId(9, 1, 1), 4, asked.body, hops=1)
    effects = alone.says(1, first) + alone.says(1, again) + alone.says(1, again)
    delivered = [numbers(each.batch) for each in effects if isinstance(each, DeliverColumns)]
    assert delivered == [[1, 2], [0, 3]]
    seen = [each.message.id.sequence for each in effects if isinstance(each, Drop)]  # type: ignore[union-attr]
    assert seen == [2, 3, 1, 2, 3, 4]


def test_events_before_and_after_a_batch_keep_their_places() -> None:
    alone = linked()
    alone.says(1, subscription("n >= 0"))
    asked = request(2)
    single = [PublishClient(each) for each in bodies_of(asked.batch)]
    came = sent(alone.says(1, subscription("n >= 0")) + alone.asks(single[0], asked, single[1]))
    assert [each.id.sequence for each in came] == [1, 2, 4]


def test_the_rows_of_a_batch_are_those_of_the_batch_that_was_published() -> None:
    message = PublishColumns(EventId(9, 1, 10), 2, request(2).body, np.array([3, 7], "<u4").tobytes(), publisher=5)
    events = list(BatchArrival(1, message).events(np.array([1])))
    assert [(each.id.sequence, each.publisher) for each in events] == [(17, 12)]
