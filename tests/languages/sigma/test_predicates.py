"""Values and modifiers of Sigma: the sentences of docs/languages/sigma.md, one by one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from palio import Filter, ParseError
from tests.languages.sigma.rules import asks, fires, rule


@pytest.mark.parametrize(
    ("value", "found", "expected"),
    [
        ("Security", "SECURITY", True),
        ("Security", "Security ", False),
        ("straße", "STRASSE", False),
        ("Ünï", "üNÏ", True),
        ("k", "\u212a", True),
        ("", "", True),
        ("", "x", False),
        ("*", "", True),
        ("a*c", "aXYZc", True),
        ("a*c", "a\nc", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        (r"a\*c", "a*c", True),
        (r"a\*c", "abc", False),
        (r"a\?c", "a?c", True),
        (r"a\\*", "a\\b", True),
        (r"C:\Windows", "c:\\windows", True),
        ("50%", "50%", True),
        ("50%", "500", False),
        ("a_c", "abc", False),
    ],
)
def test_a_text_is_compared_without_regard_to_case_and_with_wildcards(value: str, found: str, expected: bool) -> None:
    assert fires({"x": value}, x=found) is expected


@pytest.mark.parametrize("event", [4688, "4688", 4688.0, Decimal("4688.00")])
@pytest.mark.parametrize("value", [4688, "4688"])
def test_a_number_and_its_text_are_the_same_thing(value: Any, event: Any) -> None:
    assert fires({"EventID": value}, EventID=event)
    assert not fires({"EventID": value}, EventID=46)


@pytest.mark.parametrize(
    ("value", "found", "expected"),
    [
        ("007", 7, False),
        ("007", "007", True),
        (1.5, "1.5", True),
        ("1.50", 1.5, True),
        ("46*", 4688, True),
        ("*88", 4688, True),
        ("4?88", 4688, True),
        ("46*", 5688, False),
        ("-3", -3, True),
        ("*.5", 2.5, True),
        (1, True, False),
        (0, False, False),
        (10**25, Decimal(10**25), True),
    ],
)
def test_patterns_are_asked_of_the_texts_of_numbers(value: Any, found: Any, expected: bool) -> None:
    assert fires({"x": value}, x=found) is expected


@pytest.mark.parametrize(("value", "found"), [(True, "True"), ("true", True), ("tr*", True), (False, "FALSE")])
def test_a_truth_value_and_its_text_are_the_same_thing(value: Any, found: Any) -> None:
    assert fires({"Signed": value}, Signed=found)


def test_dates_and_moments_are_asked_by_their_texts() -> None:
    assert fires({"x": "2024-03-*"}, x=date(2024, 3, 1))
    assert fires({"x": "2024-03-01"}, x=date(2024, 3, 1))
    assert fires({"x": "* 12:00:*"}, x=datetime(2024, 3, 1, 12, tzinfo=UTC))
    assert not fires({"x": "2024*"}, x=b"2024")


def test_infinities_and_what_is_no_number_have_texts() -> None:
    assert fires({"x": "inf*"}, x=float("inf"))
    assert fires({"x": "nan"}, x=float("nan"))


def test_null_is_null_or_missing_and_the_empty_text_is_neither() -> None:
    assert [fires({"x": None}, **event) for event in ({}, {"x": None}, {"x": ""})] == [True, True, False]
    assert [fires({"x": ""}, **event) for event in ({}, {"x": None}, {"x": ""})] == [False, False, True]
    assert [fires({"x": [None, "a"]}, **event) for event in ({}, {"x": "a"}, {"x": "b"})] == [True, True, False]
    assert fires({"x": []})


def test_a_list_asks_for_one_of_its_values_and_a_mapping_for_all_of_its_fields() -> None:
    assert fires({"x": ["a", "b"]}, x="b")
    assert not fires({"x": "a", "y": "b"}, x="a", y="a")
    assert fires([{"x": "a"}, {"y": "b"}], x="z", y="b")
    assert fires([{"x": "a"}, [{"y": "b"}, {"z": "c"}]], z="c")


def test_not_is_true_where_a_field_is_missing() -> None:
    wanted = Filter.parse(rule("not selection", selection={"x": "a"}), language="sigma")
    assert [wanted.matches(event) for event in ({}, {"x": None}, {"x": 5}, {"x": "b"}, {"x": "A"})] == [
        True, True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "found", "expected"),
    [
        ("x|contains", "bc", "aBCd", True),
        ("x|contains", "*bc", "abc", True),
        ("x|contains", "b?d", "abcde", True),
        ("x|startswith", "ab", "ABc", True),
        ("x|startswith", "b", "abc", False),
        ("x|endswith", "bc", "aBC", True),
        ("x|endswith", "\\cmd.exe", "C:\\cmd.exe", True),
        ("x|contains|all", ["a", "b"], "b-a", True),
        ("x|contains|all", ["a", "c"], "b-a", False),
        ("x|all", ["*a*", "*b*"], "ab", True),
        ("x|cased", "aB", "aB", True),
        ("x|cased", "aB", "ab", False),
        ("x|cased", "a*", "aXX", True),
        ("x|cased", "A*", "aXX", False),
        ("x|contains|cased", "B", "aBc", True),
        ("x|endswith|cased", "c", "aBC", False),
        ("x|re", "^a.c$", "abc", True),
        ("x|re", "B", "abc", False),
        ("x|re|i", "B", "abc", True),
        ("x|re", "a.b", "a\nb", False),
        ("x|re|s", "a.b", "a\nb", True),
        ("x|re|m", "^b", "a\nb", True),
        ("x|re", "^b", "a\nb", False),
        ("x|re|m", "a$", "a\nb", True),
        ("x|re|i|m", "^B$", "a\nb\nc", True),
        ("x|re", "^[0-9]+$", 4688, True),
        ("x|re", "a.b", "a\rb", True),
        ("x|cidr", "10.0.0.0/8", "10.1.2.3", True),
        ("x|cidr", "10.0.0.0/8", "11.1.2.3", False),
        ("x|cidr", "fe80::/10", "fe80::1", True),
        ("x|cidr", "10.0.0.0/8", "10.1", False),
        ("x|base64", "abc", "YWJj", True),
        ("x|base64|contains", "abc", "--YWJj--", True),
        ("x|base64offset|contains", "Invoke", "eEludm9rZQ==", True),
        ("x|base64offset|contains", "Invoke", "SW52b2tl", True),
        ("x|wide|base64offset|contains", "abc", "YQBiAGMA", True),
        ("x|utf16le|base64", "abc", "YQBiAGMA", True),
        ("x|utf16|base64offset|contains", "abc", "//5hAGIAYwA=", True),
        ("x|contains|windash", " -enc", "p.exe /enc", True),
        ("x|contains|windash", " -enc", "p.exe –enc", True),
        ("x|windash|contains", " /enc", "p.exe -enc", True),
        ("x|contains|windash|all", [" -a", " -b"], "p /a –b", True),
        ("x|exists", True, None, True),
        ("x|exists", False, "a", False),
        ("x|lt", 5, 4, True),
        ("x|lte", 5, "5", True),
        ("x|gt", 5, 5.5, True),
        ("x|gte", 5, "abc", False),
        ("x|gt", 5, True, False),
        ("x|neq", "a", "b", True),
        ("x|neq", "a", "A", False),
    ],
)
def test_modifiers(key: str, value: Any, found: Any, expected: bool) -> None:
    assert fires({key: value}, x=found) is expected
    assert (~asks({key: value})).matches({"x": found}) is not expected


def test_a_field_that_is_not_there_exists_not_and_is_in_no_order() -> None:
    assert not fires({"x|exists": True})
    assert fires({"x|exists": False})
    assert not fires({"x|lt": 5})
    assert (~asks({"x|lt": 5})).matches({})


@pytest.mark.parametrize(
    ("key", "x", "y", "expected"),
    [
        ("x|fieldref", "a", "A", True),
        ("x|fieldref", 5, "5", True),
        ("x|fieldref", "a", None, False),
        ("x|fieldref|startswith", "abc", "AB", True),
        ("x|fieldref|endswith", "abc", "bc", True),
        ("x|fieldref|contains", "abc", "b", True),
        ("x|fieldref|contains", "abc", "%", False),
    ],
)
def test_a_field_may_be_compared_with_another(key: str, x: Any, y: Any, expected: bool) -> None:
    assert fires({key: "y"}, x=x, y=y) is expected
    assert (~asks({key: "y"})).matches({"x": x, "y": y}) is not expected


@pytest.mark.parametrize(
    ("modifier", "value"), [("minute", 30), ("hour", 22), ("day", 5), ("week", 10), ("month", 3), ("year", 2024)]
)
def test_parts_of_a_moment(modifier: str, value: int) -> None:
    moment = datetime(2024, 3, 5, 22, 30, tzinfo=UTC)
    for at in (moment, "2024-03-05 22:30:00", "2024-03-05T22:30:00Z"):
        assert fires({f"at|{modifier}": value}, at=at)
        assert not fires({f"at|{modifier}": value + 1}, at=at)
    assert fires({f"at|{modifier}|gte": value}, at=moment)
    assert not fires({f"at|{modifier}": value}, at="never")
    assert (~asks({f"at|{modifier}": value})).matches({"at": "never"})


def test_parts_of_a_moment_are_read_in_a_zone() -> None:
    assert asks({"at|hour": 23}, timezone="Europe/Berlin").matches({"at": datetime(2024, 3, 5, 22, 30, tzinfo=UTC)})


def test_keywords_are_looked_for_in_all_values() -> None:
    assert fires(["mimi*katz", "other"], x="a", y="xx MIMI-KATZ yy")
    assert fires("4688", EventID=4688)
    assert fires([4688], text="event 4688")
    assert not fires("mimikatz", x="mimi", y="katz")
    assert fires({"|all": ["one", "two"]}, x="one", y="two")
    assert not fires({"|all": ["one", "two"]}, x="one")
    assert fires({"|re": "^o.e$"}, x="one")
    assert not fires({"|cased": "ONE"}, x="one")
    assert fires("inner", outer={"deep": [{"text": "an INNER one"}]})
    wanted = Filter.parse(rule("not keywords", keywords=["one"]), language="sigma")
    assert wanted.matches({})
    assert wanted.matches({"x": "two"})
    assert not wanted.matches({"x": "two", "y": "ones"})


def test_a_dot_leads_into_an_object_or_is_part_of_a_name() -> None:
    for event in (
        {"a": {"b": {"c": "X"}}},
        {"a.b.c": "x"},
        {"a": {"b.c": "x"}},
        {"a.b": {"c": "x"}},
    ):
        assert fires({"a.b.c": "x"}, **event)
        assert not fires({"a.b.c": None}, **event)
        assert not fires({"a.b.c|exists": False}, **event)
        assert not fires({"a.b": "x"}, **event)
    assert fires({"a.b.c": None}, **{"a": {"b": 1}, "a.b.c": None})
    assert fires({"a.b.c|exists": False}, a={"b": 1})


def test_of_many_dots_all_are_steps_or_none() -> None:
    assert fires({"a.b.c.d.e": "x"}, a={"b": {"c": {"d": {"e": "x"}}}})
    assert fires({"a.b.c.d.e": "x"}, **{"a.b.c.d.e": "x"})
    assert not fires({"a.b.c.d.e": "x"}, **{"a.b": {"c.d.e": "x"}})


def test_case_matters_between_fields_if_it_is_asked_for() -> None:
    assert fires({"x|fieldref": "y"}, x="Ann", y="ann")
    assert not fires({"x|cased|fieldref": "y"}, x="Ann", y="ann")
    assert fires({"x|fieldref|cased|startswith": "y"}, x="Anna", y="Ann")


def test_an_event_with_arrays_is_as_many_events_as_there_are_choices() -> None:
    assert fires({"x|contains|all": ["a", "b"]}, x=["ab", "c"])
    assert not fires({"x|contains|all": ["a", "b"]}, x=["a", "b"])
    wanted = Filter.parse(rule("not selection", selection={"x": "a"}), language="sigma")
    assert wanted.matches({"x": ["a", "b"]})
    assert not wanted.matches({"x": ["a", "A"]})


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        ({"x|expand": "%names%"}, "the placeholder %names%"),
        ({"x|re|expand": "%names%"}, "placeholder"),
        ({"x|re": "a(?=b)"}, "look-ahead"),
        ({"x|re": "(a)\\1"}, "back-references"),
        ({"x|re": "("}, "x|re: "),
        ({"x|re|m": "a^b"}, "with the flag m"),
        ({"x|re": 5}, "a regular expression is text"),
        ({"x|contains": 5}, "does not take the value '5'"),
        ({"x|cidr": "10.0.0.1/8"}, "Invalid CIDR"),
        ({"x|cidr": "somewhere"}, "Invalid CIDR"),
        ({"x|lt": "five"}, "does not take"),
        ({"x|base64": "a*"}, "wildcards"),
        ({"x|fieldref": "a*"}, "wildcards"),
        ({"x|exists": "yes"}, "does not take"),
        ({"x|like": "a"}, "there is no modifier 'like'"),
        ({"x": {"y": "z"}}, "not dict"),
        ({"x": [["y"]]}, "not list"),
        ({"x": date(2024, 3, 1)}, "not date"),
        ({"|cidr": "10.0.0.0/8"}, "needs the name of a field"),
        ({"|lt": 5}, "needs the name of a field"),
        ({5: "x"}, "a field's name is text"),
        ({"x|contains|windash": "-a -b -c -d"}, "at most three"),
        ({}, "cannot be empty"),
        ([], "no field is named"),
        (None, "no field is named"),
        (["a", None], "no field is named"),
        (b"x", "not bytes"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(selection: Any, reason: str) -> None:
    with pytest.raises(ParseError) as refused:
        asks(selection)
    assert reason in str(refused.value)
    assert "detection.selection" in str(refused.value)


def test_a_rule_with_a_disjunctive_form_of_a_trillion_terms_is_as_large_as_it_is_written() -> None:
    detections = {f"s{n}": {f"x{n}|contains": [f"{m}a" for m in range(10)]} for n in range(12)}
    wanted = Filter.parse(rule("all of s*", **detections), language="sigma")
    assert wanted.matches({f"x{n}": "3a" for n in range(12)})
    assert not wanted.matches({f"x{n}": "3a" for n in range(11)})
    assert (~wanted).matches({f"x{n}": "3a" for n in range(11)})
