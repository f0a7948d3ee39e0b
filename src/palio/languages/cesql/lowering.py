"""Lowering of CESQL expressions to filters.

A filter matches where the expression is true and nothing failed (§1.2). A condition is therefore not true, false or
NULL but true, false or failed, and AND and OR are not symmetric: `a = 1 OR b = 2` fails where `a` is missing, whatever
`b` is. With *defined* for "true or false", without an error,

    a AND b   is true where both are     is false where a is, or where a is defined and b is false
    a OR b    is false where both are    is true where a is, or where a is defined and b is true

A tree expanded in this way may grow faster than its text. Where it does, and where a condition computes something or
compares two attributes, the condition is a residual: its text is kept and evaluated, see
`palio.filters.computed.foreign`.
"""

from __future__ import annotations

from typing import Final

from palio.errors import ParseError
from palio.filters.computed import foreign
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, attributes_of, walk
from palio.filters.filter import Filter
from palio.filters.tree import EVERYTHING, NOTHING, And, Or
from palio.languages.cesql.evaluation import NOT_AN_ATTRIBUTE, REQUIRED, compile_expression, pattern_of
from palio.languages.cesql.functions import FUNCTIONS, find_function, refusal
from palio.languages.cesql.parser import print_expression
from palio.languages.cesql.types import Failure, Type, Value
from palio.languages.cesql.value_sets import (
    ALWAYS,
    NEVER,
    UNDEFINED,
    TruthTrees,
    compare_constant,
    compare_reversed,
    exists,
    in_list,
    like,
    truth,
    truth_for_not,
    where_boolean_true,
)

LANGUAGE: Final = "cesql"
_MAX_EXPANDED_CONDITIONS: Final = 1_000  # of a tree, beyond four for each condition of the text
_COMPARISONS: Final = frozenset({"=", "<>", "<", "<=", ">", ">="})
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%", "neg"})


def check(expression: Expression, text: str) -> None:
    """Refuse an expression that fails for every event: it calls an unknown function, or names the event's data."""
    for node in walk(expression):
        if isinstance(node, Attribute) and node.name == NOT_AN_ATTRIBUTE:
            reason = "CESQL sees the attributes of an event, not its data"
            raise ParseError(text, node.span[0], reason, "a condition on data.… can be written in SQL")
        # Functions have names in capital letters, operators do not (see `parser`).
        if isinstance(node, Call) and node.function.isupper():
            reason = refusal(node.function, len(node.arguments)) or ""
            if reason:
                raise ParseError(text, node.span[0], reason, f"the functions are {', '.join(FUNCTIONS)}")


def lower_filter(expression: Expression) -> Filter:
    """The filter of an expression that was checked."""
    match expression:
        case Attribute(name):
            return Filter.of_tree(where_boolean_true(name), truth_for_not(name).false)
        case Call() if _type_of(expression) is Type.BOOLEAN:
            lowered = lower(expression)
            return Filter.of_tree(lowered.true, lambda: lowered.false)
    # A value that is not a Boolean never matches. NOT casts its operand, so the negated filter may match.
    is_true = not attributes_of(expression) and _constant(expression) is True
    return Filter.of_tree(EVERYTHING if is_true else NOTHING, _operand_of_not(expression).false)


def lower(expression: Expression) -> TruthTrees:
    """The meaning of an expression that gives a Boolean."""
    if not attributes_of(expression):
        value, failures = _fold(expression)
        return UNDEFINED if failures else ALWAYS if value is True else NEVER
    match expression:
        case Call("and" | "or" | "xor" as function, arguments):
            # Tested at every level: to build the whole tree first would take too long.
            joined = _join(function, [_operand(argument) for argument in arguments])
            limit = _MAX_EXPANDED_CONDITIONS + 4 * joined.conditions
            return joined if joined.size <= limit else _residual(expression)
        case Call("not", (argument,)):
            return _operand_of_not(argument).negated()
        case Call("exists", (Attribute(name),)):
            return ALWAYS if name in REQUIRED else exists(name)
        case Call("like", (Attribute(name), _)):
            return like(name, pattern_of(expression))
        case Call("in", (Attribute(name), *items)) if not any(attributes_of(item) for item in items):
            return in_list(name, [_constant(item) for item in items])
        case Call(operator, (left, right)) if operator in _COMPARISONS:
            return _comparison(operator, left, right) or _residual(expression)
    return _residual(expression)


def _comparison(operator: str, left: Expression, right: Expression) -> TruthTrees | None:
    """A comparison of an attribute with a constant, either way round; None for any other."""
    if isinstance(left, Attribute) and not attributes_of(right):
        constant, compare, name = _constant(right), compare_constant, left.name
    elif isinstance(right, Attribute) and not attributes_of(left):
        constant, compare, name = _constant(left), compare_reversed, right.name
    else:
        return None
    return UNDEFINED if constant is None else compare(name, operator, constant)


def _operand(expression: Expression) -> TruthTrees:
    """An operand of AND, OR or XOR, which cast it to a Boolean."""
    if isinstance(expression, Attribute):
        return truth(expression.name)
    if _type_of(expression) is Type.BOOLEAN:
        return lower(expression)
    return lower(Call("BOOL", (expression,), expression.span))


def _operand_of_not(expression: Expression) -> TruthTrees:
    """The operand of NOT, which is cast to a Boolean unless it is an Integer."""
    if isinstance(expression, Attribute):
        return truth_for_not(expression.name)
    return UNDEFINED if _type_of(expression) is Type.INTEGER else _operand(expression)


def _join(function: str, parts: list[TruthTrees]) -> TruthTrees:
    """Conditions joined by one operator, by halving, so that a long chain makes no deep tree."""
    if len(parts) == 1:
        return parts[0]
    if function != "xor" and parts[0].domain and all(part.domain == parts[0].domain for part in parts):
        return _join_same_domain(function, parts)
    middle = len(parts) // 2
    left, right = _join(function, parts[:middle]), _join(function, parts[middle:])
    # The expansion names `left` twice (where it is decisive, and where it is defined) and `right` once; XOR names both
    # twice. Nested to the left, the size doubles at each level, which is why it is counted before it is built.
    conditions, size = left.conditions + right.conditions, 2 * left.size + right.size
    match function:
        case "and":
            return TruthTrees(
                lambda: And((left.true, right.true)),
                lambda: Or((left.false, And((left.defined, right.false)))),
                lambda: Or((left.false, And((left.defined, right.defined)))),
                conditions=conditions,
                size=size,
            )
        case "or":
            return TruthTrees(
                lambda: Or((left.true, And((left.defined, right.true)))),
                lambda: And((left.false, right.false)),
                lambda: Or((left.true, And((left.defined, right.defined)))),
                conditions=conditions,
                size=size,
            )
    return TruthTrees(
        lambda: Or((And((left.true, right.false)), And((left.false, right.true)))),
        lambda: Or((And((left.true, right.true)), And((left.false, right.false)))),
        lambda: And((left.defined, right.defined)),
        conditions=conditions,
        size=2 * (left.size + right.size),
    )


def _join_same_domain(function: str, parts: list[TruthTrees]) -> TruthTrees:
    """Conditions that are defined in the same places, such as those on one attribute: there order does not matter."""
    every, some = (And, Or) if function == "and" else (Or, And)
    return TruthTrees(
        lambda: every(tuple(part.true for part in parts)),
        lambda: some(tuple(part.false for part in parts)),
        lambda: parts[0].defined,
        domain=parts[0].domain,
        conditions=sum(part.conditions for part in parts),
        size=sum(part.size for part in parts),
    )


def _residual(expression: Expression) -> TruthTrees:
    """A condition that is kept as text and evaluated."""
    text = print_expression(expression)
    true, false = foreign(LANGUAGE, text, True), foreign(LANGUAGE, text, False)
    return TruthTrees(true, false, Or((true, false)))


def _type_of(expression: Expression) -> Type:
    """The type of every value that an expression other than an attribute has."""
    match expression:
        case Literal(bool()):
            return Type.BOOLEAN
        case Literal(int()):
            return Type.INTEGER
        case Literal():
            return Type.STRING
        case Call(function, arguments) if function.isupper():
            called = find_function(function, len(arguments))
            assert called is not None  # `check` refuses unknown functions
            return called.result
        case Call(function) if function in _ARITHMETIC:
            return Type.INTEGER
    return Type.BOOLEAN


def _fold(expression: Expression) -> tuple[Value, list[Failure]]:
    """The value of an expression without attributes."""
    failures: list[Failure] = []
    return compile_expression(expression)({}, failures), failures


def _constant(expression: Expression) -> Value | None:
    """The value of an expression without attributes; None where it fails."""
    value, failures = _fold(expression)
    return None if failures else value
