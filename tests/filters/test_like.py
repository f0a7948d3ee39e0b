"""Tests of LIKE patterns: accepted texts, equality, and bounded time."""

from __future__ import annotations

import pickle
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.like import Gap, LikePattern, has_known_escapes
from tests.hangs import no_hang

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = st.text(alphabet="aAbBß%_\\/\n😀İ", max_size=12)
PATTERNS = st.text(alphabet="aAb%%__ß\n😀", max_size=10)


def plainly(pattern: str, text: str) -> bool:
    """The specification of a pattern without escapes, by the regular expressions of Python."""
    written = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(written, text, re.DOTALL) is not None


@given(PATTERNS, TEXTS)
def test_a_text_matches_if_it_has_the_form_of_the_pattern(pattern: str, text: str) -> None:
    assert LikePattern.parse(pattern).matches(text) == plainly(pattern, text)


@given(PATTERNS, TEXTS)
def test_without_regard_to_case_both_are_lowered(pattern: str, text: str) -> None:
    assert LikePattern.parse(pattern, ignore_case=True).matches(text) == plainly(pattern.lower(), text.lower())


@given(PATTERNS, st.booleans())
def test_printed_and_read_again_a_pattern_is_the_same(pattern: str, ignore_case: bool) -> None:
    parsed = LikePattern.parse(pattern, ignore_case=ignore_case)
    assert LikePattern.parse(parsed.sql, ignore_case=ignore_case) == parsed
    assert hash(LikePattern.parse(parsed.sql, ignore_case=ignore_case)) == hash(parsed)
    assert pickle.loads(pickle.dumps(parsed)) == parsed


@given(st.text(alphabet="ab%_\\é", max_size=6), TEXTS)
def test_starting_ending_and_containing_take_their_text_as_it_is(part: str, text: str) -> None:
    assert LikePattern.starting(part).matches(text) == text.startswith(part)
    assert LikePattern.ending(part).matches(text) == text.endswith(part)
    assert LikePattern.containing(part).matches(text) == (part in text)


@given(PATTERNS, TEXTS)
def test_what_a_pattern_starts_and_ends_with_every_match_does(pattern: str, text: str) -> None:
    parsed = LikePattern.parse(pattern)
    if parsed.matches(text):
        assert text.startswith(parsed.starts)
        assert text.endswith(parsed.ends)
        assert all(run in text for run in parsed.literals)


@pytest.mark.parametrize(
    ("one", "other"),
    [("%%", "%"), ("%_", "_%"), ("a%_%b", "a_%b"), ("_%_", "__%"), ("a\\%", "a\\%"), ("%a%%", "%a%")],
)
def test_patterns_that_accept_the_same_texts_are_equal(one: str, other: str) -> None:
    assert LikePattern.parse(one) == LikePattern.parse(other)


@pytest.mark.parametrize(
    ("pattern", "shape", "text"),
    [
        ("", "exact", ""),
        ("abc", "exact", "abc"),
        ("a\\%\\_", "exact", "a%_"),
        ("abc%", "prefix", "abc"),
        ("%", "prefix", ""),
        ("%abc", "suffix", "abc"),
        ("%abc%%", "substring", "abc"),
        ("a%c", "general", "ac"),
        ("a_", "general", "a"),
        ("%_", "general", ""),
        ("_%abc", "general", "abc"),
    ],
)
def test_the_shape_says_what_kind_of_question_it_is(pattern: str, shape: str, text: str) -> None:
    parsed = LikePattern.parse(pattern)
    assert (parsed.shape, parsed.text) == (shape, text)


def test_tokens_are_runs_and_gaps() -> None:
    assert LikePattern.parse("ab%_c__").tokens == ("ab", Gap(1, True), "c", Gap(2, False))


@pytest.mark.parametrize(
    ("pattern", "escape", "reason"),
    [
        ("a\\", "\\", "cannot end"),
        ("a\\b", "\\", "not before 'b'"),
        ("a/b", "/", "not before 'b'"),
        ("a", "ab", "one character"),
        ("a", "", "one character"),
    ],
)
def test_a_wrong_escape_is_an_error(pattern: str, escape: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        LikePattern.parse(pattern, escape)


@given(TEXTS)
def test_known_escapes_are_those_that_a_pattern_may_have(text: str) -> None:
    try:
        LikePattern.parse(text)
    except ValueError:
        assert not has_known_escapes(text)
    else:
        assert has_known_escapes(text)


def test_any_character_may_be_the_escape() -> None:
    assert LikePattern.parse("50/%", "/").text == "50%"
    assert LikePattern.parse("a%%", "%").text == "a%"
    assert LikePattern.parse("AE%", "E", ignore_case=True).literals == ("ae",)  # lowered before it is read


def test_no_pattern_takes_long() -> None:
    with no_hang():
        assert not LikePattern.parse("%a" * 200 + "b").matches("a" * 20_000)
        assert not LikePattern.parse("%a_a_a_b%" * 20).matches("a" * 5_000)
        assert LikePattern.parse("%" + "a%" * 2_000).matches("a" * 100_000)


def test_spark_agrees(spark: SparkSession) -> None:
    patterns = [
        "",
        "%",
        "a%",
        "%b",
        "_",
        "a_",
        "%_%",
        "a\\%b",
        "\\_%",
        "%\\\\%",
        "%\n%",
        "A%",
        "%ß",
        "_😀",
        "%İ",
        "i%",
    ]
    texts = ["", "a", "ab", "a%b", "_x", "a\\b", "a\nb", "A", "aß", "x😀", "İ", "ASS", "b\n", "ΑΣ", "ας"]
    rows = [(pattern, text) for pattern in patterns for text in texts]
    frame = spark.createDataFrame(rows, "p string, s string").selectExpr("s LIKE p", "s ILIKE p")
    for (pattern, text), (exactly, loosely) in zip(rows, frame.collect(), strict=True):
        assert LikePattern.parse(pattern).matches(text) == exactly
        assert LikePattern.parse(pattern, ignore_case=True).matches(text) == loosely
