"""Templates: parsed conditions with their literals as parameters.

Subscriptions are often many conditions that differ only in their literals. Each such family is parsed once:

- The *skeleton* of a condition is its text with a mark in place of every literal that tells the literal's kind
  (`symbol = \\4 AND price > \\1`). Blanks and the case of words stay as they are. An IN list of literals that are
  written alike is one mark (`symbol IN (\\4\\6)`), so that lists of all lengths share a skeleton.
- The *template* of a skeleton is made of the expression that the parser gave for one condition of it: AND, OR, NOT and
  predicates on one attribute each, with a `Parameter` in place of each literal. Arithmetic, functions and predicates on
  two attributes have no template; such a condition is always parsed.
- A condition is *bound*: its template, and its literals as arguments. Filter, index entries and evaluation come from
  the bound template, without tokens or an expression.

Why this is right. Two conditions of one skeleton have the same tokens, because no kind of literal here can reach beyond
its own characters, whatever they are: a string ends at its quote, a number where something else than a letter, a digit
or a point follows. So the parse of the first holds for all. A longer list has more operands, and no other structure.
What a predicate means is taken from the functions that lowering uses (`compare_literal`, `lower_like`, …), so a bound
template gives the filter that a parse would give; a property test compares the two.

The pieces: this module has the model and makes templates; `template_cache` finds the template of a text;
`template_evaluation` evaluates a bound template on an event without making a filter. The columnar index fills whole
columns of literals into a template (`palio.matching.columnar`).

Cost: a conjunction of three known conjuncts is bound in about 9 µs; parsing and lowering it takes about 200 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeAlias

from palio.events.values import Scalar
from palio.filters.comparisons import OPERATORS, Truth, compare_literal, equal_to_any
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, Micros, Months
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.like import LikePattern
from palio.filters.normal_form import normal
from palio.filters.tree import NOTHING, And, Leaf, Node, Or
from palio.filters.value_sets import NULLS, PRESENT, ValueSet, intersection_of
from palio.languages.grammar import NUMBER, TEXT
from palio.languages.sql.lexer import (
    parse_date,
    parse_hexadecimal,
    parse_local_timestamp,
    parse_number,
    parse_timestamp,
    tokenize,
)
from palio.languages.sql.lowering import (
    INVERSE,
    POSITIVE,
    TEXT_FUNCTION_PATTERNS,
    TruthTest,
    check_refusals,
    inner_test,
    leaf_where,
    lower_like,
)
from palio.languages.sql.parser import parse_condition

# The kinds of literal that become parameters, each with its mark in a skeleton.
INTEGER: Final = "\1"  # at most 18 digits
DECIMAL: Final = "\2"  # digits, a point, digits
DOUBLE: Final = "\3"  # with an exponent, or the letter D
STRING: Final = "\4"  # in quotes, without a backslash
# Behind the mark of a literal: an IN list of one or more such literals.
LIST: Final = "\6"

LiteralSpan: TypeAlias = tuple[str, int, int]  # kind, start, end
Arguments: TypeAlias = Sequence[Any]  # the values of all parameters, in the order of the text
Evaluator: TypeAlias = Callable[[Mapping[str, Any], Arguments, str], bool]  # of an event, arguments and a time zone


@dataclass(frozen=True, slots=True)
class Parameter:
    """The place of a literal in a template, and how the text of one is parsed."""

    index: int
    kind: str
    before: str  # a sign, or a type such as `date`, that stands before the literal and belongs to it
    is_list: bool = False  # whether it stands for an IN list of any length, whose argument is a tuple

    @property
    def is_text(self) -> bool:
        """Whether literals are plain strings, not dates or the like."""
        return self.kind == STRING and not self.before

    def read(self, text: str, timezone: str) -> Scalar:
        """The value of a literal; `InvalidLiteral` where it has none."""
        if self.kind == INTEGER:
            return -int(text) if self.before == "-" else int(text)
        if self.kind != STRING:
            return parse_number(text if self.before == "+" else self.before + text)
        inside, quote = text[1:-1], text[0]
        if quote in inside:
            inside = inside.replace(quote * 2, quote)
        return inside if not self.before else _TYPED[self.before](inside, timezone)


_TYPED: Final[dict[str, Callable[[str, str], Scalar]]] = {
    "date": lambda text, _: parse_date(text),
    "timestamp": parse_timestamp,
    "timestamp_ltz": parse_timestamp,
    "timestamp_ntz": parse_local_timestamp,
    "x": lambda text, _: parse_hexadecimal(text),
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal that is no parameter, because it is a part of the skeleton: NULL, TRUE, 5L."""

    value: Scalar


Operand: TypeAlias = Parameter | Constant


def _value(operand: Operand, arguments: Arguments) -> Scalar:
    return arguments[operand.index] if type(operand) is Parameter else operand.value  # type: ignore[union-attr]


def listed_values(operands: Sequence[Operand], arguments: Arguments) -> Sequence[Scalar]:
    """The values of an IN list: of its one parameter that is a list, or of an operand each."""
    first = operands[0]
    if isinstance(first, Parameter) and first.is_list:
        found: tuple[Scalar, ...] = arguments[first.index]
        return found
    return [_value(each, arguments) for each in operands]


# --- predicates on one attribute -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """An attribute compared with one literal, the attribute first."""

    name: str
    operator: str
    operand: Operand

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return leaf_where(self.name, compare_literal(self.operator, _value(self.operand, arguments), timezone), wanted)


@dataclass(frozen=True, slots=True)
class InList:
    """IN. A list of literals that are written alike is one parameter; others have an operand for each."""

    name: str
    operands: tuple[Operand, ...]

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return leaf_where(self.name, equal_to_any(listed_values(self.operands, arguments), timezone), wanted)


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """LIKE, ILIKE, startswith, endswith, contains."""

    name: str
    function: str
    operand: Parameter

    def pattern(self, arguments: Arguments) -> LikePattern:
        return _pattern(self.function, arguments[self.operand.index])

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return lower_like(self.name, self.pattern(arguments), wanted)


@lru_cache(maxsize=4_096)
def _pattern(function: str, text: str) -> LikePattern:
    return _PATTERNS[function](text)


_PATTERNS: Final[dict[str, Callable[..., LikePattern]]] = {
    "like": LikePattern.parse,
    "ilike": lambda text: LikePattern.parse(text, ignore_case=True),
    **TEXT_FUNCTION_PATTERNS,
}


@dataclass(frozen=True, slots=True)
class NullTest:
    """IS NULL, IS NOT NULL."""

    name: str
    is_null: bool

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return Leaf(self.name, NULLS if self.is_null is (wanted in POSITIVE) else PRESENT)


@dataclass(frozen=True, slots=True)
class BooleanAttribute:
    """An attribute as a condition."""

    name: str
    truth: ClassVar[Truth] = Truth(ValueSet.points([True]), ValueSet.points([False]))

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return leaf_where(self.name, self.truth, wanted)


AttributePredicate: TypeAlias = Comparison | InList | PatternMatch | NullTest | BooleanAttribute


# --- connectives -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connective:
    """AND, OR; BETWEEN is an AND of two comparisons."""

    is_and: bool
    parts: tuple[Condition, ...]

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        nodes = tuple([part.node(arguments, timezone, wanted) for part in self.parts])
        return And(nodes) if self.is_and is (wanted in POSITIVE) else Or(nodes)


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT."""

    part: Condition

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return self.part.node(arguments, timezone, INVERSE[wanted])


@dataclass(frozen=True, slots=True)
class BooleanTest:
    """IS TRUE, IS FALSE."""

    positive: bool
    part: Condition

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return self.part.node(arguments, timezone, inner_test(self.positive, wanted))


Condition: TypeAlias = AttributePredicate | Connective | Negation | BooleanTest


class Template:
    """A condition with parameters in place of its literals."""

    __slots__ = ("_by_name", "condition", "equalities", "evaluator", "list_index", "names", "needed", "parameters")

    def __init__(self, condition: Condition, parameters: Sequence[Parameter]) -> None:
        self.condition = condition
        self.parameters = tuple(parameters)
        self.list_index = next((each.index for each in parameters if each.is_list), None)
        """The one parameter that is a list, if there is one."""
        self._by_name = _by_name(condition)
        self.evaluator: Evaluator | None = None
        """Made by `template_evaluation` at the first evaluation."""
        self.equalities = _equalities(condition)
        """Attributes that must equal one of some strings, with the parameters of these."""
        self.names = frozenset(_names(condition))
        """All attributes of the condition."""
        self.needed = _needed(condition)
        """Attributes without which an event does not match."""

    def parse_literals(self, texts: Sequence[str], timezone: str) -> list[Any]:
        """The arguments that literals are; `InvalidLiteral` where one has no value."""
        if self.list_index is None:
            return [each.read(text, timezone) for each, text in zip(self.parameters, texts, strict=True)]
        # The literals behind the list are counted from the last one on.
        first, behind = self.list_index, len(self.parameters) - self.list_index - 1
        end = len(texts) - behind
        listed = self.parameters[first]
        values = tuple([listed.read(text, timezone) for text in texts[first:end]])
        others = zip(
            (*self.parameters[:first], *self.parameters[first + 1 :]), (*texts[:first], *texts[end:]), strict=True
        )
        arguments: list[Any] = [each.read(text, timezone) for each, text in others]
        return [*arguments[:first], values, *arguments[first:]]

    def accepts(self, literals: int) -> bool:
        """Whether a text may have so many literals."""
        return literals == len(self.parameters) or (self.list_index is not None and literals > len(self.parameters))

    def tree(self, arguments: Arguments, timezone: str) -> Node:
        """The canonical tree of the condition with these arguments."""
        if self._by_name is None:
            return normal(self.node(arguments, timezone))
        # A conjunction of one set per attribute: what `normal` makes of it, without its general search.
        leaves: list[Node] = []
        for name, parts in self._by_name:
            values = intersection_of([_values(part, arguments, timezone) for part in parts])
            if values.is_empty:
                return NOTHING
            if not values.is_full:
                leaves.append(Leaf(name, values))
        return leaves[0] if len(leaves) == 1 else And(tuple(leaves))

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest = TruthTest.TRUE) -> Node:
        """The tree, as it was written, of the events for which the condition passes a truth test."""
        return self.condition.node(arguments, timezone, wanted)


def join_templates(parts: Sequence[Template]) -> Template:
    """The template of a conjunction of conditions, whose literals follow each other."""
    conditions: list[Condition] = []
    parameters: list[Parameter] = []
    for part in parts:
        if parameters and part.parameters:
            first = len(parameters)
            moved = [Parameter(first + each.index, each.kind, each.before, each.is_list) for each in part.parameters]
            conditions.append(_replace_parameters(part.condition, moved))
            parameters += moved
        else:
            conditions.append(part.condition)
            parameters += part.parameters
    return Template(Connective(True, tuple(conditions)), parameters)


def _replace_parameters(condition: Condition, parameters: Sequence[Parameter]) -> Condition:
    """The condition with the parameters at their indexes among these."""
    kind = type(condition)  # the two common types first, without `match`: this runs for every conjunction that is bound
    if kind is Comparison:
        return Comparison(condition.name, condition.operator, _replace_parameter(condition.operand, parameters))  # type: ignore[union-attr]
    if kind is Connective:
        return Connective(condition.is_and, tuple([_replace_parameters(each, parameters) for each in condition.parts]))  # type: ignore[union-attr]
    match condition:
        case InList(name, operands):
            return InList(name, tuple([_replace_parameter(each, parameters) for each in operands]))
        case PatternMatch(name, function, operand):
            return PatternMatch(name, function, parameters[operand.index])
        case Negation(part):
            return Negation(_replace_parameters(part, parameters))
        case BooleanTest(positive, part):
            return BooleanTest(positive, _replace_parameters(part, parameters))
    return condition


def _replace_parameter(operand: Operand, parameters: Sequence[Parameter]) -> Operand:
    return parameters[operand.index] if type(operand) is Parameter else operand


_Conjuncts: TypeAlias = list[tuple[str, list[Condition]]]


def _by_name(condition: Condition) -> _Conjuncts | None:
    """The parts of a flat conjunction by attribute, in the order of names; None for any other condition."""
    flat = isinstance(condition, Connective) and condition.is_and and not _is_between(condition)
    parts = condition.parts if isinstance(condition, Connective) and flat else (condition,)
    names: dict[str, list[Condition]] = {}
    for part in parts:
        name = _name(part)
        if name is None:
            return None
        names.setdefault(name, []).append(part)
    return [(name, names[name]) for name in sorted(names)]


def _names(condition: Condition) -> Iterator[str]:
    match condition:
        case Connective(_, parts):
            for part in parts:
                yield from _names(part)
        case Negation(part) | BooleanTest(_, part):
            yield from _names(part)
        case _:
            yield condition.name


def _needed(condition: Condition) -> tuple[str, ...]:
    match condition:
        case Connective(True, parts):
            return tuple(dict.fromkeys(name for part in parts for name in _needed(part)))
        case Comparison(name, operator, _) if operator != "<=>":
            return (name,)
        case InList(name) | PatternMatch(name) | BooleanAttribute(name) | NullTest(name, False):
            return (name,)
    return ()


def _equalities(condition: Condition) -> list[tuple[str, tuple[Parameter, ...]]]:
    found = []
    for part in condition.parts if isinstance(condition, Connective) and condition.is_and else (condition,):
        operands: tuple[Operand, ...] = ()
        if isinstance(part, Comparison) and part.operator == "=":
            operands = (part.operand,)
        elif isinstance(part, InList):
            operands = part.operands
        texts = tuple(each for each in operands if isinstance(each, Parameter) and each.is_text)
        if texts and len(texts) == len(operands):
            found.append((part.name, texts))  # type: ignore[union-attr]
    return found


def _is_between(condition: Condition) -> bool:
    """Whether this is a comparison from below and one from above of one attribute, as BETWEEN is."""
    if not isinstance(condition, Connective) or not condition.is_and or len(condition.parts) != 2:
        return False
    low, high = condition.parts
    if not isinstance(low, Comparison) or not isinstance(high, Comparison):
        return False
    return low.name == high.name and low.operator == ">=" and high.operator == "<="


def _name(condition: Condition) -> str | None:
    """The attribute of a condition on one alone, whose values `_values` can tell."""
    if isinstance(condition, Connective):
        first = condition.parts[0]
        return first.name if _is_between(condition) and isinstance(first, Comparison) else None
    return None if isinstance(condition, Negation | BooleanTest) else condition.name


def _values(condition: Condition, arguments: Arguments, timezone: str) -> ValueSet:
    node = condition.node(arguments, timezone, TruthTest.TRUE)
    if isinstance(node, And):
        return intersection_of([each.values for each in node.children if isinstance(each, Leaf)])
    assert isinstance(node, Leaf)  # only what is not asked for TRUE may be two of them
    return node.values


# --- making one ----------------------------------------------------------------------------------------------


def make_template(text: str, literals: Sequence[LiteralSpan], listed: range = range(0)) -> Template | None:
    """The template of the conditions that differ from this one in these literals; None where it has none.

    `listed` are the literals, by index, of an IN list that has another length in other conditions.
    """
    tokens = {(start, end): kind for kind, _, start, end in tokenize(text)}
    if any(tokens.get((start, end)) != (TEXT if kind == STRING else NUMBER) for kind, start, end in literals):
        return None  # what looks like a literal is a part of something else
    expression = parse_condition(text)
    check_refusals(expression, text)
    builder = _TemplateBuilder(text, literals)
    condition = builder.condition(expression)
    parameters = [each for each in builder.parameters if each is not None]
    if condition is None or len(parameters) < len(literals):
        return None
    return Template(condition, parameters) if not listed else _with_list(condition, parameters, listed)


def _with_list(condition: Condition, parameters: list[Parameter], listed: range) -> Template | None:
    """The template in which some parameters, all of an IN list, are one."""
    first, count = listed.start, len(listed)
    members = tuple(parameters[first : listed.stop])
    whole = replace(members[0], is_list=True)
    later = [replace(each, index=each.index - count + 1) for each in parameters[listed.stop :]]
    found = 0

    def place(condition: Condition) -> Condition:
        nonlocal found
        match condition:
            case InList(name, operands) if operands == members:
                found += 1
                return InList(name, (whole,))
            case Connective(is_and, parts):
                return Connective(is_and, tuple([place(part) for part in parts]))
            case Negation(part):
                return Negation(place(part))
            case BooleanTest(positive, part):
                return BooleanTest(positive, place(part))
        return _replace_parameters(condition, [*parameters[: listed.stop], *later])

    placed = place(condition)
    return Template(placed, [*parameters[:first], whole, *later]) if found == 1 else None


def _disjunction(parts: tuple[Condition, ...]) -> Condition:
    """An OR; one of equalities of one attribute with literals of one kind is an IN, which then means the same.

    With literals of several kinds it does not: IN converts all of them to one type, and each = its own.
    """
    listed: list[Parameter] = []
    names: set[tuple[str, str, str]] = set()
    for part in parts:
        if not isinstance(part, Comparison) or part.operator != "=" or not isinstance(part.operand, Parameter):
            break
        listed.append(part.operand)
        names.add((part.name, part.operand.kind, part.operand.before))
    if len(listed) == len(parts) and len(names) == 1:
        return InList(names.pop()[0], tuple(listed))
    return Connective(False, parts)


class _TemplateBuilder:
    def __init__(self, text: str, literals: Sequence[LiteralSpan]) -> None:
        self._text = text
        self._literals = literals
        self._ends = {end: index for index, (_, _, end) in enumerate(literals)}
        self.parameters: list[Parameter | None] = [None] * len(literals)

    def condition(self, expression: Expression) -> Condition | None:
        match expression:
            case Attribute(name):
                return BooleanAttribute(name)
            case Call("and" | "or" as function, arguments):
                parts = [self.condition(each) for each in arguments]
                found = tuple(part for part in parts if part is not None)
                if len(found) < len(parts):
                    return None
                return Connective(True, found) if function == "and" else _disjunction(found)
            case Call("not", (argument,)):
                part = self.condition(argument)
                return None if part is None else Negation(part)
            case Call("istrue" | "isfalse" as function, (argument,)):
                part = self.condition(argument)
                return None if part is None else BooleanTest(function == "istrue", part)
            case Call("isnull" | "isnotnull" as function, (Attribute(name),)):
                return NullTest(name, function == "isnull")
            case Call("between", (Attribute(name), low, high)):
                ends = self._operand(low), self._operand(high)
                if ends[0] is None or ends[1] is None:
                    return None
                return Connective(True, (Comparison(name, ">=", ends[0]), Comparison(name, "<=", ends[1])))
            case Call("in", (Attribute(name), *items)):
                operands = [self._operand(item) for item in items]
                listed = tuple(operand for operand in operands if operand is not None)
                return InList(name, listed) if len(listed) == len(operands) else None
            case Call(function, (Attribute(name), pattern)) if function in _PATTERNS:
                parameter = self._text_parameter(pattern)
                return None if parameter is None else PatternMatch(name, function, parameter)
            case Call(function, (Attribute(name), other)) if function in OPERATORS or function == "<=>":
                return self._comparison(name, function, other)
            case Call(function, (other, Attribute(name))) if function in OPERATORS or function == "<=>":
                return self._comparison(name, MIRRORED.get(function, function), other)
        return None

    def _comparison(self, name: str, operator: str, other: Expression) -> Condition | None:
        operand = self._operand(other)
        return None if operand is None else Comparison(name, operator, operand)

    def _text_parameter(self, expression: Expression) -> Parameter | None:
        operand = self._operand(expression)
        return operand if isinstance(operand, Parameter) and operand.is_text else None

    def _operand(self, expression: Expression) -> Operand | None:
        """The parameter or constant of a literal; None for anything else, and for a literal that has no kind here."""
        if not isinstance(expression, Literal) or isinstance(expression.value, Months | Micros):
            return None
        first, last = expression.span
        index = self._ends.get(last)
        if index is None:
            return Constant(expression.value)
        kind, start, end = self._literals[index]
        before = self._text[first:start].strip().lower()
        if before not in (("", *_TYPED) if kind == STRING else ("", "-", "+")) or self.parameters[index] is not None:
            return None
        parameter = self.parameters[index] = Parameter(index, kind, before)
        # The parser decides: where it read another value, the skeleton's rules do not hold for this literal.
        value = parameter.read(self._text[start:end], "UTC")
        return parameter if (type(value), value) == (type(expression.value), expression.value) else None
