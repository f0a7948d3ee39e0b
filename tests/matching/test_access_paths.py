"""Tests of access paths: what they say is what the index does."""

from __future__ import annotations

from typing import Any

import pytest

from palio.errors import UnknownSubscription
from palio.filters.explanation import AccessPath
from palio.filters.filter import Filter
from palio.matching.access_paths import AccessPaths
from palio.matching.matcher import Matcher

ALONE: dict[str, list[tuple[str, str, str] | tuple[str, str, str, int]]] = {
    "price > 5 AND city = 'x'": [("attribute", "price", ""), ("attribute", "city", "")],
    "lower(name) = 'x'": [("computed attribute", "lower(name)", "")],
    "k = 1 AND lower(name) = 'x'": [("attribute", "k", ""), ("residual", "", "", 300)],
    "left(city, 3) = 'abc'": [("attribute", "city", "")],
    "name LIKE 'a%bcd%e'": [("pattern", "name", "bcd")],
    "name RLIKE 'abcd[0-9]'": [("pattern", "name", "abcd")],
    "name RLIKE 'abc[0-9]'": [("pattern", "name", "abc", 50)],
    "name LIKE '__'": [("pattern", "name", "", 500)],
    "name <> 'a' AND k IS NOT NULL": [("attribute", "name", "", 100), ("attribute", "k", "")],
    "name <> 'a' AND k = 1": [("attribute", "name", ""), ("attribute", "k", "")],
    "array_contains(tags, 'x')": [("array elements", "tags", "")],
    "exists(tags, t -> t = 'x')": [("array elements", "tags", "")],
    "a < b": [("computed attribute", "(a < b)", "")],
    "x IS NULL": [("every event", "x", "", 100)],
    "x IS NULL AND y = 1": [("attribute", "x", ""), ("attribute", "y", "")],
}


@pytest.mark.parametrize("condition", ALONE)
def test_a_condition_alone(condition: str) -> None:
    matcher = Matcher()
    matcher.add("it", condition)
    found = matcher.explain("it", {"k": 1})
    parts = found.parts or (found,)
    assert [part.access_path for part in parts] == [AccessPath(*each) for each in ALONE[condition]]  # type: ignore[arg-type]
    assert all(str(part.access_path) in str(found) for part in parts)
    assert parts[0].as_dict()["index"]["kind"] == ALONE[condition][0][0]


def path(matcher: Matcher, id: str, place: int, event: Any = "{}") -> str:
    found = matcher.explain(id, event).parts[place].access_path
    assert found is not None
    return found.kind


def test_an_expression_that_others_share_is_looked_up() -> None:
    matcher = Matcher()
    matcher.add("a", "k = 1 AND a + b > 3")
    assert path(matcher, "a", 1) == "residual"
    matcher.add_many(["b", "c", "d"], [f"k = {n} AND a + b > {n}" for n in range(3)])
    matcher.merge()
    assert path(matcher, "a", 1) == "computed attribute"


def test_what_is_said_of_an_index_is_what_it_has() -> None:
    texts = ["k = 1 AND a + b > 3", "a * b = 2", *(f"upper(s) = 'A{n}'" for n in range(4)), "s LIKE 'a%b%c'"]
    matcher = Matcher()
    matcher.add_many(map(str, range(len(texts))), texts)
    kinds: list[str] = []
    for number in range(len(texts)):
        found = matcher.explain(str(number), {})
        kinds += [each.access_path.kind for each in found.parts or (found,) if each.access_path]
    statistics = matcher.statistics()
    assert kinds.count("residual") == statistics.residuals == 1
    assert kinds.count("computed attribute") == 1 + 4
    assert statistics.computed == 1 + 1


def test_what_nothing_can_match_is_in_no_index() -> None:
    matcher = Matcher({"never": "x = 0 AND x = 1", "a": "x = 1"})
    for _ in range(2):
        assert not matcher.explain("never", {"x": 1}).matched
        matcher.merge()


def test_a_filter_that_is_not_in_an_index_has_no_path() -> None:
    assert Filter.parse("a = 1").explain({"a": 1}).access_path is None
    assert AccessPaths.alone(Filter.parse("a = 1").tree) is not None


def test_an_unknown_subscription_is_refused() -> None:
    with pytest.raises(UnknownSubscription):
        Matcher().explain("none", {})


def test_the_explanation_is_that_of_the_filter() -> None:
    matcher = Matcher()
    matcher.add("a", "x > 3 AND NOT (y = 'b' OR lower(s) = 'q')")
    for event in ({"x": 4, "y": "a", "s": "z"}, {"x": 1}, {"x": [1, 5], "y": "c", "s": "Q"}):
        mine, theirs = matcher.explain("a", event), matcher["a"].filter.explain(event)
        assert mine.matched == theirs.matched == (matcher.match(event) == {"a"})
        assert [part.condition for part in mine.parts] == [part.condition for part in theirs.parts]
        assert [part.matched for part in mine.parts] == [part.matched for part in theirs.parts]
