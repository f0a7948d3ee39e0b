"""A pattern table finds what every pattern, asked alone, finds; programs decide what LIKE and RLIKE decide."""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio import Filter, Matcher
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.matching.columnar import program_kernels
from palio.matching.columnar.layout import PADDING, PATTERN_CODE, SKELETON_PROGRAM
from palio.matching.columnar.native import address_of
from palio.matching.columnar.pattern_skeletons import CodedPattern, describe
from palio.matching.columnar.pattern_table import PatternTable
from tests.filters.test_position_automaton import expressions

LETTERS = "aabbAB1.-_ kK\n\rıİ\u212aéÉΣσς日\U0001f600\0"
values = st.text(st.sampled_from(LETTERS), max_size=12)
like_texts = st.text(st.sampled_from("aabbAB1.%%%__ kKİéÉΣς日"), max_size=10)
like_patterns = st.builds(lambda text, folds: LikePattern.parse(text, ignore_case=folds), like_texts, st.booleans())
escaped = st.builds(lambda text: LikePattern.parse(text.replace("A", "!%").replace("B", "!_"), "!"), like_texts)
regexes = expressions.map(Regex.compile)
patterns = st.one_of(like_patterns, escaped, regexes)


def accepts(expression: LikePattern | Regex, value: str) -> bool:
    return expression.search(value) if isinstance(expression, Regex) else expression.matches(value)


@given(patterns, st.lists(values, min_size=1, max_size=10))
@example(LikePattern.parse("_a%"), ["", "a", "日a", "日ab"])
@example(LikePattern.parse("%a_"), ["", "a日", "a", "ba日"])
@example(LikePattern.parse("%_a_%b"), ["日a日b", "ab", "aab", "xaxb"])
@example(Regex("日a"), ["日a", "a日", "日日a"])
@example(Regex("\U00100000"), ["\U00100000", "a", "\U00100001"])
def test_a_program_decides_as_the_pattern_does(expression: LikePattern | Regex, texts: list[str]) -> None:
    described = describe([CodedPattern(7, expression)])
    skeleton, code, literals = described.patterns[0].tolist()
    place = int(described.skeletons[skeleton, SKELETON_PROGRAM])
    assert code == 7
    assert place >= 0
    for text in texts:
        given, lowered = (array("B", each.encode() + bytes(PADDING)) for each in (text, text.lower()))
        chosen = lowered if isinstance(expression, LikePattern) and expression.ignore_case else given
        at, length = chosen.buffer_info()
        found = program_kernels.accepts(
            address_of(described.programs) + 8 * place,
            address_of(described.literals) + literals,
            at,
            at,
            length - PADDING,
        )
        assert found == accepts(expression, text), text


@given(st.lists(patterns, max_size=30), st.lists(values, min_size=1, max_size=12))
@example([LikePattern.parse("%k%", ignore_case=True), LikePattern.parse("%K%")], ["\u212a", "K", "k", "İ"])
@example([LikePattern.parse("%éÉ%", ignore_case=True), LikePattern.parse("%É%"), Regex("é")], ["É", "éé", "ÉÉ", "É é"])
@example([LikePattern.parse("ας", ignore_case=True), LikePattern.parse("%ασ%", ignore_case=True)], ["ΑΣ", "ΑΣΑ"])
@example([Regex("(foo|bar)x"), Regex(r"a\Bb"), Regex("[ab]{80}")], ["foox barx", "ab", "ab" * 40, "x"])
def test_a_table_finds_what_each_pattern_finds(expressions: list[LikePattern | Regex], texts: list[str]) -> None:
    coded = [CodedPattern(code, expression) for code, expression in enumerate(expressions)]
    table = PatternTable(coded)
    for text in texts:
        found = table.find(text)
        assert sorted(found) == [each.code for each in coded if accepts(each.expression, text)], text


words = st.text(st.sampled_from("aabbAB1- éK日"), min_size=1, max_size=6)
like_forms = st.sampled_from(["{0}%{1}", "%{0}_{1}%", "{0}%", "%{1}", "%{0}%{1}%", "{0}", "_{0}%"])
regex_forms = st.sampled_from(
    ["^{0}[ab]+{1}", "{0}.*{1}$", "({0}|{1})x?", "{0}+{1}", "^{0}", "{0}{{2}}", "(?i){0}", "[a1]{0}|b{1}"]
)
alike = st.one_of(
    st.builds(
        lambda form, first, second, folds: LikePattern.parse(form.format(first, second), ignore_case=folds),
        like_forms, words, words, st.booleans(),
    ),
    st.builds(lambda form, first, second: Regex.compile(form.format(first, second)), regex_forms, words, words),
)  # fmt: skip


@given(st.lists(alike, min_size=1, max_size=60), st.lists(st.lists(words, max_size=4).map("".join), max_size=10))
def test_patterns_of_one_skeleton_are_told_apart(expressions: list[LikePattern | Regex], texts: list[str]) -> None:
    coded = [CodedPattern(code, expression) for code, expression in enumerate(expressions)]
    table = PatternTable(coded)
    # Each of them has a text that is in it, so that most are found somewhere.
    own = [each.text.strip("^$?+") for each in expressions]
    for text in (*texts, *own):
        found = table.find(text)
        assert sorted(found) == [each.code for each in coded if accepts(each.expression, text)], text


def test_texts_that_begin_or_end_alike_are_found() -> None:
    # More than are filed under the gram at an end of values, and fewer; longer than a gram, and not.
    starts = [f"https://{number}%x{number % 3}%" for number in range(30)] + ["ab%c_", "abc%d_", "abcd%_", "abcde%_"]
    ends = [f"%{number % 3}y%{number}.example.com" for number in range(30)] + ["%_ba", "%_cba", "%_dcba", "%_edcba"]
    coded = [CodedPattern(code, LikePattern.parse(text)) for code, text in enumerate(starts + ends)]
    table = PatternTable(coded)
    texts = [f"https://{number}/x{number % 2}/1y/{number}.example.com" for number in range(32)]
    for text in [*texts, "abcdexx", "abcdcx", "xedcba", "ba", "xba", "https:/", ".example.com", ""]:
        assert sorted(table.find(text)) == [each.code for each in coded if each.accepts(text)], text


def test_patterns_of_one_form_are_one_skeleton() -> None:
    likes = [CodedPattern(code, LikePattern.parse(f"a{code}%b{code}%c")) for code in range(10, 100)]
    regexes = [CodedPattern(code, Regex(f"^a{code}[a-m]+日{code}")) for code in range(100, 200)]
    described = describe([*likes, *regexes])
    assert len(described.skeletons) == 2
    assert sorted(described.patterns[:, PATTERN_CODE].tolist()) == list(range(10, 200))


def test_a_lone_surrogate_is_tested_too() -> None:
    wanted = [LikePattern.parse("%\ud800%"), LikePattern.parse("a%"), Regex("a.b"), LikePattern.parse("x")]
    table = PatternTable([CodedPattern(code, each) for code, each in enumerate(wanted)])
    assert sorted(table.find("a\ud800b")) == [0, 1, 2]


def test_very_long_values_are_found_in() -> None:
    wanted = [LikePattern.parse("%b%c"), Regex("(?i)XB+c$"), LikePattern.parse("a%")]
    table = PatternTable([CodedPattern(code, each) for code, each in enumerate(wanted)])
    assert sorted(table.find("x" * 100_000 + "bc")) == [0, 1]


CONDITIONS = [
    "n LIKE 'a%b%c'",
    "n LIKE 'A%b%c'",
    "n ILIKE 'A_B%'",
    "n NOT LIKE '%b_'",
    "n LIKE '%é%'",
    "n ILIKE '%É%'",
    "n RLIKE '^ab[a-m]+c'",
    "n RLIKE '(?i)AB|CD'",
    "n RLIKE 'c$'",
    r"n RLIKE '\\bab\\b'",
    "n NOT RLIKE '[a-c]{70,}'",
    "n LIKE '50!%%' ESCAPE '!'",
    "any_value_rlike('(?i)xyz|b.c')",
]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_batches_events_and_filters_agree(kind: pa.DataType) -> None:
    texts: list[str | None] = [
        "",
        "abc",
        "ABC",
        "axbxc",
        "abddc",
        "aéb",
        "É",
        "ab",
        "cd\n",
        "b.c",
        "50%",
        "50%b",
        "XYZ",
        None,
    ]
    texts += ["a" * 100, "a" * 100 + "bc", "x ab y", "\u212aab", "İab", "日ab日"]
    wants = Matcher()
    wants.add_many([str(n) for n in range(len(CONDITIONS))], CONDITIONS)
    filters = [Filter.parse(condition) for condition in CONDITIONS]
    happened: list[dict[str, Any]] = [{"n": text} for text in texts]
    expected = [{str(n) for n, each in enumerate(filters) if each.matches(event)} for event in happened]
    assert [wants.match(event) for event in happened] == expected
    found = wants.match_batch(pa.table({"n": pa.array(texts, kind)}))
    rows: list[set[str]] = [set() for _ in texts]
    for row, id in zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True):
        rows[row].add(id)
    assert rows == expected
