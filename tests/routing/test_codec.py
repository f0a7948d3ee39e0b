"""Wire format: every message survives a round trip, and all other bytes are a `PalioError`."""

from __future__ import annotations

import struct
from math import nan
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import DurableSettings, Event, Filter, PalioError, ParseError, WireError
from palio.routing import client_messages, codec, messages
from tests import strategies

KEY = bytes(range(16))
WANTED = Filter.parse("price > 100 AND symbol IN ('ACME', 'INIT')")
ID = messages.EventId(1, 2, 3)
MESSAGES: list[Any] = [
    messages.Begin(),
    messages.Subscribe(KEY, WANTED),
    messages.Subscribe(KEY, WANTED, 7),
    messages.LinkState(7, 2, 3, (1, 4)),
    messages.Subscribe(KEY, Filter.parse("hour(at) = 3", timezone="Europe/Oslo")),
    messages.Unsubscribe(KEY),
    messages.Advertise(KEY, WANTED),
    messages.Unadvertise(KEY),
    messages.Settle(ID),
    messages.Settled(ID),
    messages.Announce("tree", 4, b"\x00"),
    messages.Candidate(1, 2, 3),
    messages.Offer(1, 2, 3, 4),
    messages.Request(1, 2),
    messages.Publish(ID, b"body", b"header", 1, 2, 3, 4, b"stamps"),
]
REQUESTS: list[Any] = [
    client_messages.SubscribeClient("desk", WANTED, "network"),
    client_messages.SubscribeClient(
        "desk", WANTED, "edge", True, settings=DurableSettings(5, 600, "dead_letter", 7.5, 8)
    ),
    client_messages.UnsubscribeClient("desk"),
    client_messages.AdvertiseClient("feed", WANTED),
    client_messages.UnadvertiseClient("feed"),
    client_messages.PublishClient(b"body"),
]
ANSWERS: list[Any] = [
    client_messages.Confirmed("desk"),
    client_messages.Cancelled("desk"),
    client_messages.Refused("no", "full", 3, "a"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_comes_back_as_it_was(message: Any) -> None:
    assert codec.decode(codec.encode(message)) == message


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_comes_back_as_it_was(request_: Any) -> None:
    assert codec.decode_request(codec.encode(request_)) == request_


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: type(each).__name__)
def test_an_answer_comes_back_as_it_was(answer: Any) -> None:
    assert codec.decode_answer(codec.encode(answer)) == answer


@given(strategies.attributes())
def test_an_event_keeps_its_content_and_its_identity(attributes: dict[str, Any]) -> None:
    event = Event(attributes, source="here")
    again = codec.decode_event(codec.encode_event(event))
    assert again == event
    assert repr(again.attributes) == repr(Event.from_dict(event.to_dict()).attributes)


KINDS_READ: list[tuple[Any, Any]] = [
    (messages.Message | messages.Frame, codec.decode),
    (client_messages.ClientRequest, codec.decode_request),
    (client_messages.Answer, codec.decode_answer),
    (Event, codec.decode_event),
]


@given(st.binary(max_size=60))
def test_random_bytes_are_a_message_or_an_error_of_ours(data: bytes) -> None:
    for kind, read in KINDS_READ:
        try:
            found = read(data)
        except PalioError:
            continue
        assert isinstance(found, kind)


@given(st.sampled_from(MESSAGES), st.data())
def test_damaged_messages_are_a_message_or_an_error_of_ours(message: Any, data: st.DataObject) -> None:
    encoded = bytearray(codec.encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = codec.decode(bytes(encoded[: data.draw(st.integers(0, len(encoded)))]))
    except PalioError:
        return
    assert isinstance(found, messages.Message | messages.Frame)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        codec.encode(messages.Unsubscribe(b"short")),
        b"\x93\x02\xc4\x10" + KEY + b"\xa3x >",
        b"\x93\x02\xc4\x10" + KEY + b"\x91\x01",
    ],
    ids=["nothing", "unused byte", "too deep", "short key", "no filter", "no text"],
)
def test_hostile_bytes_are_an_error_of_ours(data: bytes) -> None:
    with pytest.raises(PalioError):
        codec.decode(data)


def test_extensions_that_no_event_has_are_refused() -> None:
    body = codec.encode_event(Event.from_dict({"x": 1}, id="a"))
    with pytest.raises(PalioError):
        codec.decode_event(body.replace(b"\x81\xa1x\x01", b"\x81\xa1x\xd4\x63\x00"))
    with pytest.raises(WireError):
        codec.decode_event(body.replace(b"\x81\xa1x\x01", b"\x81\xa1x\xd4\x01\x00"))
    with pytest.raises(WireError):  # it is no event that is wrong here
        codec.decode(b"\x93\x02\xc4\x10" + KEY + b"\xd4\x63\x00")


def test_an_unreadable_filter_is_an_error_of_the_filter() -> None:
    class Carrier(msgspec.Struct, array_like=True):
        wanted: Filter

    read = codec.reader(Carrier)
    assert read(msgspec.msgpack.encode(["x > 3"])).wanted == Filter("x > 3")
    for text in ("x >", f"{'x' * 3_000} >"):
        with pytest.raises(ParseError):
            read(msgspec.msgpack.encode([text]))


@pytest.mark.parametrize(
    "content",
    [
        b"\x82" + b"\xa1a\x01" * 2,
        b"\x82\xa1a\x01\xa1b\x82" + b"\xa1c\x01" * 2,
        b"\x81\xa1a\x92\x01\x82" + b"\xa1c\x01" * 2,
        b"\xde\x00\x02" + b"\xa1a\x01" * 2,
        b"\xdf\x00\x00\x00\x02" + b"\xa1a\x01" * 2,
    ],
)
def test_a_name_that_occurs_twice_is_refused(content: bytes) -> None:
    with pytest.raises(WireError, match="twice"):
        codec.decode_event(b"\x94\xa11\xc0\xc0" + content)


def test_a_time_that_is_no_number_is_refused() -> None:
    query = codec.encode(client_messages.ReplayClient(1, Filter.everything, since=0.5))
    assert codec.decode_request(query).since == 0.5
    for wrong in (nan, -nan):
        with pytest.raises(WireError):
            codec.decode_request(query.replace(struct.pack(">d", 0.5), struct.pack(">d", wrong)))
