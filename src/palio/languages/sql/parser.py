"""Parser of SQL conditions: from text to `Expression`, by the part of Spark 4's grammar that can stand after WHERE.

Operators, from loose to tight:

    OR, AND, NOT !, a predicate (IS, IN, BETWEEN, LIKE, RLIKE), = < > …, |, ^, &, << >>, + - ||, * / % DIV, - + ~, :: []

The operands of a predicate are values, not conditions: `a IN (1) = b` is an error, and `2 = b` is the upper
end of `a BETWEEN 1 AND 2 = b`. No word is reserved: `date > 5` and `case = 1` are about attributes, and a word begins
a keyword expression only where it can (`keyword_expressions`). AND, IN, LIKE and the other words between operands are
names only where an operator follows them, more narrowly than in Spark, because `a = 1 AND AND b = 2` is a slip.

What is not recognised is an error with position, reason and hint: nothing passes that is not listed. Words and signs
of other SQL dialects have errors of their own (`unsupported`).
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar, Final, NoReturn

from palio.errors import ParseError
from palio.events.names import quote_segment
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, walk
from palio.filters.expressions.text_cast import zone_of
from palio.languages.grammar import (
    END,
    NUMBER,
    QUOTED,
    SIGN,
    TEXT,
    WORD,
    ExpressionParser,
    Operator,
    OperatorStack,
    Token,
)
from palio.languages.sql.array_functions import element_of, member_of, variable_in
from palio.languages.sql.functions import (
    AND,
    CONTINUES_NAME,
    INFIX,
    NOT,
    PREDICATE,
    PREDICATES,
    PREFIX,
    VALUE,
    find_function,
    like_call,
)
from palio.languages.sql.keyword_expressions import KEYWORD_READERS, read_type
from palio.languages.sql.lexer import parse_number, parse_strings, tokenize
from palio.languages.sql.unsupported import CLAUSES, COUNT_HINTS, UNEXPECTED, Refusal

_MAX_COPIED_NODES: Final = 1_000_000
"""Nodes that copied operands may have: CASE x WHEN … compares x at every WHEN, LIKE ANY at every pattern."""

_NAMES: Final = (WORD, QUOTED)
_QUERY_WORDS: Final = frozenset({"select", "with", "values", "from", "table"})
_POSTFIX: Final = frozenset({"::", "[", ".", ":"})
_SLIPS: Final = {
    "=<": "'at most' is written <=",
    "=>": "'at least' is written >=",
    "===": "'equals' is written =",
    "><": "'differs from' is written <>",
    "&&": "'and' is written AND",
}


_COMPARISONS: Final = frozenset({"=", "==", "<>", "!=", "<=>", "<", "<=", ">", ">="})


def parse_condition(text: str, *, timezone: str = "UTC") -> Expression:
    """The expression of a condition; ParseError where it has none.

    A timestamp without a zone of its own is read in `timezone`. Takes time linear in the length of the text.
    """
    if timezone != "UTC" and zone_of(timezone) is None:
        hint = "write a region such as Europe/Paris, or an offset such as +02:00"
        raise ParseError(text, 0, f"there is no time zone {timezone!r}", hint)
    return SqlParser(text, timezone).condition()


class SqlParser(ExpressionParser):
    """The parse of one condition."""

    __slots__ = ("_copied_nodes", "timezone", "variables")

    subject: ClassVar = "condition"
    infix: ClassVar = INFIX
    prefix: ClassVar = PREFIX

    def __init__(self, text: str, timezone: str) -> None:
        super().__init__(text, tokenize(text))
        self.timezone = timezone
        self.variables: dict[str, Array] = {}
        """Names of elements in the lambda functions around, and their arrays."""
        self._copied_nodes = 0

    def condition(self) -> Expression:
        """The whole text as one expression."""
        if len(self.tokens) == 1:
            self.fail(0, "the condition is empty", "TRUE is the condition that every event satisfies")
        self._refuse_clause()
        tree = self.expression()
        kind, key, _, _ = self.tokens[self.at]
        if key in CLAUSES:
            self.refuse(self.at, CLAUSES[key])
        if kind != END:
            self.fail_unexpected()
        self.check_size(tree)
        return tree

    def is_prefix(self, key: str, stack: OperatorStack, lowest: int) -> bool:
        """Whether a sign or NOT is an operator here: a minus may belong to a number, NOT may be a name."""
        kind, following, _, _ = self.tokens[self.at + 1]
        if key == "~" and kind == TEXT:
            self.refuse(self.at, UNEXPECTED["~"])  # x =~ 'pattern'
        if key not in ("not", "!"):
            return kind != NUMBER or key == "~"
        if key == "not" and (following == "." or (following in INFIX and following not in ("-", "+"))):
            return False
        if lowest or (stack.pending and stack.pending[-1].power > NOT):
            self.fail_here(f"{self.shown()} cannot stand here without brackets", "write (NOT …)")
        return True

    def read_postfix(self, stack: OperatorStack, lowest: int) -> Operator | None:
        """Indexes, casts and a predicate behind an operand, then the operator that follows, if one does."""
        tokens, nodes, starts = self.tokens, stack.nodes, stack.starts
        first = self.at
        while (key := tokens[self.at][1]) in _POSTFIX and self._continues(nodes[-1], self.at > first):
            self.at += 1
            if key == "::":
                nodes[-1] = self.call("cast", (nodes[-1], read_type(self)), starts[-1])
            elif key == "[":
                nodes[-1] = self._element(nodes[-1], starts[-1])
            else:
                nodes[-1] = self._member(nodes[-1], starts[-1])
        if key not in PREDICATES or lowest:
            return INFIX.get(key)
        stack.reduce(PREDICATE, tokens[self.at - 1][3])
        self._level += 1  # a predicate takes as many frames as a bracket, and is bounded with them
        nodes[-1] = _read_predicate(self, nodes[-1], starts[-1])
        self._level -= 1
        key = tokens[self.at][1]
        operator = INFIX.get(key)
        if key in PREDICATES or key == "::" or (operator is not None and operator.power > AND):
            hint = "put brackets around the predicate before it: (x IN (1, 2)) = y"
            self.fail_here(f"{self.shown()} cannot follow a predicate", hint)
        return operator

    def _continues(self, node: Expression, is_path: bool) -> bool:
        """Whether a sign continues an operand: a colon only a name or an element, a dot what is behind such a sign."""
        key = self.tokens[self.at][1]
        if key == "::" or key == "[":
            return True
        is_element = isinstance(node, Call) and node.function in ("get", "element_at", "from_json")
        return is_element or (isinstance(node, Attribute) and (key == ":" or is_path))

    def _element(self, container: Expression, start: int) -> Expression:
        """The element at the index, or under the key, in brackets."""
        index = self.expression(VALUE)
        self.expect("]", "behind an index stands ]", "write x[0] or x['key']")
        return self.read(start, element_of, container, index, self.span(start))

    def _member(self, container: Expression, start: int) -> Expression:
        """The member behind a dot, or behind the colon before a path into a VARIANT."""
        kind, _, first, end = self.tokens[self.at]
        if kind not in _NAMES:
            self.fail(first, "here stands a name", "write x[0].name, or x:name for a member of a VARIANT")
        self.at += 1
        name = self.text[first:end] if kind == WORD else self.text[first + 1 : end - 1].replace("``", "`")
        return self.read(start, member_of, container, name, self.span(start))

    # --- operands ------------------------------------------------------------------------------------------

    def read_name(self, token: Token) -> Expression:
        """An attribute, or the call of a function."""
        kind, key, start, end = token
        if kind not in _NAMES:
            self._fail_missing_value()
        if self.tokens[self.at + 1][1] != "(":
            return self._attribute(token)
        name = key if kind == WORD else self.text[start + 1 : end - 1].lower()
        callee = find_function(name)
        if isinstance(callee, Refusal):
            self.fail(start, *callee)
        self.at += 2
        arguments = self.expressions() if self.peek() != ")" else []
        self.close(f"the arguments of {name}")
        if self.peek() in ("over", "filter", "within", "ignore", "respect"):
            self.refuse(self.at, UNEXPECTED["over"])
        if len(arguments) < callee.minimum or (callee.maximum is not None and len(arguments) > callee.maximum):
            reason = f"{name} takes {_count(callee.minimum, callee.maximum)}, not {len(arguments)}"
            self.fail(start, reason, COUNT_HINTS.get(name))
        if name == "decode":
            self.copy(arguments[0], len(arguments) // 2)
        return self.read(start, callee.build, tuple(arguments), self.span(start))

    def _attribute(self, token: Token) -> Expression:
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
        elif self.text[start:end] == "None" and self.tokens[self.at - 2][1] in _COMPARISONS:
            # SQL would take it for an attribute; people who write Python mean NULL.
            self.fail(start, "None is no value", "write x IS NULL; an attribute of that name is written `None`")
        variable = self.read(start, variable_in, self.variables, name, (start, end)) if self.variables else None
        return variable or Attribute(name, (start, end))

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
        return Literal(self.read(start, parse_strings, pieces), (start, end))

    def _number(self, token: Token) -> Expression:
        _, _, start, end = token
        self.at += 1
        text = self.text[start:end]
        # Up to 18 digits are a bigint in any case: no need to look at the notation.
        if len(text) < 19 and text.isdigit():
            return Literal(int(text), (start, end))
        return Literal(self.read(start, parse_number, text), (start, end))

    def _signed_number(self, token: Token) -> Expression:
        """A number and its sign, which are one literal: -9223372036854775808 is an integer."""
        _, _, first, end = self.tokens[self.at + 1]
        self.at += 2
        sign = "-" if token[1] == "-" else ""
        return Literal(self.read(token[2], parse_number, sign + self.text[first:end]), (token[2], end))

    # --- errors --------------------------------------------------------------------------------------------

    def expect(self, key: str, reason: str, hint: str) -> None:
        """Consume a token that must be here; a sign of another dialect gets its own error."""
        kind, found, _, _ = self.tokens[self.at]
        if found != key and found in UNEXPECTED and kind == SIGN:
            self.fail_unexpected()
        super().expect(key, reason, hint)

    def refuse(self, at: int, refusal: Refusal) -> NoReturn:
        """Fail at a token that is known to be unsupported."""
        _, key, start, _ = self.tokens[at]
        self.fail(start, refusal.reason.format(name=key.upper()), refusal.hint)

    def refuse_query(self, hint: str) -> None:
        """Refuse a subquery; its first word may also be a name."""
        _, key, start, _ = self.tokens[self.at]
        if key in _QUERY_WORDS:
            kind, following, _, _ = self.tokens[self.at + 1]
            is_star = following == "*" and self.peek(2) == "from"
            if kind != END and (is_star or following not in CONTINUES_NAME):
                self.fail(start, "there are no subqueries in a condition", hint)

    def _refuse_clause(self) -> None:
        """Refuse a whole query, or its WHERE with the word itself; its first word may also be a name."""
        key = self.peek()
        if key in CLAUSES and self.tokens[1][0] != END:
            following = self.peek(1)
            if (following == "*" and self.peek(2) == "from") or following not in {*INFIX, *CONTINUES_NAME}:
                self.refuse(0, CLAUSES[key])

    def fail_unexpected(self) -> NoReturn:
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

    def _fail_missing_value(self) -> NoReturn:
        """Fail because the next token begins no value."""
        kind, key, _, _ = self.tokens[self.at]
        before = self.tokens[self.at - 1] if self.at else None
        if kind == END and before is not None:
            shown = self.text[before[2] : before[3]][:40]
            self.fail_here("the condition ends where a value should stand", f"write one behind {shown}")
        if key in ("?", ":", "[", ";", "->"):
            self.refuse(self.at, UNEXPECTED[key])
        # The sign before was taken for an operator: =< is two tokens.
        hint = _SLIPS.get(before[1] + key) if before else None
        if key == "*":
            hint = "a star stands for all attributes; name one"
        self.fail_here(f"{self.shown()} stands where a value should", hint)

    # --- bounds --------------------------------------------------------------------------------------------

    def copy(self, node: Expression, times: int) -> None:
        """Count the nodes that writing an operand several times makes, before nested copies are too many."""
        # `islice` ends the walk at the limit: counting must not take longer than what it prevents.
        self._copied_nodes += times * sum(1 for _ in islice(walk(node), _MAX_COPIED_NODES))
        if self._copied_nodes > _MAX_COPIED_NODES:
            hint = "give CASE and LIKE ANY an attribute to look at, rather than another CASE or LIKE ANY"
            self.fail(node.span[0], "this is compared so often that the condition becomes too large", hint)

    readers: ClassVar = {
        "'": _text,
        "0": _number,
        "(": _brackets,
        "-": _signed_number,
        "+": _signed_number,
        **KEYWORD_READERS,
    }


def _count(minimum: int, maximum: int | None) -> str:
    if maximum is None:
        return f"{minimum} or more arguments"
    counted = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
    return f"{counted} argument{'' if maximum == 1 else 's'}"


def _read_predicate(parser: SqlParser, value: Expression, start: int) -> Expression:
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


def _is(parser: SqlParser, value: Expression, start: int) -> Expression:
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
        # <=> is IS NOT DISTINCT FROM.
        negated = not negated
    else:
        parser.at -= 1
        hint = "[NOT] NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM may follow it; for other values write ="
        if key == "none":
            hint = f"write x IS {'NOT ' if negated else ''}NULL"
        parser.fail_here(f"IS is followed by {parser.shown()}", hint)
    return parser.call("not", (found,), start) if negated else found


def _like(parser: SqlParser, function: str, value: Expression, start: int) -> Call:
    pattern = parser.expression(VALUE)
    if parser.peek() != "escape":
        return parser.call(function, (value, pattern), start)
    kind, _, first, last = parser.tokens[parser.at + 1]
    character = parser.read(first, parse_strings, [parser.text[first:last]]) if kind == TEXT else ""
    if len(character) != 1 or ord(character) > 0xFFFF:
        parser.fail(first, "behind ESCAPE stands a text of one character", "write ESCAPE '/'")
    parser.at += 2
    return like_call(function, value, pattern, Literal(character, (first, last)), parser.span(start))


def _like_many(parser: SqlParser, function: str, value: Expression, start: int, negated: bool) -> Expression:
    """LIKE ANY and LIKE ALL; NOT goes to every pattern by itself, so NOT LIKE ANY is an OR of NOT LIKEs."""
    quantifier = parser.take()
    patterns = _list(parser, f"LIKE {quantifier.upper()}")
    parser.copy(value, len(patterns) - 1)
    span = parser.span(start)
    parts: list[Expression] = [Call(function, (value, pattern), span) for pattern in patterns]
    if negated:
        parts = [Call("not", (part,), span) for part in parts]
    return Call("and" if quantifier == "all" else "or", tuple(parts), span) if len(parts) > 1 else parts[0]


def _list(parser: SqlParser, owner: str) -> list[Expression]:
    """The expressions of a list in brackets."""
    if parser.peek() == "[":
        parser.fail_here(f"the list of {owner} stands in round brackets", f"write {owner} (1, 2)")
    parser.expect("(", f"behind {owner} stands a list in brackets", f"write {owner} ('a', 'b')")
    parser.refuse_query("list the values themselves")
    if parser.peek() == ")":
        parser.fail_here(f"the list of {owner} is empty", "FALSE is the condition that nothing satisfies")
    found = parser.expressions()
    parser.close(f"the list of {owner}")
    return found
