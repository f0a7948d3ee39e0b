"""Tests of regexp_extract and regexp_replace: Java's matches and groups, and bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.filters.regex import MAX_MATCH_WORK, RegexMatches, TooMuchWork
from tests.filters.test_regex import compiled_by_both, random_text
from tests.hangs import no_hang

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found(pattern: str, text: str) -> list[tuple[str, ...]]:
    """Every match with all of its groups."""
    matches = RegexMatches.compile(pattern)
    return [tuple(match.group(group) for group in range(matches.groups + 1)) for match in matches.find(text)]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("b", "abcb", [("b",), ("b",)]),
        ("(a|ab)(c|bcd)?", "abcd", [("abcd", "a", "bcd")]),  # the first way that succeeds, not the longest
        ("(a|ab)", "abab", [("a", "a"), ("a", "a")]),
        ("a+?", "aaa", [("a",), ("a",), ("a",)]),
        ("(a)|(b)", "b", [("b", "", "b")]),
        ("((b)|(c))+", "bc", [("bc", "c", "b", "c")]),
        ("(?<year>\\d+)-(\\d+)", "2024-02", [("2024-02", "2024", "02")]),
        ("x*", "axb", [("",), ("x",), ("",), ("",)]),
        ("", "éa", [("",), ("",), ("",)]),
        ("(.)$", "ab\n", [("b", "b")]),
        ("$", "a\n", [("",), ("",)]),  # before the line terminator, and at the end
        ("$", "a\r\n", [("",), ("",)]),
        ("(a|$)\\n?", "a\n", [("a\n", "a"), ("", "")]),
        ("a\\z", "a\n", []),
        ("(?i)(É)", "é", []),
        ("(😀)(.)", "a😀é", [("😀é", "😀", "é")]),
    ],
)
def test_what_is_accepted_finds_what_java_finds(pattern: str, text: str, expected: list[tuple[str, ...]]) -> None:
    assert found(pattern, text) == expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a*)*", "may be empty"),
        ("(a|b?)+", "may be empty"),
        ("(^){2}", "may be empty"),
        ("a$b", "at the end"),
        ("a$\\b", "may follow a \\$"),
        ("(a|$)^", "may follow a \\$"),
        ("(a)\\1", "back-references"),
        ("(?=a)", "look-ahead"),
    ],
)
def test_what_engines_disagree_about_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        RegexMatches.compile(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a", "a" * 50_000),
        ("\\s+", "a b" * 30_000),
        ("\\d+(,\\d+)*", "1,2 " * 50_000),
        ("(a*)(a*)(a*)", "a" * 1_000_000),
    ],
)
def test_many_matches_are_found_in_linear_time(pattern: str, text: str) -> None:
    with no_hang():
        assert sum(len(match.group(0)) for match in RegexMatches.compile(pattern).find(text)) > 0


@pytest.mark.parametrize("pattern", ["a(.*b)?", "a(.*[0-9]$)?", "(?:a+b|a)", "a|(?:a{2,}|b){2}"])
def test_what_would_look_to_the_end_at_every_match_is_given_up(pattern: str) -> None:
    with no_hang(), pytest.raises(TooMuchWork):
        list(RegexMatches.compile(pattern).find("a" * (MAX_MATCH_WORK // 500)))


def compare_with_java(spark: SparkSession, seed: int, count: int) -> None:
    for source, pattern, matches, theirs in compiled_by_both(spark, RegexMatches.compile, seed, count):
        for _ in range(4):
            # Java has places within characters beyond U+FFFF, where nothing can match.
            text = random_text(source, only_ascii="\\b" in pattern or "\\B" in pattern).replace("😀", "ü")
            matcher, expected = theirs.matcher(text), []
            while matcher.find():
                groups = (matcher.group(group) for group in range(matches.groups + 1))
                expected.append(tuple("" if group is None else group for group in groups))
            assert found(pattern, text) == expected, (pattern, text)


def test_java_finds_the_same(spark: SparkSession) -> None:
    compare_with_java(spark, seed=1, count=150)


@pytest.mark.deep
@settings(max_examples=25)
@given(seed=st.integers(2, 2**32))
def test_java_finds_the_same_in_many_more(spark: SparkSession, seed: int) -> None:
    compare_with_java(spark, seed, count=200)
