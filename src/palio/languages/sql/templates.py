"""Templates: parsed conditions with their literals as parameters.

Subscriptions are often many conditions that differ only in their literals. Each such family is parsed once:

- The *skeleton* of a condition is its text with a mark in place of every literal that tells the literal's kind
  (`symbol = \\4 AND price > \\1`). Blanks and the case of words stay as they are. An IN list of literals that are
  written alike is one mark (`symbol IN (\\4\\6)`), so that lists of all lengths share a skeleton.
- The *template* of a skeleton is made of the expression that the parser gave for one condition of it: AND, OR, NOT and
  predicates, with a `Parameter` in place of each literal. A literal by which the parser itself decides, such as the
  size in DECIMAL(10, 2) or in an interval of two units, is *fixed*: conditions that differ in it have templates of
  their own.
- A condition is *bound*: its template, and its literals as arguments. Filter, index entries and evaluation come from
  the bound template, without tokens or an expression.

Why this is right. Two conditions of one skeleton have the same tokens, because no kind of literal here can reach beyond
its own characters, whatever they are: a string ends at its quote, a number where something else than a letter, a digit
or a point follows. So the parse of the first holds for all. A longer list has more operands, and no other structure.
What a predicate means is taken from the functions that lowering uses (`compare_literal`, `lower_like`, …), and an
expression is filled with its literals and lowered, so a bound template gives the filter that a parse would give; a
property test compares the two. Whether a condition is refused depends on the kinds of its literals, with three
exceptions: the escapes of a string are resolved, and a pattern is compiled, when they are bound; and decimals that are
computed with have at most as many digits as were checked when the template was made.

The pieces: this module has the template; `template_parameters` and `template_predicates` what it is made of;
`template_builder` makes templates; `skeletons` cuts literals out of a text, and `template_cache` finds its template;
`template_evaluation` evaluates a bound template on an event without making a filter. The columnar index fills whole
columns of literals into a template (`palio.matching.columnar`).

Cost: a conjunction of three known conjuncts is bound in about 9 µs; parsing and lowering it takes about 200 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from palio.filters.expressions.ast import Expression
from palio.filters.normal_form import normal
from palio.filters.tree import NOTHING, And, Leaf, Node
from palio.filters.value_sets import ValueSet, intersection_of
from palio.languages.sql.lowering import TruthTest
from palio.languages.sql.template_parameters import INTEGER, Arguments, Operand, Parameter
from palio.languages.sql.template_predicates import (
    BooleanAttribute,
    BooleanTest,
    Comparison,
    Condition,
    Connective,
    ExpressionPredicate,
    InList,
    Negation,
    NullTest,
    PatternMatch,
)

Evaluator: TypeAlias = Callable[[Mapping[str, Any], Arguments, str], bool]  # of an event, arguments and a time zone


class Template:
    """A condition with parameters in place of its literals."""

    __slots__ = (
        *("_by_name", "computed_equalities", "condition", "equalities", "evaluator", "fixed", "is_evaluable"),
        *("list_index", "names", "naming", "needed", "parameters"),
    )

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
        self.computed_equalities = _computed_equalities(condition)
        """Expressions without parameters that must equal one of some strings or integers, with the parameters."""
        self.names = frozenset(_names(condition))
        """All attributes of the condition."""
        self.needed = _needed(condition)
        """Attributes without which an event does not match."""
        self.fixed = tuple(each for each in parameters if each.fixed is not None)
        """Parameters whose literals are those of the text it was made of."""
        self.naming = _naming(condition)
        """Parameters in expressions that are compared with constants: conditions that differ in them ask for values of
        different computed attributes."""
        self.is_evaluable = _is_evaluable(condition)
        """Whether an event can be tested without a tree."""

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

    def specialise(self, values: Mapping[int, Any], example: Arguments) -> Template:
        """The template with some parameters of expressions, by index, filled in; they stay among the parameters."""
        return Template(_specialised(self.condition, dict(values), example), self.parameters)

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
            moved = [replace(each, index=first + each.index) for each in part.parameters]
            conditions.append(replace_parameters(part.condition, moved))
            parameters += moved
        else:
            conditions.append(part.condition)
            parameters += part.parameters
    return Template(Connective(True, tuple(conditions)), parameters)


def replace_parameters(condition: Condition, parameters: Sequence[Parameter]) -> Condition:
    """The condition with the parameters at their indexes among these."""
    kind = type(condition)  # the two common types first, without `match`: this runs for every conjunction that is bound
    if kind is Comparison:
        return Comparison(condition.name, condition.operator, _replace_parameter(condition.operand, parameters))  # type: ignore[union-attr]
    if kind is Connective:
        return Connective(condition.is_and, tuple([replace_parameters(each, parameters) for each in condition.parts]))  # type: ignore[union-attr]
    match condition:
        case InList(name, operands):
            return InList(name, tuple([_replace_parameter(each, parameters) for each in operands]))
        case PatternMatch(name, function, operand):
            return PatternMatch(name, function, parameters[operand.index])
        case Negation(part):
            return Negation(replace_parameters(part, parameters))
        case BooleanTest(positive, part):
            return BooleanTest(positive, replace_parameters(part, parameters))
        case ExpressionPredicate():
            return condition.with_parameters(lambda each: parameters[each.index])
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
        case ExpressionPredicate():
            yield from condition.mentioned
        case _:
            yield condition.name


def _needed(condition: Condition) -> tuple[str, ...]:
    match condition:
        case Connective(True, parts):
            return tuple(dict.fromkeys(name for part in parts for name in _needed(part)))
        case ExpressionPredicate():
            return condition.needed
        case Comparison(name, operator, _) if operator != "<=>":
            return (name,)
        case InList(name) | PatternMatch(name) | BooleanAttribute(name) | NullTest(name, False):
            return (name,)
    return ()


def _equalities(condition: Condition) -> list[tuple[str, tuple[Parameter, ...]]]:
    found = []
    for part in _conjuncts(condition):
        operands = _equal_operands(part)
        if operands and all(each.is_text for each in operands):
            found.append((part.name, operands))  # type: ignore[union-attr]
    return found


def _computed_equalities(condition: Condition) -> list[tuple[Expression, tuple[Parameter, ...]]]:
    found = []
    for part in _conjuncts(condition):
        if isinstance(part, ExpressionPredicate) and part.value is not None and not part.naming:
            operands = _equal_operands(part.compared)
            if operands and (all(each.is_text for each in operands) or all(each.kind == INTEGER for each in operands)):
                found.append((part.value, operands))
    return found


def _conjuncts(condition: Condition) -> Sequence[Condition]:
    return condition.parts if isinstance(condition, Connective) and condition.is_and else (condition,)


def _equal_operands(predicate: Condition | None) -> tuple[Parameter, ...]:
    """The parameters one of which a value must equal; none where a predicate says something else."""
    operands: tuple[Operand, ...] = ()
    if isinstance(predicate, Comparison) and predicate.operator == "=":
        operands = (predicate.operand,)
    elif isinstance(predicate, InList):
        operands = predicate.operands
    parameters = tuple(each for each in operands if isinstance(each, Parameter))
    return parameters if len(parameters) == len(operands) else ()


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
    return None if isinstance(condition, Negation | BooleanTest | ExpressionPredicate) else condition.name


def _values(condition: Condition, arguments: Arguments, timezone: str) -> ValueSet:
    node = condition.node(arguments, timezone, TruthTest.TRUE)
    if isinstance(node, And):
        return intersection_of([each.values for each in node.children if isinstance(each, Leaf)])
    assert isinstance(node, Leaf)  # only what is not asked for TRUE may be two of them
    return node.values


def _expressions(condition: Condition) -> Iterator[ExpressionPredicate]:
    match condition:
        case Connective(_, parts):
            for part in parts:
                yield from _expressions(part)
        case Negation(part) | BooleanTest(_, part):
            yield from _expressions(part)
        case ExpressionPredicate():
            yield condition


def _naming(condition: Condition) -> tuple[Parameter, ...]:
    return tuple(dict.fromkeys(each for predicate in _expressions(condition) for each in predicate.naming))


def _is_evaluable(condition: Condition) -> bool:
    return all(each.is_evaluable for each in _expressions(condition))


def _specialised(condition: Condition, values: dict[int, Any], example: Arguments) -> Condition:
    match condition:
        case Connective(is_and, parts):
            return Connective(is_and, tuple([_specialised(part, values, example) for part in parts]))
        case Negation(part):
            return Negation(_specialised(part, values, example))
        case BooleanTest(positive, part):
            return BooleanTest(positive, _specialised(part, values, example))
        case ExpressionPredicate():
            return condition.specialise(values, example)
    return condition
