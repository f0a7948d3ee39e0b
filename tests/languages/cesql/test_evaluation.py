"""Results of `evaluate`: values, and errors with their reasons and positions."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Event, EventError
from palio.languages.cesql import Failure, evaluate
from palio.languages.cesql.types import KINDS

SMALLEST, LARGEST = -(2**31), 2**31 - 1


@pytest.mark.parametrize(
    ("text", "value", "errors"),
    [
        # Arithmetic: 32 bits, rounded towards zero, the sign of the dividend.
        ("7 / 2", 3, []),
        ("-7 / 2", -3, []),
        ("7 / -2", -3, []),
        ("-7 / -2", 3, []),
        ("7 % 3", 1, []),
        ("-7 % 3", -1, []),
        ("7 % -3", 1, []),
        ("2147483647 + 1", 0, ["math"]),
        ("-2147483648 - 1", 0, ["math"]),
        ("65536 * 65536", 0, ["math"]),
        ("-2147483648 / -1", 0, ["math"]),
        ("-2147483648 % -1", 0, []),
        ("-(-2147483648)", 0, ["math"]),
        ("2147483647 + 1 - 1", 0, ["math"]),
        ("1 / 0 + 1 / 0", 0, ["math", "math"]),
        # An operand that failed makes the whole its zero value; a cast that failed is the zero value of its type.
        ("1 / 0 = 0", False, ["math"]),
        ("NOT (1 / 0 = 0)", False, ["math"]),
        ("CONCAT('a', 1 / 0)", "", ["math"]),
        ("LENGTH(missing)", 0, ["missingAttribute"]),
        ("ABS(missing) + 1", 0, ["missingAttribute"]),
        ("'x' + 1", 1, ["cast"]),
        ("'x' + 'y'", 0, ["cast", "cast"]),
        ("'x' = 0", True, ["cast"]),
        ("'x' < 1", True, ["cast"]),
        ("1 / 'x'", 0, ["cast", "math"]),
        ("NOT 'x'", True, ["cast"]),
        ("NOT 0", True, ["cast"]),
        ("'x' OR TRUE", True, ["cast"]),
        ("'x' AND TRUE", False, ["cast"]),
        ("TRUE XOR 'x'", True, ["cast"]),
        ("('x' OR FALSE) OR TRUE", False, ["cast"]),
        ("'x' OR FALSE OR TRUE", False, ["cast"]),
        ("INT('x') + 1", 0, ["cast"]),
        ("LEFT('abc', 'x')", "", ["cast"]),
        # AND, OR and IN stop where the outcome is certain.
        ("FALSE AND missing", False, []),
        ("TRUE AND missing", False, ["missingAttribute"]),
        ("TRUE OR missing", True, []),
        ("missing OR TRUE", False, ["missingAttribute"]),
        ("missing AND 1 / 0", False, ["missingAttribute"]),
        ("missing OR 1 / 0", False, ["missingAttribute", "math"]),
        ("missing XOR 1 / 0", False, ["missingAttribute", "math"]),
        ("1 IN (1, missing)", True, []),
        ("1 IN (missing, 1)", False, ["missingAttribute"]),
        ("1 IN (2, 'x')", False, ["cast"]),
        ("missing IN (1 / 0)", False, ["missingAttribute"]),
        # Casts: IN to the type of the left, = to the type of the right.
        ("'05' = 5", True, []),
        ("5 = '05'", False, []),
        ("5 = '5'", True, []),
        ("TRUE = 'TRUE'", False, []),
        ("'TRUE' = TRUE", True, []),
        ("2 = TRUE", True, []),
        ("TRUE = 2", False, []),
        ("TRUE = 1", True, []),
        ("'1' = TRUE", False, ["cast"]),
        ("1 AND '  true'", False, ["cast"]),
        ("2 AND 'tRUE'", True, []),
        ("'+5' < '010'", True, []),
        ("TRUE > FALSE", True, []),
        ("5 LIKE '_'", True, []),
        ("'2147483648' > 0", False, ["cast"]),
        ("INT('5 ')", 0, ["cast"]),
        ("INT('٣')", 0, ["cast"]),
        ("INT('1_0')", 0, ["cast"]),
        ("INT('')", 0, ["cast"]),
        ("STRING(-5)", "-5", []),
        ("'a' = 'A'", False, []),
        # Functions.
        ("LENGTH('ä€😀')", 3, []),
        ("UPPER('straße')", "STRASSE", []),
        ("TRIM('\u2003\t x \u3000')", "x", []),
        ("TRIM('\x1fx\x1f')", "\x1fx\x1f", []),
        ("LEFT('abc', 0)", "", []),
        ("RIGHT('abc', 0)", "", []),
        ("RIGHT('abc', 2)", "bc", []),
        ("SUBSTRING('abc', 3)", "c", []),
        ("SUBSTRING('abc', 4)", "", ["functionEvaluation"]),
        ("SUBSTRING('abc', -3, 1)", "a", []),
        ("SUBSTRING('abc', 2, -1)", "", ["functionEvaluation"]),
        ("SUBSTRING('abc', 0, -1)", "", ["functionEvaluation"]),
        ("SUBSTRING('abc', 2, 99)", "bc", []),
        ("SUBSTRING('', 0)", "", []),
        ("CONCAT_WS('-', 1, TRUE)", "1-true", []),
        ("CONCAT(1, 'a', FALSE)", "1afalse", []),
        ("IS_INT('12') AND IS_INT(5) AND IS_INT(TRUE)", True, []),
        ("IS_INT('1.2') OR IS_INT('') OR IS_INT('2147483648')", False, []),
        ("IS_BOOL('False') AND IS_BOOL(0)", True, []),
        ("IS_BOOL('yes')", False, []),
        ("IS_INT(missing)", False, ["missingAttribute"]),
        ("FOO(1 / 0)", False, ["missingFunction"]),
        ("LENGTH()", False, ["missingFunction"]),
        ("LENGTH('a', 'b')", False, ["missingFunction"]),
        ("NOT FOO()", False, ["missingFunction"]),
        # What cannot be read.
        ("x LIKE 5", False, ["parse"]),
        ("ABC(", False, ["parse"]),
        # The data of an event are none of its attributes.
        ("data", False, ["missingAttribute"]),
        ("EXISTS data", False, []),
        # Every CloudEvent has these.
        ("EXISTS id AND EXISTS SOURCE AND EXISTS type AND EXISTS specversion", True, []),
        ("id", False, ["missingAttribute"]),
    ],
)
def test_an_expression_has_a_value_and_errors(text: str, value: Any, errors: list[str]) -> None:
    found, failures = evaluate(text, {"data": "x", "nothing": None})
    assert (type(found), found, failures) == (type(value), value, errors)


def test_an_error_says_why_and_where() -> None:
    _, errors = evaluate("subject = 'a' OR LEFT(id, -1) = 7 / (n - 5) OR n", {"id": "x", "n": 5})
    assert [(each.kind, each.position, each.reason) for each in errors] == [
        ("missingAttribute", 0, "the event has no attribute subject"),
        ("functionEvaluation", 17, "LEFT of -1 characters"),
        ("math", 32, "division by zero"),
    ]
    _, (error,) = evaluate("a = ", {})
    assert (error, error.position, error.reason) == ("parse", 4, "the expression ends where a value should stand")
    _, (error,) = evaluate(f"INT('{'x' * 100}')", {})
    assert error.reason == f"'{'x' * 56}... is no Integer"
    assert set(KINDS) >= {error.kind for error in errors}


def test_an_error_can_be_copied_and_pickled() -> None:
    error = Failure("math", "division by zero", 7)
    for same in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert (type(same), same, same.reason, same.position) == (Failure, "math", "division by zero", 7)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (True, True),
        (5, 5),
        ("x", "x"),
        (LARGEST, LARGEST),
        (LARGEST + 1, "2147483648"),
        (SMALLEST - 1, "-2147483649"),
        (Decimal("1.50"), "1.5"),
        (Decimal("5"), "5.0"),
        (Decimal("-0.00"), "0.0"),
        (1.5, "1.5"),
        (5.0, "5.0"),
        (-0.0, "0.0"),
        (1e22, "10000000000000000000000.0"),
        (1.5e-7, "0.00000015"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (date(24, 2, 9), "0024-02-09"),
        (datetime(2018, 4, 26, 12, 48, 9, tzinfo=UTC), "2018-04-26T12:48:09Z"),
        (datetime(2018, 4, 26, 12, 48, 9, 120000, tzinfo=UTC), "2018-04-26T12:48:09.12Z"),
        (datetime(2018, 4, 26, 12, 48, 9), "2018-04-26T12:48:09Z"),
        (datetime(2018, 4, 26, 14, 48, 9, tzinfo=timezone(timedelta(hours=2))), "2018-04-26T14:48:09+02:00"),
        (datetime(2018, 4, 26, tzinfo=timezone(timedelta(seconds=30))), "2018-04-25T23:59:30Z"),
    ],
)
def test_values_of_other_types_are_seen_as_texts(value: Any, found: Any) -> None:
    seen, errors = evaluate("x", {"x": value})
    assert (type(seen), seen, errors) == (type(found), found, [])


@pytest.mark.parametrize("value", [b"x", (1, 2), [1], {"y": 1}, object()])
def test_what_cloudevents_has_no_form_for_is_an_error(value: Any) -> None:
    assert evaluate("x", {"x": value}) == (False, ["generic"])
    assert evaluate("EXISTS x", {"x": value}) == (True, [])


@pytest.mark.parametrize("event", [{}, {"x": None}])
def test_what_is_null_is_missing(event: dict[str, Any]) -> None:
    assert evaluate("x = 1", event) == (False, ["missingAttribute"])
    assert evaluate("EXISTS x", event) == (False, [])


def test_events_of_every_form_are_taken() -> None:
    event = {"specversion": "1.0", "id": "7", "source": "/s", "type": "t", "time": "2018-04-26T14:48:09+02:00"}
    assert evaluate("CONCAT(id, source)", event) == ("7/s", [])
    assert evaluate("id", Event.from_cloudevent(event)) == ("7", [])
    assert evaluate("id", '{"id": "7"}') == evaluate("id", b'{"id": "7"}') == ("7", [])
    assert evaluate("time", event) == ("2018-04-26T14:48:09+02:00", [])
    assert evaluate("time", Event.from_cloudevent(event)) == ("2018-04-26T12:48:09Z", [])
    with pytest.raises(EventError):
        evaluate("id", "no JSON")


@given(st.datetimes(timezones=st.timezones()))
def test_a_time_equals_the_text_it_was_read_from(moment: datetime) -> None:
    spelled = moment.isoformat(timespec="milliseconds")
    try:
        event = Event.from_cloudevent({"specversion": "1.0", "id": "1", "source": "/", "type": "t", "time": spelled})
    except EventError:
        return  # an offset with seconds, or beyond the year 9999 in UTC
    assert evaluate(f"time = '{spelled}'", event) == (True, [])
    assert evaluate(f"'{spelled}' = time", event) == (True, [])
    assert evaluate(f"time NOT IN ('x', '{spelled}')", event) == (False, [])
    assert evaluate("time = '0001-01-01T00:00:00+23:59'", event) == (False, [])


def test_a_time_is_a_text_everywhere_else() -> None:
    event = {"time": datetime(2018, 4, 26, 12, 48, 9, 500000, tzinfo=UTC)}
    assert evaluate("time LIKE '2018-04-26T12:%.5Z' AND LENGTH(time) = 22", event) == (True, [])
    assert evaluate("LEFT(time, 10)", event) == ("2018-04-26", [])
    assert evaluate("time = 'x'", event) == (False, [])
