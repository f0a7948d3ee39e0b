"""What does the text of an expression say? From text to `Expression`, by the grammar of CESQL 1.0.

Its operators, from loose to tight (§3.6):

    AND OR XOR, = != <> < <= > >=, + -, * / %, LIKE IN, NOT -

AND, OR and XOR bind equally and are taken from left to right, and NOT binds tighter than everything but a call:
`NOT a = b` is `(NOT a) = b`. That is what the specification says, though SQL and habit say otherwise. Keywords
and functions may be written in any case of letters, and so may attributes, whose names are lower-case.

In the tree an operator has its own sign or a name in small letters (`and`, `neg`, `exists`), and a function its name in
capital letters, so that no function can be taken for an operator. Only brackets and calls nest in Python as they do in
the text, by two frames a level.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NoReturn

from palio.errors import ParseError
from palio.filters.expressions.cloudevents_text import integer_in
from palio.filters.expressions.tree import Attribute, Call, Expression, Literal
from palio.languages.cesql.lexer import tokenize, unquote
from palio.languages.sql.lexer import END, NUMBER, TEXT, WORD, Token
from palio.languages.sql.precedence import UNARY, Operands, Operator

DEEPEST: Final = 100
"""Levels that an expression may nest: brackets in its text, calls in its tree."""

_LOGIC, _COMPARISON, _SUM, _PRODUCT = 1, 5, 10, 11
_INFIX: Final[dict[str, Operator]] = {
    "and": Operator(_LOGIC, "and", chains=True),
    "or": Operator(_LOGIC, "or", chains=True),
    "xor": Operator(_LOGIC, "xor"),
    "=": Operator(_COMPARISON, "="),
    "!=": Operator(_COMPARISON, "<>"),
    "<>": Operator(_COMPARISON, "<>"),
    "<": Operator(_COMPARISON, "<"),
    "<=": Operator(_COMPARISON, "<="),
    ">": Operator(_COMPARISON, ">"),
    ">=": Operator(_COMPARISON, ">="),
    "+": Operator(_SUM, "+"),
    "-": Operator(_SUM, "-"),
    "*": Operator(_PRODUCT, "*"),
    "/": Operator(_PRODUCT, "/"),
    "%": Operator(_PRODUCT, "%"),
}
_PREFIX: Final[dict[str, Operator]] = {"not": Operator(UNARY, "not"), "-": Operator(UNARY, "neg")}
_RESERVED: Final = frozenset({"and", "or", "xor", "not", "like", "in", "exists", "true", "false"})
_NAME: Final = re.compile(r"[a-z0-9]+")
_FUNCTION: Final = re.compile(r"[a-z][a-z_]*")

# What people write who come from SQL, and what to write instead.
_HABITS: Final = {
    "is": "whether an attribute is there is asked by EXISTS x and NOT EXISTS x",
    "null": "there is no NULL; whether an attribute is there is asked by EXISTS x",
    "between": "write x >= 1 AND x <= 9",
    "escape": "a % or _ that stands for itself is written \\% or \\_",
    "==": "'equals' is written =",
    "=<": "'at most' is written <=",
    "=>": "'at least' is written >=",
    "><": "'differs from' is written <> or !=",
}


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expression:
    """The expression a text says; ParseError where it says none. Takes time linear in the length of the text."""
    return _Parser(text).whole()


class _Parser:
    """One reading of one expression: its tokens, the place of the next one, and how deep it is nested."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self._level = 0

    def whole(self) -> Expression:
        """All of the text as one expression."""
        if len(self.tokens) == 1:
            self._fail(0, "the expression is empty", "TRUE is the expression that every event satisfies")
        tree = self.expression()
        if self.tokens[self.at][0] != END:
            self._unexpected()
        # No tree is deeper than its text has tokens; 1 + 1 + 1 … nests without brackets.
        if len(self.tokens) > DEEPEST:
            self._bound_depth(tree)
        return tree

    def expression(self) -> Expression:
        """What stands here, up to the first token that cannot continue it."""
        self._level += 1
        if self._level > DEEPEST:
            self._fail_here(f"nested more than {DEEPEST} levels deep", "split the expression")
        tokens, operands = self.tokens, Operands()
        while True:
            _, key, start, _ = tokens[self.at]
            if key in _PREFIX and not self._is_signed_number():
                operands.prefix(_PREFIX[key], start)
                self.at += 1
                continue
            operands.nodes.append(self._operand())
            operands.starts.append(start)
            self._tests(operands)
            operator = _INFIX.get(tokens[self.at][1])
            if operator is None:
                break
            operands.infix(operator, tokens[self.at - 1][3])
            self.at += 1
        if operands.pending:
            operands.settle(0, tokens[self.at - 1][3])
        self._level -= 1
        return operands.nodes[0]

    # --- operands --------------------------------------------------------------------------------------------

    def _operand(self) -> Expression:
        kind, key, start, end = token = self.tokens[self.at]
        if kind == TEXT:
            self.at += 1
            return self._string(token)
        if kind == NUMBER or self._is_signed_number():
            return self._number()
        reader = _READERS.get(key)
        if reader is not None:
            return reader(self)
        if kind != WORD or key in _RESERVED:
            self._missing_value()
        if self.tokens[self.at + 1][1] == "(":
            return self._function()
        self.at += 1
        return Attribute(self._name(token), (start, end))

    def _string(self, token: Token) -> Literal:
        _, _, start, end = token
        if self.tokens[self.at][0] == TEXT and self.tokens[self.at][2] == end:
            self._fail(end, "a quote inside a text has a backslash before it", "write 'it\\'s' for 'it''s'")
        return Literal(unquote(self.text[start:end]), (start, end))

    def _is_signed_number(self) -> bool:
        """Whether a sign stands here that belongs to the number directly behind it."""
        _, key, _, end = self.tokens[self.at]
        kind, _, start, _ = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        return key in ("-", "+") and kind == NUMBER and start == end

    def _number(self) -> Literal:
        start = self.tokens[self.at][2]
        self.at += 1 if self.tokens[self.at][0] == NUMBER else 2
        end = self.tokens[self.at - 1][3]
        number = integer_in(self.text[start:end])
        if number is None:
            self._fail(start, "an Integer has 32 bits: it lies between -2147483648 and 2147483647")
        return Literal(number, (start, end))

    def _truth(self) -> Literal:
        _, key, start, end = self.tokens[self.at]
        self.at += 1
        return Literal(key == "true", (start, end))

    def _exists(self) -> Call:
        _, _, start, _ = self.tokens[self.at]
        kind, key, first, end = token = self.tokens[self.at + 1]
        if kind not in (WORD, NUMBER) or key in _RESERVED:
            self._fail(first, "behind EXISTS stands the name of an attribute", "write EXISTS subject, without brackets")
        self.at += 2
        return Call("exists", (Attribute(self._name(token), (first, end)),), (start, end))

    def _brackets(self) -> Expression:
        self.at += 1
        found = self.expression()
        self._close("the bracket")
        return found

    def _function(self) -> Call:
        _, key, start, end = self.tokens[self.at]
        if not _FUNCTION.fullmatch(key):
            self._fail(start, f"{self.text[start:end]} is no name of a function: it has letters and underscores")
        self.at += 2
        arguments: list[Expression] = []
        if self.tokens[self.at][1] != ")":
            arguments = self._list()
        self._close(f"the arguments of {key.upper()}")
        return Call(key.upper(), tuple(arguments), (start, self.tokens[self.at - 1][3]))

    def _list(self) -> list[Expression]:
        items = [self.expression()]
        while self.tokens[self.at][1] == ",":
            self.at += 1
            items.append(self.expression())
        return items

    def _name(self, token: Token) -> str:
        _, key, start, end = token
        if not _NAME.fullmatch(key):
            hint = "it is of lower-case letters and digits"
            self._fail(start, f"{self.text[start:end]} is no name of a CloudEvents attribute", hint)
        return key

    # --- LIKE and IN ------------------------------------------------------------------------------------------

    def _tests(self, operands: Operands) -> None:
        """LIKE and IN behind an operand; they bind tighter than all between two operands."""
        while True:
            key, following = self.tokens[self.at][1], self.tokens[min(self.at + 1, len(self.tokens) - 1)][1]
            negated = key == "not"
            word = following if negated else key
            if word not in ("like", "in"):
                if negated:
                    self._fail_here("NOT stands before a condition, and in NOT LIKE and NOT IN", self._hint())
                return
            operands.settle(UNARY, self.tokens[self.at - 1][3])
            self.at += 2 if negated else 1
            start = operands.starts[-1]
            arguments = self._pattern() if word == "like" else self._set()
            span = (start, self.tokens[self.at - 1][3])
            call = Call(word, (operands.nodes[-1], *arguments), span)
            operands.nodes[-1] = Call("not", (call,), span) if negated else call

    def _pattern(self) -> list[Expression]:
        kind, _, start, _ = token = self.tokens[self.at]
        if kind != TEXT:
            self._fail(start, "the pattern of LIKE is a text in quotes, and nothing else", "write x LIKE 'a%'")
        self.at += 1
        return [self._string(token)]

    def _set(self) -> list[Expression]:
        if self.tokens[self.at][1] != "(":
            self._fail_here("behind IN stands a list in brackets", "write x IN ('a', 'b')")
        self.at += 1
        if self.tokens[self.at][1] == ")":
            self._fail_here("a list has at least one value", "FALSE is the expression that no event satisfies")
        items = self._list()
        self._close("the list")
        return items

    # --- errors -----------------------------------------------------------------------------------------------

    def _close(self, what: str) -> None:
        kind, key, start, _ = self.tokens[self.at]
        if key != ")":
            if kind == END:
                self._fail(start, f"{what} is never closed", "a ) is missing")
            self._unexpected()
        self.at += 1

    def _unexpected(self) -> NoReturn:
        """The next token continues nothing."""
        kind, key, start, _ = self.tokens[self.at]
        if key == ")":
            self._fail(start, "this bracket was never opened", "leave it out, or add a ( before")
        hint = self._hint()
        if hint is None and kind in (WORD, NUMBER, TEXT):
            hint = "an operator such as AND or = is missing before it"
        self._fail(start, f"{self._shown()} does not continue the expression", hint)

    def _missing_value(self) -> NoReturn:
        """The next token begins no value."""
        if self.tokens[self.at][0] == END:
            self._fail_here("the expression ends where a value should stand")
        hint = self._hint()
        if self.tokens[self.at][1] == "+":
            hint = "a plus stands only directly before digits"
        self._fail_here(f"{self._shown()} stands where a value should", hint)

    def _hint(self) -> str | None:
        before = self.tokens[self.at - 1][1] if self.at else ""
        key = self.tokens[self.at][1]
        return _HABITS.get(before + key) or _HABITS.get(key)

    def _shown(self) -> str:
        """The next token, as an error names it."""
        _, _, start, end = self.tokens[self.at]
        return self.text[start:end] if end - start <= 40 else f"{self.text[start : start + 40]}…"

    def _fail(self, position: int, reason: str, hint: str | None = None) -> NoReturn:
        raise ParseError(self.text, position, reason, hint)

    def _fail_here(self, reason: str, hint: str | None = None) -> NoReturn:
        raise ParseError(self.text, self.tokens[self.at][2], reason, hint)

    def _bound_depth(self, tree: Expression) -> None:
        layer = [tree]
        for _ in range(DEEPEST):
            layer = [each for node in layer if isinstance(node, Call) for each in node.arguments]
            if not layer:
                return
        hint = "split the expression, or compute so long a chain where the event is made"
        self._fail(layer[0].span[0], f"operators and calls nest more than {DEEPEST} levels deep", hint)


_READERS: Final[dict[str, Callable[[_Parser], Expression]]] = {
    "(": _Parser._brackets,
    "true": _Parser._truth,
    "false": _Parser._truth,
    "exists": _Parser._exists,
}
