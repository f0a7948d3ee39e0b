"""Push sinks: at-least-once delivery under stable keys, and dead letters."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from palio import Event
from palio.errors import PipelineError
from palio.spark import HttpSink, NatsSink, ParquetSink
from palio.spark.sinks.http import HttpDelivery
from palio.spark.sinks.messages import Message
from palio.spark.sinks.nats import NatsDelivery
from palio.spark.sinks.sink import Batch, Taken
from tests.oracles.seeds import seeds
from tests.spark.nats_server import NatsServer, nats
from tests.spark.sinks.http_receiver import Receiver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["nats"]
BATCH = Batch("test", 0, 1, datetime.now(UTC))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def matches(spark: SparkSession, count: int) -> DataFrame:
    """As a stream gives them: an id that no subject and no path could hold as it is."""
    return spark.sql(f"""
        SELECT id, cast(id % 7 AS INT) AS price, cast(NULL AS STRING) AS note, timestamp_seconds(id) AS at,
               concat('who/wants.it? ', id % 3) AS subscription_id, if(id % 2 = 0, 'ada', NULL) AS subscriber
        FROM range(0, {count}, 1, 2)
    """)


def message(number: int = 1, data: str = "{}") -> Message:
    return Message(f"id{number}", f"s{number}", None, data)


# HTTP


def test_a_match_is_posted_as_a_cloudevent(spark: SparkSession, receiver: Receiver) -> None:
    sink = HttpSink(f"{receiver.url}/in/{{subscriber}}/{{subscription_id}}?from=palio", key=["id"])
    assert sink(matches(spark, 30), BATCH) == Taken(30)
    assert len(receiver.taken) == 30
    assert not [headers for _, headers, _ in receiver.taken.values() if "Authorization" in headers]
    read = [(path, Event.from_cloudevent(body, headers)) for path, headers, body in receiver.taken.values()]
    path, event = next((path, event) for path, event in read if event.attributes["data.id"] == 4)
    assert path == "/in/ada/who%2Fwants%2Eit%3F%201?from=palio"
    assert event.id in receiver.taken
    assert event.source == "palio"
    assert event.attributes["type"] == "palio.match"
    assert event.attributes["subject"] == "who/wants.it? 1"
    assert event.attributes["subscriber"] == "ada"
    assert event.attributes["data.price"] == 4
    assert event.attributes["data.note"] is None
    assert event.attributes["data.at"] == "1970-01-01T00:00:04.000Z"
    # Sent again, in other company, each has the name it had.
    names = set(receiver.taken)
    sink(matches(spark, 20).repartition(3), Batch("another", 7, 2, datetime.now(UTC)))
    assert set(receiver.taken) == names


def test_who_posts_is_said_as_the_url_says_it(spark: SparkSession, receiver: Receiver) -> None:
    sink = HttpSink(receiver.url.replace("://", "://ada:s%40y@"), key=["id"])
    assert sink(matches(spark, 1), BATCH) == Taken(1)
    [(_, headers, _)] = receiver.taken.values()
    assert headers["Authorization"] == "Basic " + b64encode(b"ada:s@y").decode()


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_every_match_arrives_however_the_receiver_fails(
    spark: SparkSession, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver(seed, trouble=0.4)
    try:
        sink = HttpSink(receiver.url, key=["id"], attempts=50, longest_pause=0.02, connections=4)
        assert sink(matches(spark, 200), BATCH) == Taken(200)
        arrived = [json.loads(body)["id"] for _, _, body in receiver.taken.values()]
        assert Counter(arrived) == Counter(range(200))
        assert receiver.times.total() > 200  # some were taken twice, under one name
    finally:
        receiver.close()


def test_what_nobody_takes_becomes_a_dead_letter(spark: SparkSession, receiver: Receiver, tmp_path: Path) -> None:
    receiver.refused = {"/who%2Fwants%2Eit%3F%202"}
    sink = HttpSink(
        f"{receiver.url}/{{subscription_id}}", key=["id"], dead_letters=ParquetSink(tmp_path / "dead"), attempts=2
    )
    assert sink(matches(spark, 30), BATCH) == Taken(30)
    rows = ds.dataset(tmp_path / "dead").to_table().to_pylist()
    assert Counter(json.loads(row["data"])["id"] for row in rows) == Counter(range(2, 30, 3))
    assert {row["reason"] for row in rows} == {"the answer was 400"}
    assert {row["subscription_id"] for row in rows} == {"who/wants.it? 2"}
    assert len(receiver.taken) == 20
    # Without a place for dead letters it is an error.
    with pytest.raises(Exception, match="cannot be delivered: the answer was 400"):
        HttpSink(f"{receiver.url}/{{subscription_id}}", key=["id"])(matches(spark, 30), BATCH)


def test_a_receiver_that_is_down_does_not_hold_up_everything(receiver: Receiver) -> None:
    receiver.down = True
    posting = HttpDelivery(receiver.url, {"Authorization": "secret"}, "palio", 3, 5.0, 0.01, 2)
    told = list(posting(iter([[message(number)] for number in range(4)])))
    reasons = [each[1] for each in told if not isinstance(each, int)]
    assert reasons == ["the answer was 503, after 3 attempts"] + 3 * ["the answer was 503, after 1 attempt"]
    receiver.down = False
    assert [each for each in posting(iter([[message(9)]])) if not isinstance(each, int)] == []
    assert receiver.taken["id9"][1]["Authorization"] == "secret"


def test_one_bad_subscriber_is_not_the_others_trouble(receiver: Receiver) -> None:
    receiver.failing = {"/s1"}
    receiver.busy.update({"/s2": 1, "/s3": 1, "/s4": 9})
    posting = HttpDelivery(f"{receiver.url}/{{subscription_id}}", {}, "palio", 3, 5.0, 0.01, 1)
    told = list(posting(iter([[message(number)] for number in (1, 2, 3, 1, 4, 4, 4, 4)])))
    reasons = [(each[0].id, each[1]) for each in told if not isinstance(each, int)]
    assert reasons == [
        ("id1", "the answer was 503, after 3 attempts"),
        ("id1", "the answer was 503, after 1 attempt"),
        *3 * [("id4", "the answer was 429, after 3 attempts")],  # who asks to wait is there
    ]
    assert set(receiver.taken) == {"id2", "id3", "id4"}


def test_a_host_that_answers_again_is_given_all_attempts() -> None:
    away = Receiver()
    posting = HttpDelivery(away.url, {}, "palio", 3, 1.0, 0.01, 1)
    away.close()

    def messages() -> Iterator[list[Message]]:
        yield [message(1)]
        yield [message(2)]
        back = Receiver(port=int(away.url.rpartition(":")[2]))
        try:
            back.busy["/"] = 2
            yield [message(3)]
        finally:
            back.close()

    first, second, third = [each for each in posting(messages()) if isinstance(each, int)]
    assert (first, second, third) == (0, 0, 1)


def test_a_receiver_that_is_not_there_is_told(receiver: Receiver) -> None:
    receiver.close()
    posting = HttpDelivery(receiver.url, {}, "palio", 2, 1.0, 0.01, 1)
    [(_, reason), count] = posting(iter([[message()]]))  # type: ignore[misc]
    assert re.match("ConnectionRefusedError.*after 2 attempts", reason)
    assert count == 0


# NATS


def test_a_match_is_in_the_stream_once_however_often_it_is_sent(spark: SparkSession, nats: NatsServer) -> None:
    nats.make_stream("HITS", "hits.>")
    sink = NatsSink(nats.url, "hits.{subscriber}.{subscription_id}", key=["id"])
    given = matches(spark, 40)
    assert sink(given, BATCH) == Taken(40)
    assert sink(given.repartition(3), Batch("again", 3, 1, datetime.now(UTC))) == Taken(40)
    found = nats.messages("HITS")
    assert Counter(content["id"] for _, _, content in found) == Counter(range(40))
    subject, headers, content = next(each for each in found if each[2]["id"] == 4)
    assert subject == "hits.ada.who%2Fwants%2Eit%3F%201"
    assert {subject.split(".")[1] for subject, _, _ in found} == {"ada", "_"}
    assert headers["Nats-Msg-Id"] == headers["ce-id"]
    event = Event.from_cloudevent(json.dumps(content), {**headers})
    assert event.attributes["subject"] == "who/wants.it? 1"


def test_a_server_that_is_away_is_waited_for(nats: NatsServer) -> None:
    import threading

    nats.make_stream("WAIT", "wait")
    sending = NatsDelivery({"servers": [nats.url]}, "wait", "palio", 30.0)

    def messages() -> Iterator[list[Message]]:
        yield [message(1)]
        nats.kill()
        threading.Timer(1.0, nats.start).start()
        yield [message(2), message(3)]

    told = list(sending(messages()))
    assert sum(each for each in told if isinstance(each, int)) == 3
    assert {headers["ce-id"] for _, headers, _ in nats.messages("WAIT")} == {"id1", "id2", "id3"}


def test_what_the_server_never_takes_is_told(nats: NatsServer) -> None:
    nats.make_stream("LARGE", "large")
    sending = NatsDelivery({"servers": [nats.url]}, "large", "palio", 1.0)
    large = message(2, json.dumps("x" * (2 << 20)))
    assert list(sending(iter([[message(1), large]]))) == [
        (large, "2,097,154 characters are more than the server takes in a message"),
        1,
    ]


def test_a_subject_that_no_stream_takes_is_named(nats: NatsServer) -> None:
    sending = NatsDelivery({"servers": [nats.url]}, "nobody", "palio", 0.1)
    with pytest.raises(PipelineError, match="nothing can be published to nobody: no stream takes this subject"):
        list(sending(iter([[message()]])))


# Both


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: HttpSink("ftp://here", key=["id"]), "http://… or https://…"),
        (lambda: HttpSink("http://here/{price}", key=["id"]), "may hold {subscription_id} and {subscriber}"),
        (lambda: NatsSink("nats://here", "a.{}", key=["id"]), "may hold {subscription_id} and {subscriber}"),
    ],
)
def test_where_nothing_can_be_sent_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(reason)):
        make()


@pytest.mark.parametrize("key", [[], ["number"]])
def test_events_must_be_told_from_one_another(spark: SparkSession, key: list[str]) -> None:
    with pytest.raises(PipelineError, match="to tell one event from another; there are id, price"):
        HttpSink("http://127.0.0.1:1", key=key)(matches(spark, 1), BATCH)
