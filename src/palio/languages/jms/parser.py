"""Parser and printer of JMS selectors: from text to `Expression` and back, by the grammar of Jakarta Messaging 3.1.

    condition  OR, AND and NOT of predicates, from loose to tight
    predicate  value, or value = <> < <= > >= value, value [NOT] BETWEEN value AND value,
               value [NOT] LIKE text [ESCAPE text], value [NOT] IN (value, …), value IS [NOT] NULL
    value      + - * / % and signs over texts, numbers, TRUE, FALSE, names and brackets

Comparisons and predicates do not chain: `a = b = c` needs brackets. Whether an operand is a value or a condition is
checked on the finished tree, in `type_check`. `%` is not in the specification; ActiveMQ, Artemis, Qpid and RabbitMQ
have it.

The trees have SQL's shape with JMS's meaning; the calls that SQL does not have are `notin`, `notlike` and
`notbetween`, which are not the NOT of the others (they are FALSE for a value of another kind, as those are), and
`pos`, which is NULL for what is no number.

What a filter cannot hold in its index it keeps as text, and filters are equal where their texts are. So the printer
writes one canonical text for an expression, with no brackets, blanks or spellings of the writer's own.
"""

from __future__ import annotations

from typing import ClassVar, Final, NoReturn

from palio.events.names import quote_segment
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal
from palio.languages.grammar import END, NUMBER, QUOTED, TEXT, WORD, ExpressionParser, Operator, OperatorStack, Token
from palio.languages.jms.evaluation import pattern_of
from palio.languages.jms.lexer import parse_number, tokenize, write_name
from palio.languages.jms.type_check import check_condition

ALL: Final = Literal(True)
"""The expression of a blank selector: every message is selected."""

# Binding powers, as the specification's table has them.
_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _UNARY = range(1, 9)
_VALUE: Final = _SUM
"""The loosest operator within a value; comparisons bind looser still."""
_INFIX: Final[dict[str, Operator]] = {
    "or": Operator(_OR, "or", is_chained=True),
    "and": Operator(_AND, "and", is_chained=True),
    **{sign: Operator(_COMPARISON, sign) for sign in ("=", "<>", "<", "<=", ">", ">=")},
    **{sign: Operator(_SUM, sign) for sign in ("+", "-")},
    **{sign: Operator(_PRODUCT, sign) for sign in ("*", "/", "%")},
}
_PREFIX: Final[dict[str, Operator]] = {
    "not": Operator(_NOT, "not", is_prefix=True),
    "-": Operator(_UNARY, "neg", is_prefix=True),
    "+": Operator(_UNARY, "pos", is_prefix=True),
}
_PREDICATES: Final = frozenset({"is", "in", "between", "like", "not"})
"""The keys that begin a predicate behind a value."""

_SLIPS: Final = {
    "==": "'equals' is written =",
    "=<": "'at most' is written <=",
    "=>": "'at least' is written >=",
    "><": "'differs from' is written <>",
}


def parse_selector(text: str) -> Expression:
    """The expression of a selector; ParseError where it has none. Takes time linear in its length."""
    return SelectorParser(text, tokenize(text)).selector()


class SelectorParser(ExpressionParser):
    """The parse of one selector."""

    __slots__ = ()

    subject: ClassVar = "selector"
    infix: ClassVar = _INFIX
    prefix: ClassVar = _PREFIX
    nonassociative: ClassVar = _COMPARISON

    def selector(self) -> Expression:
        """The whole text as one condition."""
        if self.tokens[0][0] == END:
            if self.text.strip(" \t\n\r\f"):
                hint = "an empty selector selects everything; write TRUE to say so beside a comment"
                self.fail(0, "there is no condition beside the comment", hint)
            return ALL
        tree = self.expression()
        if self.tokens[self.at][0] != END:
            self.fail_unexpected()
        self.check_size(tree)
        check_condition(self.text, tree)
        return tree

    def is_prefix(self, key: str, stack: OperatorStack, lowest: int) -> bool:
        if key != "not":  # a sign before a number is part of the number, see `_signed_number`
            return self.tokens[self.at + 1][0] != NUMBER
        # NOT binds looser than comparisons and arithmetic, so it cannot be one of their operands.
        if lowest or (stack.pending and stack.pending[-1].power > _NOT):
            self.fail_here("NOT cannot stand here without brackets", "write (NOT …)")
        return True

    # --- operands ------------------------------------------------------------------------------------------

    def read_name(self, token: Token) -> Expression:
        """An attribute, by its name or the path to it."""
        kind, key, start, end = token
        if kind != QUOTED and (kind != WORD or key):
            self._fail_missing_value()
        self.at += 1
        segments = [self._segment(token)]
        while self.peek() == ".":
            kind, key, first, end = following = self.tokens[self.at + 1]
            if kind != QUOTED and (kind != WORD or key):
                self.fail(first, "behind a dot stands a name", 'write it in quotes where it is reserved: a."in"')
            segments.append(self._segment(following))
            self.at += 2
        if self.peek() == "(":
            name = self.text[start:end]
            self.fail(start, f"there are no functions in a selector: {name[:40]}(…)", "SQL conditions have functions")
        return Attribute(".".join(segments), (start, end))

    def _segment(self, token: Token) -> str:
        kind, _, start, end = token
        if kind == WORD:
            return self.text[start:end]
        return quote_segment(self.text[start + 1 : end - 1].replace('""', '"'))

    def _text(self, token: Token) -> Literal:
        _, _, start, end = token
        self.at += 1
        return Literal(self.text[start + 1 : end - 1].replace("''", "'"), (start, end))

    def _number(self, token: Token) -> Literal:
        _, _, start, end = token
        self.at += 1
        return Literal(self.read(start, parse_number, self.text[start:end]), (start, end))

    def _signed_number(self, token: Token) -> Literal:
        """A number and its sign, which are one literal: -9223372036854775808 is an integer."""
        _, _, start, end = self.tokens[self.at + 1]
        self.at += 2
        return Literal(self.read(start, parse_number, self.text[start:end], token[1] == "-"), (token[2], end))

    # --- predicates ----------------------------------------------------------------------------------------

    def read_postfix(self, stack: OperatorStack, lowest: int) -> Operator | None:
        """The predicate behind an operand, if one is there, and the operator that follows."""
        if self.peek() not in _PREDICATES or lowest:
            return _INFIX.get(self.peek())
        if stack.has_pending(_COMPARISON):
            self.fail_here(f"{self.shown()} cannot follow a comparison", "put brackets around the comparison before it")
        stack.reduce(_PREDICATE, self.tokens[self.at - 1][3])
        start = stack.starts[-1]
        function, arguments = self._read_predicate()
        stack.nodes[-1] = self.call(function, (stack.nodes[-1], *arguments), start)
        following = self.peek()
        operator = _INFIX.get(following)
        if following in _PREDICATES or (operator is not None and operator.power > _AND):
            hint = "put brackets around the predicate before it: (a IN ('x', 'y')) = b"
            self.fail_here(f"{self.shown()} cannot follow a predicate", hint)
        return operator

    def _read_predicate(self) -> tuple[str, tuple[Expression, ...]]:
        """The function a predicate is, and what it asks of the value before it."""
        key = self.take()
        if key == "is":
            return self._is(), ()
        negated = "not" if key == "not" else ""
        if negated:
            key = self.take()
        if key == "between":
            low = self.expression(_VALUE)
            self.expect("and", "BETWEEN has two ends", "write x BETWEEN 1 AND 10")
            return f"{negated}between", (low, self.expression(_VALUE))
        if key == "like":
            return f"{negated}like", self._like()
        if key != "in":
            self.at -= 1
            self.fail_here(f"NOT is followed by {self.shown()}", "IN, LIKE or BETWEEN may follow it here")
        return f"{negated}in", self._list()

    def _is(self) -> str:
        negated = self.peek() == "not"
        if negated:
            self.at += 1
        if self.take() != "null":
            self.at -= 1
            self.fail_here(f"IS is followed by {self.shown()}", "[NOT] NULL may follow it; for other values write =")
        return "isnotnull" if negated else "isnull"

    def _like(self) -> tuple[Expression, ...]:
        pattern = self._text_literal("LIKE", "write LIKE 'a%'")
        if self.peek() != "escape":
            return (pattern,)
        self.at += 1
        escape = self._text_literal("ESCAPE", "write ESCAPE '!'")
        if len(str(escape.value)) != 1:
            self.fail(escape.span[0], "behind ESCAPE stands a text of one character", "write ESCAPE '!'")
        try:
            # Only the pattern is checked; it stands in for the value as well.
            pattern_of((pattern, pattern, escape))
        except ValueError as error:
            hint = f"write it twice where it means itself: {escape.value}{escape.value}"
            self.fail(pattern.span[0], str(error), hint)
        return pattern, escape

    def _text_literal(self, behind: str, hint: str) -> Literal:
        token = self.tokens[self.at]
        if token[0] != TEXT:
            self.fail_here(f"behind {behind} stands a text; here is {self.shown()}", hint)
        return self._text(token)

    def _list(self) -> tuple[Expression, ...]:
        self.expect("(", "behind IN stands a list in brackets", "write IN ('a', 'b')")
        if self.peek() == ")":
            self.fail_here("the list of IN is empty", "FALSE is the condition that nothing satisfies")
        items = self.expressions(_VALUE)
        if self.peek() != ")" and self.tokens[self.at][0] != END:
            self.fail_here(f"{self.shown()} does not continue the list of IN", "a comma or a ) is missing before it")
        self.close("the list of IN")
        return tuple(items)

    # --- errors --------------------------------------------------------------------------------------------

    def fail_unexpected(self) -> NoReturn:
        kind, key, start, _ = self.tokens[self.at]
        if key == ")":
            self.fail(start, "this bracket was never opened", "leave it out, or add a ( before")
        if key == "." or (kind == NUMBER and self.text[start] == "."):
            self.fail(start, "a dot stands only between names", 'a name with other characters stands in quotes: "1a"')
        if key == "escape":
            self.fail(start, "ESCAPE stands behind the text of LIKE", "write x LIKE 'a!%' ESCAPE '!'")
        if kind == TEXT and self.text[self.tokens[self.at - 1][2] : start].rstrip().upper() in ("XPATH", "XQUERY"):
            self.fail(start, "there are no XPath conditions in a selector", "they are ActiveMQ's own")
        hint = "an operator such as AND or = is missing before it"
        self.fail(start, f"{self.shown()} does not continue the selector", hint)

    def _fail_missing_value(self) -> NoReturn:
        """Fail because the next token begins no value."""
        kind, key, _, _ = self.tokens[self.at]
        before = self.tokens[self.at - 1] if self.at else None
        if kind == END:
            shown = self.text[before[2] : before[3]][:40] if before else "it"
            self.fail_here("the selector ends where a value should stand", f"write one behind {shown}")
        if key == "null":
            self.fail_here("NULL is no value to compare with", "write x IS NULL or x IS NOT NULL")
        hint = _SLIPS.get(before[1] + key) if before else None
        if kind == WORD:
            hint = f'it is a reserved word; an attribute of that name stands in quotes: "{self.shown()}"'
        self.fail_here(f"{self.shown()} stands where a value should", hint)

    readers: ClassVar = {
        "'": _text,
        "0": _number,
        "-": _signed_number,
        "+": _signed_number,
        "(": ExpressionParser.read_brackets,
        "true": ExpressionParser.read_truth,
        "false": ExpressionParser.read_truth,
    }


# --- printer -----------------------------------------------------------------------------------------------

_ATOM: Final = _UNARY + 1
_SIGNS: Final = {"neg": "-", "pos": "+"}
_NEGATED: Final = {f"not{word}": f"NOT {word.upper()}" for word in ("in", "like", "between")}


def print_selector(expression: Expression) -> str:
    """The canonical text of an expression."""
    return _write(expression)[0]


# Each text comes with its binding power, by which the surroundings decide about brackets.
def _write(expression: Expression) -> tuple[str, int]:
    match expression:
        case Literal(value):
            return _literal(value), _ATOM
        case Attribute(name):
            return write_name(name), _ATOM
        case Call("and" | "or" as function, arguments):
            power = _INFIX[function].power
            return f" {function.upper()} ".join(_within(each, power + 1) for each in arguments), power
        case Call("not", (argument,)):
            power = _PREFIX["not"].power
            return f"NOT {_within(argument, power)}", power
        case Call("neg" | "pos" as function, (argument,)):
            # A number would take the sign in, and a second sign make `--`, which may begin a comment.
            bound = _ATOM if isinstance(argument, Attribute) else _ATOM + 1
            return _SIGNS[function] + _within(argument, bound), _UNARY
        case Call(function, (left, right)) if function in _INFIX:
            power = _INFIX[function].power
            least = power + 1 if power == _COMPARISON else power
            return f"{_within(left, least)} {function} {_within(right, power + 1)}", power
        case Call(function, (value, *others)):
            return f"{_within(value, _VALUE)} {_predicate(function, others)}", _PREDICATE
    raise TypeError(expression)


def _within(expression: Expression, least: int) -> str:
    """An expression as an operand, in brackets where it binds less tightly than it must."""
    text, power = _write(expression)
    return text if power >= least else f"({text})"


def _predicate(function: str, others: list[Expression]) -> str:
    written = [_within(each, _VALUE) for each in others]
    word = _NEGATED.get(function, function.upper())
    match function:
        case "isnull" | "isnotnull":
            return "IS NULL" if function == "isnull" else "IS NOT NULL"
        case "between" | "notbetween":
            return f"{word} {' AND '.join(written)}"
        case "in" | "notin":
            return f"{word} ({', '.join(written)})"
    return f"{word} {' ESCAPE '.join(written)}"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
