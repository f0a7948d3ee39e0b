"""Lowering of JMS selectors to filters.

A condition is lowered for a set of wanted outcomes: TRUE, FALSE, None for unknown, or two of them. NOT exchanges TRUE
and FALSE, AND and OR lower their parts, and what compares one attribute with constants becomes sets of values. On a
value that is present such a condition is always TRUE or FALSE, because unlike kinds are FALSE; it is unknown exactly
where the attribute is missing or null. So three sets are enough, and no NOT is left.

A condition that computes with attributes, or compares two, is a residual in this language; `evaluation` evaluates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from palio.events.values import Scalar
from palio.filters.algebra import enumerable_union, strings_like
from palio.filters.comparisons import compare
from palio.filters.computed import foreign
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, attributes_of, walk
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.filter import Filter
from palio.filters.kinds import Kind
from palio.filters.like import LikePattern
from palio.filters.tree import EVERYTHING, NOTHING, And, Leaf, Node, Or
from palio.filters.value_sets import NULLS, PRESENT, STRINGS, ValueSet
from palio.languages.jms.evaluation import as_comparisons, compile_condition, compile_value, pattern_of
from palio.languages.jms.parser import print_selector
from palio.languages.jms.type_check import COMPARISONS, is_condition

Outcomes: TypeAlias = frozenset[bool | None]

_TRUE: Final[Outcomes] = frozenset({True})
_FALSE: Final[Outcomes] = frozenset({False})
_UNKNOWN: Final[Outcomes] = frozenset({None})
_KNOWN: Final = _TRUE | _FALSE
_ALL: Final = _KNOWN | _UNKNOWN

NUMBERS: Final = ValueSet.kinds(Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_COMPARABLE_WITH: Final = {bool: ValueSet.kinds(Kind.BOOLEAN), str: STRINGS, int: NUMBERS, float: NUMBERS}


class ValueSplit(NamedTuple):
    """An attribute, and the values for which a condition on it is TRUE; it is FALSE for all others but NULL."""

    attribute: str
    true: ValueSet
    false: tuple[ValueSet, ...] = ()  # where `true` has tests, and so no complement

    def where(self, outcome: bool | None) -> tuple[ValueSet, ...]:
        """The values for which the condition has an outcome."""
        if outcome is None:
            return (NULLS,)
        return (self.true,) if outcome else self.false or (PRESENT.intersect(self.true.complement()),)


def lower_filter(expression: Expression) -> Filter:
    """The filter of a parsed selector."""
    return Filter.of_tree(lower(expression, _TRUE), lambda: lower(expression, _FALSE))


def lower(expression: Expression, wanted: Outcomes) -> Node:
    """The tree of the events for which a condition has one of the wanted outcomes, which are one or two."""
    match expression:
        case Literal(value):
            return EVERYTHING if value in wanted else NOTHING
        case Call("not", (argument,)):
            return lower(argument, _negate(wanted))
        case Call("and" | "or" as function, arguments):
            return _lower_connective(function == "or", arguments, wanted)
        case Call("isnull" | "isnotnull" as function, (argument,)):
            return _lower_null_test(argument, _operand_outcomes(function == "isnull", wanted))
        case Call("between" | "notbetween" as function, arguments):
            return lower(as_comparisons(function, arguments), wanted)
        case Call("in", (value, *items)) if any(attributes_of(item) for item in items):
            return lower(_expand_in(value, items), wanted)
        case Call("=" | "<>" as sign, (left, right)) if is_condition(left) and isinstance(right, Literal):
            return _lower_truth_comparison(expression, left, right, sign == "=", wanted)
        case Call("=" | "<>" as sign, (left, right)) if is_condition(right) and isinstance(left, Literal):
            return _lower_truth_comparison(expression, right, left, sign == "=", wanted)
    return _lower_predicate(expression, wanted)


def _negate(wanted: Outcomes) -> Outcomes:
    return frozenset(None if outcome is None else not outcome for outcome in wanted)


def _lower_connective(decisive: bool, arguments: Sequence[Expression], wanted: Outcomes) -> Node:
    """AND and OR: `decisive` is the outcome that one part alone brings about, TRUE for OR and FALSE for AND."""
    if wanted - _UNKNOWN == {decisive}:
        return Or(tuple(lower(argument, wanted) for argument in arguments))
    if wanted - _UNKNOWN == {not decisive}:
        return And(tuple(lower(argument, wanted) for argument in arguments))
    # Kleene: unknown where no part is decisive and not all are the opposite; that is "not TRUE" and "not FALSE".
    if wanted == _UNKNOWN:
        return And(tuple(_lower_connective(decisive, arguments, _UNKNOWN | each) for each in (_TRUE, _FALSE)))
    return Or(tuple(_lower_connective(decisive, arguments, each) for each in (_TRUE, _FALSE)))


def _operand_outcomes(is_null: bool, wanted: Outcomes) -> Outcomes:
    """The outcomes of the operand of IS NULL, which is never unknown itself, for wanted outcomes of the whole."""
    null, present = (True, False) if is_null else (False, True)
    return (_UNKNOWN if null in wanted else frozenset()) | (_KNOWN if present in wanted else frozenset())


def _lower_null_test(argument: Expression, wanted: Outcomes) -> Node:
    if not wanted or wanted == _ALL:  # neither answer will do, or both will
        return EVERYTHING if wanted else NOTHING
    is_null = None in wanted
    if isinstance(argument, Attribute):
        return Leaf(argument.name, NULLS if is_null else PRESENT)
    if not attributes_of(argument):
        return EVERYTHING if (_constant(argument) is None) is is_null else NOTHING
    # Lowered for NULL, an AND or OR has twice its parts; nested null tests would double them at each level.
    if is_condition(argument) and not any(_is_null_test_of_condition(node) for node in walk(argument)):
        return lower(argument, wanted)
    return _residual(Call("isnull", (argument,)), is_null)


def _is_null_test_of_condition(node: Expression) -> bool:
    return isinstance(node, Call) and node.function in ("isnull", "isnotnull") and is_condition(node.arguments[0])


def _expand_in(value: Expression, items: list[Expression]) -> Call:
    """IN as the OR of comparisons that it is, the constants in one list."""
    constants = [item for item in items if not attributes_of(item)]
    parts = [Call("=", (value, item)) for item in items if attributes_of(item)]
    return Call("or", (*([Call("in", (value, *constants))] if constants else []), *parts))


def _lower_truth_comparison(
    whole: Call, condition: Expression, literal: Literal, equal: bool, wanted: Outcomes
) -> Node:
    """A condition compared with TRUE is that condition, and with FALSE its NOT."""
    if not isinstance(literal.value, bool):
        return _lower_predicate(whole, wanted)
    return lower(condition, wanted if literal.value is equal else _negate(wanted))


def _lower_predicate(expression: Expression, wanted: Outcomes) -> Node:
    """A condition that has no other conditions in it."""
    if not attributes_of(expression):
        return EVERYTHING if compile_condition(expression)({}) in wanted else NOTHING
    if isinstance(expression, Call) and expression.function in COMPARISONS and any(map(_is_null, expression.arguments)):
        return EVERYTHING if None in wanted else NOTHING
    split = _value_split(expression)
    if split is None:
        alternatives: list[Node] = [_lower_computed(expression, outcome) for outcome in wanted]
    else:
        alternatives = [Leaf(split.attribute, values) for outcome in wanted for values in split.where(outcome)]
    return alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))


def _is_null(expression: Expression) -> bool:
    """Whether a value is NULL whatever the event: an integer divided by 0."""
    return isinstance(expression, Call) and not attributes_of(expression) and _constant(expression) is None


def _constant(expression: Expression) -> Scalar:
    """The value of an expression without attributes."""
    return expression.value if isinstance(expression, Literal) else compile_value(expression)({})  # type: ignore[return-value]


def _lower_computed(expression: Expression, outcome: bool | None) -> Node:
    """The residual of a condition that must be evaluated, for one outcome."""
    if outcome is None:
        return _residual(Call("isnull", (expression,)), True)
    assert isinstance(expression, Call)
    residual = _residual(expression, outcome)
    # These may be TRUE or FALSE although an attribute is NULL.
    if expression.function in ("in", "notin") or any(map(is_condition, expression.arguments)):
        return residual
    # Any other condition is unknown where an attribute is NULL. An index tests for presence before it evaluates.
    return And((*(Leaf(name, PRESENT) for name in attributes_of(expression)), residual))


def _residual(expression: Expression, wants: bool) -> Node:
    """The condition that an expression is TRUE, or FALSE, as canonical text: equal conditions have equal texts."""
    return foreign("jms", print_selector(expression), wants)


# --- conditions on one attribute ---------------------------------------------------------------------------


def _value_split(expression: Expression) -> ValueSplit | None:
    """The sets of values of a condition that compares one attribute with constants; None for any other."""
    match expression:
        case Attribute(name):
            return ValueSplit(name, ValueSet.points([True]))
        case Call("like" | "notlike" as function, (Attribute(name), *_) as arguments):
            return _like_split(name, pattern_of(arguments), function == "like")
        case Call("in" | "notin" as function, (Attribute(name), *items)) if not any(map(attributes_of, items)):
            return _in_list_split(name, [_constant(item) for item in items], function == "in")
        case Call(sign, (Attribute(name), right)) if sign in COMPARISONS and not attributes_of(right):
            return ValueSplit(name, values_compared(sign, _constant(right)))
        case Call(sign, (left, Attribute(name))) if sign in COMPARISONS and not attributes_of(left):
            return ValueSplit(name, values_compared(MIRRORED[sign], _constant(left)))
    return None


@lru_cache(maxsize=16_384, typed=True)  # typed: 1, 1.0 and TRUE are equal to Python
def values_compared(sign: str, constant: Scalar) -> ValueSet:
    """The values that satisfy a comparison with a constant: only numbers, only texts or only truth values."""
    if isinstance(constant, bool):
        return ValueSet.points([constant if sign == "=" else not constant])
    satisfying = compare(sign, constant).true
    # In SQL a string literal also equals numbers and times; in JMS only texts compare with a text.
    return satisfying.intersect(STRINGS) if isinstance(constant, str) else satisfying


def _in_list_split(name: str, constants: list[Scalar], inside: bool) -> ValueSplit | None:
    if None in constants:
        return None  # whether a value is outside the list is then unknown
    # A text or truth value equals itself alone; a number equals numbers of all three kinds.
    numbers = [constant for constant in constants if not isinstance(constant, bool | str)]
    others = [constant for constant in constants if isinstance(constant, bool | str)]
    listed = enumerable_union(ValueSet.points(others), *(values_compared("=", number) for number in numbers))
    if inside:
        return ValueSplit(name, listed)
    # NOT IN is FALSE for a value that compares with no constant of the list.
    comparable = enumerable_union(*(_COMPARABLE_WITH[kind] for kind in {type(constant) for constant in constants}))
    return ValueSplit(name, comparable.intersect(listed.complement()))


def _like_split(name: str, pattern: LikePattern, positive: bool) -> ValueSplit:
    strings = strings_like(pattern, positive)
    if strings.is_enumerable:
        return ValueSplit(name, strings)
    # A set with a test has no complement, so the two parts of it are given: other strings, and values of other kinds.
    return ValueSplit(name, strings, (strings_like(pattern, not positive), PRESENT.intersect(STRINGS.complement())))
