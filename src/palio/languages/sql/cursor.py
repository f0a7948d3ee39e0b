"""Where in a condition are we, and what can be said when it does not go on as it should?

The steps every part of the parser takes, and the errors it ends in: each with the place, what is wrong there,
and where possible what was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, ParamSpec, TypeVar

from palio.errors import ParseError
from palio.filters.expressions.tree import Call, Expression, Span
from palio.languages.sql.lexer import END, NUMBER, SIGN, Token
from palio.languages.sql.literals import BadLiteral
from palio.languages.sql.precedence import INFIX, PREFIX
from palio.languages.sql.vocabulary import CLAUSES, UNEXPECTED, Refusal

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

DEEPEST: Final = 200
"""Levels that a condition may nest: brackets in its text, calls in its tree."""

PREDICATES: Final = frozenset({"is", "in", "between", "like", "ilike", "rlike", "regexp", "not", "!"})
"""What begins a predicate behind a value."""

CONTINUES_NAME: Final = frozenset({*INFIX, *PREDICATES, ")", ",", ".", "::"} - set(PREFIX))
"""What shows that the word before it is a name and begins nothing; a sign does not, it may begin a value."""

_QUERY_WORDS: Final = frozenset({"select", "with", "values", "from", "table"})
_SLIPS: Final = {
    "=<": "'at most' is written <=",
    "=>": "'at least' is written >=",
    "===": "'equals' is written =",
    "><": "'differs from' is written <>",
    "&&": "'and' is written AND",
}


class Cursor:
    """The tokens of a condition and the place of the next one."""

    __slots__ = ("at", "text", "tokens")

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        """The key of a token further on, which must not be beyond the end."""
        return self.tokens[self.at + ahead][1]

    def take(self) -> str:
        """The next token's key, and on to the one behind it."""
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, key: str, reason: str, hint: str) -> None:
        """On behind a token that must be here."""
        kind, found, start, _ = self.tokens[self.at]
        if found != key:
            if found in UNEXPECTED and kind == SIGN:
                self.unexpected()
            self.fail(start, f"{reason}; here is {self.shown()}", hint)
        self.at += 1

    def refuse_clause(self) -> None:
        """Refuse a whole query, or its WHERE with the word itself; its first word may also be a name."""
        key = self.peek()
        if key in CLAUSES and self.tokens[1][0] != END:
            following = self.peek(1)
            if (following == "*" and self.peek(2) == "from") or following not in {*INFIX, *CONTINUES_NAME}:
                self.refuse(0, CLAUSES[key])

    def end(self) -> None:
        """Nothing may follow any more."""
        kind, key, _, _ = self.tokens[self.at]
        if key in CLAUSES:
            self.refuse(self.at, CLAUSES[key])
        if kind != END:
            self.unexpected()

    def close(self, what: str) -> None:
        """On behind the bracket that closes something."""
        kind, key, start, _ = self.tokens[self.at]
        if key != ")":
            if kind == END:
                self.fail(start, f"{what} is never closed", "a ) is missing")
            self.unexpected()
        self.at += 1

    def span(self, start: int) -> Span:
        """From a position to the end of the last token."""
        return start, self.tokens[self.at - 1][3]

    def call(self, function: str, arguments: tuple[Expression, ...], start: int) -> Call:
        """A call that was written from a position to the end of the last token."""
        return Call(function, arguments, (start, self.tokens[self.at - 1][3]))

    def read(
        self,
        position: int,
        reader: Callable[Arguments, Value],
        *given: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Value:
        """What a function makes of a piece of text; what it cannot read is an error at that position."""
        try:
            return reader(*given, **named)
        except BadLiteral as error:
            raise ParseError(self.text, position, error.reason, error.hint) from None

    def fail(self, position: int, reason: str, hint: str | None = None) -> NoReturn:
        """End with an error."""
        raise ParseError(self.text, position, reason, hint)

    def fail_here(self, reason: str, hint: str | None = None) -> NoReturn:
        """End with an error at the next token."""
        raise ParseError(self.text, self.tokens[self.at][2], reason, hint)

    def refuse(self, at: int, refusal: Refusal) -> NoReturn:
        """End with an error at a token that is known for what it is."""
        _, key, start, _ = self.tokens[at]
        self.fail(start, refusal.reason.format(name=key.upper()), refusal.hint)

    def unexpected(self) -> NoReturn:
        """The next token continues nothing."""
        kind, key, start, _ = self.tokens[self.at]
        if key == "." and self.tokens[self.at - 1][0] == NUMBER:
            self.fail(start, "a number has a second point, or letters behind the point")
        if key in UNEXPECTED:
            self.refuse(self.at, UNEXPECTED[key])
        if key == ")":
            self.fail(start, "this bracket was never opened", "leave it out, or add a ( before")
        if kind == NUMBER and self.text[start] == ".":
            self.fail(start, "a name that begins with a digit needs back-quotes here", "write a.`1`")
        if key in PREDICATES or key in INFIX:
            reason = f"{self.shown()} cannot stand here without brackets"
            self.fail(start, reason, "put brackets around the condition it is part of")
        hint = None if kind == SIGN else "an operator such as AND or = is missing before it"
        self.fail(start, f"{self.shown()} does not continue the condition", hint)

    def missing_value(self) -> NoReturn:
        """The next token begins no value."""
        kind, key, _, _ = self.tokens[self.at]
        before = self.tokens[self.at - 1] if self.at else None
        if kind == END and before is not None:
            shown = self.text[before[2] : before[3]][:40]
            self.fail_here("the condition ends where a value should stand", f"write one behind {shown}")
        if key in ("?", ":", "[", ";", "->"):
            self.refuse(self.at, UNEXPECTED[key])
        hint = _SLIPS.get(before[1] + key) if before else None
        if key == "*":
            hint = "a star stands for all attributes; name one"
        self.fail_here(f"{self.shown()} stands where a value should", hint)

    def refuse_query(self, hint: str) -> None:
        """Refuse a query in brackets; its first word may also be a name."""
        _, key, start, _ = self.tokens[self.at]
        if key in _QUERY_WORDS:
            kind, following, _, _ = self.tokens[self.at + 1]
            if kind != END and following not in CONTINUES_NAME:
                self.fail(start, "there are no subqueries in a condition", hint)

    def bound_depth(self, tree: Expression) -> None:
        """Refuse a tree that is too deep to walk: 1 + 1 + 1 … nests without brackets."""
        if len(self.tokens) <= DEEPEST:
            return  # no tree is deeper than its text has tokens
        layer = [tree]
        for _ in range(DEEPEST):
            layer = [each for node in layer if isinstance(node, Call) for each in node.arguments]
            if not layer:
                return
        hint = "split the condition, or compute so long a chain where the event is made"
        self.fail(layer[0].span[0], f"operators and calls nest more than {DEEPEST} levels deep", hint)

    def shown(self) -> str:
        """The next token, as an error names it."""
        kind, _, start, end = self.tokens[self.at]
        if kind == END:
            return "the end"
        return self.text[start:end] if end - start <= 40 else f"{self.text[start : start + 40]}…"
