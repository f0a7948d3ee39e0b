"""What do the words behind a value ask of it: IS, IN, BETWEEN, LIKE, ILIKE, RLIKE, with or without NOT?

The operands are values, except in lists. LIKE ANY and LIKE ALL become what they mean, an OR or AND of LIKEs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palio.filters.expressions.tree import Call, Expression, Literal
from palio.languages.sql import literals
from palio.languages.sql.calls import like
from palio.languages.sql.lexer import TEXT
from palio.languages.sql.precedence import VALUE
from palio.languages.sql.vocabulary import UNEXPECTED

if TYPE_CHECKING:
    from palio.languages.sql.parser import Parser


def read_predicate(parser: Parser, value: Expression, start: int) -> Expression:
    """The predicate that begins with the next token; `start` is where its value begins."""
    key = parser.take()
    if key == "!":
        parser.refuse(parser.at - 1, UNEXPECTED["!"])
    if key == "is":
        return _is(parser, value, start)
    negated = key == "not"
    if negated:
        key = parser.take()
    if key in ("like", "ilike") and parser.peek() in ("any", "some", "all") and parser.peek(1) == "(":
        return _like_many(parser, key, value, start, negated)
    if key == "between":
        low = parser.expression(VALUE)
        parser.expect("and", "BETWEEN has two ends", "write x BETWEEN 1 AND 10")
        found = parser.call("between", (value, low, parser.expression(VALUE)), start)
    elif key == "in":
        found = parser.call("in", (value, *_list(parser, "IN")), start)
    elif key in ("rlike", "regexp"):
        found = parser.call("rlike", (value, parser.expression(VALUE)), start)
    elif key in ("like", "ilike"):
        found = _like(parser, key, value, start)
    else:
        parser.at -= 1
        hint = "IN, LIKE, ILIKE, RLIKE or BETWEEN may follow it here"
        parser.fail_here(f"NOT is followed by {parser.shown()}", hint)
    return parser.call("not", (found,), start) if negated else found


def _is(parser: Parser, value: Expression, start: int) -> Expression:
    negated = parser.peek() == "not"
    if negated:
        parser.at += 1
    key = parser.take()
    if key in ("null", "unknown"):
        return parser.call("isnotnull" if negated else "isnull", (value,), start)
    if key in ("true", "false"):
        found = parser.call(f"is{key}", (value,), start)
    elif key == "distinct" and parser.peek() == "from":
        parser.at += 1
        found = parser.call("<=>", (value, parser.expression(VALUE)), start)
        negated = not negated
    else:
        parser.at -= 1
        hint = "[NOT] NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM may follow it; for other values write ="
        parser.fail_here(f"IS is followed by {parser.shown()}", hint)
    return parser.call("not", (found,), start) if negated else found


def _like(parser: Parser, function: str, value: Expression, start: int) -> Call:
    pattern = parser.expression(VALUE)
    escape = None
    if parser.peek() == "escape":
        kind, _, first, last = parser.tokens[parser.at + 1]
        character = parser.read(first, literals.text, [parser.text[first:last]]) if kind == TEXT else ""
        if len(character) != 1 or ord(character) > 0xFFFF:
            parser.fail(first, "behind ESCAPE stands a text of one character", "write ESCAPE '/'")
        escape = Literal(character, (first, last))
        parser.at += 2
    return like(function, value, pattern, escape, parser.span(start))


def _like_many(parser: Parser, function: str, value: Expression, start: int, negated: bool) -> Expression:
    """LIKE ANY and LIKE ALL; NOT goes to every pattern by itself, so NOT LIKE ANY is an OR of NOT LIKEs."""
    quantifier = parser.take()
    patterns = _list(parser, f"LIKE {quantifier.upper()}")
    parser.copy(value, len(patterns) - 1)
    span = parser.span(start)
    parts: list[Expression] = [Call(function, (value, pattern), span) for pattern in patterns]
    if negated:
        parts = [Call("not", (part,), span) for part in parts]
    return Call("and" if quantifier == "all" else "or", tuple(parts), span) if len(parts) > 1 else parts[0]


def _list(parser: Parser, owner: str) -> list[Expression]:
    """The expressions of a list in brackets."""
    parser.expect("(", f"behind {owner} stands a list in brackets", f"write {owner} ('a', 'b')")
    parser.refuse_query("list the values themselves")
    if parser.peek() == ")":
        parser.fail_here(f"the list of {owner} is empty", "FALSE is the condition that nothing satisfies")
    found = [parser.expression()]
    while parser.peek() == ",":
        parser.at += 1
        found.append(parser.expression())
    parser.close(f"the list of {owner}")
    return found
