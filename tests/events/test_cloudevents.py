"""Tests of the CloudEvents reader, structured and binary."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events import Event, Limits

CONTEXT = {"specversion": "1.0", "id": "A-1", "source": "/shop", "type": "com.example.order"}
HEADERS = {f"ce-{name}": value for name, value in CONTEXT.items()}
MOMENT = datetime(2018, 4, 5, 17, 31, tzinfo=UTC)


def structured(**more: Any) -> Event:
    return Event.from_cloudevent(CONTEXT | more)


def binary(body: bytes = b"", **headers: str) -> Event:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Event.from_cloudevent(body, HEADERS | named)


def test_context_attributes_keep_their_names_and_data_is_nested_under_data() -> None:
    event = structured(subject="7", time="2018-04-05T17:31:00Z", traceid="t", data={"sum": 5, "tags": ["a"]})
    assert event.attributes == CONTEXT | {
        "subject": "7",
        "time": MOMENT,
        "traceid": "t",
        "data.sum": 5,
        "data.tags": ("a",),
    }
    assert (event.id, event.source, event.time) == ("A-1", "/shop", MOMENT)


def test_json_text_is_read_like_the_mapping() -> None:
    text = json.dumps(CONTEXT | {"data": {"x": [1, None]}})
    for given_text in (text, text.encode()):
        assert Event.from_cloudevent(given_text).attributes == CONTEXT | {"data.x": (1, None)}


def test_the_rules_of_json_hold_for_cloudevents() -> None:
    with pytest.raises(EventError, match=r"data\.x: the key occurs twice"):
        Event.from_cloudevent('{"specversion":"1.0","data":{"x":1,"x":2}}')


def test_null_attributes_are_unset_and_null_data_is_null() -> None:
    event = structured(subject=None, time=None, data=None)
    assert event.attributes == CONTEXT | {"data": None}
    assert event.time is None


@pytest.mark.parametrize("data", [5, 1.5, "text", True, None])
def test_scalar_data_is_the_attribute_data(data: object) -> None:
    assert structured(data=data).get("data") == data


def test_array_data_is_several_values() -> None:
    assert structured(data=[1, {"x": 2}]).attributes == CONTEXT | {"data": (1,), "data.x": (2,)}


def test_base64_data_is_bytes() -> None:
    assert structured(data_base64="/wA=").get("data") == b"\xff\x00"
    for wrong in ("/wA", "é", 5, "/w A="):
        with pytest.raises(EventError, match="data_base64: not Base64 text"):
            structured(data_base64=wrong)
    with pytest.raises(EventError, match="data or data_base64, not both"):
        structured(data=1, data_base64="")


def test_extensions_may_be_integers_and_booleans() -> None:
    event = structured(priority=5, urgent=True)
    assert (event.get("priority"), event.get("urgent")) == (5, True)


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
@pytest.mark.parametrize("value", [None, "", 5])
def test_required_attributes_must_be_there(name: str, value: object) -> None:
    with pytest.raises(EventError, match=f"{name}: "):
        Event.from_cloudevent(CONTEXT | {name: value})
    with pytest.raises(EventError, match=f"{name}: a CloudEvent needs this attribute"):
        Event.from_cloudevent({key: kept for key, kept in CONTEXT.items() if key != name})


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"specversion": "0.3"}, "specversion: CloudEvents 1.0 can be read, not '0.3'"),
        ({"traceId": "x"}, "'traceId': the name of a CloudEvents attribute"),
        ({"trace_id": "x"}, "'trace_id': the name of a CloudEvents attribute"),
        ({"": "x"}, "'': the name of a CloudEvents attribute"),
        ({"\ud800": "x"}, r"'\\ud800': the name of a CloudEvents attribute"),
        ({"extension": {"x": 1}}, "extension: a CloudEvents attribute is a string"),
        ({"extension": [1]}, "extension: a CloudEvents attribute is a string"),
        ({"extension": 1.5}, "extension: a CloudEvents attribute is a string"),
        ({"subject": 5}, "subject: must be a string, not int"),
        ({"time": 5}, "time: not an RFC 3339 timestamp"),
    ],
)
def test_what_the_specification_forbids_is_refused(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        Event.from_cloudevent(CONTEXT | more)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2018-04-05T17:31:00Z", MOMENT),
        ("2018-04-05t17:31:00z", MOMENT),
        ("2018-04-05T19:31:00+02:00", MOMENT),
        ("2018-04-05T17:31:00.5Z", MOMENT + timedelta(milliseconds=500)),
        ("2018-04-05T17:31:00.123456789Z", MOMENT + timedelta(microseconds=123456)),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
    ],
)
def test_times_are_rfc_3339(text: str, moment: datetime) -> None:
    assert structured(time=text).time == moment
    assert binary(ce_time=text).attributes["time"] == moment


@pytest.mark.parametrize(
    "text",
    ["", "now", "2018-04-05", "2018-04-05T17:31:00", "2018-13-05T17:31:00Z", "0001-01-01T00:00:00+01:00"],
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(EventError, match="time: not "):
        structured(time=text)


def test_a_time_may_be_a_datetime_already() -> None:
    zone = timezone(timedelta(hours=2))
    assert structured(time=datetime(2018, 4, 5, 19, 31, tzinfo=zone)).time == MOMENT


def test_binary_mode_reads_headers_and_body() -> None:
    event = binary(b'{"sum": 5, "of": {"x": 1}}', Content_Type="application/json", CE_Subject="7")
    assert event.attributes == CONTEXT | {
        "datacontenttype": "application/json",
        "subject": "7",
        "data.sum": 5,
        "data.of.x": 1,
    }
    assert (event.id, event.source) == ("A-1", "/shop")


@pytest.mark.parametrize(
    ("media", "body", "data"),
    [
        ("application/json", b"5", 5),
        ("application/json; charset=utf-8", b'"\xc3\xa9"', "é"),
        ("application/vnd.order+json", b"[1, 2]", (1, 2)),
        ("text/plain", b"\xc3\xa9", "é"),
        ("text/plain; charset=ISO-8859-1", b"\xe9", "é"),
        ('text/plain; charset="utf-8"', b"\xc3\xa9", "é"),
        ("application/xml", b"<x/>", "<x/>"),
        ("application/soap+xml", b"<x/>", "<x/>"),
        ("application/xml", b"<x>\xe9</x>", b"<x>\xe9</x>"),
        ("application/octet-stream", b"\xff", b"\xff"),
        ("image/png", b"5", b"5"),
    ],
)
def test_the_content_type_decides_what_the_body_is(media: str, body: bytes, data: object) -> None:
    assert binary(body, content_type=media).get("data") == data


def test_a_body_without_a_content_type_is_bytes_and_no_body_is_no_data() -> None:
    assert binary(b"5").get("data") == b"5"
    assert "data" not in binary(b"", content_type="application/json").attributes


def test_json_in_the_body_cannot_reach_outside_data() -> None:
    with pytest.raises(EventError, match="data: not JSON: extra data"):
        binary(b'1,"id":"other"', content_type="application/json")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("%e2%82%ac", "€"),
        ("plain", "plain"),
        (' "quoted \\"x\\" text" ', 'quoted "x" text'),
        ("100%", "100%"),
        ("%2525", "%25"),
        ("%41", "A"),
    ],
)
def test_header_values_are_unquoted_then_percent_decoded_once(value: str, text: str) -> None:
    assert binary(ce_subject=value).get("subject") == text


def test_header_values_that_are_not_utf8_are_refused() -> None:
    for value in ("%C0%A0", "%ff"):
        with pytest.raises(EventError, match="ce-subject: the header is not UTF-8"):
            binary(ce_subject=value)


def test_structured_mode_is_known_by_its_content_type() -> None:
    body = json.dumps(CONTEXT | {"data": 1})
    for media in ("application/cloudevents+json; charset=utf-8", "application/cloudevents"):
        event = Event.from_cloudevent(body.encode(), {"Content-Type": media, "ce-id": "ignored"})
        assert event.attributes == CONTEXT | {"data": 1}


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"content-type": "application/cloudevents-batch+json"}, "read each of its elements"),
        ({"content-type": "application/cloudevents+avro"}, "cannot be read; JSON can"),
        (HEADERS | {"ce-datacontenttype": "text/plain"}, "by the Content-Type header alone"),
        (HEADERS | {"CE-ID": "other"}, "'CE-ID' occurs twice"),
        (HEADERS | {"content-type": "text/plain; charset=utf-7"}, "data: text in the charset 'utf-7'"),
        (HEADERS | {"content-type": "text/plain"}, "data: invalid utf-8 at byte 0"),
        (HEADERS | {"content-type": "application/json"}, "data: invalid UTF-8 at byte 0"),
        ({1: "x"}, "headers are strings, not int and str"),
        ({}, "specversion: a CloudEvent needs this attribute"),
    ],
)
def test_messages_that_cannot_be_read_are_refused(headers: Any, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        Event.from_cloudevent(b"\xff", headers)


def test_a_body_must_be_bytes_or_text() -> None:
    assert Event.from_cloudevent("é", HEADERS | {"content-type": "text/plain"}).get("data") == "é"
    with pytest.raises(EventError, match="binary mode is bytes, not dict"):
        Event.from_cloudevent({}, HEADERS)


def test_limits_hold_for_data() -> None:
    with pytest.raises(EventError, match="nested deeper than 3 levels"):
        Event.from_cloudevent(CONTEXT | {"data": {"a": {"b": {}}}}, limits=Limits(depth=3))
    with pytest.raises(EventError, match="data: 20 bytes of JSON; an event may have 10"):
        Event.from_cloudevent(b" " * 20, HEADERS | {"content-type": "text/json"}, limits=Limits(json_bytes=10))


TEXT = st.text(max_size=8)


@given(
    st.binary(max_size=20) | TEXT,
    st.dictionaries(st.sampled_from([*HEADERS, "content-type", "ce-time", "ce-x"]) | TEXT, TEXT),
    st.booleans(),
)
def test_any_message_is_an_event_or_an_event_error(body: Any, headers: dict[str, str], complete: bool) -> None:
    try:
        event = Event.from_cloudevent(body, HEADERS | headers if complete else headers)
    except EventError:
        return
    assert event.get("id") == event.id


def test_bytes_in_the_context_are_their_base64_text() -> None:
    for blob in (b"\xff\x00", bytearray(b"\xff\x00"), memoryview(b"\xff\x00")):
        assert structured(blob=blob).get("blob") == "/wA="
