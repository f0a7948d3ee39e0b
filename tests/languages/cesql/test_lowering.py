"""Which part of an expression the index can hold, and how filters of it print, cover and explain themselves."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Event, Filter, ParseError, UnknownLanguage
from palio.filters.tree import Leaf, Residual, leaves
from palio.filters.value_predicates import Computed
from palio.languages import cesql


def parse(text: str) -> Filter:
    return Filter.parse(text, language="cesql")


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("subject = 'a'", "subject = 'a'"),
        ("subject != 'a'", "subject IS NOT NULL AND (subject = 'a' OR typeof(subject) = 'binary') IS NOT TRUE"),
        ("subject = '5'", "typeof(subject) = 'string' AND subject = '5' OR typeof(subject) = 'bigint' AND subject = 5"),
        ("subject LIKE 'a%'", "subject LIKE 'a%'"),
        ("subject LIKE '%.jpg'", "subject LIKE '%.jpg'"),
        ("subject LIKE 'a\\%b'", "subject = 'a%b'"),
        ("subject LIKE 'a\\b%'", r"subject LIKE 'a\\\\b%'"),
        ("subject IN ('a', 'b')", "subject IN ('a', 'b')"),
        ("subject = 'a' OR subject = 'b'", "subject IN ('a', 'b')"),
        ("EXISTS subject", "subject IS NOT NULL"),
        ("NOT EXISTS subject", "subject IS NULL"),
        ("EXISTS id", "TRUE"),
        ("NOT EXISTS id", "FALSE"),
        ("subject LIKE 'a%' AND EXISTS id", "subject LIKE 'a%'"),
        ("subject = 'a' AND priority = 'b'", "priority = 'b' AND subject = 'a'"),
        ("s = 'a' OR EXISTS z", "s IS NOT NULL AND typeof(s) <> 'binary' AND z IS NOT NULL OR s = 'a'"),
        ("urgent", "urgent"),
        ("TRUE", "TRUE"),
        ("'a' = 'b' OR FALSE", "FALSE"),
        ("TRUE AND subject = CONCAT('a', 'b')", "subject = 'ab'"),
        ("n < 5", "cesql_int(n) < 5"),
        ("5 > n", "cesql_int(n) < 5"),
        ("hop < ttl", "condition_in('cesql', 'hop < ttl')"),
        ("NOT (hop<ttl)", "NOT condition_in('cesql', 'hop < ttl')"),
        ("length(subject) > 5", "condition_in('cesql', 'LENGTH(subject) > 5')"),
        ("subject = LOWER(subject)", "condition_in('cesql', 'subject = LOWER(subject)')"),
        # What is no Boolean passes for no event.
        ("1", "FALSE"),
        ("'true'", "FALSE"),
        ("n + 1", "FALSE"),
        ("LOWER(subject)", "FALSE"),
        # What fails for every event.
        ("subject > 'x'", "FALSE"),
        ("1 / 0 = 0 OR TRUE", "FALSE"),
        ("NOT (n + 1)", "FALSE"),
    ],
)  # fmt: skip
def test_an_expression_becomes_these_conditions(text: str, sql: str) -> None:
    wanted = parse(text)
    assert sql in str(wanted) if "cesql_int" in sql else str(wanted) == sql
    assert Filter.parse(str(wanted)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "type = 'a' AND subject LIKE '%b' OR source IN ('x', 'y') AND NOT EXISTS z", "a = TRUE", "'x' = a", "5 = a",
        "TRUE = a", "a XOR b", "NOT a", "a AND b", "a NOT LIKE 'x%y'", "a NOT IN (1, 'x', TRUE)", "a != 'b'",
        "NOT (a = 'b' OR NOT (c LIKE 'd%'))",
    ],
)  # fmt: skip
def test_conditions_on_single_attributes_need_no_evaluation(text: str) -> None:
    for condition in [*leaves(parse(text).tree), *leaves((~parse(text)).tree)]:
        assert isinstance(condition, Leaf)
        assert not any(isinstance(test.pattern, Computed) for test in condition.values.tests)


def test_the_spelling_of_what_is_evaluated_does_not_matter() -> None:
    assert parse("hop<ttl and length ( s )>2") == parse("HOP < ttl AND (LENGTH(s) > 2)")
    assert parse('lower(s) = "it\'s" OR a = b') == parse("LOWER(s) = 'it\\'s' OR a = b")


def test_a_condition_of_several_attributes_asks_for_no_more_than_it_says() -> None:
    wanted = parse("hop < ttl")
    (condition,) = leaves(wanted.tree)
    assert isinstance(condition, Residual)
    assert wanted.attributes == {"hop", "ttl"}
    assert not wanted.matches({"hop": 1})
    assert not (~wanted).matches({"hop": 1})


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("n < 10", "n < 5"),
        ("n <= 10", "n = 7"),
        ("n != 3", "n > 3"),
        ("n > 0 OR n = -7", "n > 5"),
        ("s LIKE 'ab%'", "s LIKE 'abc%'"),
        ("s LIKE '%b'", "s LIKE '%ab'"),
        ("s LIKE '%5'", "s LIKE '%15'"),
        ("s LIKE '%b%'", "s = 'abc'"),
        ("EXISTS s", "s != 'a'"),
        ("s = 'a' OR t = 'b'", "s = 'a'"),
        ("s IN ('a', 'b') AND n < 9", "s = 'a' AND n < 5"),
        ("hop < ttl", "hop < ttl AND s = 'x'"),
        ("TRUE", "LENGTH(s) > 5"),
    ],
)
def test_one_covers_the_other(wide: str, narrow: str) -> None:
    assert parse(wide).covers(parse(narrow))
    assert not parse(narrow).covers(parse(wide))
    assert parse(wide).overlaps(parse(narrow))


@pytest.mark.parametrize(
    ("first", "second"), [("n < 5", "n > 7"), ("s = 'a'", "s = 'b'"), ("EXISTS s", "NOT EXISTS s")]
)
def test_these_have_nothing_in_common(first: str, second: str) -> None:
    assert parse(f"({first}) AND ({second})") == Filter.nothing
    assert not parse(first).overlaps(parse(second))
    assert not parse(first).covers(parse(second))


def test_a_filter_explains_itself() -> None:
    explanation = parse("type = 'a' AND EXISTS subject").explain({"type": "b"})
    assert [each.condition for each in explanation.failed()] == ["`type` = 'a'", "subject IS NOT NULL"]


@pytest.mark.parametrize(
    ("text", "event", "matched", "negated"),
    [
        # An error is neither: the event passes neither a condition nor its NOT.
        ("firstname = 'F' OR subject = 'F'", {"subject": "F"}, False, False),
        ("firstname = 'F' OR subject = 'F'", {"firstname": "F"}, True, False),
        ("firstname = 'F' OR subject = 'F'", {"firstname": "G", "subject": "F"}, True, False),
        ("firstname = 'F' OR subject = 'F'", {"firstname": "G", "subject": "G"}, False, True),
        ("firstname = 'F' AND subject = 'F'", {"firstname": "G"}, False, True),
        ("firstname = 'F' AND subject = 'F'", {"subject": "G"}, False, False),
        ("n < 5", {"n": "x"}, False, False),
        ("n < 5", {"n": "+04"}, True, False),
        ("n < 5", {"n": True}, True, False),
        ("n < 5", {"n": 3.0}, False, False),
        ("n < 5", {"n": 2**31}, False, False),
        ("urgent", {"urgent": "true"}, False, False),
        ("urgent", {"urgent": "false"}, False, True),
        ("urgent", {"urgent": 0}, False, False),
        ("urgent AND TRUE", {"urgent": "True"}, True, False),
        ("urgent AND TRUE", {"urgent": 0}, False, True),
        # Of an attribute with several values, some choice of one must do.
        ("n < 5", {"n": [7, 3]}, True, True),
        ("n > 3 AND n < 5", {"n": [7, 3]}, False, True),
        ("hop < ttl", {"hop": [9, 3], "ttl": 5}, True, True),
        ("EXISTS n", {"n": []}, False, True),
    ],
)
def test_an_event_passes_or_not(text: str, event: dict[str, Any], matched: bool, negated: bool) -> None:
    wanted = parse(text)
    assert wanted.matches(event) is matched
    assert (~wanted).matches(event) is negated
    assert parse(f"NOT ({text})").matches(event) is negated


def test_the_time_of_a_cloudevent_equals_the_text_it_came_as() -> None:
    content = {"specversion": "1.0", "id": "1", "source": "/", "type": "t"}
    for spelled in ("2018-04-26T14:48:09+02:00", "2018-04-26T12:48:09Z", "2018-04-26T12:48:09.000Z"):
        event = Event.from_cloudevent(content | {"time": spelled})
        assert parse(f"time = '{spelled}'").matches(event)
        assert parse("time LIKE '2018-04-26T12:48:09Z'").matches(event)
        assert not parse(f"time != '{spelled}'").matches(event)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("FOO(subject)", "there is no function FOO"),
        ("TRUE OR FOO()", "there is no function FOO"),
        ("LENGTH(a, b)", "LENGTH takes 1 argument, not 2"),
        ("CONCAT_WS()", "CONCAT_WS takes 1 or more arguments, not 0"),
        ("SUBSTRING('a')", "SUBSTRING takes 2 to 3 arguments, not 1"),
        ("EXISTS data", "not its data"),
        ("data = 'x'", "not its data"),
        ("", "the expression is empty"),
        (5, "a CESQL expression is text, not int"),
        (None, "a CESQL expression is text, not NoneType"),
    ],
)
def test_what_could_never_pass_for_a_reason_is_refused(condition: Any, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        Filter.parse(condition, language="cesql")


def test_the_zone_does_not_matter() -> None:
    assert Filter.parse("n < 5", language="cesql", timezone="Asia/Tokyo") == parse("n < 5")


def test_a_condition_is_known_to_sql_by_its_name() -> None:
    assert cesql.condition("a < b OR EXISTS c").attributes == {"a", "b", "c"}
    assert Filter.parse("condition_in('cesql', 'a < b') AND c = 1").matches({"a": 1, "b": 2, "c": 1})
    with pytest.raises(ParseError, match="there is no function FOO"):
        Filter.parse("condition_in('cesql', 'FOO()')")
    with pytest.raises((UnknownLanguage, ParseError)):
        Filter.parse("condition_in('no such', 'x')")


@pytest.mark.parametrize("operator", ["AND", "OR", "XOR"])
def test_a_tree_that_would_grow_out_of_hand_is_evaluated_instead(operator: str) -> None:
    other = {"AND": "OR", "OR": "AND", "XOR": "XOR"}[operator]
    text = "a = 'x'"
    for at in range(80):
        text = f"({text}) {operator if at % 2 else other} b{at % 7} = '{at}'"
    wanted = parse(text)
    assert sum(1 for _ in leaves(wanted.tree)) < 5_000
    event = {"a": "x", **{f"b{at}": str(70 + at) for at in range(7)}}
    value, errors = cesql.evaluate(text, event)
    assert wanted.matches(event) is (value is True and not errors)


def test_many_conditions_on_one_attribute_are_one_set() -> None:
    wanted = parse(" OR ".join(f"id = '{number}'" for number in range(10_000)))
    assert isinstance(wanted.tree, Leaf)
    assert wanted.matches({"id": "9999"})
    assert not wanted.matches({"id": "10000"})


def test_many_alternatives_of_several_conditions_stay_a_tree() -> None:
    text = " OR ".join(f"(type = 't{at}' AND subject LIKE 's{at}%')" for at in range(40))
    wanted = parse(text)
    assert all(isinstance(each, Leaf) for each in leaves(wanted.tree))
    assert wanted.matches({"type": "t39", "subject": "s39x"})
    assert not wanted.matches({"type": "t39", "subject": "s38x"})
    assert not wanted.matches({"subject": "s39x"})
