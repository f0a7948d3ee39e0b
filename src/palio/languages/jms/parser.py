"""What does the text of a selector say? From text to `Expression`, by the grammar of JMS.

    condition  OR, AND and NOT of predicates, from loose to tight
    predicate  value, or value = <> < <= > >= value, value [NOT] BETWEEN value AND value,
               value [NOT] LIKE text [ESCAPE text], value [NOT] IN (value, …), value IS [NOT] NULL
    value      + - * / % and signs over texts, numbers, TRUE, FALSE, names and brackets

Comparisons and predicates do not chain: `a = b = c` needs brackets. What may stand where is looked at afterwards,
in `sorts`. Only brackets nest in Python as they do in the text.

The trees have SQL's shape with JMS's meaning; the calls that SQL does not have are `notin`, `notlike` and
`notbetween`, which are not the NOT of the others (they are FALSE for a value of another kind, as those are), and
`pos`, which is NULL for what is no number.
"""

from __future__ import annotations

from typing import Final, NoReturn

from palio.events.names import quote_segment
from palio.filters.expressions.tree import Attribute, Expression, Literal
from palio.languages.jms.grammar import COMPARISONS, INFIX, PREDICATES, PREFIX
from palio.languages.jms.lexer import tokenize
from palio.languages.jms.numerals import number
from palio.languages.jms.patterns import pattern_of
from palio.languages.jms.sorts import check_condition
from palio.languages.sql.cursor import DEEPEST, Cursor
from palio.languages.sql.lexer import END, NUMBER, QUOTED, TEXT, WORD, Token
from palio.languages.sql.precedence import AND, NOT, PREDICATE, VALUE, Operands, Operator

ALL: Final = Literal(True)
"""What a blank selector says: every message is selected."""


def parse_selector(text: str) -> Expression:
    """The condition a selector says; ParseError where it says none. Takes time linear in its length."""
    return Parser(text).selector()


class Parser(Cursor):
    """One reading of one selector."""

    __slots__ = ("_level",)

    def __init__(self, text: str) -> None:
        super().__init__(text, tokenize(text))
        self._level = 0

    def selector(self) -> Expression:
        """All of the text as one condition."""
        if self.tokens[0][0] == END:
            if self.text.strip(" \t\n\r\f"):
                hint = "an empty selector selects everything; write TRUE to say so beside a comment"
                self.fail(0, "there is no condition beside the comment", hint)
            return ALL
        tree = self.expression()
        if self.tokens[self.at][0] != END:
            self.unexpected()
        self.bound_depth(tree)
        check_condition(self.text, tree)
        return tree

    def expression(self, lowest: int = 0) -> Expression:
        """What stands here, up to the first token that cannot continue it; with VALUE for `lowest`, a value."""
        self._level += 1
        if self._level > DEEPEST:
            self.fail_here(f"nested more than {DEEPEST} levels deep", "split the selector")
        operands = Operands()
        while True:
            _, key, start, _ = token = self.tokens[self.at]
            if key in PREFIX and not (key != "not" and self.tokens[self.at + 1][0] == NUMBER):
                self._check_not(key, operands, lowest)
                operands.prefix(PREFIX[key], start)
                self.at += 1
                continue
            operands.nodes.append(self._operand(token))
            operands.starts.append(start)
            operator = INFIX.get(self.peek()) or self._predicate(operands, lowest)
            if operator is None or (lowest and operator.power <= VALUE):
                break
            if operator.function in COMPARISONS and _is_comparing(operands):
                hint = "compare two by two: a = b AND b = c; or put brackets around the first comparison"
                self.fail_here("comparisons do not chain", hint)
            operands.infix(operator, self.tokens[self.at - 1][3])
            self.at += 1
        operands.settle(0, self.tokens[self.at - 1][3])
        self._level -= 1
        return operands.nodes[0]

    def _check_not(self, key: str, operands: Operands, lowest: int) -> None:
        if key == "not" and (lowest or (operands.pending and operands.pending[-1].power > NOT)):
            self.fail_here("NOT cannot stand here without brackets", "write (NOT …)")

    # --- operands ------------------------------------------------------------------------------------------

    def _operand(self, token: Token) -> Expression:
        kind, key, start, end = token
        self.at += 1
        if kind == NUMBER:
            return self._number(start, end)
        if kind == TEXT:
            return Literal(self._text(start, end), (start, end))
        if key in ("-", "+"):  # and a number behind it, with which it is one literal: -9223372036854775808
            _, _, first, end = self.tokens[self.at]
            self.at += 1
            return self._number(first, end, start, negative=key == "-")
        if key in ("true", "false"):
            return Literal(key == "true", (start, end))
        if key == "(":
            found = self.expression()
            self._close("the bracket")
            return found
        if kind != QUOTED and (kind != WORD or key):
            self.at -= 1
            self.missing_value()
        return self._name(token)

    def _number(self, start: int, end: int, sign: int | None = None, negative: bool = False) -> Literal:
        value = self.read(start, number, self.text[start:end], negative)
        return Literal(value, (start if sign is None else sign, end))

    def _text(self, start: int, end: int) -> str:
        return self.text[start + 1 : end - 1].replace("''", "'")

    def _name(self, token: Token) -> Expression:
        """An attribute, by its name or the path to it."""
        start, end = token[2], token[3]
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

    def _close(self, what: str) -> None:
        if self.peek() != ")":
            if self.tokens[self.at][0] == END:
                self.fail_here(f"{what} is never closed", "a ) is missing")
            self.unexpected()
        self.at += 1

    # --- predicates ----------------------------------------------------------------------------------------

    def _predicate(self, operands: Operands, lowest: int) -> Operator | None:
        """The predicate behind an operand, if one is there, and the operator that follows."""
        if self.peek() not in PREDICATES or lowest:
            return INFIX.get(self.peek())
        if _is_comparing(operands):
            self.fail_here(f"{self.shown()} cannot follow a comparison", "put brackets around the comparison before it")
        operands.settle(PREDICATE, self.tokens[self.at - 1][3])
        start = operands.starts[-1]
        function, arguments = self._read_predicate()
        operands.nodes[-1] = self.call(function, (operands.nodes[-1], *arguments), start)
        following = self.peek()
        operator = INFIX.get(following)
        if following in PREDICATES or (operator is not None and operator.power > AND):
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
            low = self.expression(VALUE)
            if self.take() != "and":
                self.at -= 1
                self.fail_here(f"BETWEEN has two ends; here is {self.shown()}", "write x BETWEEN 1 AND 10")
            return f"{negated}between", (low, self.expression(VALUE))
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
            pattern_of((pattern, pattern, escape))
        except ValueError as error:
            hint = f"write it twice where it means itself: {escape.value}{escape.value}"
            self.fail(pattern.span[0], str(error), hint)
        return pattern, escape

    def _text_literal(self, behind: str, hint: str) -> Literal:
        kind, _, start, end = self.tokens[self.at]
        if kind != TEXT:
            self.fail(start, f"behind {behind} stands a text; here is {self.shown()}", hint)
        self.at += 1
        return Literal(self._text(start, end), (start, end))

    def _list(self) -> tuple[Expression, ...]:
        hint = "write IN ('a', 'b')"
        if self.take() != "(":
            self.at -= 1
            self.fail_here(f"behind IN stands a list in brackets; here is {self.shown()}", hint)
        if self.peek() == ")":
            self.fail_here("the list of IN is empty", "FALSE is the condition that nothing satisfies")
        items = [self.expression(VALUE)]
        while self.peek() == ",":
            self.at += 1
            items.append(self.expression(VALUE))
        if self.peek() != ")" and self.tokens[self.at][0] != END:
            self.fail_here(f"{self.shown()} does not continue the list of IN", "a comma or a ) is missing before it")
        self._close("the list of IN")
        return tuple(items)

    # --- errors --------------------------------------------------------------------------------------------

    def unexpected(self) -> NoReturn:
        """The next token continues nothing."""
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

    def missing_value(self) -> NoReturn:
        """The next token begins no value."""
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


def _is_comparing(operands: Operands) -> bool:
    """Whether a comparison waits for its right-hand side."""
    for operator in reversed(operands.pending):
        if operator.power < VALUE:
            return False
        if operator.function in COMPARISONS:
            return True
    return False


_SLIPS: Final = {
    "==": "'equals' is written =",
    "=<": "'at most' is written <=",
    "=>": "'at least' is written >=",
    "><": "'differs from' is written <>",
}
