"""CESQL parser: texts, their trees, and the errors of texts that are no expressions."""

from __future__ import annotations

import pytest
from hypothesis import given

from palio.errors import ParseError
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal
from palio.languages.cesql.parser import CesqlParser, parse_expression, print_expression
from tests.languages.cesql.expressions import expressions, text_of


@pytest.mark.parametrize(
    ("text", "bracketed"),
    [
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("8 / 4 % 3", "(8 / 4) % 3"),
        ("a + 1 = b - 2", "(a + 1) = (b - 2)"),
        ("a = b = c", "(a = b) = c"),
        ("a < b AND c >= d", "(a < b) AND (c >= d)"),
        # AND, OR and XOR bind equally, from left to right.
        ("a OR b AND c", "(a OR b) AND c"),
        ("a AND b OR c", "(a AND b) OR c"),
        ("a OR b OR c AND d AND e", "(a OR b OR c) AND d AND e"),
        ("a XOR b XOR c", "(a XOR b) XOR c"),
        ("a AND b XOR c OR d", "((a AND b) XOR c) OR d"),
        # NOT and the minus bind tighter than LIKE, and LIKE and IN tighter than what stands between two values.
        ("NOT a AND b", "(NOT a) AND b"),
        ("NOT a = b", "(NOT a) = b"),
        ("NOT a LIKE 'x'", "(NOT a) LIKE 'x'"),
        ("NOT EXISTS a OR b", "(NOT EXISTS a) OR b"),
        ("NOT NOT a", "NOT (NOT a)"),
        ("NOT(a LIKE 'x')", "NOT (a LIKE 'x')"),
        ("-a LIKE '-%'", "(-(a)) LIKE '-%'"),
        ("a + b LIKE 'x'", "a + (b LIKE 'x')"),
        ("a = b IN (1, c)", "a = (b IN (1, c))"),
        ("a * b IN (1)", "a * (b IN (1))"),
        ("a LIKE 'x' LIKE 'y'", "(a LIKE 'x') LIKE 'y'"),
        ("a IN (1) IN (TRUE)", "(a IN (1)) IN (TRUE)"),
        ("a NOT LIKE 'x' AND b NOT IN (1, 2)", "(NOT (a LIKE 'x')) AND (NOT (b IN (1, 2)))"),
        ("a - -1", "a - -1"),
        ("a -1", "a - 1"),
        ("4-1", "4 - 1"),
        ("--10", "-(-10)"),
        ("- 4 + +1", "(-(4)) + 1"),
        ("-'10'", "-('10')"),
        ("(((a)))", "a"),
        ("length(a)", "LENGTH(a)"),
        ("Concat_Ws(',', a, b)", "CONCAT_WS(',', a, b)"),
        ("concat()", "CONCAT()"),
        ("left(a, 2) = 'x' and TRUE", "(LEFT(a, 2) = 'x') AND TRUE"),
        ("a<>1", "a <> 1"),
        ("a!=1", "a <> 1"),
        ("1a = 2", "1a = 2"),
        ("SOURCE = Subject", "source = subject"),
        ("tRuE xOr FaLsE", "TRUE XOR FALSE"),
        ("a\tIN\r\n( 1 )", "a IN (1)"),
        ("-2147483648", "-2147483648"),
        ("nul(a)", "NUL(a)"),
    ],
)
def test_operators_bind_as_the_specification_says(text: str, bracketed: str) -> None:
    expression = parse_expression(text)
    assert print_expression(expression) == bracketed
    assert parse_expression(bracketed) == expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'abc'", "abc"),
        ('"abc"', "abc"),
        ("'a\"b'", 'a"b'),
        ("'it\\'s'", "it's"),
        ('"a\\"b"', 'a"b'),
        # A backslash before anything but the quote that would end the text is a backslash.
        ("'a\\\"b'", 'a\\"b'),
        ('"a\\\'b"', "a\\'b"),
        ("'a\\\\'", "a\\\\"),
        ("'a\\\\\\'b'", "a\\\\'b"),
        ("'\\%'", "\\%"),
        ("''", ""),
        ("'ä\n€'", "ä\n€"),
        ("+7", 7),
        ("007", 7),
        ("-0", 0),
        ("2147483647", 2147483647),
    ],
)
def test_literals_have_their_values(text: str, value: object) -> None:
    expression = parse_expression(text)
    assert expression == Literal(value)  # type: ignore[arg-type]
    assert parse_expression(print_expression(expression)) == expression


def test_places_are_those_of_the_text() -> None:
    expression = parse_expression(" a = LENGTH('x')")
    assert isinstance(expression, Call)
    assert expression.span == (1, 16)
    assert [argument.span for argument in expression.arguments] == [(1, 2), (5, 16)]


@pytest.mark.parametrize(
    ("text", "position", "reason", "hint"),
    [
        ("", 0, "the expression is empty", "TRUE"),
        ("  \n", 0, "the expression is empty", "TRUE"),
        ("a =", 3, "ends where a value should stand", None),
        ("ABC(", 4, "ends where a value should stand", None),
        ("(a = 1", 6, "the bracket is never closed", "a ) is missing"),
        ("LENGTH(a", 8, "the arguments of LENGTH is never closed", "a ) is missing"),
        ("a = 1)", 5, "this bracket was never opened", "leave it out"),
        ("a b", 2, "b does not continue the expression", "an operator"),
        ("a = = 1", 4, "= stands where a value should", "'equals' is written ="),
        ("a == 1", 3, "= stands where a value should", "'equals' is written ="),
        ("a => 1", 3, "> stands where a value should", "'at least' is written >="),
        ("a IS NULL", 2, "IS does not continue the expression", "EXISTS"),
        ("a BETWEEN 1 AND 2", 2, "BETWEEN does not continue the expression", "write x >= 1 AND x <= 9"),
        ("a LIKE 123", 7, "the pattern of LIKE is a text in quotes", "LIKE 'a%'"),
        ("a LIKE b", 7, "the pattern of LIKE is a text in quotes", "LIKE 'a%'"),
        ("a LIKE CONCAT('a')", 7, "the pattern of LIKE is a text in quotes", "LIKE 'a%'"),
        ("a LIKE 'x' ESCAPE '!'", 11, "ESCAPE does not continue", "is written \\%"),
        ("a IN ()", 6, "a list has at least one value", "FALSE"),
        ("a IN 1", 5, "behind IN stands a list in brackets", "IN ('a', 'b')"),
        ("a NOT b", 2, "NOT stands before a condition", None),
        ("a NOT = b", 2, "NOT stands before a condition", None),
        ("EXISTS 'a'", 7, "behind EXISTS stands the name", "without brackets"),
        ("EXISTS (a)", 7, "behind EXISTS stands the name", "without brackets"),
        ("EXISTS true", 7, "behind EXISTS stands the name", None),
        ("a_b = 1", 0, "a_b is no name of a CloudEvents attribute", "lower-case letters and digits"),
        ("data.x = 1", 4, "no dotted names", "lower-case"),
        ("x = 1.5", 5, "no fractions", None),
        ("`a` = 1", 0, "names have no quotes", None),
        ("f1(a)", 0, "f1 is no name of a function", None),
        ("_f(a)", 0, "_f is no name of a function", None),
        ("2147483648", 0, "an Integer has 32 bits", None),
        ("-2147483649", 0, "an Integer has 32 bits", None),
        ("- 2147483648", 2, "an Integer has 32 bits", None),
        ("99999999999999999999999999", 0, "an Integer has 32 bits", None),
        ("+a", 0, "+ stands where a value should", "directly before digits"),
        ("+ 5", 0, "+ stands where a value should", "directly before digits"),
        ("a = 'x", 4, "this text is never closed", "\\'"),
        ("a = 'x\\'", 4, "this text is never closed", "\\'"),
        ('"', 0, "this text is never closed", '\\"'),
        ("'it''s'", 4, "a quote inside a text has a backslash before it", "'it\\'s'"),
        ("a LIKE 'it''s'", 11, "a quote inside a text has a backslash before it", "'it\\'s'"),
        ("!a", 0, "! stands only in !=", "NOT"),
        ("a ! = 1", 2, "! stands only in !=", "NOT"),
        ("a = “x”", 4, "a typographic quotation mark", None),
        ("a = ?", 4, "the character '?' has no meaning here", None),
        ("a = \0", 4, "the character U+0000 has no meaning here", None),
        ("ä = 1", 0, "the character 'ä' has no meaning here", None),
        ("a = '\ud800'", 5, "half a character", "damaged"),
        ("and", 0, "and stands where a value should", None),
        ("a AND", 5, "ends where a value should stand", None),
        ("CONCAT(a,)", 9, ") stands where a value should", None),
        ("CONCAT(a b)", 9, "b does not continue", None),
        ("a, b", 1, ", does not continue", None),
    ],
)
def test_what_is_no_expression_is_refused(text: str, position: int, reason: str, hint: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse_expression(text)
    assert reason in caught.value.reason
    assert caught.value.position == position
    assert hint is None or hint in (caught.value.hint or "")


@given(expressions())
def test_a_written_expression_reads_back_as_itself(tree: object) -> None:
    expression = parse_expression(text_of(tree))  # type: ignore[arg-type]
    assert parse_expression(print_expression(expression)) == expression


@pytest.mark.parametrize("deep", ["(" * 99 + "a" + ")" * 99, "NOT " * 99 + "a", "-" * 99 + "a", "1" + " + 1" * 99])
def test_what_nests_deeply_is_read(deep: str) -> None:
    assert isinstance(parse_expression(deep), Attribute | Call)


@pytest.mark.parametrize(
    "deep",
    [
        "(" * 100_000, "(" * 101 + "a" + ")" * 101, "NOT " * 100_000 + "a", "- " * 100_000 + "a", "1" + " + 1" * 99_999,
        "a" + " LIKE 'x'" * 100_000, "f(" * 100_000, "a IN (" * 100_000, "a AND b OR " * 10_000 + "c",
    ],
)  # fmt: skip
def test_what_nests_too_deeply_is_refused(deep: str) -> None:
    with pytest.raises(ParseError, match=f"nest(ed)? more than {CesqlParser.max_levels} levels deep"):
        parse_expression(deep)


def test_long_chains_do_not_nest() -> None:
    expression: Expression = parse_expression(" OR ".join(["a"] * 10_000))
    assert expression == Call("or", (Attribute("a"),) * 10_000)


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(ParseError, match="more than the 2,000,000 allowed"):
        parse_expression("a" * 2_000_001)
