"""The dialects one by one, and what is refused, with the path to it."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Event, Filter, ParseError
from palio.languages.cloudevents import MAX_NESTING_LEVELS

EVENT = {
    "specversion": "1.0", "id": "1234", "source": "/shop/7", "type": "com.shop.order.paid", "subject": "orders/12.json",
    "time": "2018-04-26T14:48:09.500+02:00", "sequence": 5, "urgent": True, "region": "EU",
}  # fmt: skip


def parse(condition: Any) -> Filter:
    return Filter.parse(condition, language="cloudevents")


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ({"exact": {"type": "com.shop.order.paid"}}, True),
        ({"exact": {"type": "com.shop.order"}}, False),
        ({"exact": {"type": "COM.SHOP.ORDER.PAID"}}, False),
        ({"exact": {"type": "com.shop.order.paid", "region": "EU"}}, True),
        ({"exact": {"type": "com.shop.order.paid", "region": "US"}}, False),
        ({"exact": {"type": "com.shop.order.paid", "missing": "x"}}, False),
        ({"exact": {"missing": "x"}}, False),
        ({"exact": {"sequence": "5"}}, True),
        ({"exact": {"sequence": "05"}}, False),
        ({"exact": {"urgent": "true"}}, True),
        ({"exact": {"urgent": "TRUE"}}, False),
        ({"exact": {"time": "2018-04-26T14:48:09.500+02:00"}}, True),
        ({"exact": {"time": "2018-04-26T12:48:09.5Z"}}, True),
        ({"exact": {"time": "2018-04-26T12:48:09Z"}}, False),
        ({"prefix": {"type": "com.shop."}}, True),
        ({"prefix": {"type": "Com"}}, False),
        ({"prefix": {"type": "com.", "subject": "orders/"}}, True),
        ({"prefix": {"type": "com.", "subject": "/"}}, False),
        ({"prefix": {"missing": "x"}}, False),
        ({"prefix": {"time": "2018-04-26T12"}}, True),
        ({"prefix": {"sequence": "5"}}, True),
        ({"prefix": {"type": "com.shop.order.paid.and.more"}}, False),
        ({"suffix": {"type": ".paid"}}, True),
        ({"suffix": {"type": ".paid", "subject": ".json"}}, True),
        ({"suffix": {"type": ".PAID"}}, False),
        ({"suffix": {"missing": "x"}}, False),
        ({"suffix": {"urgent": "ue"}}, True),
        ({"suffix": {"time": "Z"}}, True),
        # Signs that mean something to LIKE mean themselves here.
        ({"prefix": {"type": "com%"}}, False),
        ({"suffix": {"type": "_aid"}}, False),
        ({"all": [{"exact": {"region": "EU"}}, {"prefix": {"type": "com"}}]}, True),
        ({"all": [{"exact": {"region": "EU"}}, {"prefix": {"type": "org"}}]}, False),
        ({"any": [{"exact": {"region": "US"}}, {"prefix": {"type": "com"}}]}, True),
        ({"any": [{"exact": {"region": "US"}}]}, False),
        ({"not": {"exact": {"region": "EU"}}}, False),
        ({"not": {"exact": {"missing": "x"}}}, True),
        ({"not": {"not": {"prefix": {"type": "com"}}}}, True),
        ({"not": {"any": [{"exact": {"region": "US"}}, {"not": {"suffix": {"id": "4"}}}]}}, True),
        ({"sql": "sequence > 3 AND region IN ('EU', 'UK')"}, True),
        ({"cesql": "sequence > 3"}, True),
        ({"sql": "sequence > 7"}, False),
        # An expression that fails, or gives something else than a Boolean, is false, and its `not` is true.
        ({"sql": "missing = 1"}, False),
        ({"not": {"sql": "missing = 1"}}, True),
        ({"sql": "missing = 1 OR TRUE"}, False),
        ({"not": {"sql": "region > 5"}}, True),
        ({"sql": "region"}, False),
        ({"not": {"sql": "sequence"}}, True),
        ({"sql": "urgent"}, True),
        ({"not": {"sql": "LENGTH(region) = 2"}}, False),
        ({"not": {"sql": "LENGTH(missing) = 2"}}, True),
        ({"not": {"sql": "sequence < missing"}}, True),
        # A list is a conjunction, and an empty one asks for nothing.
        ([{"exact": {"region": "EU"}}, {"sql": "sequence = 5"}], True),
        ([{"exact": {"region": "EU"}}, {"sql": "sequence = 6"}], False),
        ([], True),
        ('[{"exact": {"region": "EU"}}]', True),
        (b'{"exact": {"region": "US"}}', False),
    ],
)
def test_an_event_passes_or_not(condition: Any, passes: bool) -> None:
    event = Event.from_cloudevent(EVENT)
    wanted = parse(condition)
    assert wanted.matches(event) is passes
    assert (~wanted).matches(event) is not passes
    assert Filter.parse(str(wanted)) == wanted


@pytest.mark.parametrize("name", list(EVENT))
def test_an_attribute_is_exactly_the_text_that_it_came_as(name: str) -> None:
    text = {True: "true", 5: "5"}.get(EVENT[name], EVENT[name])  # type: ignore[call-overload]
    event = Event.from_cloudevent(EVENT)
    assert parse({"exact": {name: text}}).matches(event)
    assert not parse({"exact": {name: f"{text}x"}}).matches(event)
    assert not parse({"not": {"exact": {name: text}}}).matches(event)


def test_bytes_are_their_base64_text_in_a_cloudevent_and_nothing_elsewhere() -> None:
    content = {key: EVENT[key] for key in ("specversion", "id", "source", "type")}
    assert parse({"exact": {"blob": "/wA="}}).matches(Event.from_cloudevent(content | {"blob": b"\xff\x00"}))
    assert not parse({"suffix": {"blob": "="}}).matches({"blob": b"\xff\x00"})
    assert parse({"not": {"suffix": {"blob": "="}}}).matches({"blob": b"\xff\x00"})


def test_filters_cover_as_their_dialects_do() -> None:
    wide, narrow = parse({"prefix": {"type": "com."}}), parse([{"prefix": {"type": "com.shop."}}, {"sql": "n < 5"}])
    assert wide.covers(narrow)
    assert not narrow.covers(wide)
    assert parse({"not": {"exact": {"type": "a"}}}).covers(parse({"exact": {"type": "b"}}))
    assert not parse({"suffix": {"type": ".a"}}).overlaps(parse({"suffix": {"type": ".b"}}))


@pytest.mark.parametrize(
    ("condition", "reason", "hint"),
    [
        ({}, "a filter has one dialect; this object has none", "exact, prefix, suffix, all, any, not, sql"),
        ([{"exact": {"type": "a"}}, {}], "[1]: a filter has one dialect", None),
        ({"exact": {"a": "b"}, "prefix": {"a": "b"}}, "this object has exact, prefix", '{"all":'),
        ({"regex": {"type": "a.*"}}, "there is no filter dialect 'regex'", "exact, prefix"),
        ({"and": []}, "there is no filter dialect 'and'", "write all"),
        ({"any": [{"exact": {"type": "a"}}, {"Exact": {"type": "a"}}]}, "any[1]: there is no filter dialect 'Ex", None),
        ({5: {"type": "a"}}, "there is no filter dialect '5'", None),
        ({"exact": {}}, "exact: must have at least one attribute", None),
        ({"exact": "a"}, "exact: must be an object of attributes and texts, not a string", None),
        ({"exact": [{"type": "a"}]}, "exact: must be an object of attributes and texts, not a list", None),
        ({"exact": None}, "exact: must be an object of attributes and texts, not null", None),
        ({"exact": {"": "a"}}, "exact.: this is no name", "lower-case letters and digits"),
        ({"exact": {"Type": "a"}}, "exact.Type: this is no name", "lower-case"),
        ({"prefix": {"some-other": "a"}}, "prefix.some-other: this is no name", None),
        ({"suffix": {"data.x": "a"}}, "suffix.data.x: this is no name", None),
        ({"exact": {"data": "a"}}, "exact.data: filters see the attributes of an event, not its data", "SQL"),
        ({"exact": {5: "a"}}, "exact.5: this is no name", None),
        ({"exact": {"type": ""}}, "exact.type: must not be empty", None),
        ({"prefix": {"type": ""}}, "prefix.type: must not be empty", None),
        ({"exact": {"sequence": 5}}, "exact.sequence: must be a string, not a number", 'write "5"'),
        ({"exact": {"urgent": True}}, "exact.urgent: must be a string, not a boolean", None),
        ({"exact": {"type": ["a"]}}, "exact.type: must be a string, not a list", None),
        ({"exact": {"type": None}}, "exact.type: must be a string, not null", None),
        ({"exact": {"type": "\ud800"}}, "exact.type: half a character", None),
        ({"all": []}, "all: must have at least one filter", None),
        ({"any": []}, "any: must have at least one filter", None),
        ({"all": {"exact": {"type": "a"}}}, "all: must be a list of filters, not an object", None),
        ({"any": "x"}, "any: must be a list of filters, not a string", None),
        ({"all": [5]}, "all[0]: a filter is an object, not a number", None),
        ({"not": {}}, "not: a filter has one dialect", None),
        ({"not": [{"exact": {"type": "a"}}]}, "not: must be one filter, not a list", '{"not": {"any"'),
        ({"not": None}, "not: a filter is an object, not null", None),
        ({"not": {"all": [{"any": [{"exact": {"type": 1}}]}]}}, "not.all[0].any[0].exact.type: must be a string", None),
        ({"sql": 5}, "sql: must be a CESQL expression as text, not a number", None),
        ({"sql": ""}, "sql: the expression is empty", None),
        ([{"sql": "a ="}], "[0].sql: the expression ends where a value should stand", None),
        ({"all": [{"sql": "FOO(a)"}]}, "all[0].sql: there is no function FOO", None),
        (5, "a filter is an object, or a list of objects, not a number", None),
        (None, "a filter is an object, or a list of objects, not null", None),
        ([[]], "[0]: a filter is an object, not a list", None),
        ("", "the text is empty", None),
        ('{"exact": {"type": "a"}', "not JSON", None),
        ('{"exact": {"type": "a", "type": "b"}}', "exact.type: the key occurs twice", None),
        ('"exact"', "a filter is an object, or a list of objects, not a string", None),
        (object(), "a filter is an object, or a list of objects, not object", None),
    ],
)  # fmt: skip
def test_what_the_specification_does_not_allow_is_refused(condition: Any, reason: str, hint: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse(condition)
    assert reason in caught.value.reason
    assert hint is None or hint in (caught.value.hint or "")
    str(caught.value)


def test_an_error_in_json_is_pointed_at() -> None:
    with pytest.raises(ParseError) as caught:
        parse('{"exact":\n {"type": x}}')
    assert (caught.value.line, caught.value.column) == (2, 11)
    with pytest.raises(ParseError) as caught:
        parse({"any": [{"sql": "type = 'a' AND"}]})
    assert (caught.value.text, caught.value.position) == ("type = 'a' AND", 14)


def nested(levels: int, dialect: str) -> Any:
    found: Any = {"exact": {"type": "a"}}
    for _ in range(levels):
        found = {dialect: found if dialect == "not" else [found]}
    return found


@pytest.mark.parametrize("dialect", ["all", "any", "not"])
def test_filters_nest_so_deep_and_no_deeper(dialect: str) -> None:
    assert parse(nested(MAX_NESTING_LEVELS - 1, dialect)).matches({"type": "a"}) is (
        dialect != "not" or MAX_NESTING_LEVELS % 2 == 1
    )
    with pytest.raises(ParseError, match=f"filters nest more than {MAX_NESTING_LEVELS} levels deep"):
        parse(nested(MAX_NESTING_LEVELS, dialect))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"all":[' * 100_000, '{"not":' * 100_000, "[" * 50_000 + "]" * 50_000]
)
def test_text_that_nests_without_end_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_data_that_contain_themselves_are_refused() -> None:
    endless: dict[str, Any] = {}
    endless["not"] = endless
    with pytest.raises(ParseError, match="levels deep"):
        parse(endless)


def test_many_filters_are_read() -> None:
    wanted = parse({"any": [{"exact": {"id": str(number)}} for number in range(10_000)]})
    assert wanted.matches({"id": "777"})
    assert not wanted.matches({"id": "x"})
