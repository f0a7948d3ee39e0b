"""JMS parser: trees, errors with positions, and limits."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, ParseError
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal
from palio.languages.jms import condition, parse
from palio.languages.jms.lexer import is_identifier, write_name
from palio.languages.jms.parser import ALL, SelectorParser, parse_selector, print_selector
from tests.hangs import no_hang


def shown(expression: Expression) -> str:
    match expression:
        case Literal(value):
            return repr(value)
        case Attribute(name):
            return name
        case Call(function, arguments):
            return f"({function} {' '.join(map(shown, arguments))})"
    raise TypeError(expression)


@pytest.mark.parametrize(
    ("selector", "tree"),
    [
        ("a = 1 OR b = 2 AND NOT c = 3", "(or (= a 1) (and (= b 2) (not (= c 3))))"),
        ("a AND b AND c OR d OR e", "(or (and a b c) d e)"),
        ("(a AND b) AND c", "(and (and a b) c)"),
        ("NOT NOT a", "(not (not a))"),
        ("NOT a IS NULL", "(not (isnull a))"),
        ("NOT a NOT IN ('x')", "(not (notin a 'x'))"),
        ("a - 1 - 2 * 3 / 4 % 5 + 6 > 0", "(> (+ (- (- a 1) (% (/ (* 2 3) 4) 5)) 6) 0)"),
        ("-a * -b = - - 1", "(= (* (neg a) (neg b)) (neg -1))"),
        ("+a = +1", "(= (pos a) 1)"),
        ("a--1 = 2", "(= (- a -1) 2)"),
        ("a -1 = 2", "(= (- a 1) 2)"),
        ("a + 1 BETWEEN b - 1 AND c AND d", "(and (between (+ a 1) (- b 1) c) d)"),
        ("a NOT BETWEEN 1 AND 2 OR b", "(or (notbetween a 1 2) b)"),
        ("a LIKE 'x''y' ESCAPE '\\' AND b", "(and (like a \"x'y\" '\\\\') b)"),
        ("a IN ('x', 5, TRUE, b, -1)", "(in a 'x' 5 True b -1)"),
        ("(a = 1) = TRUE", "(= (= a 1) True)"),
        ("((a)) = ((1))", "(= a 1)"),
        ("JMSType = 'car' AND color = 'blue'", "(and (= JMSType 'car') (= color 'blue'))"),
        ('a."b.c"."d" = 1', "(= a.`b.c`.d 1)"),
        ("a -- the first\n = 1 -- the second\r AND b", "(and (= a 1) b)"),
        ("a /* -- ' */ = 1", "(= a 1)"),
        ("'--' = '/*'", "(= '--' '/*')"),
    ],
)
def test_a_selector_says_this(selector: str, tree: str) -> None:
    found = parse_selector(selector)
    assert shown(found) == tree
    assert parse_selector(print_selector(found)) == found


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("a+1>( b )", "a + 1 > b"),
        ("a-(b-c)=(a*b)*c", "a - (b - c) = a * b * c"),
        ("a = 0x10 or a = 1e1", "a = 16 OR a = 10.0"),
        ("not(a = 1 or b)", "NOT (a = 1 OR b)"),
        ("-(-(a)) = -(5)", "-(-a) = -(5)"),
        ("a - -5 = +(b)", "a - -5 = +b"),
        ('"a" = 1 and "In" is not null', 'a = 1 AND "In" IS NOT NULL'),
        ("a not like 'it''s' escape '!'", "a NOT LIKE 'it''s' ESCAPE '!'"),
        ("(a > 1) is null", "(a > 1) IS NULL"),
        ("(a in ('x')) <> (b)", "(a IN ('x')) <> b"),
    ],
)
def test_a_selector_is_written_in_one_way(selector: str, text: str) -> None:
    assert print_selector(parse_selector(selector)) == text


@pytest.mark.parametrize(
    ("selector", "place", "reason", "hint"),
    [
        ("a = ", "", "ends where a value should stand", "behind ="),
        ("price > 10 AND", "", "ends where a value should stand", "behind AND"),
        ("a = 1 AMD b = 2", "AMD", "AMD does not continue the selector", "AND or ="),
        ("a + 1", "a", "a value, not a condition", "compare it"),
        ("x > 1 AND a + 1", "a", "a value, not a condition", "compare it"),
        ("x > 1 AND 'a'", "'a'", "a value, not a condition", "compare it"),
        ("a LIKE b", "b", "behind LIKE stands a text; here is b", "LIKE 'a%'"),
        ("a LIKE 'x' ESCAPE 'yy'", "'yy'", "a text of one character", "ESCAPE '!'"),
        ("a LIKE 'x!' ESCAPE '!'", "'x!'", "ends with its escape character !", "twice"),
        ("a IN ()", ")", "the list of IN is empty", "FALSE"),
        ("a IN ('x' 'y')", "'y'", "does not continue the list of IN", "comma"),
        ("a NOT = 1", "=", "NOT is followed by =", "IN, LIKE or BETWEEN"),
        ("a = NULL", "NULL", "NULL is no value to compare with", "IS NULL"),
        ("between = 1", "between", "between stands where a value should", '"between"'),
        ("a = 1)", ")", "never opened", "leave it out"),
        ("(a = 1", "", "the bracket is never closed", "a ) is missing"),
        ("a = 'x", "'x", "this text is never closed", "''"),
        ('"a = 1', '"a', "this name is never closed", '""'),
        ("a == 1", "= 1", "= stands where a value should", "'equals' is written ="),
        ("a != 1", "!", "there is no sign !", "<>"),
        ("a = 09", "09", "octal", "write 9"),
        ("a = 5 -- five", "--", "this comment never ends", "a line end"),
        ("a = 5 --1\n", "--", "may begin a comment here or be two minus signs", "write - -"),
        ("-- a = 5\n", "-- a", "no condition beside the comment", "TRUE"),
        ("lower(a) = 'x'", "lower", "no functions", "SQL"),
        ("a > TRUE", "TRUE", "no order", "= and <>"),
        ("a = 1 = 2", "= 2", "do not chain", "brackets"),
        ("a LIKE 'x' = b", "= b", "cannot follow a predicate", "brackets"),
        ("a = 1 IS NULL", "IS", "cannot follow a comparison", "brackets"),
        ("a.5 = 1", ".5", "a dot stands only between names", "quotes"),
        ("a\x00 = 1", "\x00", "U+0000 has no meaning", "quotes"),
        ("“a” = 1", "“", "typographic", "'"),
        ("a ESCAPE 'x'", "ESCAPE", "stands behind the text of LIKE", "LIKE"),
        ("XPATH '/a'", "'/a'", "no XPath", "ActiveMQ"),
    ],
)
def test_an_error_says_where_why_and_what_would_be_right(selector: str, place: str, reason: str, hint: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(selector)
    error = caught.value
    assert error.position == (selector.rindex(place) if place else len(selector))
    assert reason in error.reason
    assert hint in (error.hint or "")


def test_a_blank_selector_selects_everything() -> None:
    for selector in ("", " ", "\t\r\n\f"):
        assert parse(selector) == Filter.everything
        assert parse_selector(selector) == ALL


@pytest.mark.parametrize("selector", [None, 5, b"a = 1", ["a = 1"]])
def test_a_selector_is_text(selector: Any) -> None:
    with pytest.raises(ParseError, match="a selector is text"):
        parse(selector)


def test_a_time_zone_changes_nothing() -> None:
    assert parse("a = 1", timezone="Europe/Oslo") == parse("a = 1")


# --- names

LETTERS = st.characters(categories=["Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"])
OTHERS = LETTERS | st.characters(categories=["Nd", "Mn", "Mc", "Cf"])


@given(LETTERS, st.text(OTHERS, max_size=5))
def test_java_identifiers_are_names(first: str, rest: str) -> None:
    name = first + rest
    if is_identifier(name):
        assert parse_selector(name) == Attribute(name)
    else:
        assert name.lower() in "null true false not and or between like in is escape".split()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1, max_size=3))
def test_any_name_can_be_written(segments: list[str]) -> None:
    from palio.events.names import join_path

    path = join_path(segments)
    assert parse_selector(f"{write_name(path)} = 1") == Call("=", (Attribute(path), Literal(1)))


@pytest.mark.parametrize("name", ["1a", "a-b", "a b", "", "in", "a½", "²", "a\u00a0b", "a\tb"])
def test_what_is_no_identifier_stands_in_quotes(name: str) -> None:
    assert not is_identifier(name)
    assert condition(f'"{name}" = 1')({name: 1})
    with pytest.raises(ParseError):
        parse_selector(f"{name} = 1 = 1")


# --- bounds

NESTED = {
    "brackets": lambda count: "(" * count + "a" + ")" * count,
    "negations": lambda count: "NOT " * count + "a",
    "signs": lambda count: "- " * count + "a = 1",
    "sums": lambda count: " + ".join(["a"] * count) + " = 1",
    "lists": lambda count: "a IN (" * count + "1" + ")" * count,
    "nulls": lambda count: "(" * count + "a > 1" + ") IS NULL" * count,
}


@pytest.mark.parametrize("nest", NESTED.values(), ids=NESTED)
def test_what_nests_deeply_is_refused_and_what_does_not_is_read(nest: Any) -> None:
    if nest is not NESTED["lists"]:
        assert parse(nest(SelectorParser.max_levels - 10)).matches({"a": True}) in (True, False)
    for count in (SelectorParser.max_levels + 10, 10_000, 100_000):
        with pytest.raises(ParseError):
            parse(nest(count))


@pytest.mark.parametrize(
    "selector",
    [
        "x = 1 OR " * 110_000 + "x = 1",
        "x IN ('" + "','".join(map(str, range(130_000))) + "')",
        "x LIKE '" + "%a" * 500_000 + "'",
        "x = '" + "a''" * 300_000 + "'",
        '"' + "a" * 1_000_000 + '" = 1',
        "/* " * 300_000 + "*/ x",
        "-" * 1_000_000,
        "--" * 500_000 + "\n x",
        "x -- a\n" * 140_000,
        "1" * 1_000_000,
        "1_" * 500_000,
        "1e" + "1" * 1_000_000,
        "0x" + "f" * 1_000_000,
        "x = " + "9" * 1_000_000 + ".0",
        "x = 0x1p" + "9" * 1_000_000,
        "'" * 1_000_001,
        "é" * 1_000_000,
        "a." * 500_000 + "a = 1",
        "/*" * 500_000,
    ],
    ids=lambda selector: selector[:12],
)
def test_a_megabyte_takes_a_moment(selector: str) -> None:
    with no_hang():
        try:
            parse(selector).matches({"x": 1})
        except ParseError as error:
            assert len(str(error)) < 1_000


def test_more_than_two_million_characters_are_refused_at_once() -> None:
    with pytest.raises(ParseError, match="more than the 2,000,000 allowed"):
        parse("x" * 2_000_001)


# --- any text

PIECES = [
    *"and or not in is like between null true false escape AND NOT a b $x é x.y JMSType".split(),
    *"= <> < <= > >= + - * / % ( ) , . == != && -- /* */ ' '' 'a' 'a%' '!' \" \"a\" \"\" ; ? : @ [ ] ` ~".split(),
    *"0 1 -1 1.5 .5 5. 1e5 1e 5L 0x1f 0x 017 09 0b1 1_0 1f 9223372036854775808 1e999 0x1p3 1a".split(),
    "-- comment\n", "/* c */", "LIKE 'a!%' ESCAPE '!'", "IN ('a', 'b')", "IS NOT NULL", "BETWEEN 1 AND 2",
    "\n", "\x00", "\u200b", "“", "\ud800", "😀", "hyphenated_props:", "XPATH", "f(",
]  # fmt: skip


def _survives(text: str) -> None:
    """The text is refused with a good error, or is a filter that can be used, printed and read back."""
    try:
        found = parse(text)
    except ParseError as error:
        assert 0 <= error.position <= len(text)
        assert error.reason
        assert len(str(error)) < 2_000
        return
    assert Filter.parse(str(found)) == found
    opposite = ~found
    assert Filter.parse(str(opposite)) == opposite
    for event in ({}, {"a": 5, "b": "a", "x": {"y": 1.5}}, {"a": [1, "a", None], "b": True}):
        found.matches(event)
        found.explain(event)
    assert pickle.loads(pickle.dumps(found)) == found


@given(st.text(st.characters(exclude_categories=()), max_size=100))
def test_any_text_is_a_selector_or_a_parse_error(text: str) -> None:
    _survives(text)


@given(st.lists(st.sampled_from(PIECES), max_size=20), st.sampled_from(["", " ", " "]))
def test_any_run_of_words_and_signs_is_a_selector_or_a_parse_error(pieces: list[str], between: str) -> None:
    _survives(between.join(pieces))
