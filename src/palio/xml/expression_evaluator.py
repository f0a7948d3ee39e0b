"""Evaluator of XPath 1.0 expressions on one document, with a limit of steps.

It evaluates what an index cannot hold on the documents that it could not rule out, set at a time where no position is
asked for. lxml would be faster on a large path and was rejected: it can be neither interrupted nor bounded (nested
`preceding::*` take hours on a document of a megabyte), it would parse the document once more, and it would be its own
oracle; here it stays the independent one of the tests.

Work is counted in steps of about three nanoseconds, as that of all conditions (`palio.filters.work_limit`): beyond the
limit, evaluation ends with `TooManySteps`, wherever it is. Numbers become text as XPath 1.0 says, without exponent.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from palio.errors import LimitReached
from palio.xml.document import XML_NAMESPACE, Document
from palio.xml.expression import (
    REVERSE_AXES,
    Call,
    Chain,
    Expression,
    Literal,
    Location,
    LocationStep,
    Negative,
    asks_for_position,
)
from palio.xml.node_table import ATTRIBUTE, COMMENT, DOCUMENT, ELEMENT, INSTRUCTION, TEXT, NodeTable
from palio.xml.value_tests import xpath_number

STEPS_PER_NODE: Final = 60
STEPS_PER_EVALUATION: Final = 300
"""Of one operator, call or path, beside the nodes that it visits."""
_WHITE_SPACE: Final = re.compile("[ \t\r\n]+")
_TREE_KINDS: Final = {
    "text": (TEXT,),
    "comment": (COMMENT,),
    "processing-instruction": (INSTRUCTION,),
    "node": (DOCUMENT, ELEMENT, ATTRIBUTE, TEXT, COMMENT, INSTRUCTION),
}
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Value: TypeAlias = list[int] | str | float | bool
"""Nodes are in document order, each once."""


class TooManySteps(LimitReached):
    """An expression takes more steps on a document than it may."""


class Context(NamedTuple):
    """The node that an expression is evaluated at, its position, and how many nodes there are."""

    node: int
    position: int = 1
    size: int = 1


class ExpressionEvaluator:
    """One document, and the steps that evaluations on it may still take."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._steps = self._steps_left = math.inf
        self._string_values: dict[int, str] = {}
        self._tags: dict[object, frozenset[int]] = {}

    def holds(self, expression: Expression, kind: int, number: int) -> bool:
        """Whether `boolean()` of an expression is true at a node."""
        return _boolean(self._evaluate(expression, Context(self.table.place(kind, number))))

    def limit(self, steps: float) -> None:
        """Let evaluations take that many steps from now on."""
        self._steps = self._steps_left = steps

    @cached_property
    def table(self) -> NodeTable:
        self._spend(STEPS_PER_NODE * 4 * (len(self._document) + len(self._document.texts)))
        return NodeTable(self._document)

    def _spend(self, steps: float) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooManySteps("max_steps", self._steps, "an expression takes too many steps on the document")

    # --- expressions ---------------------------------------------------------------------------------------

    def _evaluate(self, expression: Expression, context: Context) -> Value:
        self._spend(STEPS_PER_EVALUATION)
        match expression:
            case Literal(value):
                return value
            case Location():
                return self._location(expression, context)
            case Call(function, arguments):
                return self._call(function, arguments, context)
            case Negative(operand):
                return -self._number(self._evaluate(operand, context))
            case Chain(first, rest):
                return self._chain(first, rest, context)

    def _chain(self, first: Expression, rest: Sequence[tuple[str, Expression]], context: Context) -> Value:
        match rest[0][0]:
            case "or":
                operands = (first, *(each for _, each in rest))
                return any(_boolean(self._evaluate(each, context)) for each in operands)
            case "and":
                operands = (first, *(each for _, each in rest))
                return all(_boolean(self._evaluate(each, context)) for each in operands)
            case "|":
                union = set(self._nodes(first, context))
                for _, operand in rest:
                    union.update(self._nodes(operand, context))
                self._spend(STEPS_PER_NODE * len(union))
                return sorted(union)
        value = self._evaluate(first, context)
        for sign, operand in rest:
            other = self._evaluate(operand, context)
            if sign in ("=", "!="):
                value = self._is_equal(value, other, sign == "!=")
            elif sign in _COMPARE:
                value = self._is_in_order(value, other, sign)
            else:
                value = _calculate(self._number(value), sign, self._number(other))
        return value

    def _nodes(self, expression: Expression, context: Context) -> list[int]:
        nodes = self._evaluate(expression, context)
        assert isinstance(nodes, list)
        return nodes

    # --- comparisons ---------------------------------------------------------------------------------------

    def _is_equal(self, one: Value, other: Value, unequal: bool) -> bool:
        """Whether `=` holds, or `!=`: for nodes, of some node."""
        if isinstance(one, bool) or isinstance(other, bool):
            return (_boolean(one) == _boolean(other)) is not unequal
        if isinstance(one, list) and isinstance(other, list):
            mine, theirs = set(self._texts(one)), set(self._texts(other))
            if unequal:
                return bool(mine and theirs) and not (mine == theirs and len(mine) == 1)
            return not mine.isdisjoint(theirs)
        if isinstance(other, list):
            one, other = other, one
        if isinstance(one, list):
            if isinstance(other, float):
                return any((xpath_number(text) == other) is not unequal for text in self._texts(one))
            return any((text == other) is not unequal for text in self._texts(one))
        if isinstance(one, float) or isinstance(other, float):
            return (self._number(one) == self._number(other)) is not unequal
        return (one == other) is not unequal

    def _is_in_order(self, one: Value, other: Value, sign: str) -> bool:
        compare = _COMPARE[sign]
        if isinstance(one, bool) or isinstance(other, bool):
            return compare(float(_boolean(one)), float(_boolean(other)))
        mine, theirs = self._numbers(one), self._numbers(other)
        if not mine or not theirs:
            return False
        # Some pair is in order where the smallest of one side and the largest of the other are.
        return compare(min(mine), max(theirs)) if sign in ("<", "<=") else compare(max(mine), min(theirs))

    def _numbers(self, value: Value) -> list[float]:
        """The numbers of a value that are in order with others: of nodes, those of each."""
        numbers = map(xpath_number, self._texts(value)) if isinstance(value, list) else (self._number(value),)
        return [each for each in numbers if not math.isnan(each)]

    # --- conversions ---------------------------------------------------------------------------------------

    def _texts(self, nodes: Iterable[int]) -> Iterable[str]:
        return map(self._text_of, nodes)

    def _text_of(self, node: int) -> str:
        text = self._string_values.get(node)
        if text is None:
            text = self._string_values[node] = self.table.string_value(node)
        self._spend(STEPS_PER_NODE + len(text) // 4)
        return text

    def _string(self, value: Value) -> str:
        match value:
            case bool():
                return "true" if value else "false"
            case str():
                return value
            case float():
                return number_text(value)
            case _:
                return self._text_of(value[0]) if value else ""

    def _number(self, value: Value) -> float:
        match value:
            case bool():
                return float(value)
            case float():
                return value
            case _:
                return xpath_number(self._string(value))

    # --- paths ---------------------------------------------------------------------------------------------

    def _location(self, path: Location, context: Context) -> list[int]:
        if path.start is not None:
            nodes = self._nodes(path.start, context)
            for predicate in path.predicates:
                nodes = self._filtered(nodes, predicate)
        else:
            nodes = [0] if path.is_absolute else [context.node]
        is_below = False
        for number, step in enumerate(path.steps):
            following = path.steps[number + 1] if number + 1 < len(path.steps) else None
            if step.is_anywhere and following is not None and following.axis == "child" and not following.is_positional:
                is_below = True  # //name is every descendant of that name
                continue
            axis = "descendant" if is_below else step.axis
            is_below = False
            nodes = self._step(nodes, axis, step)
            if not nodes:
                break
        return nodes

    def _step(self, nodes: list[int], axis: str, step: LocationStep) -> list[int]:
        if len(nodes) > 1 and axis in ("descendant", "descendant-or-self") and not step.is_positional:
            nodes = self._outermost(nodes)
        is_positional = step.is_positional
        found: list[int] = []
        for node in nodes:
            chosen = self._selected(node, axis, step)
            if is_positional:
                for predicate in step.predicates:
                    chosen = self._filtered(chosen, predicate)
            found += chosen
        if len(nodes) > 1 or axis in REVERSE_AXES:
            found = sorted(set(found))
            self._spend(STEPS_PER_NODE * len(found))
        if not is_positional:
            for predicate in step.predicates:
                found = self._filtered(found, predicate)
        return found

    def _outermost(self, nodes: list[int]) -> list[int]:
        """The nodes that are below no other one."""
        kept: list[int] = []
        end, ends = 0, self.table.ends
        for node in nodes:
            if node >= end:
                kept.append(node)
                end = ends[node]
        return kept

    def _selected(self, node: int, axis: str, step: LocationStep) -> list[int]:
        """The nodes of a step from one node, before predicates, in the order of the axis."""
        table = self.table
        if step.kind == "element" and axis == "descendant" and step.name.is_single:
            tags = self._tags_of(step)
            tag = next(iter(tags), None)
            elements = [] if tag is None else list(table.elements_between(tag, node + 1, table.ends[node]))
            self._spend(STEPS_PER_NODE * (1 + len(elements) // 4))
            return elements
        # Axes that visit everything are paid for before they are walked.
        if axis in ("preceding", "following", "descendant", "descendant-or-self"):
            bounds = {"preceding": (0, node), "following": (table.ends[node], len(table))}
            first, end = bounds.get(axis, (node, table.ends[node]))
            self._spend(STEPS_PER_NODE * (end - first))
        reached = table.nodes_on(axis, node)
        self._spend(STEPS_PER_NODE * (1 + len(reached)))
        kinds = table.kinds
        if step.kind != "element":
            wanted = _TREE_KINDS[step.kind]
            if step.target is None:
                return [each for each in reached if kinds[each] in wanted]
            return [each for each in reached if kinds[each] in wanted and table.name(each).local == step.target]
        kind = ATTRIBUTE if axis == "attribute" else ELEMENT
        if step.name.is_any:
            return [each for each in reached if kinds[each] == kind]
        tags = self._tags_of(step)
        return [each for each in reached if kinds[each] == kind and table.tag(each) in tags]

    def _tags_of(self, step: LocationStep) -> frozenset[int]:
        tags = self._tags.get(step.name)
        if tags is None:
            self._spend(STEPS_PER_NODE * len(self._document.names))
            tags = self._tags[step.name] = self.table.accepted_tags(step.name)
        return tags

    def _filtered(self, nodes: list[int], predicate: Expression) -> list[int]:
        size = len(nodes)
        if isinstance(predicate, Literal) and isinstance(predicate.value, float):
            place = predicate.value
            return nodes[int(place) - 1 : int(place)] if place.is_integer() and 1 <= place <= size else []
        is_positional = asks_for_position(predicate)
        kept: list[int] = []
        for position, node in enumerate(nodes, 1):
            value = self._evaluate(predicate, Context(node, position, size) if is_positional else Context(node))
            if value == position if type(value) is float else _boolean(value):
                kept.append(node)
        return kept

    # --- functions -----------------------------------------------------------------------------------------

    def _call(self, function: str, arguments: Sequence[Expression], context: Context) -> Value:
        match function:
            case "true" | "false":
                return function == "true"
            case "position":
                return float(context.position)
            case "last":
                return float(context.size)
        values = [self._evaluate(each, context) for each in arguments]
        match function, values:
            case "boolean", [value]:
                return _boolean(value)
            case "not", [value]:
                return not _boolean(value)
            case "count", [list() as nodes]:
                return float(len(nodes))
            case "sum", [list() as nodes]:
                return sum(map(xpath_number, self._texts(nodes)), 0.0)
            case (("local-name" | "namespace-uri"), _):
                return self._name_part(function, values, context.node)
            case "lang", [value]:
                return self._is_in_language(self._string(value), context.node)
            case "number", _:
                return self._number(values[0] if values else [context.node])
            case (("floor" | "ceiling" | "round"), [value]):
                return _rounded(function, self._number(value))
        texts = [self._string(each) for each in values] or [self._text_of(context.node)]
        self._spend(sum(map(len, texts)))
        if function == "substring":
            return _substring(texts[0], *map(self._number, values[1:]))
        return TEXT_FUNCTIONS[function](*texts)

    def _name_part(self, function: str, values: Sequence[Value], node: int) -> str:
        if values:
            (nodes,) = values
            assert isinstance(nodes, list)
            if not nodes:
                return ""
            node = nodes[0]
        name = self.table.name(node)
        return name.local if function == "local-name" else name.namespace

    def _is_in_language(self, language: str, node: int) -> bool:
        table = self.table
        for each in table.nodes_on("ancestor-or-self", node):
            for attribute in table.nodes_on("attribute", each):
                if table.name(attribute) == ("lang", XML_NAMESPACE):
                    given, wanted = table.string_value(attribute).lower(), language.lower()
                    return given == wanted or given.startswith(f"{wanted}-")
        return False


def _boolean(value: Value) -> bool:
    if isinstance(value, float):
        return not (value == 0 or math.isnan(value))
    return bool(value)


def _calculate(one: float, sign: str, other: float) -> float:
    match sign:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
        case "div":
            if other:
                return one / other
            if one == 0 or math.isnan(one) or math.isnan(other):
                return math.nan
            return math.copysign(math.inf, one) * math.copysign(1, other)
    if other == 0 or math.isinf(one) or math.isnan(one) or math.isnan(other):
        return math.nan
    return math.fmod(one, other)


def _rounded(function: str, number: float) -> float:
    if math.isnan(number) or math.isinf(number) or number == 0:
        return number
    match function:
        case "floor":
            rounded = math.floor(number)
        case "ceiling":
            rounded = math.ceil(number)
        case _:
            rounded = math.floor(number)
            if number - rounded >= 0.5:  # halves go up; number + 0.5 would not be exact
                rounded += 1
    return math.copysign(float(rounded), number) if rounded == 0 else float(rounded)


def number_text(number: float) -> str:
    """A number as text: an integer without point, any other as few digits as tell it apart.

    >>> number_text(-0.0), number_text(1e21), number_text(0.1), number_text(float("nan"))
    ('0', '1000000000000000000000', '0.1', 'NaN')
    """
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return str(int(number)) if number.is_integer() else format(Decimal(repr(number)), "f")


def _substring(text: str, start: float, length: float = math.inf) -> str:
    first = _rounded("round", start)
    end = first + _rounded("round", length)
    if math.isnan(first) or math.isnan(end):
        return ""
    count = len(text)
    low, high = max(first, 1.0), min(end, count + 1.0)
    return text[int(low) - 1 : int(high) - 1] if low < high else ""


def _substring_before(text: str, sought: str) -> str:
    before, found, _ = text.partition(sought) if sought else ("", "", text)
    return before if found else ""


def _substring_after(text: str, sought: str) -> str:
    return text.partition(sought)[2] if sought else text


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for at, character in enumerate(old):
        table.setdefault(ord(character), new[at] if at < len(new) else None)
    return text.translate(table)


TEXT_FUNCTIONS: Final[dict[str, Callable[..., Value]]] = {
    "string": lambda text: text,
    "concat": lambda *texts: "".join(texts),
    "contains": lambda text, sought: sought in text,
    "starts-with": lambda text, sought: text.startswith(sought),
    "substring-before": _substring_before,
    "substring-after": _substring_after,
    "string-length": lambda text: float(len(text)),
    "normalize-space": lambda text: _WHITE_SPACE.sub(" ", text).strip(" "),
    "translate": _translate,
}
