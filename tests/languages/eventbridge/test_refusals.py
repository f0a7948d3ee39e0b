"""Refused EventBridge patterns: the error names the fault, its position and the correction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palio import Filter, ParseError
from palio.languages.eventbridge import parse

# A pattern, the path of what is wrong in it, and a phrase of the reason.
REFUSED: list[tuple[Any, str, str]] = [
    ([1, 2, 3], "", "a pattern is an object, not an array"),
    ("text", "", "not JSON"),
    (None, "", "a pattern is an object, not null"),
    (5, "", "a pattern is an object, not a number"),
    ({}, "", "an empty object asks for nothing"),
    ({"a": {}}, "a", "an empty object asks for nothing"),
    ({"a": {"b": {}}}, "a.b", "an empty object"),
    ({"a": []}, "a", "an empty array accepts no value"),
    ({"a": 1}, "a", "not with a number"),
    ({"a": "x"}, "a", "not with a string"),
    ({"a": None}, "a", "not with null"),
    ({"a": True}, "a", "not with a boolean"),
    ({"a": {"b": "x"}}, "a.b", "not with a string"),
    ({"a": {"prefix": "x"}}, "a.prefix", "not with a string"),
    ({"a": [["x"]]}, "a[0]", "an array inside the list of a field"),
    ({"a": [1, {"x": 2}]}, "a[1]", "no test 'x' here"),
    ({"a": [{}]}, "a[0]", "a test without a name"),
    ({"a": [{"EXISTS": True}]}, "a[0]", "no test 'EXISTS'"),
    ({"a": [{"regex": "x"}]}, "a[0]", "no test 'regex'"),
    ({"a": [{"prefix": "x", "suffix": "y"}]}, "a[0]", "a second one, 'suffix'"),
    ({"a": [{"exists": True, "x": 1}]}, "a[0]", "a second one, 'x'"),
    ({"a": [{"anything-but": "x", "y": []}]}, "a[0]", "a second one, 'y'"),
    ({"a": [{"exactly": 33}]}, "a[0].exactly", "takes a string, not a number"),
    ({"a": [{"prefix": 3}]}, "a[0].prefix", "takes a string, not a number"),
    ({"a": [{"prefix": ["x"]}]}, "a[0].prefix", "takes a string, not an array"),
    ({"a": [{"prefix": None}]}, "a[0].prefix", "takes a string, not null"),
    ({"a": [{"prefix": {"suffix": "x"}}]}, "a[0].prefix", "no test 'suffix' here"),
    ({"a": [{"prefix": {}}]}, "a[0].prefix", "a test without a name"),
    ({"a": [{"prefix": {"equals-ignore-case": 5}}]}, "a[0].prefix.equals-ignore-case", "not a number"),
    ({"a": [{"prefix": {"equals-ignore-case": ["x"]}}]}, "a[0].prefix.equals-ignore-case", "not an array"),
    ({"a": [{"prefix": {"equals-ignore-case": "x", "y": "z"}}]}, "a[0].prefix", "a second one, 'y'"),
    ({"a": [{"prefix": {"equals-ignore-case": "x"}, "y": "z"}]}, "a[0]", "a second one, 'y'"),
    ({"a": [{"suffix": 3}]}, "a[0].suffix", "takes a string"),
    ({"a": [{"suffix": [".png"]}]}, "a[0].suffix", "takes a string"),
    ({"a": [{"suffix": {"prefix": "x"}}]}, "a[0].suffix", "no test 'prefix' here"),
    ({"a": [{"equals-ignore-case": ["x"]}]}, "a[0].equals-ignore-case", "takes a string, not an array"),
    ({"a": [{"equals-ignore-case": {"prefix": "x"}}]}, "a[0].equals-ignore-case", "takes a string, not an object"),
    ({"a": [{"wildcard": 5}]}, "a[0].wildcard", "takes a string"),
    ({"a": [{"wildcard": ["x*"]}]}, "a[0].wildcard", "takes a string"),
    ({"a": [{"wildcard": "a**b"}]}, "a[0].wildcard", "two wildcards * side by side"),
    ({"a": [{"wildcard": "a\\b"}]}, "a[0].wildcard", "a backslash that is not followed"),
    ({"a": [{"wildcard": "ab\\"}]}, "a[0].wildcard", "a backslash that is not followed"),
    ({"a": [{"wildcard": "*:*:*:*:*:event-bus/*"}]}, "a", "too complex"),
    ({"a": [{"wildcard": f"*/x/*.{end}"} for end in ("a", "b", "c", "d")]}, "a", "too complex"),
    ({"a": [{"anything-but": {"wildcard": ["*a*a*a*a*a*a*", "b"]}}]}, "a", "too complex"),
    ({"a": [{"anything-but": True}]}, "a[0].anything-but", "not a boolean"),
    ({"a": [{"anything-but": None}]}, "a[0].anything-but", "not null"),
    ({"a": [{"anything-but": []}]}, "a[0].anything-but", "strings alone or of numbers alone"),
    ({"a": [{"anything-but": ["x", 1]}]}, "a[0].anything-but", "strings alone or of numbers alone"),
    ({"a": [{"anything-but": ["x", None]}]}, "a[0].anything-but[1]", "not null"),
    ({"a": [{"anything-but": [1, False]}]}, "a[0].anything-but[1]", "not a boolean"),
    ({"a": [{"anything-but": [["x"]]}]}, "a[0].anything-but[0]", "not an array"),
    ({"a": [{"anything-but": {}}]}, "a[0].anything-but", "a test without a name"),
    ({"a": [{"anything-but": {"exists": True}}]}, "a[0].anything-but", "no test 'exists' here"),
    ({"a": [{"anything-but": {"numeric": [">", 1]}}]}, "a[0].anything-but", "no test 'numeric' here"),
    ({"a": [{"anything-but": {"anything-but": "x"}}]}, "a[0].anything-but", "no test 'anything-but' here"),
    ({"a": [{"anything-but": {"prefix": "x", "y": 1}}]}, "a[0].anything-but", "a second one, 'y'"),
    ({"a": [{"anything-but": {"prefix": 27}}]}, "a[0].anything-but.prefix", "not a number"),
    ({"a": [{"anything-but": {"prefix": ""}}]}, "a[0].anything-but.prefix", "every string has the empty prefix"),
    ({"a": [{"anything-but": {"prefix": ["x", ""]}}]}, "a[0].anything-but.prefix[1]", "the empty prefix"),
    ({"a": [{"anything-but": {"prefix": ["x", 1]}}]}, "a[0].anything-but.prefix[1]", "not a number"),
    ({"a": [{"anything-but": {"prefix": []}}]}, "a[0].anything-but.prefix", "an empty list excludes nothing"),
    ({"a": [{"anything-but": {"prefix": {"equals-ignore-case": "x"}}}]}, "a[0].anything-but.prefix", "not an object"),
    ({"a": [{"anything-but": {"suffix": ""}}]}, "a[0].anything-but.suffix", "the empty suffix"),
    ({"a": [{"anything-but": {"suffix": 27}}]}, "a[0].anything-but.suffix", "not a number"),
    ({"a": [{"anything-but": {"equals-ignore-case": 1}}]}, "a[0].anything-but.equals-ignore-case", "not a number"),
    ({"a": [{"anything-but": {"equals-ignore-case": [1]}}]}, "a[0].anything-but.equals-ignore-case[0]", "a number"),
    ({"a": [{"anything-but": {"wildcard": 1}}]}, "a[0].anything-but.wildcard", "not a number"),
    ({"a": [{"anything-but": {"wildcard": ["x", "a**"]}}]}, "a[0].anything-but.wildcard[1]", "side by side"),
    ({"a": [{"exists": "yes"}]}, "a[0].exists", "true or false, not a string"),
    ({"a": [{"exists": None}]}, "a[0].exists", "true or false, not null"),
    ({"a": [{"exists": 1}]}, "a[0].exists", "true or false, not a number"),
    ({"a": [{"numeric": 5}]}, "a[0].numeric", "takes an array, not a number"),
    ({"a": [{"numeric": []}]}, "a[0].numeric", "here is nothing"),
    ({"a": [{"numeric": [5]}]}, "a[0].numeric", "an operator is a string, not a number"),
    ({"a": [{"numeric": ["<>", 1]}]}, "a[0].numeric", "not '<>'"),
    ({"a": [{"numeric": ["=="]}]}, "a[0].numeric", "not '=='"),
    ({"a": [{"numeric": ["="]}]}, "a[0].numeric", "followed by no number"),
    ({"a": [{"numeric": ["=", "1"]}]}, "a[0].numeric", "takes a number, not a string"),
    ({"a": [{"numeric": ["<", True]}]}, "a[0].numeric", "takes a number, not a boolean"),
    ({"a": [{"numeric": ["=", 1, "<", 2]}]}, "a[0].numeric", "nothing may follow after ="),
    ({"a": [{"numeric": ["<", 1, ">", 0]}]}, "a[0].numeric", "nothing may follow after <"),
    ({"a": [{"numeric": [">", 0, ">", 1]}]}, "a[0].numeric", "one of < <=, not '>'"),
    ({"a": [{"numeric": [">", 0, 1]}]}, "a[0].numeric", "an operator is a string"),
    ({"a": [{"numeric": [">", 0, "<"]}]}, "a[0].numeric", "followed by no number"),
    ({"a": [{"numeric": [">", 0, "<", "9"]}]}, "a[0].numeric", "takes a number, not a string"),
    ({"a": [{"numeric": [">", 1, "<", 30, False]}]}, "a[0].numeric", "nothing more"),
    ({"a": [{"numeric": [">", 1, "<", 1]}]}, "a[0].numeric", "the range is empty"),
    ({"a": [{"numeric": [">=", 30, "<=", 1]}]}, "a[0].numeric", "the range is empty"),
    ({"a": [{"numeric": [">", 5000000001]}]}, "a[0].numeric", "between -5,000,000,000 and 5,000,000,000"),
    ({"a": [{"numeric": ["<", -5e9 - 1]}]}, "a[0].numeric", "between -5,000,000,000 and 5,000,000,000"),
    ({"a": [{"anything-but": 10**15}]}, "a[0].anything-but", "between -5,000,000,000"),
    ('{"a": [{"numeric": ["=", 1E309]}]}', "a[0].numeric", "cannot be compared"),
    ('{"a": [{"numeric": ["=", 1E-325]}]}', "a[0].numeric", "cannot be compared"),
    ('{"a": [{"numeric": ["<", 2.0e422]}]}', "a[0].numeric", "cannot be compared"),
    ('{"a": [{"numeric": ["=", 0.10000000000000000001]}]}', "a[0].numeric", "cannot be compared"),
    ('{"a": [{"anything-but": [1, 1E309]}]}', "a[0].anything-but[1]", "cannot be compared"),
    ({"a": [{"numeric": ["=", 2**53 + 1]}]}, "a[0].numeric", "cannot be compared"),
    ('{"a": [{"numeric": ["=", 1e99999999999999999999]}]}', "", "too large or too small"),
    ({"a": [{"cidr": 5}]}, "a[0].cidr", "takes a string"),
    ({"a": [{"cidr": ["10.0.0.0/8"]}]}, "a[0].cidr", "takes a string"),
    ({"a": [{"cidr": "10.0.0.0"}]}, "a[0].cidr", "an address, a slash and the number of its bits"),
    ({"a": [{"cidr": "10.0.0.0/"}]}, "a[0].cidr", "an address, a slash"),
    ({"a": [{"cidr": "a/b/c"}]}, "a[0].cidr", "an address, a slash"),
    ({"a": [{"cidr": "10.0.0.0/x"}]}, "a[0].cidr", "a whole number, not 'x'"),
    ({"a": [{"cidr": "10.0.0.0/-1"}]}, "a[0].cidr", "a whole number"),
    ({"a": [{"cidr": "10.0.0.0/32"}]}, "a[0].cidr", "IPv4 has at most 31 bits"),
    ({"a": [{"cidr": "::1/128"}]}, "a[0].cidr", "IPv6 has at most 127 bits"),
    ({"a": [{"cidr": "snorkle/3"}]}, "a[0].cidr", "is no IP address"),
    ({"a": [{"cidr": "10.10.10.10.10/3"}]}, "a[0].cidr", "is no IP address"),
    ({"a": [{"cidr": "700.1.1.1/3"}]}, "a[0].cidr", "is no IP address"),
    ({"a": [{"cidr": "xxxx:db8::/64"}]}, "a[0].cidr", "is no IP address"),
    ({"a": [{"cidr": "fe80::1%eth0/64"}]}, "a[0].cidr", "is no IP address"),
    ({"a": [{"cidr": "::ffff:10.0.0.1/64"}]}, "a[0].cidr", "is no IP address"),
    ({"$or": [{"a": [1]}]}, "$or", "at least two objects"),
    ({"$or": []}, "$or", "at least two objects"),
    ({"$or": [{"a": [1]}, {"b": [2]}, [{"c": [3]}]]}, "$or[2]", "chooses between objects, and here is an array"),
    ({"$or": [{"a": [1]}, {}]}, "$or[1]", "an empty object"),
    ({"$or": [{"a": [1]}, {"b": 2}]}, "$or[1].b", "not with a number"),
    ({"$or": [{"a": [1]}, {"prefix": ["b"]}]}, "$or[1].prefix", "'prefix' cannot be the name of a field"),
    ({"$or": [{"a": [1]}, {"d": {"numeric": ["b"]}}]}, "$or[1].d.numeric", "cannot be the name of a field"),
    ({"d": {"$or": [{"a": [1]}, {"b": [2]}], "e": {"$or": {"x": [1]}}}}, "d.e.$or", "takes an array of objects"),
    ({f"x{n}": {"$or": [{"a": [1]}, {"b": [2]}]} for n in range(10)}, "", "at most 1,000 combinations"),
    ({"a.b.c.d.e.f.g": [1]}, "", "more than 5 dots"),
]


@pytest.mark.parametrize(("pattern", "path", "reason"), REFUSED, ids=lambda each: str(each)[:60])
def test_it_is_refused_with_the_place_and_the_reason(pattern: Any, path: str, reason: str) -> None:
    with pytest.raises(ParseError) as refused:
        parse(pattern)
    assert reason in refused.value.reason
    assert refused.value.reason.startswith(f"{path}: " if path else "")
    if not isinstance(pattern, str):
        with pytest.raises(ParseError) as again:
            parse(json.dumps(pattern))
        assert again.value.reason == refused.value.reason
        assert refused.value.text == json.dumps(pattern, ensure_ascii=False)


def test_the_caret_points_at_the_value() -> None:
    with pytest.raises(ParseError) as refused:
        parse('{"detail": {\n  "state": ["ok", {"numeric": [">", 5, "<", 3]}]\n}}')
    assert str(refused.value) == (
        "detail.state[1].numeric: the range is empty: its lower bound 5 is not below 3 (line 2, column 45)\n"
        '    "state": ["ok", {"numeric": [">", 5, "<", 3]}]\n'
        "                                              ^"
    )


def test_the_caret_points_into_a_dictionary_too() -> None:
    with pytest.raises(ParseError) as refused:
        Filter.parse({"detail": {"a b": [{"prefixes": "x"}]}}, language="eventbridge")
    assert str(refused.value) == (
        "detail.a b[0]: EventBridge has no test 'prefixes' here (line 1, column 21)\n"
        '  {"detail": {"a b": [{"prefixes": "x"}]}}\n'
        "                      ^\n"
        "what may stand here: "
        "anything-but, cidr, equals-ignore-case, exactly, exists, numeric, prefix, suffix, wildcard"
    )


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ({"a": [{1, 2}]}, "a pattern is made of what JSON has, not of set"),
        ({"a": [b"x"]}, "not of bytes"),
        ({"a": [float("nan")]}, "JSON has no nan"),
        ({"a": [float("-inf")]}, "JSON has no -inf"),
        ({1: ["x"]}, "a name in a pattern is a string, not int"),
        ({"a": ["\ud800"]}, "a lone surrogate"),
        ({"\ud800": ["a"]}, "a lone surrogate"),
        (b'{"a": ["\xff"]}', "invalid UTF-8"),
        ('{"a": ["\\ud800"]}', "a lone surrogate"),
        ("", "the text ends where a value should be"),
        ("{'a': ['b']}", "expected a name in double quotes"),
        ('{"a" ["b"]}', "expected a colon"),
        ('{"a": [1 2]}', "expected a comma or ]"),
        ('{"a": [1], "b": [2]', "expected a comma or }"),
        ('{"a": [1],}', "expected a name"),
        ('{"a": [1,]}', "expected a value"),
        ('{"a": [01]}', "expected a comma"),
        ('{"a": [+1]}', "expected a value"),
        ('{"a": [NaN]}', "expected a value"),
        ('{"a": ["b]}', "unterminated string"),
        ('{"a": ["\\x"]}', "invalid \\escape"),
        ('{"a": ["\n"]}', "invalid control character"),
        ('{"a": [1]} x', "something follows the end"),
        ("[" * 101, "nested deeper than 100 levels"),
        ('{"a": [' + "[]," * 100_001 + "1]}", "more than 100,000 objects and arrays"),
    ],
)
def test_what_is_not_json_is_refused(condition: Any, reason: str) -> None:
    with pytest.raises(ParseError) as refused:
        parse(condition)
    assert reason in refused.value.reason
    assert str(refused.value)


def test_a_pattern_that_holds_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = endless
    with pytest.raises(ParseError, match="nested deeper than 100 levels"):
        parse(endless)
    doubled: Any = [1]
    for _ in range(60):
        doubled = [doubled, doubled]
    with pytest.raises(ParseError, match="more than 100,000 objects and arrays"):
        parse({"a": doubled})


def test_without_strict_quotas_are_lifted_and_values_may_be_bare() -> None:
    lenient = {"strict": False}
    for pattern in (
        {"a": [{"numeric": [">", 1e12]}]},
        {"a": [{"anything-but": 10**15}]},
        {"a": [{"wildcard": "*:*:*:*:*:event-bus/*"}]},
        {f"x{n}": {"$or": [{"a": [1]}, {"b": [2]}]} for n in range(10)},
    ):
        with pytest.raises(ParseError, match="strict=False lifts"):
            parse(pattern)
        assert parse(pattern, **lenient) == parse(json.dumps(pattern), **lenient)
    assert parse({"a": 1, "b": {"c": "x"}}, **lenient) == parse({"a": [1], "b": {"c": ["x"]}})
    with pytest.raises(ParseError, match="the range is empty"):
        parse({"a": [{"numeric": [">", 1, "<", 0]}]}, **lenient)


def test_a_field_named_twice_among_too_many_choices_is_refused() -> None:
    choices = {f"x{n}": {"$or": [{"a": [1]}, {"b": [2]}]} for n in range(10)}
    with pytest.raises(ParseError, match="a field is named twice"):
        parse({"$or": [{"y": [1]}, {"z": [1]}], **choices, "y": [2]}, strict=False)


def test_a_zone_is_taken_and_changes_nothing() -> None:
    assert Filter.parse({"a": [1]}, language="eventbridge", timezone="Europe/Paris") == parse({"a": [1]})
