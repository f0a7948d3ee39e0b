"""Tests of the JSON reader: its rules, agreement of both readers, and arbitrary text."""

from __future__ import annotations

import json
import math
import tracemalloc
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events import DEFAULT_LIMITS, Event, Limits
from palio.events.json import _read_carefully, parse_value
from tests.hangs import no_hang


def read(text: str | bytes) -> Any:
    """The attribute `x` of an event."""
    return Event.from_json(text).attributes["x"]


def refusal(text: str | bytes) -> str | None:
    """Why a text is no event, or None if it is one; any other exception is a failure of the test."""
    try:
        Event.from_json(text)
    except EventError as error:
        return str(error)
    return None


@pytest.mark.parametrize("text", ['{"x": 1}', b'{"x": 1}', bytearray(b'{"x": 1}'), memoryview(b'{"x": 1}')])
def test_text_and_bytes_are_read(text: str | bytes) -> None:
    assert read(text) == 1


def test_text_of_another_type_is_refused() -> None:
    with pytest.raises(EventError, match="JSON text must be a string or bytes, not int"):
        Event.from_json(5)  # type: ignore[arg-type]


def test_a_byte_order_mark_is_skipped() -> None:
    assert read(b'\xef\xbb\xbf{"x": 1}') == 1
    assert read('\ufeff{"x": 1}') == 1


def test_white_space_around_and_inside_is_skipped() -> None:
    assert read('\r\n\t {\r\n"x"\t:\n 1 }\r\n') == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("true", True),
        ("-0", 0),
        ("12", 12),
        ("1.0", 1.0),
        ("1e2", 100.0),
        ("0.1", 0.1),
        ("1e-999", 0.0),
        ('"\\u0041\\n\\u0000"', "A\n\x00"),
        ('"\\ud83d\\ude00"', "😀"),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", Decimal(2**63)),
        ("18446744073709551616", Decimal(2**64)),
        ("-" + "9" * 38, Decimal("-" + "9" * 38)),
    ],
)
def test_values_have_the_kind_they_are_written_in(text: str, value: object) -> None:
    got = read(f'{{"x": {text}}}')
    assert (got, type(got)) == (value, type(value))


def test_negative_zero_is_kept() -> None:
    assert math.copysign(1, read('{"x": -0.0}')) == -1


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"x": 1, "x": 2}', "x"),
        ('{"x": 1, "x": 1}', "x"),
        ('{"a": {"x": 1, "y": 2, "x": 3}}', "a.x"),
        ('{"a": [{"b.c": 1, "b.c": 2}]}', "a.`b.c`"),
        ('{"x": 1, "\\u0078": 2}', "x"),
        ('{"x": "a:b", "x": "c:d", "y": ":"}', "x"),
        ('{"x": {"y": 1}, "x": {}}', "x"),
        ('{"x": [], "x": []}', "x"),
        ('{"": 1, "": 2}', ""),
        # As many colons are lost with a key as the escapes hide.
        ('{"x": 1, "y": "\\u003a", "x": 2}', "x"),
        ('{"x": 1, "y": "\\u003A", "x": 2}', "x"),
        ('{"x": "::", "y": "\\u003a\\u003A\\u003a", "x": 2}', "x"),
    ],
)
def test_a_key_that_occurs_twice_is_refused_by_its_path(text: str, path: str) -> None:
    with pytest.raises(EventError, match="the key occurs twice in one object") as caught:
        Event.from_json(text)
    assert caught.value.path == path


def test_the_same_key_in_different_objects_is_fine() -> None:
    event = Event.from_json('{"x": {"x": 1}, "y": {"x": [{"x": 2}, {"x": 3}]}}')
    assert event.attributes == {"x.x": 1, "y.x.x": (2, 3)}


def test_colons_and_quotes_in_text_do_not_count_as_keys() -> None:
    content = {"a:b": ":::", "c": '":"', "d": "\\u003a", 'e"': "\\", "f": ["::", {"g": ":"}]}
    for ensure_ascii in (True, False):
        event = Event.from_json(json.dumps(content, ensure_ascii=ensure_ascii))
        assert event.attributes == Event.from_dict(content).attributes
    assert read('{"x": "\\u003a\\u003A:"}') == ":::"


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_json_has_no_nan_and_no_infinity(token: str) -> None:
    with pytest.raises(EventError, match=f"a.x: JSON has no {token}"):
        Event.from_json(f'{{"a": [{{"x": {token}}}]}}')


@pytest.mark.parametrize("number", ["1e999", "-1e400", "1" + "0" * 309 + ".0"])
def test_a_number_beyond_a_double_is_refused(number: str) -> None:
    with pytest.raises(EventError, match="x: a number too large for a double"):
        Event.from_json(f'{{"x": {number}}}')


@pytest.mark.parametrize("digits", [39, 100, 4_300, 4_301, 1_000_000])
def test_an_integer_of_more_than_38_digits_is_refused_quickly(digits: int) -> None:
    with no_hang():
        for sign in ("", "-"):
            with pytest.raises(EventError, match=r"a\.x: an integer of more than 38 digits"):
                Event.from_json('{"a": {"x": ' + sign + "7" * digits + "}}")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"x": "\xff"}', "invalid UTF-8 at byte 7: invalid start byte"),
        (b'{"x": "ab\xc3"}', "invalid UTF-8 at byte 9: invalid continuation byte"),
        (b'{"x": "\xed\xa0\x80"}', "invalid UTF-8 at byte 7: invalid continuation byte"),
        (b'{"x": "\xc0\xa0"}', "invalid UTF-8 at byte 7: invalid start byte"),
        (b'{"\xfe": 1}', "invalid UTF-8 at byte 2: invalid start byte"),
        (b"\xff\xfe{\x00}\x00", "invalid UTF-8 at byte 0: invalid start byte"),
    ],
)
def test_invalid_utf8_is_refused_with_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        Event.from_json(data)


@pytest.mark.parametrize("text", ['{"x": "\\ud800"}', '{"x": ["\\ude00\\ud83d"]}', '{"x": {"\\ud800": 1}}'])
def test_lone_surrogates_are_refused_by_their_path(text: str) -> None:
    with pytest.raises(EventError, match=r"x: .* has a lone surrogate"):
        Event.from_json(text)


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(EventError, match="lone surrogate"):
        Event.from_json('{"x": "\ud800"}')


def test_control_characters_are_kept_where_they_are_escaped_and_refused_where_they_are_not() -> None:
    assert read('{"x": "\\u0000\\u001f\\u007f"}') == "\x00\x1f\x7f"
    with pytest.raises(EventError, match=r"invalid control character \(line 1, column 8\)"):
        Event.from_json('{"x": "\x01"}')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON object: the text is empty"),
        (" \n", "no JSON object: the text is empty"),
        ("[1]", "an event is a JSON object, not an array"),
        ('"x"', "an event is a JSON object, not a string"),
        ("1.5", "an event is a JSON object, not a number"),
        ("true", "an event is a JSON object, not a boolean"),
        ("null", "an event is a JSON object, not null"),
        ('{"x": 1} {}', r"not JSON: extra data \(line 1, column 10\)"),
        ('{"x": 1,}', "not JSON: "),
        ('{"x": 01}', "not JSON: "),
        ('{"x": +1}', "not JSON: "),
        ('{"x": .5}', "not JSON: "),
        ('{"x": 1.}', "not JSON: "),
        ('{"x": 0x1}', "not JSON: "),
        ("{'x': 1}", "not JSON: "),
        ("{x: 1}", "not JSON: "),
        ('{"x": 1', "not JSON: "),
        ('{"x": tru}', "not JSON: "),
        ('{"x": "\\q"}', "not JSON: "),
        ('{"x"\n:: 1}', r"not JSON: expecting value \(line 2, column 2\)"),
        ("// comment\n{}", "not JSON: "),
        ('\x0b{"x": 1}', "not JSON: "),
        ('{"x": 1}\x00', "not JSON: "),
    ],
)
def test_what_is_not_a_json_object_is_refused(text: str, reason: str) -> None:
    for given_text in (text, text.encode()):
        with pytest.raises(EventError, match=reason):
            Event.from_json(given_text)


def test_more_bytes_than_allowed_are_refused() -> None:
    limits = Limits(json_bytes=10)
    assert Event.from_json('{"x": 123}', limits=limits).get("x") == 123
    with pytest.raises(EventError, match="11 bytes of JSON; an event may have 10"):
        Event.from_json('{"x": 1234}', limits=limits)
    with pytest.raises(EventError, match="11 bytes of JSON; an event may have 10"):
        Event.from_json('{"x": "é"}', limits=limits)


BOMBS = {
    "open arrays": "[" * 1_000_000,
    "open objects": '{"a":' * 200_000,
    "nested arrays": '{"x":' + "[" * 10_000 + "]" * 10_000 + "}",
    "nested objects": '{"x":' * 10_000 + "1" + "}" * 10_000,
    "nested long names": "".join('{"' + "n" * 10_000 + '":' for _ in range(900)) + "NaN" + "}" * 900,
    "empty arrays": '{"x":[' + "[]," * 1_000_000 + "[]]}",
    "empty objects": '{"x":[' + "{}," * 1_000_000 + "{}]}",
    "many keys": "{" + ",".join(f'"k{i}":1' for i in range(200_000)) + "}",
    "many keys in an array": '{"x":[' + ",".join(f'{{"k{i}":1}}' for i in range(50_000)) + "]}",
    "many values": '{"x":[' + "1," * 1_000_000 + "1]}",
    "many values in pieces": '{"x":[' + ",".join(["[" + "1," * 999 + "1]"] * 1_000) + "]}",
    "long paths": '{"' + "p" * 990 + '":{' + ",".join(f'"{i}":1' for i in range(9_999)) + "}}",
    "long string": '{"x":"' + "x" * 17_000_000 + '"}',
    "escapes": '{"x":"' + "\\u003a" * 1_000_000 + '",' + '"y":1,"y":2}',
    "open string": '{"x":"' + "\\\\" * 1_000_000,
    "same key": "{" + '"a":1,' * 300_000 + '"a":1}',
    "long integers": '{"x":[' + ",".join(["9" * 4_000] * 1_000) + "]}",
    "zeros": '{"x":' + "0" * 1_000_000 + "}",
    "signs": '{"x":' + "-" * 1_000_000 + "}",
    "fraction": '{"x":0.' + "1" * 1_000_000 + "}",
    "exponent": '{"x":1e' + "9" * 1_000_000 + "}",
    "white space": " " * 10_000_000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_hostile_text_is_read_or_refused_in_little_time_and_memory(text: str) -> None:
    data = text.encode()
    with no_hang():
        refused = refusal(data)
    assert refused is None or len(refused) < 3_000


@pytest.mark.parametrize("name", ["nested long names", "empty objects", "many keys in an array", "long paths"])
def test_hostile_text_takes_memory_in_proportion(name: str) -> None:
    data = BOMBS[name].encode()
    tracemalloc.start()
    try:
        Event.from_json(data)
    except EventError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 200 * 2**20


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('ab:"\\\u003a\x00é😀') | st.characters(codec="utf-8"), max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
JSON_OBJECTS = st.dictionaries(st.text(st.sampled_from("ab:.`é"), max_size=3), JSON_VALUES, max_size=5)


@given(JSON_OBJECTS, st.booleans(), st.sampled_from([None, 2]))
def test_what_python_writes_is_read_as_the_same_content(
    content: dict[str, Any], ensure_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(content, ensure_ascii=ensure_ascii, indent=indent)
    try:
        expected = Event.from_dict(content)
    except EventError:
        with pytest.raises(EventError):
            Event.from_json(text)
        return
    assert repr(Event.from_json(text).attributes) == repr(expected.attributes)


# Pieces that, put together at random, are often nearly JSON.
PIECES = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"a"',
            '"b"',
            '"a":1',
            '"\\u003a"',
            '":"',
            '"\\""',
            '"\\u0022"',
            '"\\ud800"',
            "1",
            "-0.0",
            "1e400",
            "NaN",
            "true",
            "null",
            "\\",
            '"',
            '"a":{',
            "é",
        ]
    )
    | st.sampled_from(["9" * 40, " ", "\n", "\x00"]),
    max_size=14,
)


def outcome(read: Any, data: bytes) -> str:
    try:
        return repr(read(data))
    except EventError as error:
        # Integers of more than 38 digits are refused by whoever meets them first.
        return "too many digits" if "digits" in str(error) else f"refused: {error}"


@given(PIECES.map("".join))
@example('{"a":1,"a":1}')
@example('{"a":":","b":"\\u003a","b":1}')
@example('{"a":"\\"","a":"\\u0022"}')
def test_the_fast_and_the_careful_reading_agree(text: str) -> None:
    data = text.encode()
    fast = outcome(lambda d: parse_value(d, DEFAULT_LIMITS), data)
    careful = outcome(_read_carefully, data)
    assert fast == careful or careful == "too many digits"


@given(JSON_OBJECTS, st.data())
def test_a_key_written_again_anywhere_is_always_found(content: dict[str, Any], data: st.DataObject) -> None:
    def write(value: Any) -> str:
        if isinstance(value, dict):
            members = [f"{json.dumps(name)}:{write(inner)}" for name, inner in value.items()]
            if members and data.draw(st.booleans()):
                members.append(data.draw(st.sampled_from(members)))
                repeated.append(True)
            return "{" + ",".join(members) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(write, value)) + "]"
        return json.dumps(value)

    repeated: list[bool] = []
    text = write(content)
    if repeated:
        with pytest.raises(EventError):
            Event.from_json(text)


@given(st.text() | st.text(st.sampled_from('{}[]":,\\u0123.eE+- truefalsnl')))
def test_any_text_is_an_event_or_an_event_error(text: str) -> None:
    assert refusal(text) != ""


@given(st.binary() | PIECES.map("".join).map(str.encode).flatmap(lambda b: st.binary(max_size=3).map(b.__add__)))
def test_any_bytes_are_an_event_or_an_event_error(data: bytes) -> None:
    assert refusal(data) != ""


@pytest.mark.parametrize(
    ("file", "events"),
    [
        ("aws_cloudtrail_stratus.jsonl.xz", 2_900),
        ("gharchive_800.jsonl.xz", 800),
        ("zeek_wrccdc2018_mixed.jsonl.xz", 3_000),
        ("otrf_windows_956701.jsonl.xz", 3_000),
    ],
)
def test_real_events_are_read_as_the_careful_reading_reads_them(file: str, events: int, data_folder: Any) -> None:
    import lzma
    from itertools import islice

    with lzma.open(data_folder / "events" / file) as lines:
        count = 0
        for line in islice(lines, events):
            assert parse_value(line, DEFAULT_LIMITS) == _read_carefully(line)
            event = Event.from_json(line)
            assert event.attributes == Event.from_dict(json.loads(line)).attributes
            assert Event.from_json(event.to_json()).attributes == event.attributes
            count += 1
    assert count == events
