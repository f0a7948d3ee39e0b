"""From an SQL expression to a filter: which of it the index can hold, and what is left to compute.

Three-valued logic is kept by asking four questions of every condition instead of one: where is it TRUE, where is
it FALSE, and where is it not TRUE, not FALSE. NOT swaps the first two, AND and OR distribute over all four, and
IS TRUE, IS NULL and their like are made of them, so that the tree that results has no negation left in it.

A comparison of one attribute with a constant becomes a set of values; any other condition on one attribute
becomes a test on its values, evaluated once per distinct value; a condition on several attributes is a residual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from palio.errors import ParseError
from palio.events.values import Scalar
from palio.filters.comparisons import MIRRORED, OPERATORS, Truth, compare, equal_to_any
from palio.filters.computed import computed
from palio.filters.expressions.evaluate import compile_expression, refusal
from palio.filters.expressions.own import reads_whole_event
from palio.filters.expressions.tree import (
    Attribute,
    Call,
    Expression,
    Literal,
    Micros,
    Months,
    attributes_of,
    walk,
)
from palio.filters.filter import Filter
from palio.filters.like import LikePattern
from palio.filters.patterns import Like, Matching, Pattern, Test
from palio.filters.printing import NULL_NAMES, TYPE_NAMES, domain_of
from palio.filters.regex import Regex
from palio.filters.tree import EVERYTHING, NOTHING, And, Leaf, Node, Or
from palio.filters.values import ANY_VALUE, NO_VALUE, NULLS, PRESENT, STRINGS, ValueSet


class Ask(Enum):
    """Which events are wanted: those for which a condition is, or is not, TRUE or FALSE."""

    TRUE = "true"
    FALSE = "false"
    NOT_TRUE = "not true"
    NOT_FALSE = "not false"


NEGATED = {
    Ask.TRUE: Ask.FALSE,
    Ask.FALSE: Ask.TRUE,
    Ask.NOT_TRUE: Ask.NOT_FALSE,
    Ask.NOT_FALSE: Ask.NOT_TRUE,
}
# Calls whose value is a truth value, and those that have the type of their arguments.
_CONDITIONS = frozenset(
    "and or not = <=> <> < <= > >= in between like ilike rlike isnull isnotnull istrue isfalse isnan startswith "
    "endswith contains array_contains ip_in_network any_value_like any_value_ilike any_value_rlike "
    "condition_in in_timezone".split()
)
_NEVER_NULL = frozenset(("isnull", "isnotnull", "istrue", "isfalse", "typeof"))
_POLYMORPHIC = frozenset(["case", "coalesce", "if", "nullif", "nvl2", "greatest", "least", "cast"])


def lower_filter(expression: Expression, text: str, timezone: str) -> Filter:
    """The filter of a parsed condition."""
    check(expression, text)
    lowering = _Lowering(text, timezone)
    return Filter(lowering.lower(expression, Ask.TRUE), lambda: lowering.lower(expression, Ask.FALSE))


def check(expression: Expression, text: str) -> None:
    """Refuse what cannot mean the same here as in Spark."""
    if _is_simple(expression):
        return
    refused = refusal(expression)
    if refused is not None:
        node, reason = refused
        raise ParseError(text, node.span[0], reason)


@dataclass(frozen=True)
class _Lowering:
    text: str
    timezone: str

    def lower(self, expression: Expression, ask: Ask) -> Node:
        """The tree of the events for which a condition answers as asked."""
        match expression:
            case Literal(value, span):
                return self._constant(value, span[0], ask)
            case Attribute(name):
                return asked(name, Truth(ValueSet.points([True]), ValueSet.points([False])), ask)
            case Call("and" | "or" as function, arguments):
                parts = tuple(self.lower(each, ask) for each in arguments)
                conjunctive = (function == "and") == (ask in (Ask.TRUE, Ask.NOT_FALSE))
                return And(parts) if conjunctive else Or(parts)
            case Call("not", (argument,)):
                return self.lower(argument, NEGATED[ask])
            case Call("istrue" | "isfalse" as function, (argument,)):
                return self.lower(argument, two_valued(function == "istrue", ask))
            case Call("isnull" | "isnotnull" as function, (argument,)):
                return self._nullness(argument, (function == "isnull") == (ask in (Ask.TRUE, Ask.NOT_FALSE)))
            case Call("in_timezone", (Literal(str() as zone), condition)):
                return replace(self, timezone=zone).lower(condition, ask)
            case Call("between", (value, low, high)):
                both = Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
                return self.lower(both, ask) if isinstance(value, Attribute) else self._computed(expression, ask)
            case Call(function, arguments):
                simple = self._on_one_attribute(function, arguments)
                if simple is not None:
                    return asked(simple[0], simple[1], ask)
                return self._pattern(expression, ask) or self._computed(expression, ask)
        raise ParseError(self.text, expression.span[0], "this is not a condition")

    def _constant(self, value: object, position: int, ask: Ask) -> Node:
        if value is not None and not isinstance(value, bool):
            raise ParseError(
                self.text,
                position,
                "a condition is TRUE or FALSE; this is a plain value",
                "compare it with something",
            )
        held = {
            Ask.TRUE: value is True,
            Ask.FALSE: value is False,
            Ask.NOT_TRUE: value is not True,
            Ask.NOT_FALSE: value is not False,
        }
        return EVERYTHING if held[ask] else NOTHING

    def _nullness(self, argument: Expression, is_null: bool) -> Node:
        if isinstance(argument, Attribute):
            return Leaf(argument.name, NULLS if is_null else PRESENT)
        if isinstance(argument, Call) and argument.function in _NEVER_NULL:
            return NOTHING if is_null else EVERYTHING
        if _is_condition(argument) and not _is_polymorphic(argument) and not _tests_for_null(argument):
            if is_null:
                return And((self.lower(argument, Ask.NOT_TRUE), self.lower(argument, Ask.NOT_FALSE)))
            return Or((self.lower(argument, Ask.TRUE), self.lower(argument, Ask.FALSE)))
        return self._computed(Call("isnull", (argument,), argument.span), Ask.TRUE if is_null else Ask.FALSE)

    def _on_one_attribute(self, function: str, arguments: tuple[Expression, ...]) -> tuple[str, Truth] | None:
        """The attribute and the sets of values of a condition that intervals can hold."""
        if function in OPERATORS or function == "<=>":
            left, right = arguments
            if isinstance(right, Attribute) and not attributes_of(left) and function != "<=>":
                left, right, function = right, left, MIRRORED[function]
            elif isinstance(right, Attribute) and not attributes_of(left):
                left, right = right, left
            if attributes_of(right):
                return None
            literal = self.constant(right)
            if isinstance(literal, Months | Micros):
                return None
            if isinstance(left, Call) and left.function == "typeof" and isinstance(left.arguments[0], Attribute):
                return left.arguments[0].name, self._of_type(function, [literal], right)
            if not isinstance(left, Attribute):
                return None
            return left.name, compared(function, literal, self.timezone)
        if function == "in":
            value, *items = arguments
            if any(attributes_of(item) for item in items):
                return None
            literals = [self.constant(item) for item in items]
            if any(isinstance(each, Months | Micros) for each in literals):
                return None
            if isinstance(value, Call) and value.function == "typeof" and isinstance(value.arguments[0], Attribute):
                return value.arguments[0].name, self._of_type("=", literals, items[0])  # type: ignore[arg-type]
            if isinstance(value, Attribute):
                return value.name, equal_to_any(literals, self.timezone)  # type: ignore[arg-type]
        return None

    def _of_type(self, function: str, names: list[Scalar], at: Expression) -> Truth:
        """typeof(x) = 'string': what printing uses to tell apart kinds that a literal would run together."""
        kinds = [kind for kind, name in {**TYPE_NAMES, **NULL_NAMES}.items() if name in names]
        if function not in ("=", "<>") or len(kinds) != len(set(names)):
            known = ", ".join((*TYPE_NAMES.values(), *NULL_NAMES.values()))
            raise ParseError(
                self.text,
                at.span[0],
                "typeof() can be asked only whether it is one of the types of values",
                f"the types are {known}",
            )
        inside = ValueSet.kinds(*kinds)
        truth = Truth(inside, inside.complement())
        return truth if function == "=" else truth.negate()

    def _pattern(self, call: Call, ask: Ask) -> Node | None:
        """LIKE, RLIKE and their function forms on an attribute; None for anything else."""
        match call:
            case Call("like" | "ilike" as function, (Attribute(name), pattern, *escape)) if not attributes_of(pattern):
                text = self.constant(pattern)
                mark = self.constant(escape[0]) if escape else "\\"
                if text is None or mark is None:
                    return asked(name, Truth(NO_VALUE, NO_VALUE), ask)
                if not isinstance(text, str) or not isinstance(mark, str):
                    raise ParseError(self.text, pattern.span[0], "a pattern is a string")
                try:
                    like = LikePattern.parse(text, mark, function == "ilike")
                except ValueError as error:
                    raise ParseError(self.text, pattern.span[0], str(error)) from None
                return liked(name, like, ask)
            case Call("rlike", (Attribute(name), pattern)) if not attributes_of(pattern):
                text = self.constant(pattern)
                if text is None:
                    return asked(name, Truth(NO_VALUE, NO_VALUE), ask)
                if not isinstance(text, str):
                    raise ParseError(self.text, pattern.span[0], "a regular expression is a string")
                try:
                    return tested(name, Matching(Regex.compile(text)), ask)
                except ValueError as error:
                    raise ParseError(self.text, pattern.span[0], str(error)) from None
            case Call("startswith" | "endswith" | "contains" as function, (Attribute(name), part)) if not attributes_of(
                part
            ):
                text = self.constant(part)
                if not isinstance(text, str):
                    return None
                made = {
                    "startswith": LikePattern.starting,
                    "endswith": LikePattern.ending,
                    "contains": LikePattern.containing,
                }
                return liked(name, made[function](text), ask)
        return None

    def _computed(self, expression: Call, ask: Ask) -> Node:
        """A condition that must be evaluated: on one attribute a test of its values, on several a residual."""
        if not _is_condition(expression):
            raise ParseError(
                self.text,
                expression.span[0],
                f"{expression.function}(…) is a value, not a condition",
                "compare it with something",
            )
        names = attributes_of(expression)
        if not names and not reads_whole_event(expression):
            return self._constant(self.constant(expression), expression.span[0], ask)
        if ask in (Ask.NOT_TRUE, Ask.NOT_FALSE):
            question = Call("istrue" if ask is Ask.NOT_TRUE else "isfalse", (expression,), expression.span)
            return computed(question, wants=False, timezone=self.timezone)
        return computed(expression, wants=ask is Ask.TRUE, timezone=self.timezone)

    def constant(self, expression: Expression) -> Scalar | Months | Micros:
        """The value of an expression without attributes; what would raise in Spark is NULL."""
        if isinstance(expression, Literal):
            return expression.value
        value = compile_expression(expression, self.timezone)({}, {})
        assert not isinstance(value, tuple)  # only attributes have arrays
        return value


def _is_simple(expression: Expression) -> bool:
    """Whether a condition only compares attributes with single literals, of which nothing is ever refused."""
    if not isinstance(expression, Call):
        return False
    if expression.function in ("and", "or", "not"):
        return all(_is_simple(argument) for argument in expression.arguments)
    if expression.function not in OPERATORS and expression.function not in ("between", "isnull", "isnotnull"):
        return False
    first, *others = expression.arguments
    return isinstance(first, Attribute) and all(isinstance(other, Literal) for other in others)


def _tests_for_null(expression: Expression) -> bool:
    """Whether some condition inside is asked for NULL: taking two of those apart doubles what is inside each."""
    return any(
        isinstance(node, Call)
        and node.function in ("isnull", "isnotnull")
        and _is_condition(node.arguments[0])
        and not isinstance(node.arguments[0], Attribute)
        for node in walk(expression)
    )


def two_valued(positive: bool, ask: Ask) -> Ask:
    """What to ask of the inside of a test that is never NULL, so that "not true" is "false"."""
    wants = ask in (Ask.TRUE, Ask.NOT_FALSE)
    if positive:
        return Ask.TRUE if wants else Ask.NOT_TRUE
    return Ask.FALSE if wants else Ask.NOT_FALSE


def compared(function: str, literal: Scalar, timezone: str) -> Truth:
    """The meaning of a comparison, also of the one that takes NULL for a value."""
    if function != "<=>":
        return compare(function, literal, timezone)
    if literal is None:
        return Truth(NULLS, PRESENT)
    equal = compare("=", literal, timezone).true
    return Truth(equal, equal.complement())


def asked(name: str, truth: Truth, ask: Ask) -> Leaf:
    """The values of an attribute for which a condition answers as asked."""
    match ask:
        case Ask.TRUE:
            return Leaf(name, truth.true)
        case Ask.FALSE:
            return Leaf(name, truth.false)
        case Ask.NOT_TRUE:
            return Leaf(name, truth.true.complement())
        case Ask.NOT_FALSE:
            return Leaf(name, truth.false.complement())


def liked(name: str, pattern: LikePattern, ask: Ask) -> Node:
    """LIKE: a set of strings where the pattern is one, else a test of each."""
    if pattern.ignore_case or pattern.shape not in ("exact", "prefix"):
        return tested(name, Like(pattern), ask)
    inside = ValueSet.prefix(pattern.text)
    if pattern.shape == "exact":
        inside = ValueSet.points([pattern.text])
    if ask is Ask.TRUE:
        return Leaf(name, inside)
    return asked(name, Truth(inside, STRINGS.intersect(inside.complement())), ask)


def tested(name: str, pattern: Pattern, ask: Ask) -> Node:
    """A string pattern: TRUE or FALSE for strings, NULL for everything else."""
    wanted = ask in (Ask.TRUE, Ask.NOT_FALSE)
    test = Test(pattern, wanted)
    inside = Leaf(name, domain_of(test).where([test]))
    if ask in (Ask.TRUE, Ask.FALSE):
        return inside
    return Or((inside, Leaf(name, ANY_VALUE.intersect(STRINGS.complement()))))


def _is_polymorphic(expression: Expression) -> bool:
    """Whether an expression that may stand for a condition may also have another value, which is not NULL."""
    return isinstance(expression, Call) and expression.function in _POLYMORPHIC


def _is_condition(expression: Expression) -> bool:
    """Whether an expression's value is a truth value, as far as its outermost call tells."""
    match expression:
        case Call("cast", (_, Literal(type_name))):
            return type_name == "boolean"
        case Call(function):
            return function in _CONDITIONS or function in _POLYMORPHIC
        case Literal(value):
            return value is None or isinstance(value, bool)
    return isinstance(expression, Attribute)
