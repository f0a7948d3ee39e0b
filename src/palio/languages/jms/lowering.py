"""From a selector to a filter: which of it the index can hold, and what is left to compute.

Every condition is asked for the outcomes that are wanted of it: TRUE, FALSE, None for unknown, or several of them.
NOT exchanges TRUE and FALSE, AND and OR ask their parts, and what compares one attribute with constants becomes sets of
values. On a value that is there such a condition is always TRUE or FALSE, because unlike kinds are FALSE; it is
unknown exactly where the attribute is missing or null. So three sets say all there is to say, and no NOT is left.

What computes with attributes, or compares two, stays a condition of this language, which `evaluation` judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from palio.events.values import Scalar
from palio.filters.comparisons import MIRRORED, compare
from palio.filters.computed import foreign
from palio.filters.expressions.tree import Attribute, Call, Expression, Literal, attributes_of, walk
from palio.filters.filter import Filter
from palio.filters.kinds import Kind
from palio.filters.like import LikePattern
from palio.filters.patterns import Like, Test
from palio.filters.printing import domain_of
from palio.filters.tree import EVERYTHING, NOTHING, And, Leaf, Node, Or
from palio.filters.values import NULLS, PRESENT, STRINGS, ValueSet, union_of
from palio.languages.jms.evaluation import as_comparisons, compile_condition, compile_value
from palio.languages.jms.grammar import COMPARISONS
from palio.languages.jms.patterns import pattern_of
from palio.languages.jms.printing import write_selector
from palio.languages.jms.sorts import is_condition

Outcomes: TypeAlias = frozenset[bool | None]

_TRUE: Final[Outcomes] = frozenset({True})
_FALSE: Final[Outcomes] = frozenset({False})
_UNKNOWN: Final[Outcomes] = frozenset({None})
_KNOWN: Final = _TRUE | _FALSE
_ALL: Final = _KNOWN | _UNKNOWN

NUMBERS: Final = ValueSet.kinds(Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_KINDS_LIKE: Final = {bool: ValueSet.kinds(Kind.BOOLEAN), str: STRINGS, int: NUMBERS, float: NUMBERS}


class Split(NamedTuple):
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
    return Filter(lower(expression, _TRUE), lambda: lower(expression, _FALSE))


def lower(expression: Expression, wanted: Outcomes) -> Node:
    """The tree of the events for which a condition has one of the wanted outcomes, which are one or two."""
    match expression:
        case Literal(value):
            return EVERYTHING if value in wanted else NOTHING
        case Call("not", (argument,)):
            return lower(argument, _negated(wanted))
        case Call("and" | "or" as function, arguments):
            return _connective(function == "or", arguments, wanted)
        case Call("isnull" | "isnotnull" as function, (argument,)):
            return _nullness(argument, _nulls_wanted(function == "isnull", wanted))
        case Call("between" | "notbetween" as function, arguments):
            return lower(as_comparisons(function, arguments), wanted)
        case Call("in", (value, *items)) if any(attributes_of(item) for item in items):
            return lower(_alternatives(value, items), wanted)
        case Call("=" | "<>" as sign, (left, right)) if is_condition(left) and isinstance(right, Literal):
            return _truth_compared(expression, left, right, sign == "=", wanted)
        case Call("=" | "<>" as sign, (left, right)) if is_condition(right) and isinstance(left, Literal):
            return _truth_compared(expression, right, left, sign == "=", wanted)
    return _basic(expression, wanted)


def _negated(wanted: Outcomes) -> Outcomes:
    return frozenset(None if outcome is None else not outcome for outcome in wanted)


def _connective(decisive: bool, arguments: Sequence[Expression], wanted: Outcomes) -> Node:
    """AND and OR: `decisive` is the outcome that one part alone brings about, TRUE for OR and FALSE for AND."""
    if wanted - _UNKNOWN == {decisive}:
        return Or(tuple(lower(argument, wanted) for argument in arguments))
    if wanted - _UNKNOWN == {not decisive}:
        return And(tuple(lower(argument, wanted) for argument in arguments))
    if wanted == _UNKNOWN:  # no part decides, and not all are the other way
        return And(tuple(_connective(decisive, arguments, _UNKNOWN | each) for each in (_TRUE, _FALSE)))
    return Or(tuple(_connective(decisive, arguments, each) for each in (_TRUE, _FALSE)))


def _nulls_wanted(is_null: bool, wanted: Outcomes) -> Outcomes:
    """What IS NULL, which is never unknown itself, wants to know of its operand, said as the operand's outcomes."""
    null, present = (True, False) if is_null else (False, True)
    return (_UNKNOWN if null in wanted else frozenset()) | (_KNOWN if present in wanted else frozenset())


def _nullness(argument: Expression, wanted: Outcomes) -> Node:
    if not wanted or wanted == _ALL:  # neither answer will do, or both will
        return EVERYTHING if wanted else NOTHING
    is_null = None in wanted
    if isinstance(argument, Attribute):
        return Leaf(argument.name, NULLS if is_null else PRESENT)
    if not attributes_of(argument):
        return EVERYTHING if (_constant(argument) is None) is is_null else NOTHING
    # Asked for NULL, an AND or OR is taken apart into twice its parts; so is each that has another such question in it.
    if is_condition(argument) and not any(_asks_condition_for_null(node) for node in walk(argument)):
        return lower(argument, wanted)
    return _foreign(Call("isnull", (argument,)), is_null)


def _asks_condition_for_null(node: Expression) -> bool:
    return isinstance(node, Call) and node.function in ("isnull", "isnotnull") and is_condition(node.arguments[0])


def _alternatives(value: Expression, items: list[Expression]) -> Call:
    """IN as the OR of comparisons that it is, the constants in one list."""
    constants = [item for item in items if not attributes_of(item)]
    parts = [Call("=", (value, item)) for item in items if attributes_of(item)]
    return Call("or", (*([Call("in", (value, *constants))] if constants else []), *parts))


def _truth_compared(whole: Call, condition: Expression, literal: Literal, equal: bool, wanted: Outcomes) -> Node:
    """A condition compared with TRUE is that condition, and with FALSE its NOT."""
    if not isinstance(literal.value, bool):
        return _basic(whole, wanted)
    return lower(condition, wanted if literal.value is equal else _negated(wanted))


def _basic(expression: Expression, wanted: Outcomes) -> Node:
    """A condition with no conditions in it that could be asked by themselves."""
    if not attributes_of(expression):
        return EVERYTHING if compile_condition(expression)({}) in wanted else NOTHING
    if isinstance(expression, Call) and expression.function in COMPARISONS and any(map(_is_null, expression.arguments)):
        return EVERYTHING if None in wanted else NOTHING
    split = _split(expression)
    if split is None:
        alternatives: list[Node] = [_computed(expression, outcome) for outcome in wanted]
    else:
        alternatives = [Leaf(split.attribute, values) for outcome in wanted for values in split.where(outcome)]
    return alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))


def _is_null(expression: Expression) -> bool:
    """Whether a value is NULL whatever the event: an integer divided by 0."""
    return isinstance(expression, Call) and not attributes_of(expression) and _constant(expression) is None


def _constant(expression: Expression) -> Scalar:
    """The value of an expression without attributes."""
    return expression.value if isinstance(expression, Literal) else compile_value(expression)({})  # type: ignore[return-value]


def _computed(expression: Expression, outcome: bool | None) -> Node:
    """Where a condition that must be evaluated has an outcome."""
    if outcome is None:
        return _foreign(Call("isnull", (expression,)), True)
    assert isinstance(expression, Call)
    found = _foreign(expression, outcome)
    if expression.function in ("in", "notin") or any(map(is_condition, expression.arguments)):
        return found
    return And((*(Leaf(name, PRESENT) for name in attributes_of(expression)), found))  # a NULL makes it unknown


def _foreign(expression: Expression, wants: bool) -> Node:
    return foreign("jms", write_selector(expression), wants)


# --- conditions on one attribute ---------------------------------------------------------------------------


def _split(expression: Expression) -> Split | None:
    """The sets of values of a condition that compares one attribute with constants; None for any other."""
    match expression:
        case Attribute(name):
            return Split(name, ValueSet.points([True]))
        case Call("like" | "notlike" as function, (Attribute(name), *_) as arguments):
            return _like_split(name, pattern_of(arguments), function == "like")
        case Call("in" | "notin" as function, (Attribute(name), *items)) if not any(map(attributes_of, items)):
            return _list_split(name, [_constant(item) for item in items], function == "in")
        case Call(sign, (Attribute(name), right)) if sign in COMPARISONS and not attributes_of(right):
            return Split(name, compared(sign, _constant(right)))
        case Call(sign, (left, Attribute(name))) if sign in COMPARISONS and not attributes_of(left):
            return Split(name, compared(MIRRORED[sign], _constant(left)))
    return None


@lru_cache(maxsize=16_384, typed=True)  # typed: 1, 1.0 and TRUE are equal to Python
def compared(sign: str, constant: Scalar) -> ValueSet:
    """The values that compare so with a constant: numbers with a number, texts with a text, truth with truth."""
    if isinstance(constant, bool):
        return ValueSet.points([constant if sign == "=" else not constant])
    found = compare(sign, constant).true
    return found.intersect(STRINGS) if isinstance(constant, str) else found  # SQL's texts are equal to numbers too


def _list_split(name: str, constants: list[Scalar], inside: bool) -> Split | None:
    if None in constants:
        return None  # whether a value is outside the list is then unknown
    numbers = [each for each in constants if not isinstance(each, bool | str)]
    others = [each for each in constants if isinstance(each, bool | str)]
    among = union_of([ValueSet.points(others), *(compared("=", each) for each in numbers)])
    like = union_of(_KINDS_LIKE[kind] for kind in {type(each) for each in constants})
    assert among is not None  # all sets are enumerable
    assert like is not None
    return Split(name, among if inside else like.intersect(among.complement()))


def _like_split(name: str, pattern: LikePattern, positive: bool) -> Split:
    if pattern.shape in ("exact", "prefix"):
        inside = ValueSet.prefix(pattern.text) if pattern.shape == "prefix" else ValueSet.points([pattern.text])
        return Split(name, inside if positive else STRINGS.intersect(inside.complement()))
    unlike = PRESENT.intersect(STRINGS.complement())
    hit, miss = (
        domain_of(test).where([test]) for test in (Test(Like(pattern), positive), Test(Like(pattern), not positive))
    )
    return Split(name, hit, (miss, unlike))
