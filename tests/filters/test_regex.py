"""Tests of RLIKE: Java's results for supported expressions, rejection of others, and bounded time."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter, Matcher
from palio.errors import PalioError
from palio.filters.regex import MAX_SEARCH_WORK, Regex, RegexMatches
from tests.hangs import no_hang

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "", True),
        ("b", "abc", True),
        ("^a$", "a", True),
        ("^a$", "a\n", True),  # before a line terminator at the end
        ("^a$", "a\r\n", True),
        ("^a$", "a\u2028", True),
        ("^a$", "a\n\n", False),
        ("^a$", "a\nb", False),
        ("\\r$", "a\r\n", False),  # not within \r\n
        ("a\\z", "a\n", False),
        ("a\\Z", "a\n", True),
        ("a$|b\\z", "b\n", False),
        ("a(\\s|$)", "xa", True),
        ("a.b", "a\nb", False),
        ("a.b", "a\x85b", False),
        ("(?s)a.b", "a\nb", True),
        ("(?s:a.)b.c", "a\nb\nc", False),
        ("^.$", "😀", True),
        ("\\s", "\x0b", True),
        ("\\s", "\xa0", False),
        ("\\w", "é", False),
        ("\\d", "٣", False),
        ("\\h", "\xa0", True),
        ("(?i)straße", "STRAßE", True),
        ("(?i)é", "É", False),  # only ASCII letters fold
        ("(?i)k", "\u212a", False),  # not the Kelvin sign
        ("(?i)[^a]", "A", False),
        ("a(?i)b|c", "C", True),  # to the end of the group, the next choice too
        ("(?i:a)b", "AB", False),
        ("(?i)a(?-i)b", "AB", False),
        ("[a-c-e]", "d", False),
        ("[\\d-z]", "-", True),
        ("\\Qa.b\\E*", "a.", True),
        ("\\Q(", "(", True),
        ("\\x41\\x{1F600}\\u00e9", "A😀é", True),
        ("\\p{Upper}\\P{Alpha}", "A1", True),
        ("(?<year>\\d{4})-", "2024-", True),
        ("a{0}b", "b", True),
        ("(a|b){2,3}?c", "abc", True),
        ("]}", "]}", True),
        ("\\berror\\b", "an error!", True),
        ("^*b", "ab", True),
        ("^+b", "ab", False),
        ("b$?", "bc", True),
        ("[a-z&&[^b]]", "b", False),
        ("[]a]", "]", True),
        ("(a*)*b", "aab", True),
    ],
)
def test_what_is_accepted_finds_what_java_finds(pattern: str, text: str, found: bool) -> None:
    assert Regex.compile(pattern).search(text) is found


@pytest.mark.parametrize(
    ("pattern", "reason", "at"),
    [
        ("a(?=b)", "look-ahead", 4),
        ("a(?!b)", "AND NOT", 4),
        ("(?<=a)b", "look-behind", 3),
        ("(?<!a)b", "look-behind", 3),
        ("(?>a)b", "atomic", 3),
        ("(a)\\1", "back-references", 5),
        ("(?<n>a)\\k<n>", "back-references", 9),
        ("a*+", "possessive", 3),
        ("a**", "another", 3),
        ("a{2}{3}", "another", 5),
        ("*a", "nothing for", 1),
        ("a|*", "nothing for", 3),
        ("{", "must follow", 1),
        ("a{,3}", "{n}, {n,} or {n,m}", 3),
        ("a{3,2}", "at least 3 and at most 2", 6),
        ("a{1001}", "1000", 6),
        ("a{2", "{n}, {n,} or {n,m}", 4),
        ("(a", "never closed", 3),
        ("a)", "no ( for", 2),
        ("[a", "never closed", 3),
        ("[]", "never closed", 3),
        ("[a[b]", "never closed", 6),
        ("[a&&]", "between two classes", 5),
        ("[&&a]", "between two classes", 5),
        ("[a&&&b]", "beside &&", 3),
        ("[z-a]", "lower character", 4),
        ("[a-\\d]", "one character to another", 5),
        ("[\\b]", "no meaning in a class", 2),
        ("\\G", "\\G", 2),
        ("\\R", "\\R", 2),
        ("\\X", "\\X", 2),
        ("\\012", "octal", 2),
        ("\\cA", "\\x", 2),
        ("\\y", "no meaning", 2),
        ("\\", "followed by", 2),
        ("\\p{L}", "version of Unicode", 5),
        ("\\pL", "version of Unicode", 3),
        ("(?i)\\p{Lower}", "different Javas", 13),
        ("(?m)a", "flag m", 3),
        ("(?u)a", "flag u", 3),
        ("(?x)a", "flag x", 3),
        ("(?#a)", "not known", 3),
        ("(?<1>a)", "named group", 5),
        ("(?<a>a)(?<a>b)", "two groups", 12),
        ("\\xZ", "hexadecimal", 3),
        ("\\ud83d", "not the code", 6),
        ("\\x{110000}", "not the code", 10),
        ("\\E", "no \\Q", 2),
    ],
)
def test_what_is_not_accepted_is_refused_with_a_reason_and_a_place(pattern: str, reason: str, at: int) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        Regex.compile(pattern)
    assert reason in str(refused.value)
    assert f"at character {at} of" in str(refused.value)


@pytest.mark.parametrize("pattern", ["a$b", "a$\\n", "(a$){2}", "(a|$)b", "a$\\n?\\B"])
def test_an_end_that_something_must_follow_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="at the end"):
        Regex.compile(pattern)


@pytest.mark.parametrize("pattern", ["(" * 10_000, "(?:(?:(?:a{500}){500}){500})", "(?:[^a]{1000}){1000}"])
def test_what_is_too_large_is_refused_quickly(pattern: str) -> None:
    with no_hang(), pytest.raises(ValueError, match=r"nested|too large"):
        Regex.compile(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 30 + "b"),
        ("(a+)+$", "a" * 100_000 + "b"),
        ("(a|aa)*c", "a" * 50_000),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 50_000),
        ("(.*a){20}", "b" * 2_000),
    ],
)
def test_no_expression_takes_long(pattern: str, text: str) -> None:
    with no_hang():
        assert not Regex.compile(pattern).search(text)


def test_expressions_are_equal_if_they_are_written_alike() -> None:
    assert Regex.compile("a+") == Regex.compile("a+") != Regex.compile("aa*")
    assert len({Regex.compile("a+"), Regex.compile("a+")}) == 1
    copied = pickle.loads(pickle.dumps(Regex.compile("a+")))
    assert copied == Regex.compile("a+")
    assert copied.search("a")


@given(st.text(max_size=30))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    try:
        regex = Regex.compile(text)
    except ValueError:
        return
    regex.search(text)


ATOMS = (
    *(
        "a",
        "b",
        "c",
        "A",
        "k",
        "s",
        "é",
        "ſ",
        "K",
        "😀",
        "\n",
        "\r",
        "\u2028",
        "\x85",
        "]",
        "}",
        "-",
        "&",
        "_",
        "0",
    ),
    *(
        r"\n",
        r"\r",
        r"\t",
        r"\x0b",
        r"\e",
        r"\a",
        r"\f",
        r"\.",
        r"\\",
        r"\-",
        r"\/",
        r"\é",
        r"\x41",
        r"\x{1F600}",
    ),
    *(
        r"\d",
        r"\w",
        r"\s",
        r"\S",
        r"\W",
        r"\D",
        r"\h",
        r"\v",
        r"\H",
        r"\V",
        ".",
        "[abc]",
        "[^a]",
        "[a-c]",
        r"[^\n]",
    ),
    *(
        r"[\w-]",
        r"[a\-z]",
        "[-a]",
        "[a-]",
        r"[^\s\d]",
        r"[\p{Alpha}]",
        r"\p{Punct}",
        r"\P{Alnum}",
        r"\p{XDigit}",
    ),
    *(
        "[&]",
        "[a^]",
        "[A-k]",
        "[^A-k]",
        "[Z-a]",
        "[.]",
        "[$]",
        r"[\]]",
        r"[\[]",
        r"[\d-z]",
        "[--/]",
        "[a-c-e]",
    ),
    *("[]a]", "[^]a]", "[]]", "[]-a]", "[a[b-c]]", "[^a[b]]", "[a-c&&[^b]]", "[a-k&&b]", "[^a-c&&b-k]", "[a-[b]]"),
    *("[[a]b]", "[a-k&&b-z&&[^c]]", "[[^a]&&[^b]]", "[A-k&&a-z]", "[a-c&&[b[k]]]", "[\\w&&[^\\d]]", "[a&b]", "}", "]"),
    *(r"\Qa.b\E", r"\Q*\E", "^", "$", r"\A", r"\z", r"\Z", r"\b", r"\B", "(?i)", "(?s)", "(?-i)"),
)
QUANTIFIERS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}", "{2,}", "{0}", "{1}?", "{0,2}")
CHARACTERS = (
    *"aabbcABkKsS09_ .-\n\r\t$^*]}&/@\\",
    "é",
    "ſ",
    "\u212a",
    "😀",
    "\x85",
    "\u2028",
    "\x0b",
    "\f",
    "\x00",
)
ENDINGS = ("", "", "\n", "\r\n", "\r", "\n\n", "\u2028", "\x85", "\n\r")


def random_pattern(source: random.Random, depth: int) -> str:
    def part() -> str:
        if depth <= 0 or source.random() < 0.6:
            made = source.choice(ATOMS)
        else:
            group = source.choice(("({})", "(?:{})", "(?i:{})", "(?s:{})", "(?-i:{})"))
            made = group.format(random_pattern(source, depth - 1))
        if source.random() < 0.35 and not made.startswith(("(?i)", "(?s)", "(?-i)")):
            made += source.choice(QUANTIFIERS)
        return made

    choices = ("".join(part() for _ in range(source.randint(0, 4))) for _ in range(source.choice((1, 1, 2, 3))))
    return "|".join(choices)


def random_text(source: random.Random, *, only_ascii: bool) -> str:
    made = "".join(source.choice(CHARACTERS) for _ in range(source.randint(0, 6))) + source.choice(ENDINGS)
    # What a word is made of, outside ASCII, depends on the version of Java.
    return made.encode("ascii", "ignore").decode() if only_ascii else made


def compiled_by_both(
    spark: SparkSession, compile: Callable[[str], T], seed: int, count: int
) -> Iterator[tuple[random.Random, str, T, Any]]:
    """So many random patterns that are accepted, each as it is here and in Java, and where chance comes from."""
    source = random.Random(seed)
    # PySpark has no public way to Java's regular expressions.
    pattern_class = spark._jvm.java.util.regex.Pattern
    found = 0
    while found < count:
        pattern = random_pattern(source, 3)
        try:
            mine = compile(pattern)
        except ValueError:
            continue
        found += 1
        yield source, pattern, mine, pattern_class.compile(pattern)


def compare_with_java(spark: SparkSession, seed: int, count: int) -> None:
    for source, pattern, mine, theirs in compiled_by_both(spark, Regex.compile, seed, count):
        for _ in range(6):
            text = random_text(source, only_ascii="\\b" in pattern or "\\B" in pattern)
            assert mine.search(text) == theirs.matcher(text).find(), (pattern, text)


def test_java_finds_the_same(spark: SparkSession) -> None:
    compare_with_java(spark, seed=1, count=400)


@pytest.mark.deep
@settings(max_examples=25)
@given(seed=st.integers(2, 2**32))
def test_java_finds_the_same_in_many_more(spark: SparkSession, seed: int) -> None:
    compare_with_java(spark, seed, count=400)


def test_spark_asks_java_for_a_part_of_the_text(spark: SparkSession) -> None:
    rows = [
        ("^a$", "a\n"),
        ("b", "abc"),
        ("(?i)k", "K"),
        ("", ""),
        ("\\s", "\x0b"),
        ("^.$", "😀"),
        ("é", "É"),
    ]
    frame = spark.createDataFrame(rows, "p string, s string").selectExpr("s RLIKE p")
    assert [row[0] for row in frame.collect()] == [Regex.compile(p).search(s) for p, s in rows]


def test_an_expression_that_is_too_large_is_refused_with_its_size() -> None:
    with pytest.raises(ValueError, match="11,000 characters when its repetitions are written out, at most 10,000"):
        Regex.compile("(?:abcdefghijk){1000}")
    with pytest.raises(PalioError, match="too large"):
        Filter.parse("x RLIKE '(?:abcdefghijk){1000}'")
    with pytest.raises(ValueError, match="too large"):
        RegexMatches.compile("(?:abcdefghijk){1000}")


def test_a_text_beyond_the_limit_of_work_does_not_match() -> None:
    hostile = "(a|b)*a(a|b){900}c"
    long = "ab" * (MAX_SEARCH_WORK // 1804 // 2 + 1)
    assert not Regex.compile(hostile).search(long)
    assert Regex.compile(hostile).search("a" * 901 + "c")
    wants = Matcher()
    wants.add_many(["is", "is not"], [f"x RLIKE '{hostile}'", f"x NOT RLIKE '{hostile}'"])
    assert wants.match({"x": long}) == {"is not"}
    assert wants.match_batch(pa.table({"x": [long]}))["subscription"].to_pylist() == ["is not"]


def test_a_small_expression_searches_a_text_of_any_length() -> None:
    assert Regex.compile("(a|b)*a(a|b){25}c").search("ab" * 100_000 + "c")
