"""SNS filter policies: EventBridge patterns with fewer operators, in two scopes."""

from __future__ import annotations

import json
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, Matcher, ParseError
from palio.languages import sns
from tests.languages.eventbridge.oracle import matches
from tests.languages.eventbridge.strategies import NAMES, NETWORKS, SCALARS, TEXTS, events, ranges

LISTS = st.lists(
    st.one_of(
        SCALARS,
        *(
            st.fixed_dictionaries({name: operand})
            for name, operand in {
                "prefix": TEXTS,
                "suffix": TEXTS,
                "equals-ignore-case": TEXTS,
                "numeric": ranges(),
                "cidr": NETWORKS,
                "exists": st.booleans(),
                "anything-but": st.one_of(
                    TEXTS,
                    st.lists(TEXTS, min_size=1, max_size=3),
                    st.integers(-3, 3),
                    st.fixed_dictionaries({"prefix": TEXTS.filter(bool)}),
                    st.fixed_dictionaries({"suffix": TEXTS.filter(bool)}),
                ),
            }.items()
        ),
    ),
    min_size=1,
    max_size=3,
)
FLAT = st.dictionaries(NAMES, LISTS, min_size=1, max_size=3)
POLICIES = st.one_of(FLAT, st.tuples(FLAT, st.lists(FLAT, min_size=2, max_size=3)).map(lambda x: {**x[0], "$or": x[1]}))
NESTED = st.dictionaries(NAMES, st.one_of(LISTS, FLAT), min_size=1, max_size=3)
MESSAGES = st.dictionaries(NAMES, st.one_of(SCALARS, st.lists(SCALARS, max_size=3)), max_size=4)


def cut(value: Any) -> Any:
    """The same with all numbers cut off behind the fifth digit behind the point."""
    if isinstance(value, dict):
        return {name: cut(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(cut, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = Decimal(repr(value))
        return number.quantize(Decimal("0.00001"), ROUND_FLOOR, Context(400, Emax=MAX_EMAX, Emin=MIN_EMIN))
    return value


@given(POLICIES, st.lists(MESSAGES, min_size=1, max_size=6))
def test_a_policy_on_attributes_matches_what_sns_matches(policy: dict[str, Any], some: list[dict[str, Any]]) -> None:
    wanted = sns.parse(policy, strict=False)
    assert [wanted.matches(event) for event in some] == [matches(cut(policy), cut(event)) for event in some]
    assert Filter.parse(str(wanted)) == wanted == sns.parse(json.dumps(policy), strict=False)


@given(NESTED, st.lists(events(), min_size=1, max_size=6))
def test_a_policy_on_the_body_matches_what_sns_matches(policy: dict[str, Any], some: list[dict[str, Any]]) -> None:
    wanted = sns.parse(policy, scope="body", strict=False)
    assert [wanted.matches(event) for event in some] == [matches(cut(policy), cut(event)) for event in some]
    assert Filter.parse(str(wanted)) == wanted


# Policy, message attributes that are accepted, and that are not: the facts of the documentation.
ATTRIBUTES: list[tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = [
    (
        {"kind": ["rugby", "tennis"]},
        [{"kind": "rugby"}, {"kind": ["golf", "tennis"]}],
        [{"kind": "golf"}, {"kind": ["golf"]}, {}],
    ),
    (
        {"kind": [{"anything-but": ["rugby", "tennis"]}]},
        [{"kind": "golf"}, {"kind": ["rugby", "golf"]}],
        [{"kind": "rugby"}, {"kind": ["rugby"]}, {}],
    ),
    (
        {"event": [{"anything-but": {"prefix": "order-"}}]},
        [{"event": "data"}, {"event": 3}],
        [{"event": "order-1"}, {}],
    ),
    ({"event": [{"anything-but": {"suffix": "ball"}}]}, [{"event": "rugby"}, {"event": "ballx"}], [{"event": "ball"}]),
    ({"kind": [{"equals-ignore-case": "tennis"}]}, [{"kind": "TENNIS"}, {"kind": "Tennis"}], [{"kind": "rugby"}]),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, [{"ip": "10.0.0.0"}, {"ip": "10.0.0.255"}], [{"ip": "10.1.1.0"}]),
    ({"kind": [{"prefix": "bas"}]}, [{"kind": "baseball"}, {"kind": ["x", "basket"]}], [{"kind": "rugby"}]),
    ({"kind": [{"suffix": "ball"}]}, [{"kind": "baseball"}], [{"kind": "rugby"}, {"kind": "ballet"}]),
    (
        {"price": [{"numeric": ["=", 301.5]}]},
        [{"price": 301.5}, {"price": 3.015e2}],
        [{"price": 301}, {"price": "301.5"}],
    ),
    (
        {"price": [{"anything-but": [100, 500]}]},
        [{"price": 101}, {"price": [100, 50]}],
        [{"price": 100}, {"price": [100]}],
    ),
    ({"price": [{"numeric": [">", 0, "<=", 150]}]}, [{"price": 122}, {"price": 150}], [{"price": 200}, {"price": -1}]),
    ({"store": [{"exists": True}]}, [{"store": "fans"}, {"store": 99}], [{"kind": ["x"]}, {}]),
    ({"store": [{"exists": False}]}, [{"kind": ["x"]}, {}], [{"store": "fans"}]),
    ({"key": [None, {"anything-but": "x"}]}, [{"key": "y"}, {"key": [None]}], [{}, {"key": "x"}]),
    ({"encrypted": [False]}, [{"encrypted": [False]}], [{"encrypted": "false"}, {}]),
    ({"a.b": ["x"]}, [{"a.b": "x"}], [{"a": {"b": "x"}}]),
    (
        {"source": ["cw"], "$or": [{"metric": ["cpu"]}, {"type": ["t"], "$or": [{"id": [1]}, {"space": [2]}]}]},
        [{"source": "cw", "metric": "cpu"}, {"source": "cw", "type": "t", "space": 2}],
        [{"metric": "cpu"}, {"source": "cw", "type": "t"}],
    ),
    ({"$or": [{"numeric": [">", 5]}, {"prefix": "x"}]}, [{"$or": 6}, {"$or": "xy"}], [{"$or": 5}, {}]),
]


@pytest.mark.parametrize(("policy", "accepted", "passed_over"), ATTRIBUTES, ids=lambda each: str(each)[:50])
def test_policies_on_attributes(
    policy: dict[str, Any], accepted: list[dict[str, Any]], passed_over: list[dict[str, Any]]
) -> None:
    wanted = sns.parse(policy)
    assert all(wanted.matches(event) for event in accepted)
    assert not any(wanted.matches(event) for event in passed_over)


def test_policies_on_the_body() -> None:
    wanted = sns.parse(
        {"object": {"key": [{"prefix": "auto-"}, "fixed"], "nested": [{"exists": False}]}, "test": [{"exists": False}]},
        scope="body",
    )
    assert wanted.matches({"object": {"key": "auto-test"}})
    assert wanted.matches('{"object": {"key": "fixed"}}')
    for body in (
        {"object": {"key": "test-auto"}},
        {"object": {"key": "auto-test"}, "test": "there"},
        {"object": {"key": "auto-test", "nested": "there"}},
        {"object": {"test": "auto-test"}},
        {"test": "auto-test"},
    ):
        assert not wanted.matches(body)
    records = sns.parse(
        {"Records": {"s3": {"key": [{"prefix": "auto-"}]}, "name": [{"prefix": "Created:"}]}}, scope="body"
    )
    assert records.matches({"Records": [{"name": "Created:Put", "s3": {"key": [[{"key": "auto-1"}], "auto-2"]}}]})
    assert not records.matches({"Records": [{"name": "Removed:Delete", "s3": {"key": "auto-1"}}]})


def test_a_dot_in_a_name_of_the_body_may_be_a_step() -> None:
    wanted = sns.parse({"a.b": ["x"]}, scope="body")
    assert wanted.matches({"a": {"b": "x"}})
    assert wanted.matches({"a.b": "x"})


def test_an_empty_policy_is_none() -> None:
    assert sns.parse({}) == sns.parse("{ }") == sns.parse({}, scope="body") == Filter.everything


def test_a_matcher_takes_policies_by_the_name_of_their_language() -> None:
    matcher = Matcher()
    matcher.add("fans", {"kind": ["rugby"]}, language="sns")
    assert matcher.match({"kind": ["golf", "rugby"]}) == {"fans"}


@pytest.mark.parametrize(
    ("policy", "scope", "reason"),
    [
        ({"a": {"b": ["x"]}}, "attributes", "cannot be nested"),
        ({"$or": [{"a": {"b": ["x"]}}, {"c": ["y"]}]}, "attributes", "cannot be nested"),
        ({"a": "x"}, "attributes", "a: a field asks with an array"),
        ({"a": []}, "attributes", "a: an empty array"),
        ({"a": [["x"]]}, "attributes", "a[0]: an array inside"),
        ({"a": [{"wrong": True}]}, "attributes", "a[0]: SNS has no test 'wrong' here"),
        ({"a": [{"wildcard": "x*"}]}, "attributes", "SNS has no test 'wildcard' here"),
        ({"a": [{"exactly": "x"}]}, "body", "SNS has no test 'exactly' here"),
        ({"a": [{"suffix": "x", "prefix": "y"}]}, "attributes", "a second one, 'prefix'"),
        ({"a": [{"suffix": 100}]}, "attributes", "takes a string, not a number"),
        ({"a": [{"suffix": []}]}, "attributes", "takes a string, not an array"),
        ({"a": [{"prefix": {"equals-ignore-case": "x"}}]}, "attributes", "takes a string, not an object"),
        ({"a": [{"anything-but": {"wrong": None}}]}, "attributes", "SNS has no test 'wrong' here"),
        ({"a": [{"anything-but": {"equals-ignore-case": "x"}}]}, "attributes", "no test 'equals-ignore-case' here"),
        ({"a": [{"anything-but": {"prefix": False}}]}, "attributes", "takes a string, not a boolean"),
        ({"a": [{"anything-but": {"prefix": ["x"]}}]}, "attributes", "takes a string, not an array"),
        ({"a": [{"exists": "no"}]}, "attributes", "exists is true or false"),
        ({"a": [{"numeric": [">", 3, "<", 1]}]}, "attributes", "the range is empty"),
        ({"a": [{"numeric": [">", 1000000001]}]}, "attributes", "SNS compares numbers between -1,000,000,000"),
        ({"a": [1000000001]}, "attributes", "SNS compares numbers between -1,000,000,000"),
        ([], "attributes", "a pattern is an object"),
        ("", "attributes", "not JSON"),
        ({f"k{n}": ["x"] for n in range(6)}, "attributes", "at most 5 keys"),
        (
            {"a": [f"v{n}" for n in range(151)]},
            "attributes",
            "at most 150 combinations of a policy's values, and here are 151",
        ),
        ({"a": [f"v{n}" for n in range(100)], "b": [f"v{n}" for n in range(51)]}, "attributes", "here are 5,100"),
        (
            {"a": {"b": {"c": list("wxyz")}}, "d": {"e": list("xyz")}, "f": list("xyz")},
            "body",
            "here are 216",
        ),
        (
            {
                "s": list("abcd"),
                "$or": [{"m": list("abcdef")}, {"t": list("abcd"), "$or": [{"i": [1, 2, 3, 4]}, {"p": [1, 2, 3, 4]}]}],
            },
            "attributes",
            "here are 152",
        ),
        (
            {
                "$or": [{"m": list("abc")}, {"n": list("ab")}],
                "d": {"s": list("ab"), "$or": [{"o": ["x"]}, {"t": list("abc")}]},
            },
            "body",
            "here are 160",
        ),
        ({"a": ["x" * 262_200]}, "attributes", "at most 256 KB"),
    ],
    ids=lambda each: str(each)[:50],
)
def test_what_sns_refuses_is_refused(policy: Any, scope: Any, reason: str) -> None:
    with pytest.raises(ParseError) as refused:
        sns.parse(policy, scope=scope)
    assert reason in refused.value.reason


def test_policies_at_the_limits_are_taken() -> None:
    wanted = {
        "source": list("abc"),
        "$or": [
            {"name": list("abcdef")},
            {"type": list("abcd"), "$or": [{"id": [1, 2, 3, 4]}, {"space": [1, 2, 3, 4, 5, 6, 7]}]},
        ],
    }
    assert sns.parse(wanted) == sns.parse(json.dumps(wanted))
    assert isinstance(sns.parse({"a": [1000000000, -1e9], "b": [{"numeric": [">=", -1e9, "<", 1e9]}]}), Filter)
    assert isinstance(sns.parse({"a": [f"v{n}" for n in range(150)]}), Filter)


def test_without_strict_quotas_are_lifted_but_attributes_stay_flat() -> None:
    assert isinstance(sns.parse({f"k{n}": ["x"] for n in range(6)}, strict=False), Filter)
    assert isinstance(sns.parse({"a": [f"v{n}" for n in range(151)], "b": 10**12}, strict=False), Filter)
    with pytest.raises(ParseError, match="cannot be nested"):
        sns.parse({"a": {"b": ["x"]}}, strict=False)


def test_a_scope_is_attributes_or_body() -> None:
    with pytest.raises(ParseError, match="the scope of a filter policy is 'attributes' or 'body', not 'MessageBody'"):
        sns.parse({"a": ["x"]}, scope="MessageBody")  # type: ignore[arg-type]
    assert sns.parse({"a": ["x"]}, timezone="Europe/Paris") == sns.parse({"a": ["x"]})
