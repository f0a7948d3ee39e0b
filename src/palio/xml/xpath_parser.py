"""Parser of XPath 1.0 expressions as tree patterns.

`parse_xpath` reads the location paths, predicates, comparisons with constants and Boolean functions of XPath 1.0 and
makes a `Pattern` that matches a document where XPath's `boolean()` of the expression is true. Whatever else XPath has
(positions, sibling axes, arithmetic, comparisons of two paths) is read once more by `expression_parser`, from the
smallest comparison that it stands in, and becomes a `Residual` of the node that it asks about.

A relative path starts at the document node, as in Spark's `xpath_boolean`: `a/b` is `/a/b`. Prefixes are those that
the caller binds, and those that the text itself declares as XQuery does:

    declare namespace m = "http://www.w3.org/1998/Math/MathML"; //m:math

A name without prefix is a name in no namespace, unless `declare default element namespace` gives another.

The parser is a recursive descent over a list of tokens; only brackets recurse. A path becomes conditions from its last
step to its first (`palio.xml.path_conditions`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from palio.errors import ParseError
from palio.xml.canonical_form import canonical_pattern, conjunction, disjunction, negation
from palio.xml.document import XML_NAMESPACE
from palio.xml.expression import (
    Call,
    Chain,
    Expression,
    Literal,
    Location,
    Negative,
    depends_on_position,
    result_type,
    size_of,
)
from palio.xml.expression_cover import condition_covering
from palio.xml.expression_evaluator import number_text
from palio.xml.expression_parser import NODE_TESTS, ExpressionParser
from palio.xml.expression_writer import write_expression
from palio.xml.path_conditions import Path, Step, end_with, first_value, path_exists
from palio.xml.pattern import ANY_NAME, NEVER, And, Condition, Name, Named, Pattern, Residual, ValueTest
from palio.xml.value_tests import xpath_number
from palio.xml.xpath_tokens import NAME, Token, TokenCursor

MAX_TEXT_CHARACTERS: Final = 65_536
MAX_PATTERN_NODES: Final = 1_000
MAX_PATTERN_LEVELS: Final = 60

_DECLARATION = re.compile(
    rf"""\s*declare\s+(?:namespace\s+(?P<prefix>{NAME})\s*=|default\s+element\s+namespace)
    \s*(?P<uri>"[^"]*"|'[^']*')\s*;""",
    re.VERBOSE,
)

_COMPARISONS: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison operators, each with the one that means the same with its sides exchanged."""
_ARITHMETIC: Final = ("+", "-", "*", "div", "mod")
_AXES: Final = (
    "child",
    "descendant",
    "attribute",
    "self",
    "descendant-or-self",
    "parent",
    "ancestor",
    "ancestor-or-self",
)


@dataclass(frozen=True)
class _Text:
    """The string value of the first node that some paths select, or its number."""

    paths: tuple[Path, ...]
    is_number: bool = False


@dataclass(frozen=True)
class _Count:
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class _NamePart:
    """`local-name()` or `namespace-uri()` of the node itself."""

    function: str


_Value: TypeAlias = tuple[Path, ...] | str | float | _Text | _Count | _NamePart | Condition | Expression
"""The value of an expression: a set of nodes as a union of paths, a constant, a condition, or what is no pattern."""


class BeyondPattern(ParseError):
    """What XPath 1.0 has and tree patterns do not: it is read again as an expression."""


def parse_xpath(text: str, namespaces: Mapping[str, str] | None = None) -> Pattern:
    """The pattern of an XPath expression; a `ParseError` says where and why there is none."""
    if len(text) > MAX_TEXT_CHARACTERS:
        reason = f"the XPath has {len(text):,} characters, more than the {MAX_TEXT_CHARACTERS:,} allowed"
        raise ParseError(text, MAX_TEXT_CHARACTERS, reason, "split it into several subscriptions")
    return _XPathParser(text, namespaces or {}).parse()


class _XPathParser(TokenCursor):
    """The tokens of one expression, the position in them, and the namespaces that prefixes stand for."""

    def __init__(self, text: str, namespaces: Mapping[str, str]) -> None:
        self.namespaces = {"xml": XML_NAMESPACE, **namespaces}
        self.default_namespace = self.namespaces.pop("", "")
        super().__init__(text, self._read_declarations(text))
        self._expressions = ExpressionParser(self, self.namespaces, self.default_namespace)
        self.levels = 0
        """Steps from the document node to the one being read, through predicates."""
        self.predicates = 0
        """Predicates that are open."""

    def parse(self) -> Pattern:
        if self.peek().kind == "end":
            raise self.error("there is no XPath here", "write a path, as in //surname[.='Curie']")
        at = self.at
        condition = self._condition_from(self._expression(), at)
        if self.peek().kind != "end":
            raise self.unexpected()
        pattern = canonical_pattern(condition)
        if pattern.size > MAX_PATTERN_NODES:
            reason = f"the pattern has {pattern.size:,} steps, more than the {MAX_PATTERN_NODES:,} allowed"
            raise ParseError(self.text, 0, reason, "split it into several subscriptions")
        return pattern

    def _read_declarations(self, text: str) -> int:
        """Consume the declarations of namespaces; returns where the expression begins."""
        position = 0
        while found := _DECLARATION.match(text, position):
            uri = found["uri"][1:-1]
            if found["prefix"] is None:
                self.default_namespace = uri
            elif found["prefix"] == "xml" and uri != XML_NAMESPACE:
                raise ParseError(text, found.start("prefix"), "the prefix xml has a meaning of its own in XML")
            else:
                self.namespaces[found["prefix"]] = uri
            position = found.end()
        return position

    # --- expressions ---------------------------------------------------------------------------------------

    def _expression(self) -> _Value:
        return self._chain("or", partial(self._chain, "and", self._comparison_or_expression, conjunction), disjunction)

    def _chain(
        self, word: str, operand: Callable[[], _Value], combine: Callable[[list[Condition]], Condition]
    ) -> _Value:
        """Operands with `and` or `or` between them."""
        at = self.at
        first = operand()
        if not self.is_word(word):
            return first
        conditions = [self._condition_from(first, at)]
        while self.is_word(word):
            self.at += 1
            at = self.at
            conditions.append(self._condition_from(operand(), at))
        return combine(conditions)

    def _comparison_or_expression(self) -> _Value:
        """A comparison as a pattern, or as the expression that it is."""
        at, brackets, levels, predicates = self.at, self.brackets, self.levels, self.predicates
        try:
            return self._comparison()
        except BeyondPattern:
            self.at, self.brackets, self.levels, self.predicates = at, brackets, levels, predicates
            return self._read_expression()

    def _read_expression(self) -> Expression:
        """The comparison that begins here, as an expression."""
        start = self.peek()
        expression = self._expressions.read_comparison(self)
        if self.predicates and depends_on_position(expression):
            raise self._beyond(start, "a position")  # of the step that the predicate belongs to
        return expression

    def _condition_from(self, value: _Value, at: int) -> Condition:
        """The truth value of an expression that begins at a token and has just been read."""
        try:
            return self._condition(value, self.tokens[at])
        except BeyondPattern:
            end, self.at = self.at, at
            condition = self._condition(self._read_expression(), self.tokens[at])
            self.at = end
            return condition

    def _beyond(self, token: Token, what: str) -> BeyondPattern:
        return BeyondPattern(self.text, token.start, f"{what} is beyond tree patterns")

    def _comparison(self) -> _Value:
        start = self.peek()
        value = self._operand()
        if (sign := self.peek()).text in _COMPARISONS and sign.kind == "sign":
            self.at += 1
            value = self._compare(value, sign, self._operand(), start)
            if (following := self.peek()).kind == "sign" and following.text in _COMPARISONS:
                raise self._beyond(following, "a comparison of a truth value")
        return value

    def _operand(self) -> _Value:
        """A union of paths, a constant or a call."""
        start = self.peek()
        if self.is_sign("-"):
            signs = 0
            while self.is_sign("-"):
                self.at += 1
                signs += 1
            number = self._operand() if self.peek().kind == "number" else None
            if not isinstance(number, float):
                raise self._beyond(start, "arithmetic")
            return -number if signs % 2 else number
        value = self._primary()
        while self.is_sign("|"):
            self.at += 1
            other = self._primary()
            if not (isinstance(value, tuple) and isinstance(other, tuple)):
                raise self._beyond(start, "a union")
            value += other
        following = self.peek()
        if following.text in _ARITHMETIC and following.kind in ("sign", "name"):
            raise self._beyond(self.peek(), "arithmetic")
        return value

    def _primary(self) -> _Value:
        token = self.peek()
        if token.kind == "text":
            self.at += 1
            return token.text[1:-1]
        if token.kind == "number":
            self.at += 1
            if math.isinf(number := float(token.text)):
                raise self.error_at(token, "the number is too large for a binary64")
            return number
        if token.text == "$":
            raise self.error("a subscription has no variables", "write the value itself")
        if token.text == "(" and token.kind == "sign":
            return self._bracket()
        if token.kind == "name" and self.peek(1).text == "(" and token.text not in NODE_TESTS:
            return self._call()
        return (self._path(),)

    def _bracket(self) -> _Value:
        start = self.peek()
        self.enter(start)
        value = self._expression()
        self.close(")", start)
        if self.is_sign("[") or self.is_sign("/") or self.is_sign("//"):
            raise self._beyond(start, "a step after a bracket")
        return value

    # --- paths ---------------------------------------------------------------------------------------------

    def _path(self) -> Path:
        levels = self.levels
        path = self._steps()
        self.levels = levels
        return path

    def _steps(self) -> Path:
        steps: list[Step] = []
        first = self.peek()
        is_absolute = self.is_sign("/") or self.is_sign("//")
        if is_absolute:
            self.at += 1
            if first.text == "//":
                steps.append(Step("descendant-or-self", "node"))
            elif not self._expressions.begins_step_at(self.peek()):
                return Path((), True)
        while True:
            steps.append(self._step())
            if not (self.is_sign("/") or self.is_sign("//")):
                return Path(tuple(steps), is_absolute)
            if steps[-1].is_first_only:
                raise self._beyond(self.peek(), "a step after [1]")
            if self.is_sign("//"):
                steps.append(Step("descendant-or-self", "node"))
            self.at += 1

    def _step(self) -> Step:
        token = self.peek()
        self.levels += 1
        if self.levels > MAX_PATTERN_LEVELS:
            raise self.error(f"the pattern is more than {MAX_PATTERN_LEVELS} levels deep", "leave out steps, or use //")
        if self.is_sign(".") or self.is_sign(".."):
            self.at += 1
            if self.is_sign("["):
                raise self._beyond(self.peek(), "a predicate after a dot")
            return Step("self" if token.text == "." else "parent", "node")
        axis = "child"
        if token.kind == "axis":
            axis = self._axis(token)
        elif self.is_sign("@"):
            axis = "attribute"
            self.at += 1
        kind, name = self._node_test(axis)
        step = Step(axis, kind, name)
        while self.is_sign("["):
            step = self._predicate(step)
        return step

    def _axis(self, token: Token) -> str:
        if token.text not in _AXES:
            raise self._beyond(token, "another axis")
        self.at += 2
        return token.text

    def _node_test(self, axis: str) -> tuple[str, Name]:
        """The kind of node a step asks for, and its name."""
        token = self.peek()
        if self.is_sign("*"):
            self.at += 1
            return "element", ANY_NAME
        if token.kind != "name":
            raise self.unexpected("a step of a path: a name, *, @name, text() or .")
        self.at += 1
        if not self.is_sign("("):
            return "element", self._expressions.name_of(token, axis)
        self.enter(self.peek())
        if self.peek().kind == "text":
            self.at += 1
        self.close(")", token)
        if token.text == "node" and axis in ("self", "parent", "descendant-or-self"):
            return "node", ANY_NAME
        if token.text == "text" and axis in ("child", "descendant"):
            return "text", ANY_NAME
        raise self._beyond(token, f"{axis}::{token.text}()")

    def _predicate(self, step: Step) -> Step:
        """The step with the predicate that follows."""
        start = self.peek()
        self.enter(start)
        inner, at = self.peek(), self.at
        self.predicates += 1
        value = self._expression()
        if not isinstance(value, float):
            if isinstance(value, Expression) and result_type(value) is float:
                raise self._beyond(inner, "a position")
            if isinstance(value, _Count) or (isinstance(value, _Text) and value.is_number):
                raise self._beyond(inner, "a position")
            value = self._condition_from(value, at)
        self.predicates -= 1
        self.close("]", start)
        if step.is_first_only:
            raise self._beyond(start, "a predicate after [1]")
        if isinstance(value, float):
            if value != 1 or step.axis.startswith("ancestor"):
                raise self._beyond(inner, "a position")
            return replace(step, is_first_only=True)
        return replace(step, conditions=(*step.conditions, value))

    # --- calls ---------------------------------------------------------------------------------------------

    def _call(self) -> _Value:
        token = self.peek()
        self.at += 1
        self.enter(self.peek())
        arguments: list[_Value] = []
        at = self.at
        if not self.is_sign(")"):
            arguments.append(self._expression())
            while self.is_sign(","):
                self.at += 1
                arguments.append(self._expression())
        self.close(")", token)
        match token.text, arguments:
            case "true", []:
                return And(())
            case "false", []:
                return NEVER
            case "not", [value]:
                return negation(self._argument(value, at))
            case "boolean", [value]:
                return self._argument(value, at)
            case (("string" | "number"), []):
                return _Text((_SELF,), token.text == "number")
            case "string", [value]:
                return self._string(value, token)
            case "number", [value]:
                if isinstance(value, float) or (isinstance(value, _Text) and value.is_number):
                    return value
                text = self._string(value, token)
                return xpath_number(text) if isinstance(text, str) else replace(text, is_number=True)
            case "concat", [_, _, *_] if all(isinstance(each, str) for each in arguments):
                return "".join(map(str, arguments))
            case "count", [tuple() as paths]:
                return _Count(paths)
            case (("local-name" | "namespace-uri"), []):
                return _NamePart(token.text)
            case (("contains" | "starts-with"), [value, constant]):
                return self._search(token, value, self._string(constant, token))
        raise self._beyond(token, f"{token.text}()")

    def _argument(self, value: _Value, at: int) -> Condition:
        """The truth value of the only argument of a function, behind whose bracket this is."""
        if isinstance(value, float):
            raise self._beyond(self.tokens[at], "the truth value of a number")
        return self._condition_from(value, at)

    def _string(self, value: _Value, token: Token) -> str | _Text:
        """A value converted to a string."""
        match value:
            case str():
                return value
            case float():
                return number_text(value)
            case tuple():
                return _Text(value)
            case _Text(is_number=False):
                return value
        raise self._beyond(token, f"{token.text}() of this value")

    def _search(self, token: Token, value: _Value, sought: str | _Text) -> Condition:
        """`contains` or `starts-with`."""
        text = self._string(value, token)
        if not isinstance(sought, str) or isinstance(text, str):
            raise self._beyond(token, f"{token.text}() of these values")
        if not sought:
            return And(())  # every text contains the empty one
        return self._first_value(text, ValueTest(token.text, sought), token)

    # --- meaning -------------------------------------------------------------------------------------------

    def _condition(self, value: _Value, start: Token) -> Condition:
        """A value converted to a truth value."""
        match value:
            case tuple():
                return self._exists(value, start)
            case str():
                return And(()) if value else NEVER
            case float():
                raise self.error_at(start, "a number is no condition", "compare it with a path")
            case _Text(is_number=True):
                raise self._beyond(start, "the truth value of a number")
            case _Text():
                return self._first_value(value, ValueTest("!=", ""), start)
            case _Count(paths):
                return self._exists(paths, start)
            case _NamePart():
                raise self._beyond(start, f"{value.function}()")
            case Literal() | Location() | Call() | Chain() | Negative():
                return self._residual(value)
        return value

    def _residual(self, expression: Expression) -> Condition:
        match expression:
            case Chain(_, (("or" | "|", _), *_)):
                return disjunction([self._reread(each) for each in expression.operands])
            case Chain(_, (("and", _), *_)):
                return conjunction([self._reread(each) for each in expression.operands])
            case Call("not", (negated,)):
                return negation(self._reread(negated))
            case Call("boolean", (inner,)):
                return self._reread(inner)
        cover = condition_covering(expression)
        if cover == NEVER:
            return NEVER
        return Residual(write_expression(expression), expression, cover, size_of(expression))

    def _reread(self, part: Expression) -> Condition:
        """The truth value of a part of an expression, which may be a pattern by itself."""
        parser = _XPathParser(write_expression(part), {})
        parser.predicates = self.predicates
        return parser._condition_from(parser._expression(), 0)

    def _compare(self, left: _Value, sign: Token, right: _Value, start: Token) -> Condition:
        if isinstance(left, str | float):
            left, right, operator = right, left, _COMPARISONS[sign.text]
        else:
            operator = sign.text
        if not isinstance(right, str | float):
            raise self._beyond(sign, "a comparison of two parts of a document")
        match left:
            case str() | float():
                raise self.error_at(start, "a comparison of two constants says nothing about a document")
            case _Count(paths):
                return self._compare_count(paths, operator, right, start)
            case _NamePart(function):
                return self._compare_name(function, operator, right, start)
            case _Text(is_number=True) if isinstance(right, str):
                return self._first_value(left, value_test(operator, xpath_number(right)), start)
            case _Text():
                return self._first_value(left, value_test(operator, right), start)
            case tuple():
                self._refuse_first_only(left, start)
                test = value_test(operator, right)
                return self._exists(tuple(end_with(path, test) for path in left), start)
        raise self._beyond(start, "a comparison of a truth value")

    def _refuse_first_only(self, paths: tuple[Path, ...], start: Token) -> None:
        if any(step.is_first_only for path in paths for step in path.steps):
            raise self._beyond(start, "a comparison of the node at a position")

    def _first_value(self, text: _Text, test: ValueTest | Condition, start: Token) -> Condition:
        if len(text.paths) > 1:
            raise self._beyond(start, "the text of a union of paths")
        try:
            return first_value(text.paths[0], test)
        except ValueError as error:
            raise self._beyond(start, str(error)) from None

    def _exists(self, paths: tuple[Path, ...], start: Token) -> Condition:
        try:
            return disjunction([path_exists(path) for path in paths])
        except ValueError as error:
            raise self._beyond(start, str(error)) from None

    def _compare_count(self, paths: tuple[Path, ...], operator: str, number: str | float, start: Token) -> Condition:
        """Counts that ask for one node at least, or for none."""
        some = self._exists(paths, start)
        match operator, number:
            case (">", 0.0) | (">=", 1.0) | ("!=", 0.0):
                return some
            case ("=", 0.0) | ("<", 1.0) | ("<=", 0.0):
                return negation(some)
        raise self._beyond(start, "a count other than none or some")

    def _compare_name(self, function: str, operator: str, text: str | float, start: Token) -> Condition:
        if operator not in ("=", "!=") or not isinstance(text, str):
            raise self._beyond(start, f"an order of {function}()")
        named = Named(Name(local=text) if function == "local-name" else Name(namespace=text))
        return named if operator == "=" else negation(named)


_SELF: Final = Path((Step("self", "node"),), False)


def value_test(operator: str, constant: str | float) -> ValueTest | Condition:
    """The test that a value is in some relation to a constant; a condition where that is always or never so."""
    if operator not in ("=", "!="):
        # XPath compares in order as numbers only; what is no number is in no order with any.
        constant = xpath_number(constant) if isinstance(constant, str) else constant
    if isinstance(constant, float) and math.isnan(constant):
        return And(()) if operator == "!=" else NEVER
    return ValueTest(operator, constant)
