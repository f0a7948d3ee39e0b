"""Conditions are read as pySigma reads them, and what is wrong with one is said at its place."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sigma.conditions import ConditionAND, ConditionFieldEqualsValueExpression, ConditionNOT, ConditionOR
from sigma.rule.detection import SigmaDetections

from palio import Filter, ParseError
from tests.hangs import no_hang
from tests.languages.sigma.generate import conditions
from tests.languages.sigma.rules import rule

NAMES = ["sel_a", "sel_b", "filter", "_hidden", "selection"]
DETECTIONS: dict[str, Any] = {name: {name: "x"} for name in NAMES}


def truths(condition: str) -> list[bool]:
    """Whether a condition holds, for each way in which its detections may hold."""
    wanted = Filter.parse(rule(condition, **DETECTIONS), language="sigma")
    return [
        wanted.matches({name: "x" for name, held in zip(NAMES, held, strict=True) if held})
        for held in itertools.product([False, True], repeat=len(NAMES))
    ]


def truths_by_pysigma(condition: str) -> list[bool]:
    parsed = SigmaDetections.from_dict({**DETECTIONS, "condition": condition}).parsed_condition[0].parsed

    def holds(node: Any, event: set[str]) -> bool:
        match node:
            case ConditionAND():
                return all(holds(each, event) for each in node.args)
            case ConditionOR():
                return any(holds(each, event) for each in node.args)
            case ConditionNOT():
                return not holds(node.args[0], event)
            case ConditionFieldEqualsValueExpression():
                return node.field in event
        raise AssertionError(node)

    return [
        holds(parsed, {name for name, held in zip(NAMES, held, strict=True) if held})
        for held in itertools.product([False, True], repeat=len(NAMES))
    ]


@given(conditions(NAMES))
def test_a_condition_means_what_it_means_to_pysigma(condition: str) -> None:
    assert truths(condition) == truths_by_pysigma(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "sel_a or sel_b and filter",
        "not sel_a and sel_b",
        "not (sel_a or sel_b)",
        "sel_a and not not sel_b",
        "1 of them",
        "any of sel*",
        "all of sel_*",
        "all of _*",
        "1 of *_*",
        "not 1 of sel* or filter",
        "  sel_a\n  and\tsel_b  ",
        "(((sel_a)))",
    ],
)
def test_every_form_of_a_condition(condition: str) -> None:
    assert truths(condition) == truths_by_pysigma(condition)


def test_operators_may_be_written_in_capitals() -> None:
    assert truths("sel_a AND NOT (sel_b OR 1 OF filter)") == truths("sel_a and not (sel_b or filter)")


def test_a_detection_may_be_named_like_an_operator() -> None:
    wanted = Filter.parse(rule("not and", **{"and": {"x": "a"}}), language="sigma")
    assert wanted.matches({"x": "b"})
    assert not wanted.matches({"x": "a"})


def test_several_conditions_are_alternatives() -> None:
    document = rule(selection={"x": "a"}, other={"x": "b"})
    document["detection"]["condition"] = ["selection", "other"]
    wanted = Filter.parse(document, language="sigma")
    assert [wanted.matches({"x": each}) for each in "abc"] == [True, True, False]


@pytest.mark.parametrize(
    ("condition", "reason", "at"),
    [
        ("sel_a and", "ends too soon", 9),
        ("", "ends too soon", 0),
        ("sel_a sel_b", "'sel_b' does not continue", 6),
        ("(sel_a", "never closed", 6),
        ("sel_a)", "')' does not continue", 5),
        ("sel_x", "there is no detection 'sel_x'", 0),
        ("1 of x*", "no detection is named like 'x*'", 5),
        ("2 of them", "'2' is no quantifier", 0),
        ("1 of", "after `of`", 4),
        ("1 of (sel_a, sel_b)", "after `of`", 5),
        ("sel_a & sel_b", "'&' does not continue", 6),
        ("sel_*", "not expected here", 0),
        ("sel_a | count() > 5", "an aggregation counts events over time", None),
        ("sel_a | near sel_b", "an aggregation counts events over time", None),
    ],
)
def test_what_is_wrong_is_said_where_it_is(condition: str, reason: str, at: int | None) -> None:
    text = f"title: A rule\ndetection:\n  sel_a: {{x: a}}\n  sel_b: {{x: b}}\n  condition: {condition}\n"
    document = rule(condition, sel_a={"x": "a"}, sel_b={"x": "b"})
    for given_as in (text, document) if condition else (document,):
        with pytest.raises(ParseError) as refused:
            Filter.parse(given_as, language="sigma")
        assert reason in str(refused.value)
        assert "detection.condition" in str(refused.value)
    if condition and at is not None:
        with pytest.raises(ParseError) as refused:
            Filter.parse(text, language="sigma")
        start = text.index("condition: ") + len("condition: ")
        assert refused.value.position == min(start + at, len(text))


@pytest.mark.parametrize("condition", [5, None, ["sel_a", 5], [], {"a": "b"}])
def test_a_condition_is_text(condition: Any) -> None:
    document = rule(sel_a={"x": "a"})
    document["detection"]["condition"] = condition
    with pytest.raises(ParseError, match=r"detection|condition"):
        Filter.parse(document, language="sigma")


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 100_000 + "sel_a" + ")" * 100_000,
        "not " * 9_000 + "sel_a",
        " and ".join(["sel_a"] * 4_000),
        " or ".join(["(sel_a and not sel_b)"] * 2_000),
        "sel_a " * 200_000,
        "1 of " + "*a" * 100_000,
    ],
)
def test_no_condition_takes_long_or_too_deep(condition: str) -> None:
    with no_hang(), contextlib.suppress(ParseError):
        Filter.parse(rule(condition, sel_a={"x": "a"}, sel_b={"y": "b"}), language="sigma")


@given(st.text(st.sampled_from("sel_ab()12 ofandtrhm*|&-'\n"), max_size=40))
def test_any_text_is_a_condition_or_refused(condition: str) -> None:
    try:
        Filter.parse(rule(condition, sel_a={"x": "a"}, sel_b={"y": "b"}, **{"1": {"z": "c"}}), language="sigma")
    except ParseError as refused:
        assert "detection" in refused.reason
