"""Contract of a store, for every implementation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palio import DurableSettings, Filter
from palio.errors import ExpiredOffset, QueueFull
from palio.network.store.interface import (
    Acknowledged,
    ConsumerLost,
    DeadLetter,
    DeadLetterAdded,
    DeadLettersRemoved,
    DeliveriesFailed,
    Retention,
    Store,
)
from palio.network.store.memory import MemoryStore
from palio.network.store.sqlite import SqliteStore
from palio.routing import codec
from palio.routing.client_messages import AdvertiseClient, SubscribeClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.effects import BrokerStanding, Finished, HomeEpoch, LinkRecord, Record
from tests.network.store.making import event, logged, queued, subscribed

Make = Callable[..., Store]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "durable", "relaxed"])
def make(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Make:
    def make(**options: object) -> Store:
        keeping = Retention(**options)  # type: ignore[arg-type]
        store: Store = MemoryStore(keeping, clock)
        if request.param != "memory":
            store = SqliteStore(tmp_path / "data", keeping, safety=request.param, clock=clock)
        store.open()
        return store

    return make


def test_an_answer_comes_when_all_is_written(make: Make) -> None:
    answers: list[object] = []
    store = make()
    store.submit([logged(1), logged(2)], answers.append)
    store.close()
    assert answers == [None]
    store.open()
    assert [entry.event for entry in store.log.read(1, 10)] == [event(1), event(2)]
    store.close()


def test_the_node_stays_and_the_incarnation_grows(make: Make) -> None:
    store = make()
    store.close()
    first = store.open()
    store.close()
    second = store.open()
    assert (second.node, second.incarnation) == (first.node, first.incarnation + 1)
    assert 0 < first.node < 2**32
    store.close()


def test_the_last_request_of_a_name_holds(make: Make) -> None:
    store = make()
    offer = Record("desk", AdvertiseClient("a", Filter.parse("x = 1")))
    store.write([subscribed("a", "x > 1"), subscribed("b"), offer, subscribed("a", "x > 2")])
    store.write([Record("desk", UnsubscribeClient("b"))])
    store.close()
    assert set(store.open().records) == {subscribed("a", "x > 2"), offer}
    store.write([Record("desk", UnadvertiseClient("a")), Record("desk", UnsubscribeClient("a"))])
    store.close()
    assert store.open().records == ()
    store.close()


def test_what_is_not_finished_comes_back(make: Make) -> None:
    store = make()
    store.write([logged(1), logged(2), logged(3)])
    store.write([Finished(event(2).id)])
    store.close()
    recovered = store.open()
    assert recovered.unfinished == (logged(1), logged(3))
    assert recovered.seen == (b"key 1", b"key 2", b"key 3")
    store.close()


def test_the_last_that_is_known_of_each_home_comes_back(make: Make) -> None:
    store = make()
    store.write([BrokerStanding(7, 1), BrokerStanding(9, 4), BrokerStanding(7, 2), BrokerStanding(8, 1, gone=True)])
    store.close()
    assert sorted(store.open().homes) == [BrokerStanding(7, 2), BrokerStanding(8, 1, gone=True), BrokerStanding(9, 4)]
    store.close()


def test_the_rows_of_the_recovery_database_come_back(make: Make) -> None:
    store = make()
    store.write([LinkRecord(7, 1, b"a", b"1"), LinkRecord(7, 1, b"b", b"2"), LinkRecord(7, 2, b"a", b"3")])
    store.write([LinkRecord(7, 1, b"a", b"4"), LinkRecord(7, 1, b"b", None), LinkRecord(8, 1, b"a", b"5")])
    store.write([LinkRecord(8, 1, None, None), LinkRecord(8, 1, b"c", b"6")])
    store.close()
    rows = [LinkRecord(7, 1, b"a", b"4"), LinkRecord(7, 2, b"a", b"3"), LinkRecord(8, 1, b"c", b"6")]
    assert sorted(store.open().links) == rows
    store.close()


def test_the_homes_of_a_durable_subscription_come_back_until_it_ends(make: Make) -> None:
    store = make()
    first = HomeEpoch("desk", "a", 1, 7, 9, None, "palio://there")
    store.write([Record("desk", SubscribeClient("a", Filter.everything, durable=True)), first])
    store.write([HomeEpoch("desk", "b", 1, 7, 9), HomeEpoch("desk", "b", 2, 9, None, 7)])
    store.close()
    assert store.open().epochs == (first, HomeEpoch("desk", "b", 2, 9, None, 7))
    store.write([Record("desk", UnsubscribeClient("a"))])
    store.close()
    assert store.open().epochs == (HomeEpoch("desk", "b", 2, 9, None, 7),)
    store.close()


def test_the_window_of_duplicates_has_its_size(make: Make) -> None:
    store = make(duplicates=3)
    store.write([logged(number) for number in range(1, 6)])
    store.write([queued(9)])
    store.close()
    assert store.open().seen == (b"key 4", b"key 5", b"1-9")
    store.close()


def test_events_wait_until_they_are_acknowledged(make: Make) -> None:
    store = make()
    store.write([queued(1), queued(2), queued(3, "desk", "all", "dear")])
    queue = store.queue("desk", "all")
    first, second, third = queue.read(0, 10)
    assert [each[1] for each in (first, second, third)] == [event(1), event(2), event(3)]
    assert queue.read(first[0], 1) == [second]
    store.write([Acknowledged("desk", "all", (first[0], third[0]))])
    assert queue.read(0, 10) == [second]
    assert [each[1] for each in store.queue("desk", "dear").read(0, 10)] == [event(3)]
    assert queue.size()[:2] == (1, len(codec.encode(event(2))))
    store.close()
    store.open()
    assert store.queue("desk", "all").read(0, 10) == [second]
    store.close()


def test_nothing_waits_where_there_is_no_subscription(make: Make) -> None:
    store = make()
    store.write([queued(1), Acknowledged("nobody", "nothing", (1, 2))])
    assert store.queue("nobody", "nothing").read(0, 1) == []
    assert store.queue("nobody", "nothing").size()[:2] == (0, 0)
    store.write([Record("desk", UnsubscribeClient("all")), queued(2)])
    assert [each[1] for each in store.queue("desk", "all").read(0, 10)] == [event(2)]
    store.close()


def test_a_full_queue_refuses_all_that_was_to_be_written_with_it(make: Make) -> None:
    store = make(queue_events=2)
    store.write([queued(1)])
    with pytest.raises(QueueFull, match="2 events wait for 'all' of 'desk'"):
        store.write([logged(5), queued(2), queued(3)])
    assert store.log.bounds() == (1, 1)
    assert store.queue("desk", "all").size().events == 1
    store.write([queued(2)])
    store.close()


@pytest.mark.parametrize(("rule", "kept"), [("drop_oldest", [3, 4]), ("drop_newest", [1, 2])])
def test_a_full_queue_drops_by_its_rule_and_counts(make: Make, rule: str, kept: list[int]) -> None:
    store = make(queue_events=2, queue_overflow=rule)
    store.write([queued(1), queued(2), queued(3)])
    store.write([queued(4)])
    queue = store.queue("desk", "all")
    assert [each[1] for each in queue.read(0, 10)] == [event(number) for number in kept]
    assert queue.size().dropped == 2
    store.close()


def test_a_full_queue_makes_dead_letters_of_its_oldest_events(make: Make, clock: Clock) -> None:
    store = make(queue_events=2, queue_overflow="dead_letter")
    store.write([queued(1), queued(2), queued(3)])
    assert [each[1] for each in store.queue("desk", "all").read(0, 10)] == [event(2), event(3)]
    letters = store.dead_letters.read(0, 10)
    assert letters == [DeadLetter(1, clock.now, "desk", "all", "its durable queue was full", event(1).body)]
    store.close()


def test_the_settings_of_a_subscription_bound_its_queue_and_no_other_one(make: Make) -> None:
    store = make(queue_events=3)
    store.write([subscribed("a", settings=DurableSettings(max_events=1, on_full="drop_oldest"))])
    store.write([queued(1, "desk", "a", "b"), queued(2, "desk", "a", "b")])
    store.close()
    [record] = store.open().records
    assert record == subscribed("a", settings=DurableSettings(max_events=1, on_full="drop_oldest"))
    store.write([queued(3, "desk", "a", "b")])
    assert [each for _, each in store.queue("desk", "a").read(0, 10)] == [event(3)]
    assert [each for _, each in store.queue("desk", "b").read(0, 10)] == [event(1), event(2), event(3)]
    with pytest.raises(QueueFull, match="3 events wait for 'b' of 'desk'"):
        store.write([queued(4, "desk", "a", "b")])
    store.close()


def test_settings_do_not_raise_the_bounds_of_the_broker(make: Make) -> None:
    store = make(queue_events=2)
    store.write([subscribed("all", settings=DurableSettings(max_events=1_000)), queued(1), queued(2)])
    with pytest.raises(QueueFull, match="2 events wait for 'all' of 'desk'"):
        store.write([queued(3)])
    store.close()


def test_a_queue_is_bounded_in_bytes(make: Make) -> None:
    length = len(codec.encode(event(1)))
    store = make()
    store.write([subscribed("all", settings=DurableSettings(max_bytes=2 * length)), queued(1), queued(2)])
    with pytest.raises(QueueFull):
        store.write([queued(3)])
    store.close()


def test_the_log_is_read_by_offset_and_by_time(make: Make, clock: Clock) -> None:
    store = make()
    for number in (1, 2, 3):
        clock.now = 1_000.0 + number
        store.write([logged(number)])
    assert store.log.bounds() == (1, 4)
    assert [entry.offset for entry in store.log.read(2, 10)] == [2, 3]
    assert [store.log.find(at) for at in (0.0, 1_002.0, 1_002.5, 9_999.0)] == [1, 2, 3, 4]
    assert store.log.read(4, 10) == []
    store.close()


def test_the_log_goes_on_when_the_clock_is_set_back(make: Make, clock: Clock) -> None:
    store = make()
    store.write([logged(1)])
    store.close()
    clock.now = 10.0
    store.open()
    store.write([logged(2)])
    clock.now = 1_001.0
    store.write([logged(3)])
    assert [entry.time for entry in store.log.read(1, 10)] == [1_000.0, 1_000.0, 1_001.0]
    store.close()


def test_the_log_lets_go_by_age(make: Make, clock: Clock) -> None:
    store = make(log_seconds=10.0)
    store.write([logged(1)])
    clock.now += 8
    store.write([logged(2), Finished(event(1).id)])
    clock.now += 8
    store.retain()
    assert store.log.bounds() == (2, 3)
    with pytest.raises(ExpiredOffset, match="no longer has offset 1, retention removed it; the oldest is 2"):
        store.log.read(1, 1)
    clock.now += 8
    store.retain()
    assert store.log.bounds() == (3, 3)
    assert store.log.size() == (0, 0, 0)
    store.close()
    assert store.open().unfinished == (logged(2),)
    assert store.log.bounds() == (3, 3)
    store.close()


def test_the_log_lets_go_by_size_but_queues_keep_theirs(make: Make) -> None:
    length = len(codec.encode(event(1)))
    store = make(log_bytes=2 * length)
    for number in range(1, 6):
        store.write([logged(number)])
        store.write([queued(number), Finished(event(number).id)])
    store.retain()
    assert store.log.bounds() == (4, 6)
    assert store.log.size() == (2, 2 * length, 0)
    waiting = store.queue("desk", "all").read(0, 10)
    assert [each[1] for each in waiting] == [event(number) for number in range(1, 6)]
    store.write([Acknowledged("desk", "all", tuple(number for number, _ in waiting))])
    assert [entry.event for entry in store.log.read(4, 10)] == [event(4), event(5)]
    store.close()


def test_dead_letters_are_kept_with_their_reason(make: Make) -> None:
    store = make(dead_letters=2)
    for number in range(3):
        store.write([DeadLetterAdded("desk", "push", f"reason {number}", b"data")])
    second, third = store.dead_letters.read(0, 10)
    assert (second.reason, third.reason, third.data, third.client, third.time) == (
        "reason 1",
        "reason 2",
        b"data",
        "desk",
        1_000.0,
    )
    assert store.dead_letters.size() == (2, 8, 1)
    assert store.dead_letters.read(second.number, 10) == [third]
    store.write([DeadLettersRemoved((second.number,))])
    assert store.dead_letters.read(0, 10) == [third]
    store.close()


def test_failed_deliveries_are_counted_in_every_life_until_the_event_becomes_a_dead_letter(make: Make) -> None:
    store = make()
    store.write([queued(1, "desk", "a"), queued(2, "desk", "a")])
    (first, _), (second, data) = store.queue("desk", "a").read(0, 10)
    store.write([DeliveriesFailed("desk", "a", (first, second, 99), "rejected", 3)])
    assert store.queue("desk", "a").failures([first, second, 99]) == {first: 1, second: 1}
    store.close()
    store.open()
    store.write([Acknowledged("desk", "a", (first,)), DeliveriesFailed("desk", "a", (first, second), "rejected", 3)])
    assert store.queue("desk", "a").failures([first, second]) == {second: 2}
    store.write([DeliveriesFailed("desk", "a", (second,), "rejected", 3)])
    assert store.queue("desk", "a").read(0, 10) == []
    assert store.queue("desk", "a").size()[:2] == (0, 0)
    [letter] = store.dead_letters.read(0, 10)
    assert (letter.client, letter.name, letter.data) == ("desk", "a", data.body)
    assert letter.reason == "3 deliveries without an acknowledgement; rejected"
    assert store.dead_letters.counts() == {("desk", "a"): 1}
    store.close()


@pytest.mark.parametrize(
    ("acknowledged", "delivered", "failed"),
    [(0, 0, []), (0, 4, [1]), (2, 4, [1, 2, 3]), (3, 3, [1, 2, 3]), (4, 4, [1, 2, 3, 4]), (9, 9, [1, 2, 3, 4])],
)
def test_a_lost_consumer_failed_on_what_it_passed_over_and_on_the_next(
    make: Make, acknowledged: int, delivered: int, failed: list[int]
) -> None:
    store = make()
    store.write([queued(number, "desk", "a") for number in (1, 2, 3, 4)])
    store.write([ConsumerLost("desk", "a", acknowledged, delivered, None)])
    numbers = [number for number, _ in store.queue("desk", "a").read(0, 10)]
    assert list(store.queue("desk", "a").failures(numbers)) == failed
    store.close()
