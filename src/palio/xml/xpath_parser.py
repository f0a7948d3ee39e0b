"""Parser of XPath 1.0 expressions, as far as they are tree patterns.

`parse_xpath` reads the location paths, predicates, comparisons with constants and Boolean functions of XPath 1.0 and
makes a `Pattern` that matches a document where XPath's `boolean()` of the expression is true. Whatever else XPath has
(positions, sibling axes, arithmetic, comparisons of two paths) is refused at its position, with the reason.

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
from palio.xml.path_conditions import Path, Step, end_with, first_value, path_exists
from palio.xml.pattern import ANY_NAME, NEVER, And, Condition, Name, Named, Pattern, ValueTest
from palio.xml.value_tests import xpath_number
from palio.xml.xpath_tokens import NAME, Token, TokenCursor

MAX_TEXT_CHARACTERS: Final = 65_536
MAX_PATTERN_NODES: Final = 1_000
MAX_PATTERN_LEVELS: Final = 60

XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"

_DECLARATION = re.compile(
    rf"""\s*declare\s+(?:namespace\s+(?P<prefix>{NAME})\s*=|default\s+element\s+namespace)
    \s*(?P<uri>"[^"]*"|'[^']*')\s*;""",
    re.VERBOSE,
)

_COMPARISONS: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison operators, each with the one that means the same with its sides exchanged."""
_ARITHMETIC: Final = ("+", "-", "*", "div", "mod")
_ARITHMETIC_REFUSED: Final = ("arithmetic is beyond tree patterns", "compare a path with a constant")
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
_NODE_TESTS: Final = ("text", "node", "comment", "processing-instruction")
_OTHER_AXES: Final = ("following", "following-sibling", "preceding", "preceding-sibling", "namespace")
_LATER_FUNCTIONS: Final = ("ends-with", "matches", "lower-case", "upper-case", "replace", "exists", "empty", "tokenize")
_OTHER_FUNCTIONS: Final = (
    "id", "lang", "name", "normalize-space", "string-length", "substring", "substring-before", "substring-after",
    "translate", "sum", "floor", "ceiling", "round",
)  # fmt: skip


@dataclass(frozen=True)
class _Text:
    """The string value of the first node that some paths select, or its number."""

    paths: tuple[Path, ...]


@dataclass(frozen=True)
class _Count:
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class _NamePart:
    """`local-name()` or `namespace-uri()` of the node itself."""

    function: str


_Value: TypeAlias = tuple[Path, ...] | str | float | _Text | _Count | _NamePart | Condition
"""The value of an expression: a set of nodes as a union of paths, a constant, or a condition."""


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
        self.levels = 0
        """Steps from the document node to the one being read, through predicates."""

    def parse(self) -> Pattern:
        if self.peek().kind == "end":
            raise self.error("there is no XPath here", "write a path, as in //surname[.='Curie']")
        condition = self._condition(self._expression(), self.peek())
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
        return self._chain("or", partial(self._chain, "and", self._comparison, conjunction), disjunction)

    def _chain(
        self, word: str, operand: Callable[[], _Value], combine: Callable[[list[Condition]], Condition]
    ) -> _Value:
        """Operands with `and` or `or` between them."""
        start = self.peek()
        first = operand()
        if not self.is_word(word):
            return first
        conditions = [self._condition(first, start)]
        while self.is_word(word):
            self.at += 1
            start = self.peek()
            conditions.append(self._condition(operand(), start))
        return combine(conditions)

    def _comparison(self) -> _Value:
        start = self.peek()
        value = self._operand()
        if (sign := self.peek()).text in _COMPARISONS and sign.kind == "sign":
            self.at += 1
            value = self._compare(value, sign, self._operand(), start)
            if (following := self.peek()).kind == "sign" and following.text in _COMPARISONS:
                raise self.error(
                    "a comparison of a comparison is a truth value, which is in no order", "use and, or, not()"
                )
        return value

    def _operand(self) -> _Value:
        """A union of paths, a constant or a call."""
        if self.is_sign("-"):
            self.at += 1
            number = self._operand()
            if not isinstance(number, float):
                raise self.error(*_ARITHMETIC_REFUSED)
            return -number
        start = self.peek()
        value = self._primary()
        while self.is_sign("|"):
            self.at += 1
            other = self._primary()
            if not (isinstance(value, tuple) and isinstance(other, tuple)):
                raise self.error_at(start, "only paths have a union", "combine conditions with or")
            value += other
        following = self.peek()
        if following.text in _ARITHMETIC and following.kind in ("sign", "name"):
            raise self.error(*_ARITHMETIC_REFUSED)
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
        if token.kind == "name" and self.peek(1).text == "(" and token.text not in _NODE_TESTS:
            return self._call()
        return (self._path(),)

    def _bracket(self) -> _Value:
        start = self.peek()
        self.enter(start)
        value = self._expression()
        self.close(")", start)
        if self.is_sign("[") or self.is_sign("/") or self.is_sign("//"):
            raise self.error(
                "a step after a bracket is beyond tree patterns", "write the path of each alternative in full"
            )
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
            elif not self._begins_step():
                return Path((), True)
        while True:
            steps.append(self._step())
            if not (self.is_sign("/") or self.is_sign("//")):
                return Path(tuple(steps), is_absolute)
            if steps[-1].is_first_only:
                raise self.error("a step after [1] is beyond tree patterns", "ask for the content of the node instead")
            if self.is_sign("//"):
                steps.append(Step("descendant-or-self", "node"))
            self.at += 1

    def _begins_step(self) -> bool:
        token = self.peek()
        return token.kind in ("name", "axis") or (token.kind == "sign" and token.text in (".", "..", "@", "*"))

    def _step(self) -> Step:
        token = self.peek()
        self.levels += 1
        if self.levels > MAX_PATTERN_LEVELS:
            raise self.error(f"the pattern is more than {MAX_PATTERN_LEVELS} levels deep", "leave out steps, or use //")
        if self.is_sign(".") or self.is_sign(".."):
            self.at += 1
            if self.is_sign("["):
                raise self.error(
                    f"XPath 1.0 has no predicate after {token.text}", f"write {_LONG_STEPS[token.text]}[…]"
                )
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
        if token.text in _OTHER_AXES:
            raise self.error(
                f"the axis {token.text} is beyond tree patterns", "only axes up and down the tree can be used"
            )
        if token.text not in _AXES:
            raise self.error(f"XPath has no axis {token.text}", f"its axes are {', '.join(_AXES)}")
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
            return "element", self._name(token, axis)
        self.enter(self.peek())
        if self.peek().kind == "text":
            self.at += 1
        self.close(")", token)
        if token.text == "node" and axis in ("self", "parent", "descendant-or-self"):
            return "node", ANY_NAME
        if token.text == "text" and axis in ("child", "descendant"):
            return "text", ANY_NAME
        raise self.error_at(
            token, f"{axis}::{token.text}() is beyond tree patterns", "ask for elements, attributes or text()"
        )

    def _name(self, token: Token, axis: str) -> Name:
        prefix, colon, local = token.text.rpartition(":")
        if not colon:
            # The default namespace is that of elements: an attribute without prefix is in no namespace.
            return Name(local, "" if axis == "attribute" else self.default_namespace)
        if prefix not in self.namespaces:
            hint = f'bind it: declare namespace {prefix} = "…"; before the path, or the option namespaces'
            raise self.error_at(token, f"the prefix {prefix} stands for no namespace", hint)
        return Name(None if local == "*" else local, self.namespaces[prefix])

    def _predicate(self, step: Step) -> Step:
        """The step with the predicate that follows."""
        start = self.peek()
        self.enter(start)
        inner = self.peek()
        value = self._expression()
        self.close("]", start)
        if step.is_first_only:
            raise self.error_at(start, "a predicate after [1] is beyond tree patterns", "write it before [1]")
        if isinstance(value, float):
            if value != 1:
                raise self.error_at(
                    inner, "a position is beyond tree patterns", "ask for the content of the node instead"
                )
            if step.axis.startswith("ancestor"):
                raise self.error_at(
                    inner, "the position of an ancestor is beyond tree patterns", "name the ancestor itself"
                )
            return replace(step, is_first_only=True)
        return replace(step, conditions=(*step.conditions, self._condition(value, inner)))

    # --- calls ---------------------------------------------------------------------------------------------

    def _call(self) -> _Value:
        token = self.peek()
        self.at += 1
        self.enter(self.peek())
        arguments: list[_Value] = []
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
                return negation(self._condition(value, token))
            case "boolean", [value]:
                return self._condition(value, token)
            case (("string" | "number"), []):
                return _Text((_SELF,))
            case "string", [value]:
                return self._string(value, token)
            case "number", [value]:
                text = self._string(value, token)
                return xpath_number(text) if isinstance(text, str) else text
            case "concat", [_, _, *_] if all(isinstance(each, str) for each in arguments):
                return "".join(map(str, arguments))
            case "count", [tuple() as paths]:
                return _Count(paths)
            case (("local-name" | "namespace-uri"), []):
                return _NamePart(token.text)
            case (("contains" | "starts-with"), [value, constant]):
                return self._search(token, value, self._string(constant, token))
        raise self._unknown_call(token, len(arguments))

    def _string(self, value: _Value, token: Token) -> str | _Text:
        """A value converted to a string."""
        match value:
            case str():
                return value
            case float():
                return f"{value:g}" if not value.is_integer() else str(int(value))
            case tuple():
                return _Text(value)
            case _Text():
                return value
        raise self.error_at(token, f"{token.text}() of this value is beyond tree patterns", "give it a path or a text")

    def _search(self, token: Token, value: _Value, sought: str | _Text) -> Condition:
        """`contains` or `starts-with`."""
        text = self._string(value, token)
        if not isinstance(sought, str) or isinstance(text, str):
            raise self.error_at(
                token, f"{token.text}() takes a path and then a constant text", "as in contains(@href, 'doi')"
            )
        if not sought:
            return And(())  # every text contains the empty one
        return self._first_value(text, ValueTest(token.text, sought), token)

    def _unknown_call(self, token: Token, count: int) -> ParseError:
        name = token.text
        if name in ("position", "last"):
            return self.error_at(token, "a position is beyond tree patterns", "ask for the content of the node instead")
        if name in _LATER_FUNCTIONS:
            return self.error_at(
                token, f"{name}() is of XPath 2.0; patterns are XPath 1.0", "use contains() or starts-with()"
            )
        if name in _OTHER_FUNCTIONS:
            return self.error_at(token, f"{name}() is beyond tree patterns", "compare the value itself with a constant")
        if name in ("true", "false", "not", "boolean", "string", "number", "concat", "count", "contains",
                    "starts-with", "local-name", "namespace-uri"):  # fmt: skip
            return self.error_at(token, f"{name}() does not take {count} argument{'s' * (count != 1)} of this kind")
        return self.error_at(token, f"XPath 1.0 has no function {name}()", "use contains(), starts-with() or not()")

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
            case _Text():
                return self._first_value(value, ValueTest("!=", ""), start)
            case _Count(paths):
                return self._exists(paths, start)
            case _NamePart():
                raise self.error_at(start, f"{value.function}() is no condition by itself", "compare it with a text")
        return value

    def _compare(self, left: _Value, sign: Token, right: _Value, start: Token) -> Condition:
        if isinstance(left, str | float):
            left, right, operator = right, left, _COMPARISONS[sign.text]
        else:
            operator = sign.text
        if not isinstance(right, str | float):
            hint = "compare a path with a text or a number"
            raise self.error_at(sign, "a comparison of two parts of a document is beyond tree patterns", hint)
        match left:
            case str() | float():
                raise self.error_at(start, "a comparison of two constants says nothing about a document")
            case _Count(paths):
                return self._compare_count(paths, operator, right, start)
            case _NamePart(function):
                return self._compare_name(function, operator, right, start)
            case _Text():
                return self._first_value(left, _value_test(operator, right), start)
            case tuple():
                self._refuse_first_only(left, start)
                test = _value_test(operator, right)
                return self._exists(tuple(end_with(path, test) for path in left), start)
        raise self.error_at(start, "a truth value is compared", "use the condition itself, or not()")

    def _refuse_first_only(self, paths: tuple[Path, ...], start: Token) -> None:
        if any(step.is_first_only for path in paths for step in path.steps):
            raise self.error_at(
                start, "a comparison of the node at a position is beyond tree patterns", "leave out [1]"
            )

    def _first_value(self, text: _Text, test: ValueTest | Condition, start: Token) -> Condition:
        if len(text.paths) > 1:
            raise self.error_at(
                start, "the text of a union of paths is beyond tree patterns", "write or between conditions"
            )
        try:
            return first_value(text.paths[0], test)
        except ValueError as error:
            raise self.error_at(start, str(error)) from None

    def _exists(self, paths: tuple[Path, ...], start: Token) -> Condition:
        try:
            return disjunction([path_exists(path) for path in paths])
        except ValueError as error:
            raise self.error_at(start, str(error)) from None

    def _compare_count(self, paths: tuple[Path, ...], operator: str, number: str | float, start: Token) -> Condition:
        """Counts that ask for one node at least, or for none."""
        some = self._exists(paths, start)
        match operator, number:
            case (">", 0.0) | (">=", 1.0) | ("!=", 0.0):
                return some
            case ("=", 0.0) | ("<", 1.0) | ("<=", 0.0):
                return negation(some)
        raise self.error_at(start, "a count other than none or some is beyond tree patterns", "compare it with 0")

    def _compare_name(self, function: str, operator: str, text: str | float, start: Token) -> Condition:
        if operator not in ("=", "!=") or not isinstance(text, str):
            raise self.error_at(
                start, f"{function}() is a text", f"compare it with = or !=, as in {function}()='title'"
            )
        named = Named(Name(local=text) if function == "local-name" else Name(namespace=text))
        return named if operator == "=" else negation(named)


_SELF: Final = Path((Step("self", "node"),), False)
_LONG_STEPS: Final = {".": "self::node()", "..": "parent::node()"}


def _value_test(operator: str, constant: str | float) -> ValueTest | Condition:
    if operator not in ("=", "!="):
        # XPath compares in order as numbers only; what is no number is in no order with any.
        constant = xpath_number(constant) if isinstance(constant, str) else constant
    if isinstance(constant, float) and math.isnan(constant):
        return And(()) if operator == "!=" else NEVER
    return ValueTest(operator, constant)
