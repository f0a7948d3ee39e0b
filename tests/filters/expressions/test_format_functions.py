"""Tests of functions with formats, notations and paths on what Spark is not asked: refusals and bounds."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from palio import Filter, Matcher
from palio.errors import ParseError
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.text_functions import TEXT_LIMIT
from palio.languages.sql.parser import parse_condition


def value(sql: str, **event: Any) -> Any:
    return compile_expression(parse_condition(sql))(event, {})


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("to_char(x, '99.9.9') = 'a'", "a format of numbers is such as"),
        ("to_number(x, '9S9') = 1", "a format of numbers is such as"),
        ("to_number(x, 'S9MI') = 1", "a format of numbers has one sign, and 'S9MI' has two"),
        ("to_number(x, '$') = 1", "has from 1 to 38 digits, and '.' has 0"),
        ("to_number(x, y) = 1", "must be given as literals"),
        ("to_binary(x, 'base32') = y", "is no format of bytes"),
        ("encode(x, 'latin1') = y", "is no character set"),
        ("mask(x, 'ab') = y", "one character in place of each"),
        ("parse_url(x, 'FOO') = y", "a URL has no part 'FOO'"),
        ("parse_url(x, 'HOST', 'k') = y", "only the part QUERY has keys"),
        ("get_json_object(x, '$[*') = y", "is no step of a path; steps are"),
        ("from_json(x, 'a INT') IS NULL", "makes a struct, and a condition compares single values"),
        ("from_json(x, y).a = 1", "the schema of from_json.. must be a string literal"),
        ("from_json(x, 'a').a = 1", "is no name of a type"),
        ("from_json(x, 'a INT').b = 1", "the schema of from_json.. has no field b"),
        ("from_json(x, 'a INT, A INT').a = 1", "the schema of from_json.. has two fields a"),
        ("from_json(x, 'a INT b').a = 1", "is no schema of from_json"),
        ("from_json(x, 'a STRUCT<b: INT').a.b = 1", "has '>' here"),
        ("from_json(x, 'a ARRAY<INT>').a[0] = 1", "takes no ARRAY from from_json.., and a is one"),
        ("from_json(x, 'MAP<STRING, INT>')['a'] = 1", "takes no MAP from from_json.., and its schema is one"),
        ("from_json(x, 'a FLOAT').a = 1", "takes no FLOAT from from_json"),
        ("from_json(x, 'a INT').a['b'] = 1", "only an attribute has members"),
        ("from_json(x, 'a INT')[0] = 1", "from_json.. has fields here, no elements"),
        (f"from_json(x, '{'a' * 10_001} INT').a = 1", "has at most 10,000 characters"),
        (f"from_json(x, '{'a STRUCT<' * 60}b INT{'>' * 60}').a.a = 1", "nests 50 deep at most"),
        (f"get_json_object(x, '${'[0]' * 201}') = y", "a path has at most 200 steps"),
        ("get_json_object(x, 'a') = y", r"a path begins with \$"),
        ("get_json_object(x, '$.') = y", "is no step of a path"),
        ("get_json_object(x, z) = y", "must be given as literals"),
        ("format_string(x) = y", "the format of format_string.. must be given as a literal"),
        ("format_string('%s %s', x) = y", "needs 2 values, not 1"),
        ("format_string('%q', x) = y", "the conversion of '%q' is none of"),
        ("format_string('%-05d', x) = y", "do not go together"),
        ("format_string('%', x) = y", "is no format specifier"),
        ("format_string('%.401f', x) = y", "more than 400 digits"),
        ("regexp_replace(x, 'a', 'b', 0) = y", "begins at a position from 1 on"),
        ("floor(x, y) = 1", "must be a constant"),
        ("x = 1 || y = 2", "'or' is written OR"),
    ],
)
def test_what_cannot_be_computed_is_refused(condition: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        Filter.parse(condition)


@pytest.mark.parametrize(
    ("format", "text", "number"),
    [
        ("99.99", "1.5", Decimal("1.50")),
        ("99.99", ".", None),
        ("000", "12", None),
        ("9,999", "1,234", Decimal(1234)),
        ("9,999", "1234", None),
        ("9,999", ",1", Decimal(1)),
        ("S999", "- 1", Decimal(-1)),
        ("99MI", "12-", Decimal(-12)),
        ("99PR", "<12>", Decimal(-12)),
        ("99PR", "<12", None),
        ("$99.9", "$1.5", Decimal("1.5")),
        ("$99.9", "1.5", None),
        ("9G999D9", "1,234.5", Decimal("1234.5")),
        ("99", "1 2", Decimal(12)),
        ("9", "\N{ARABIC-INDIC DIGIT THREE}", Decimal(3)),
    ],
)
def test_a_text_is_read_by_a_format_of_numbers(format: str, text: str, number: Decimal | None) -> None:
    assert value(f"to_number(x, '{format}')", x=text) == number
    assert value(f"try_to_number(x, '{format}')", x=text) == number


@pytest.mark.parametrize(
    ("format", "number", "text"),
    [
        ("99.99", Decimal("0.50"), " 0.50"),
        ("99.99", Decimal("1234.5"), "##.##"),
        ("000", 7, "007"),
        ("0,999", 12, "0, 12"),
        ("9,999", 99999, "# ###"),
        ("S999", -1, "  -1"),
        ("999S", 0, "+   "),
        ("S9,999.99", 0.5, "     +.50"),
        ("99PR", -1, " <1>"),
        ("99PR", 1, " 1  "),
        ("9.", 1, "1 "),
        ("$99.9", 1.5, "$ 1.5"),
        ("9.9", "1.5", "1.5"),
        ("9.9", "x", None),
        ("9.9", True, None),
        ("9", 1e300, None),
    ],
)
def test_a_number_is_written_by_a_format(format: str, number: Any, text: str | None) -> None:
    assert value(f"to_char(x, '{format}')", x=number) == text


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("$.a[*].b", '{"a": [{"b": 1}, {"b": "x"}]}', '[1,"x"]'),
        ("$.a[*].b", '{"a": [{"b": "x"}, {"c": 2}]}', '"x"'),
        ("$.a[*].b", '{"a": []}', None),
        ("$[*][*]", "[[1, [2]], 3]", "[1,2,3]"),
        ("$.a[0][*]", '{"a": [[1]]}', "[1]"),
        ("$.*", '{"a": 1}', None),
        ("$. a", '{"a": null, "b": 1}', None),
        ("$[0]", "[null]", "null"),
    ],
)
def test_wildcards_of_a_path_give_an_array_or_the_only_value(path: str, text: str, found: str | None) -> None:
    assert value(f"get_json_object(x, '{path}')", x=text) == found


@pytest.mark.parametrize(
    ("field", "text", "found"),
    [
        ("'a INT').a", '{"a": 1, "a": 2}', 2),
        ("'a INT').A", '{"a": 1}', 1),
        ("'a INT').a", '{"a": "1"}', None),
        ("'a INT').a", '{"a": 3000000000}', None),
        ("'a INT, c INT').c", '{"a": "x", "c": 2} and more', 2),
        ("'a INT').a", '[{"a": 1}]', None),
        ("'a TINYINT').a", '{"a": 200}', -56),
        ("'a DOUBLE').a", '{"a": 1e3}', 1000.0),
        ("'a DOUBLE').a", '{"a": "-INF"}', float("-inf")),
        ("'a BOOLEAN').a", '{"a": "true"}', None),
        ("'a STRING').a", '{"a": {"b": 1.50, "c" : "x"}}', '{"b":1.5,"c":"x"}'),
        ("'a STRING').a", '{"a": 12345678.905}', "1.2345678905E7"),
        ("'a DECIMAL(10, 2)').a", '{"a": 12345678.905}', Decimal("12345678.91")),
        ("'a DECIMAL(5, 0)').a", '{"a": "1"}', Decimal(1)),
        ("'a DATE').a", '{"a": "2024-1-3"}', date(2024, 1, 3)),
        ("'a DATE').a", '{"a": "1"}', date(1970, 1, 2)),
        ("'a TIMESTAMP').a", '{"a": 1706700000}', datetime(2024, 1, 31, 11, 20, tzinfo=UTC)),
        ("'STRUCT<a: STRUCT<`b c`: INT>>').a['b c']", '{"a": {"b c": 5}}', 5),
    ],
)
def test_a_field_of_a_json_text_has_the_type_of_the_schema(field: str, text: str, found: Any) -> None:
    assert value(f"from_json(x, {field}", x=text) == found


def test_no_text_grows_beyond_its_limit() -> None:
    assert value("format_string('%1000000d', x)", x=1) is not None
    assert value(f"format_string('%{TEXT_LIMIT + 1}d', x)", x=1) is None
    assert value("length(format_string('%.400f', x))", x=1e300) == 702


def test_a_part_that_occurs_everywhere_is_not_searched_for_without_end() -> None:
    event = {"x": "a" * 1_000_000, "y": "a" * 500_000}
    assert value("instr(x, y, 1, 1000000)", **event) is None
    assert value("instr(x, y, 1, 2)", **event) == 2
    assert value("instr(x, 'a', 1, 1000000)", **event) == 1_000_000


def test_json_that_nests_deeply_or_is_long_is_read_in_bounded_time() -> None:
    assert value("get_json_object(x, '$')", x="[" * 100_000) is None
    assert value("get_json_object(x, '$[0]')", x="[" * 150 + "]" * 150) == "[" * 149 + "]" * 149
    assert value("get_json_object(x, '$.a')", x='{"b": "' + "[" * 100_000 + '", "a": 1}') is None
    assert value("get_json_object(x, '$.a')", x='{"b": "[[[", "a": 1}') == "1"


def test_a_filter_with_such_functions_reads_back() -> None:
    for condition in (
        "get_json_object(x, '$.a[0]') = '1'",
        "decode(x, 'utf-16') LIKE 'a%'",
        "to_number(x, '$9,999.99') > 12.5",
        "to_char(x, '000') = '007'",
        "from_json(x, 'a STRUCT<`b c`: DECIMAL(10,2)>').a['b c'] > 1.5",
        "get_json_object(x, '$.a[*].b') = '[1,2]'",
        "mask(x, NULL, '*') = 'a'",
        "instr(x, 'a', -1, 2) > 3",
        "ceil(x, 2) = 1.25",
        "format_string('%05d', x) = '00012'",
        "make_timestamp(2024, x, 1, 0, 0, 0, 'Europe/Oslo') > TIMESTAMP'2024-01-01'",
    ):
        wanted = Filter.parse(condition)
        assert Filter.parse(str(wanted)) == wanted


def test_a_check_of_digits_is_a_condition() -> None:
    wanted = Filter.parse("luhn_check(card) AND amount > 5")
    assert wanted.matches({"card": "4532015112830366", "amount": 6})
    assert not wanted.matches({"card": "4532015112830367", "amount": 6})


def test_columns_have_the_values_of_single_events() -> None:
    matcher = Matcher(
        {
            "number": "to_number(s, '$9,999.99') > 12.5",
            "text": "to_char(n, '000') = '007'",
            "field": "from_json(j, 'a INT').a + 1 = n",
            "decimal": "from_json(j, 'p DECIMAL(10,2)').p * 2 > 3.00",
            "wildcard": "get_json_object(j, '$.b[*]') = '[1,2]'",
        },
        background=False,
    )
    events = [
        {"s": "$1,234.50", "j": '{"a": 2, "b": [1, 2], "p": 1.75}', "n": 7},
        {"s": "$12", "j": '{"a": 2}', "n": 3},
        {"s": "x", "j": "{", "n": 1},
        {"s": None, "j": None, "n": None},
    ]
    wanted = [{"number", "text", "decimal", "wildcard"}, {"field"}, set(), set()]
    assert [matcher.match(event) for event in events] == wanted
    found = matcher.match_batch(pa.Table.from_pylist(events * 10)).to_pydict()
    pairs = set(zip(found["row"], found["subscription"], strict=True))
    assert pairs == {(row, id) for row in range(40) for id in wanted[row % 4]}
