"""Parser of XPath 1.0 expressions in full, for what is no tree pattern.

All axes but `namespace`, all operators, and the core functions but `name()` and `id()`: prefixes and DTDs of documents
are not kept. There are no variables and no functions of XSLT or other libraries. What has no place in a subscription is
refused at its position, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from palio.xml.document import XML_NAMESPACE
from palio.xml.expression import (
    RESULT_TYPES,
    Call,
    Chain,
    Expression,
    Literal,
    Location,
    LocationStep,
    Negative,
    result_type,
)
from palio.xml.pattern import ANY_NAME, Name
from palio.xml.xpath_tokens import NAME_OF_PREFIX_HINT, Token, TokenCursor

MAX_STEPS_OF_PATH: Final = 60

AXES: Final = frozenset(
    (
        "child", "descendant", "attribute", "self", "descendant-or-self", "parent", "ancestor", "ancestor-or-self",
        "following", "following-sibling", "preceding", "preceding-sibling",
    )
)  # fmt: skip
NODE_TESTS: Final = ("text", "node", "comment", "processing-instruction")
_LATER_FUNCTIONS: Final = ("ends-with", "matches", "lower-case", "upper-case", "replace", "exists", "empty", "tokenize")
_ARGUMENTS: Final = {
    **dict.fromkeys(("last", "position", "true", "false"), (0, 0)),
    **dict.fromkeys(("local-name", "namespace-uri", "string", "number", "string-length", "normalize-space"), (0, 1)),
    **dict.fromkeys(("count", "sum", "boolean", "not", "lang", "floor", "ceiling", "round"), (1, 1)),
    **dict.fromkeys(("contains", "starts-with", "substring-before", "substring-after"), (2, 2)),
    "substring": (2, 3),
    "translate": (3, 3),
    "concat": (2, 1_000),
}
_NAME_PARTS: Final = ("local-name", "namespace-uri")
_NODE_FUNCTIONS: Final = ("count", "sum", *_NAME_PARTS)
_LEVELS: Final[tuple[frozenset[str], ...]] = (
    frozenset(("or",)),
    frozenset(("and",)),
    frozenset(("=", "!=")),
    frozenset(("<", "<=", ">", ">=")),
    frozenset(("+", "-")),
    frozenset(("*", "div", "mod")),
)
_COMPARISON: Final = 2
_LONG_STEPS: Final = {".": "self::node()", "..": "parent::node()"}


class ExpressionParser(TokenCursor):
    """Recursive descent over the tokens of an expression; only brackets recurse."""

    def __init__(self, cursor: TokenCursor, namespaces: Mapping[str, str], default_namespace: str) -> None:
        self.text, self.tokens, self.at, self.brackets = cursor.text, cursor.tokens, cursor.at, cursor.brackets
        self.namespaces = namespaces
        self.default_namespace = default_namespace

    def read_comparison(self, cursor: TokenCursor) -> Expression:
        """The comparison, or what binds tighter, that begins at a cursor, which is moved behind it."""
        self.at, self.brackets = cursor.at, cursor.brackets
        expression = self._chain(_COMPARISON)
        cursor.at = self.at
        return expression

    def read_all(self) -> Expression:
        """All that is left of the text."""
        expression = self._chain(0)
        if self.peek().kind != "end":
            raise self.unexpected()
        return expression

    def _chain(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._negative()
        first = self._chain(level + 1)
        rest: list[tuple[str, Expression]] = []
        while (token := self.peek()).kind in ("sign", "name") and token.text in _LEVELS[level]:
            self.at += 1
            rest.append((token.text, self._chain(level + 1)))
        return Chain(first, tuple(rest)) if rest else first

    def _negative(self) -> Expression:
        signs = 0
        while self.is_sign("-"):
            self.at += 1
            signs += 1
        start = self.peek()
        operand = self._union(start)
        if not signs:
            return operand
        if isinstance(operand, Literal) and isinstance(operand.value, float):
            return Literal(-operand.value if signs % 2 else operand.value)
        negative = Negative(operand)
        return negative if signs % 2 else Negative(negative)

    def _union(self, start: Token) -> Expression:
        first = self._path()
        rest: list[tuple[str, Expression]] = []
        while self.is_sign("|"):
            self.at += 1
            rest.append(("|", self._path()))
        if not rest:
            return first
        union = Chain(first, tuple(rest))
        if any(result_type(each) is not list for each in union.operands):
            raise self.error_at(start, "only paths have a union", "combine conditions with or")
        return union

    def _path(self) -> Expression:
        token = self.peek()
        primary = self._primary(token)
        if primary is None:
            return self._location(None, ())
        predicates: list[Expression] = []
        while self.is_sign("["):
            predicates.append(self._predicate())
        if not (predicates or self.is_sign("/") or self.is_sign("//")):
            return primary
        if result_type(primary) is not list:
            raise self.error_at(token, "only nodes have predicates and steps below them")
        return self._location(primary, tuple(predicates))

    def _primary(self, token: Token) -> Expression | None:
        """A constant, a call or a bracket; None before a path."""
        if token.kind == "text":
            self.at += 1
            return Literal(token.text[1:-1])
        if token.kind == "number":
            self.at += 1
            if math.isinf(number := float(token.text)):
                raise self.error_at(token, "the number is too large for a binary64")
            return Literal(number)
        if token.text == "$":
            raise self.error("a subscription has no variables", "write the value itself")
        if self.is_sign("("):
            self.enter(token)
            inner = self._chain(0)
            self.close(")", token)
            return inner
        if token.kind == "name" and self.peek(1).text == "(" and token.text not in NODE_TESTS:
            return self._call(token)
        return None

    # --- paths ---------------------------------------------------------------------------------------------

    def _location(self, start: Expression | None, predicates: tuple[Expression, ...]) -> Location:
        steps: list[LocationStep] = []
        is_rooted = self.is_sign("/") or self.is_sign("//")
        if is_rooted:
            first = self.peek()
            self.at += 1
            if first.text == "//":
                steps.append(_ANYWHERE)
            elif start is None and not self.begins_step_at(self.peek()):
                return Location((), True)
        if is_rooted or start is None:
            steps.append(self._step())
            while self.is_sign("/") or self.is_sign("//"):
                if self.is_sign("//"):
                    steps.append(_ANYWHERE)
                self.at += 1
                steps.append(self._step())
                if len(steps) > MAX_STEPS_OF_PATH:
                    raise self.error(f"a path has more than {MAX_STEPS_OF_PATH} steps", "leave out steps, or use //")
        return Location(tuple(steps), is_rooted and start is None, start, predicates)

    def begins_step_at(self, token: Token) -> bool:
        return token.kind in ("name", "axis") or (token.kind == "sign" and token.text in (".", "..", "@", "*"))

    def _step(self) -> LocationStep:
        token = self.peek()
        if self.is_sign(".") or self.is_sign(".."):
            self.at += 1
            if self.is_sign("["):
                raise self.error(
                    f"XPath 1.0 has no predicate after {token.text}", f"write {_LONG_STEPS[token.text]}[…]"
                )
            return LocationStep("self" if token.text == "." else "parent", "node")
        axis = "child"
        if token.kind == "axis":
            axis = self._axis(token)
        elif self.is_sign("@"):
            axis = "attribute"
            self.at += 1
        kind, name, target = self._node_test(axis)
        predicates: list[Expression] = []
        while self.is_sign("["):
            predicates.append(self._predicate())
        if kind == "element" and name.is_any and predicates and (written := _name_asked(predicates[0])) is not None:
            name = written
            del predicates[0]
        return LocationStep(axis, kind, name, target, tuple(predicates))

    def _axis(self, token: Token) -> str:
        if token.text == "namespace":
            raise self.error("the axis namespace is no part of subscriptions", "ask for namespace-uri()")
        if token.text not in AXES:
            raise self.error(f"XPath has no axis {token.text}", f"its axes are {', '.join(sorted(AXES))}")
        self.at += 2
        return token.text

    def _node_test(self, axis: str) -> tuple[str, Name, str | None]:
        token = self.peek()
        if self.is_sign("*"):
            self.at += 1
            return "element", ANY_NAME, None
        if token.kind != "name":
            raise self.unexpected("a step of a path: a name, *, @name, text() or .")
        self.at += 1
        if not self.is_sign("("):
            return "element", self.name_of(token, axis), None
        if token.text not in NODE_TESTS:
            raise self.error_at(token, f"{token.text}() is no step of a path")
        self.enter(self.peek())
        target = None
        if self.peek().kind == "text" and token.text == "processing-instruction":
            target = self.peek().text[1:-1]
            self.at += 1
        self.close(")", token)
        return token.text, ANY_NAME, target

    def name_of(self, token: Token, axis: str) -> Name:
        """The name test of a name as it is written."""
        prefix, colon, local = token.text.rpartition(":")
        if not colon:
            # The default namespace is that of elements: an attribute without prefix is in no namespace.
            return Name(local, "" if axis == "attribute" else self.default_namespace)
        if prefix not in self.namespaces:
            hint = NAME_OF_PREFIX_HINT.format(prefix)
            raise self.error_at(token, f"the prefix {prefix} stands for no namespace", hint)
        return Name(None if local == "*" else local, self.namespaces[prefix])

    def _predicate(self) -> Expression:
        start = self.peek()
        self.enter(start)
        inner = self._chain(0)
        self.close("]", start)
        return inner

    # --- calls ---------------------------------------------------------------------------------------------

    def _call(self, token: Token) -> Expression:
        self.at += 1
        self.enter(self.peek())
        arguments: list[Expression] = []
        if not self.is_sign(")"):
            arguments.append(self._chain(0))
            while self.is_sign(","):
                self.at += 1
                arguments.append(self._chain(0))
        self.close(")", token)
        function, count = token.text, len(arguments)
        if function not in RESULT_TYPES:
            raise self.error_at(token, *why_no_function(function))
        least, most = _ARGUMENTS[function]
        if not least <= count <= most:
            raise self.error_at(token, f"{function}() does not take {count} argument{'s' * (count != 1)}")
        if function in _NODE_FUNCTIONS and arguments and result_type(arguments[0]) is not list:
            raise self.error_at(token, f"{function}() takes a path")
        return Call(function, tuple(arguments))


_ANYWHERE: Final = LocationStep("descendant-or-self", "node")


def _name_asked(predicate: Expression) -> Name | None:
    """The name that `local-name()='a'` and `namespace-uri()='…'` ask for, as names in a namespace are written."""
    asked = predicate.operands if isinstance(predicate, Chain) and predicate.rest[0][0] == "and" else (predicate,)
    parts: dict[str, str] = {}
    for each in asked:
        match each:
            case Chain(Call(function, ()), (("=", Literal(str(text))),)) if function in _NAME_PARTS:
                parts[function] = text
            case _:
                return None
    if len(parts) != len(asked):
        return None
    return Name(parts.get("local-name"), parts.get("namespace-uri"))


def why_no_function(name: str) -> tuple[str, str]:
    """Why there is no function of a name, and what to write instead."""
    if name in _LATER_FUNCTIONS:
        return f"{name}() is of XPath 2.0; patterns are XPath 1.0", "use contains() or starts-with()"
    if name == "name":
        return "the prefixes that name() returns have no meaning", "compare local-name(), or write self::name"
    if name == "id":
        return "id() needs a DTD, which is never read", "compare the attribute itself, as in //*[@id='x']"
    return f"XPath 1.0 has no function {name}()", "use contains(), starts-with() or not()"


def read_expression(text: str) -> Expression:
    """The expression of a text without prefixes."""
    return ExpressionParser(TokenCursor(text, 0), {"xml": XML_NAMESPACE}, "").read_all()
