"""What does the text of a condition say? From text to `Expression`, by Spark's grammar.

The grammar is the part of Spark 4's that can stand after WHERE. Its operators, from loose to tight:

    OR, AND, NOT !, a predicate (IS, IN, BETWEEN, LIKE, RLIKE), = < > …, |, ^, &, << >>, + - ||, * / % DIV, - + ~, ::

The operands of a predicate are values, not conditions: `a IN (1) = b` is an error, and `2 = b` is the upper
end of `a BETWEEN 1 AND 2 = b`. No word is reserved: `date > 5` and `case = 1` are about attributes, and a
word begins a construct only where it can. AND, IN, LIKE and the other words between operands are names only
where an operator follows them, more narrowly than in Spark, because `a = 1 AND AND b = 2` is a slip.

Only brackets, calls, CASE and predicates nest in Python as they do in the text, by two frames a level. What
is not recognised is an error with position, reason and hint: nothing passes that is not listed.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from palio.errors import ParseError
from palio.events.names import quote_segment
from palio.filters.expressions.casting import zone_of
from palio.filters.expressions.tree import Attribute, Expression, Literal, walk
from palio.languages.sql import literals
from palio.languages.sql.calls import find
from palio.languages.sql.constructs import CONSTRUCTS, Reader, read_type
from palio.languages.sql.cursor import DEEPEST, PREDICATES, Cursor
from palio.languages.sql.lexer import NUMBER, QUOTED, TEXT, WORD, Token, tokenize
from palio.languages.sql.precedence import AND, INFIX, NOT, PREDICATE, PREFIX, Operands, Operator
from palio.languages.sql.predicates import read_predicate
from palio.languages.sql.vocabulary import UNEXPECTED, Refusal

MOST_COPIES: Final = 1_000_000
"""Nodes that copied operands may have: CASE x WHEN … compares x at every WHEN, LIKE ANY at every pattern."""

_NAMES: Final = (WORD, QUOTED)


def parse_condition(text: str, *, timezone: str = "UTC") -> Expression:
    """The expression a condition says; ParseError where it says none.

    A timestamp without a zone of its own is read in `timezone`. Takes time linear in the length of the text.
    """
    if timezone != "UTC" and zone_of(timezone) is None:
        hint = "write a region such as Europe/Paris, or an offset such as +02:00"
        raise ParseError(text, 0, f"there is no time zone {timezone!r}", hint)
    return Parser(text, timezone).condition()


class Parser(Cursor):
    """One reading of one condition."""

    __slots__ = ("_copies", "_level", "timezone")

    def __init__(self, text: str, timezone: str) -> None:
        super().__init__(text, tokenize(text))
        self.timezone = timezone
        self._level = 0
        self._copies = 0

    def condition(self) -> Expression:
        """All of the text as one expression."""
        if len(self.tokens) == 1:
            self.fail(0, "the condition is empty", "TRUE is the condition that every event satisfies")
        self.refuse_clause()
        tree = self.expression()
        self.end()
        self.bound_depth(tree)
        return tree

    def expression(self, lowest: int = 0) -> Expression:
        """What stands here, up to the first token that cannot continue it.

        With VALUE for `lowest` it is a value: no AND, OR, NOT and no predicate outside brackets.
        """
        self._level += 1
        if self._level > DEEPEST:
            self.fail_here(f"nested more than {DEEPEST} levels deep", "split the condition")
        tokens = self.tokens
        operands = Operands()
        while True:
            kind, key, start, _ = token = tokens[self.at]
            if key in PREFIX and self._is_prefix(key, operands, lowest):
                operands.prefix(PREFIX[key], start)
                self.at += 1
                continue
            reader = _READERS.get(key)
            node = reader(self, token) if reader is not None else None
            if node is None:
                if kind not in _NAMES:
                    self.missing_value()
                node = self._function(token) if tokens[self.at + 1][1] == "(" else self._name(token)
            operands.nodes.append(node)
            operands.starts.append(start)
            operator = INFIX.get(tokens[self.at][1]) or self._postfix(operands, lowest)
            if operator is None or operator[0] < lowest:
                break
            operands.infix(operator, tokens[self.at - 1][3])
            self.at += 1
        if operands.pending:
            operands.settle(0, tokens[self.at - 1][3])
        self._level -= 1
        return operands.nodes[0]

    def _is_prefix(self, key: str, operands: Operands, lowest: int) -> bool:
        """Whether a sign or NOT is an operator here: a minus may belong to a number, NOT may be a name."""
        kind, following, _, _ = self.tokens[self.at + 1]
        if key not in ("not", "!"):
            return kind != NUMBER or key == "~"
        if key == "not" and (following == "." or (following in INFIX and following not in ("-", "+"))):
            return False
        if lowest or (operands.pending and operands.pending[-1].power > NOT):
            self.fail_here(f"{self.shown()} cannot stand here without brackets", "write (NOT …)")
        return True

    def _postfix(self, operands: Operands, lowest: int) -> Operator | None:
        """Casts and a predicate behind an operand, then the operator that follows, if one does."""
        tokens, nodes, starts = self.tokens, operands.nodes, operands.starts
        while tokens[self.at][1] == "::":
            self.at += 1
            nodes[-1] = self.call("cast", (nodes[-1], read_type(self)), starts[-1])
        key = tokens[self.at][1]
        if key not in PREDICATES or lowest:
            return INFIX.get(key)
        operands.settle(PREDICATE, tokens[self.at - 1][3])
        self._level += 1  # a predicate takes as many frames as a bracket
        nodes[-1] = read_predicate(self, nodes[-1], starts[-1])
        self._level -= 1
        key = tokens[self.at][1]
        operator = INFIX.get(key)
        if key in PREDICATES or key == "::" or (operator is not None and operator.power > AND):
            hint = "put brackets around the predicate before it: (x IN (1, 2)) = y"
            self.fail_here(f"{self.shown()} cannot follow a predicate", hint)
        return operator

    # --- operands ------------------------------------------------------------------------------------------

    def _name(self, token: Token) -> Expression:
        """An attribute, by its name or the path to it."""
        _, key, start, end = token
        self.at += 1
        following = self.tokens[self.at]
        if following[0] == TEXT:
            reason = f"there are no literals of type {self.text[start:end]}"
            self.fail(start, reason, "those that have a type are DATE'…', TIMESTAMP'…', INTERVAL'…' and X'…'")
        if key[0] <= "9":
            # Spark takes 100k for a name, but then knows that no column has it.
            reason = f"{self.text[start:end]} is no number, and a name that begins with a digit needs back-quotes"
            self.fail(start, reason, f"write a number, or `{self.text[start:end]}`")
        name = self._segment(token)
        if following[1] == ".":
            name, end = self._path(name)
        return Attribute(name, (start, end))

    def _path(self, name: str) -> tuple[str, int]:
        """The rest of a dotted name, and where it ends."""
        segments = [name]
        start = self.tokens[self.at - 1][2]
        while self.tokens[self.at][1] == ".":
            kind, key, first, end = token = self.tokens[self.at + 1]
            if kind not in _NAMES:
                reason = "a star stands for many attributes" if key == "*" else "behind a dot stands a name"
                self.fail(first, reason, "name one attribute, in back-quotes where it has signs: a.`b-c`")
            segments.append(self._segment(token))
            self.at += 2
        if self.tokens[self.at][1] == "(":
            self.fail(
                start,
                f"there is no function {'.'.join(segments)}",
                "functions have plain names, without a dot",
            )
        return ".".join(segments), end

    def _segment(self, token: Token) -> str:
        kind, _, start, end = token
        if kind == WORD:
            return self.text[start:end]
        return quote_segment(self.text[start + 1 : end - 1].replace("``", "`"))

    def _function(self, token: Token) -> Expression:
        """The call of a function."""
        kind, key, start, end = token
        name = key if kind == WORD else self.text[start + 1 : end - 1].lower()
        callee = find(name)
        if isinstance(callee, Refusal):
            self.fail(start, *callee)
        self.at += 2
        arguments: list[Expression] = []
        if self.peek() != ")":
            arguments.append(self.expression())
            while self.peek() == ",":
                self.at += 1
                arguments.append(self.expression())
        self.close(f"the arguments of {name}")
        if self.peek() in ("over", "filter", "within", "ignore", "respect"):
            self.refuse(self.at, UNEXPECTED["over"])
        if len(arguments) < callee.minimum or (callee.maximum is not None and len(arguments) > callee.maximum):
            self.fail(start, f"{name} takes {_count(callee.minimum, callee.maximum)}, not {len(arguments)}")
        if name == "decode":
            self.copy(arguments[0], len(arguments) // 2)
        return self.read(start, callee.build, tuple(arguments), self.span(start))

    def _brackets(self, _: Token) -> Expression:
        self.at += 1
        self.refuse_query("compare with a value, or with another attribute")
        found = self.expression()
        if self.peek() == ",":
            self.fail_here("rows of several values cannot be compared", "compare each: a = 1 AND b = 2")
        self.close("the bracket")
        return found

    def _text(self, token: Token) -> Expression:
        """A text, or several side by side, which are one."""
        _, _, start, end = token
        pieces = [self.text[start:end]]
        self.at += 1
        while self.tokens[self.at][0] == TEXT:
            _, _, first, end = self.tokens[self.at]
            pieces.append(self.text[first:end])
            self.at += 1
        return Literal(self.read(start, literals.text, pieces), (start, end))

    def _number(self, token: Token) -> Expression:
        _, _, start, end = token
        self.at += 1
        text = self.text[start:end]
        if len(text) < 19 and text.isdigit():
            return Literal(int(text), (start, end))
        return Literal(self.read(start, literals.number, text), (start, end))

    def _signed_number(self, token: Token) -> Expression:
        """A number and its sign, which are one literal: -9223372036854775808 is an integer."""
        _, _, first, end = self.tokens[self.at + 1]
        self.at += 2
        sign = "-" if token[1] == "-" else ""
        return Literal(self.read(token[2], literals.number, sign + self.text[first:end]), (token[2], end))

    # --- bounds --------------------------------------------------------------------------------------------

    def copy(self, node: Expression, times: int) -> None:
        """Count the nodes that writing an operand several times makes, before nested copies are too many."""
        self._copies += times * sum(1 for _ in islice(walk(node), MOST_COPIES))
        if self._copies > MOST_COPIES:
            hint = "give CASE and LIKE ANY an attribute to look at, rather than another CASE or LIKE ANY"
            self.fail(node.span[0], "this is compared so often that the condition becomes too large", hint)


def _count(minimum: int, maximum: int | None) -> str:
    if maximum is None:
        return f"{minimum} or more arguments"
    counted = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
    return f"{counted} argument{'' if maximum == 1 else 's'}"


_READERS: Final[dict[str, Reader]] = {
    "'": Parser._text,
    "0": Parser._number,
    "(": Parser._brackets,
    "-": Parser._signed_number,
    "+": Parser._signed_number,
    **CONSTRUCTS,
}
