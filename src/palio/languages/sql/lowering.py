"""Lowering of SQL expressions to filters.

Three-valued logic is kept by four truth tests of a condition instead of one: where it is TRUE, where it is FALSE, and
where it is not TRUE, not FALSE. NOT swaps the first two, AND and OR distribute over all four, and IS TRUE, IS NULL and
their like are made of them, so that the tree that results has no negation left in it.

A comparison of one attribute with a constant becomes a set of values; any other condition on one attribute
becomes a test on its values, evaluated once per distinct value; a condition on several attributes is a residual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from palio.errors import ParseError
from palio.events.values import Scalar
from palio.filters.comparisons import OPERATORS, Truth, compare_literal, equal_to_any
from palio.filters.computed import computed_condition
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, Micros, Months, attributes_of, walk
from palio.filters.expressions.extension_functions import reads_whole_event
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.validation import refusal
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.filter import Filter
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.sql_writer import NULL_NAMES, TYPE_NAMES
from palio.filters.tree import EVERYTHING, NOTHING, And, Leaf, Node, Or, domain_of
from palio.filters.value_predicates import TEXT_FUNCTION_PATTERNS, Like, Pattern, Rlike, Test, XPath
from palio.filters.value_sets import ANY_VALUE, NO_VALUE, NULLS, PRESENT, STRINGS, ValueSet
from palio.filters.xml_text import pattern_of


class TruthTest(Enum):
    """SQL's truth tests `IS [NOT] TRUE` and `IS [NOT] FALSE`: the events that a tree is to hold."""

    TRUE = "true"
    FALSE = "false"
    NOT_TRUE = "not true"
    NOT_FALSE = "not false"


# NOT swaps TRUE and FALSE and keeps NULL: NOT x is not TRUE exactly where x is not FALSE.
INVERSE = {
    TruthTest.TRUE: TruthTest.FALSE,
    TruthTest.FALSE: TruthTest.TRUE,
    TruthTest.NOT_TRUE: TruthTest.NOT_FALSE,
    TruthTest.NOT_FALSE: TruthTest.NOT_TRUE,
}
POSITIVE: Final = (TruthTest.TRUE, TruthTest.NOT_FALSE)
"""The tests under which AND stays an AND, and a predicate that is never NULL itself."""
# Calls whose value is a truth value; those below may also have the type of their arguments.
_CONDITIONS = frozenset(
    "and or not = <=> <> < <= > >= in between like ilike rlike isnull isnotnull istrue isfalse isnan startswith "
    "endswith contains luhn_check array_contains ip_in_network any_value_like any_value_ilike any_value_rlike "
    "condition_in in_timezone exists forall split_contains xpath_boolean".split()
)
_NEVER_NULL = frozenset(("isnull", "isnotnull", "istrue", "isfalse", "typeof"))
_POLYMORPHIC = frozenset(["case", "coalesce", "if", "nullif", "nvl2", "greatest", "least", "cast"])


def lower_filter(expression: Expression, text: str, timezone: str) -> Filter:
    """The filter of a parsed condition."""
    check_refusals(expression, text)
    lowering = _Lowering(text, timezone)
    return Filter.of_tree(
        lowering.lower(expression, TruthTest.TRUE), lambda: lowering.lower(expression, TruthTest.FALSE)
    )


def lower_condition(expression: Expression, timezone: str, wanted: TruthTest) -> Node:
    """The tree of the events for which a condition that was checked before passes a truth test."""
    return _Lowering("", timezone).lower(expression, wanted)


_SEARCHES: Final = {
    **dict.fromkeys(((">", 0), (">=", 1), ("<>", 0)), ("contains", True)),
    **dict.fromkeys((("=", 0), ("<", 1), ("<=", 0)), ("contains", False)),
    ("=", 1): ("startswith", True),
    ("<>", 1): ("startswith", False),
}


def as_text_search(expression: Call) -> Call | None:
    """`instr(x, 'abc') > 0`, or `locate('abc', x) = 1`, as a pattern on the text that x is; None for any other call.

    Thousands of patterns are looked for at once, where each of these is an expression of its own.
    """
    match expression:
        case Call(operator, (Call() as place, Literal(int() as number))):
            pass
        case Call(operator, (Literal(int() as number), Call() as place)):
            operator = MIRRORED.get(operator, operator)
        case _:
            return None
    match place:
        case Call("instr", (text, Literal(str()) as part)) | Call("locate", (Literal(str()) as part, text)):
            found = _SEARCHES.get((operator, number))
        case _:
            return None
    if found is None or not attributes_of(text):
        return None
    function, is_wanted = found
    if not (isinstance(text, Call) and text.function in FUNCTIONS and FUNCTIONS[text.function].result is str):
        text = Call("cast", (text, Literal("string")))
    search = Call(function, (text, part), expression.span)
    return search if is_wanted else Call("not", (search,), expression.span)


def check_refusals(expression: Expression, text: str) -> None:
    """Refuse a condition that cannot mean the same here as in Spark."""
    if _is_never_refused(expression):
        return
    refused = refusal(expression)
    if refused is not None:
        node, reason = refused
        raise ParseError(text, node.span[0], reason)


@dataclass(frozen=True)
class _Lowering:
    text: str
    timezone: str

    def lower(self, expression: Expression, wanted: TruthTest) -> Node:
        """The tree of the events for which a condition passes a truth test."""
        match expression:
            case Literal(value, span):
                return self._lower_constant(value, span[0], wanted)
            case Attribute(name):
                return leaf_where(name, Truth(ValueSet.points([True]), ValueSet.points([False])), wanted)
            case Call("and" | "or" as function, arguments):
                parts = tuple(self.lower(each, wanted) for each in arguments)
                conjunctive = (function == "and") == (wanted in POSITIVE)
                return And(parts) if conjunctive else Or(parts)
            case Call("not", (argument,)):
                return self.lower(argument, INVERSE[wanted])
            case Call("istrue" | "isfalse" as function, (argument,)):
                return self.lower(argument, inner_test(function == "istrue", wanted))
            case Call("isnull" | "isnotnull" as function, (argument,)):
                return self._lower_null_test(argument, (function == "isnull") == (wanted in POSITIVE))
            case Call("in_timezone", (Literal(str() as zone), condition)):
                return replace(self, timezone=zone).lower(condition, wanted)
            case Call("between", (value, low, high)):
                # Of an attribute, both comparisons make one interval; a computed value is computed once and tested.
                both = Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
                return (
                    self.lower(both, wanted)
                    if isinstance(value, Attribute)
                    else self._lower_computed(expression, wanted)
                )
            case Call(function, (Call("case", (condition, Literal(), Literal())) as choice, Literal() as constant)) if (
                function in OPERATORS
            ):
                decided = self._decided_by_case(function, choice, constant)
                if decided is None:
                    return self._lower_computed(expression, wanted)
                return self.lower(Call("istrue", (condition,)), wanted if decided else INVERSE[wanted])
            case Call(function, arguments):
                search = as_text_search(expression)
                if search is not None:
                    return self.lower(search, wanted)
                simple = self._compare(function, arguments)
                if simple is not None:
                    return leaf_where(simple[0], simple[1], wanted)
                return self._lower_pattern(expression, wanted) or self._lower_computed(expression, wanted)
        raise ParseError(self.text, expression.span[0], "this is not a condition")

    def _decided_by_case(self, function: str, choice: Call, constant: Literal) -> bool | None:
        """Whether `CASE WHEN c THEN 1 ELSE 0 END = 1` holds where c is TRUE, and there alone; FALSE for the opposite.

        None where it is neither. Branches of two types would be compared as the type that they have in common.
        """
        _, one, other = choice.arguments
        values = [each.value for each in (one, other, constant) if isinstance(each, Literal)]
        if set(map(type, values)) not in ({int}, {str}):
            return None
        first, second = (self.constant(Call(function, (branch, constant))) for branch in (one, other))
        return first if {first, second} == {True, False} else None  # type: ignore[return-value]

    def _lower_constant(self, value: object, position: int, wanted: TruthTest) -> Node:
        if value is not None and not isinstance(value, bool):
            raise ParseError(
                self.text,
                position,
                "a condition is TRUE or FALSE; this is a plain value",
                "compare it with something",
            )
        held = {
            TruthTest.TRUE: value is True,
            TruthTest.FALSE: value is False,
            TruthTest.NOT_TRUE: value is not True,
            TruthTest.NOT_FALSE: value is not False,
        }
        return EVERYTHING if held[wanted] else NOTHING

    def _lower_null_test(self, argument: Expression, is_null: bool) -> Node:
        if isinstance(argument, Attribute):
            return Leaf(argument.name, NULLS if is_null else PRESENT)
        if isinstance(argument, Call) and argument.function in _NEVER_NULL:
            return NOTHING if is_null else EVERYTHING
        if _is_condition(argument) and not _is_polymorphic(argument) and not _tests_for_null(argument):
            # A condition is NULL where it is neither TRUE nor FALSE.
            if is_null:
                return And((self.lower(argument, TruthTest.NOT_TRUE), self.lower(argument, TruthTest.NOT_FALSE)))
            return Or((self.lower(argument, TruthTest.TRUE), self.lower(argument, TruthTest.FALSE)))
        return self._lower_computed(
            Call("isnull", (argument,), argument.span), TruthTest.TRUE if is_null else TruthTest.FALSE
        )

    def _compare(self, function: str, arguments: tuple[Expression, ...]) -> tuple[str, Truth] | None:
        """The attribute and the sets of values of a comparison with constants; None for any other call."""
        if function in OPERATORS or function == "<=>":
            left, right = arguments
            if isinstance(right, Attribute) and not attributes_of(left):
                # The attribute to the left: 5 < x is x > 5.
                left, right, function = right, left, MIRRORED.get(function, function)
            if attributes_of(right):
                return None
            literal = self.constant(right)
            if isinstance(literal, Months | Micros):
                return None
            if isinstance(left, Call) and left.function == "typeof" and isinstance(left.arguments[0], Attribute):
                return left.arguments[0].name, self._compare_type(function, [literal], right)
            if not isinstance(left, Attribute):
                return None
            return left.name, compare_literal(function, literal, self.timezone)
        if function == "in":
            value, *items = arguments
            if any(attributes_of(item) for item in items):
                return None
            literals = [self.constant(item) for item in items]
            if any(isinstance(each, Months | Micros) for each in literals):
                return None
            if isinstance(value, Call) and value.function == "typeof" and isinstance(value.arguments[0], Attribute):
                return value.arguments[0].name, self._compare_type("=", literals, items[0])  # type: ignore[arg-type]
            if isinstance(value, Attribute):
                return value.name, equal_to_any(literals, self.timezone)  # type: ignore[arg-type]
        return None

    def _compare_type(self, function: str, names: list[Scalar], at: Expression) -> Truth:
        """typeof(x) = 'string', by which the printer tells apart kinds that a literal would run together."""
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

    def _lower_pattern(self, call: Call, wanted: TruthTest) -> Node | None:
        """LIKE, RLIKE and their function forms on an attribute; None for anything else."""
        match call:
            case Call("like" | "ilike" as function, (Attribute(name), pattern, *escape)) if not attributes_of(pattern):
                text = self.constant(pattern)
                mark = self.constant(escape[0]) if escape else "\\"
                if text is None or mark is None:
                    return leaf_where(name, Truth(NO_VALUE, NO_VALUE), wanted)
                if not isinstance(text, str) or not isinstance(mark, str):
                    raise ParseError(self.text, pattern.span[0], "a pattern is a string")
                try:
                    like = LikePattern.parse(text, mark, function == "ilike")
                except ValueError as error:
                    raise ParseError(self.text, pattern.span[0], str(error)) from None
                return lower_like(name, like, wanted)
            case Call("rlike", (Attribute(name), pattern)) if not attributes_of(pattern):
                text = self.constant(pattern)
                if text is None:
                    return leaf_where(name, Truth(NO_VALUE, NO_VALUE), wanted)
                if not isinstance(text, str):
                    raise ParseError(self.text, pattern.span[0], "a regular expression is a string")
                try:
                    return lower_pattern(name, Rlike(Regex.compile(text)), wanted)
                except ValueError as error:
                    raise ParseError(self.text, pattern.span[0], str(error)) from None
            case Call("xpath_boolean", (Attribute(name), pattern)) if wanted in (TruthTest.TRUE, TruthTest.FALSE):
                text = self.constant(pattern)
                if not isinstance(text, str):
                    return None
                # NULL also for strings that are no XML, so that where it is not TRUE is not where it is FALSE.
                return lower_pattern(name, XPath(pattern_of(text)), wanted)
            case Call("startswith" | "endswith" | "contains" as function, (Attribute(name), part)) if not attributes_of(
                part
            ):
                text = self.constant(part)
                if not isinstance(text, str):
                    return None
                return lower_like(name, TEXT_FUNCTION_PATTERNS[function](text), wanted)
        return None

    def _lower_computed(self, expression: Call, wanted: TruthTest) -> Node:
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
            return self._lower_constant(self.constant(expression), expression.span[0], wanted)
        # Where IS TRUE, which is never NULL itself, is FALSE, the condition is FALSE or NULL; likewise IS FALSE.
        if wanted in (TruthTest.NOT_TRUE, TruthTest.NOT_FALSE):
            question = Call("istrue" if wanted is TruthTest.NOT_TRUE else "isfalse", (expression,), expression.span)
            return computed_condition(question, wants=False, timezone=self.timezone)
        return computed_condition(expression, wants=wanted is TruthTest.TRUE, timezone=self.timezone)

    def constant(self, expression: Expression) -> Scalar | Months | Micros:
        """The value of an expression without attributes; what would raise in Spark is NULL."""
        if isinstance(expression, Literal):
            return expression.value
        value = compile_expression(expression, self.timezone)({}, {})
        assert not isinstance(value, tuple)  # only attributes have arrays
        return value


def _is_never_refused(expression: Expression) -> bool:
    """Whether a condition only compares attributes with literals that go together; spares the search for refusals."""
    if not isinstance(expression, Call):
        return False
    function, arguments = expression.function, expression.arguments
    if function in ("and", "or", "not"):
        return all(_is_never_refused(argument) for argument in arguments)
    first, *others = arguments
    values = [other.value for other in others if isinstance(other, Literal)]
    if not isinstance(first, Attribute) or len(values) < len(others):
        return False
    if function in ("like", "ilike"):
        return len(values) == 1 and isinstance(values[0], str) and "\\" not in values[0]
    if function == "in":
        return len(kinds := set(map(type, values))) == 1 and kinds <= {int, str}
    return function in OPERATORS or function in ("between", "isnull", "isnotnull")


def _tests_for_null(expression: Expression) -> bool:
    """Whether some condition inside is tested for NULL. Expanding nested ones would double the tree at each level."""
    return any(
        isinstance(node, Call)
        and node.function in ("isnull", "isnotnull")
        and _is_condition(node.arguments[0])
        and not isinstance(node.arguments[0], Attribute)
        for node in walk(expression)
    )


def inner_test(positive: bool, wanted: TruthTest) -> TruthTest:
    """The truth test of the operand of IS TRUE (`positive`) or IS FALSE, which is never NULL itself."""
    wants = wanted in POSITIVE
    if positive:
        return TruthTest.TRUE if wants else TruthTest.NOT_TRUE
    return TruthTest.FALSE if wants else TruthTest.NOT_FALSE


def leaf_where(name: str, truth: Truth, wanted: TruthTest) -> Leaf:
    """The values of an attribute for which a condition with this truth passes a truth test."""
    match wanted:
        case TruthTest.TRUE:
            return Leaf(name, truth.true)
        case TruthTest.FALSE:
            return Leaf(name, truth.false)
        case TruthTest.NOT_TRUE:
            return Leaf(name, truth.true.complement())
        case TruthTest.NOT_FALSE:
            return Leaf(name, truth.false.complement())


def lower_like(name: str, pattern: LikePattern, wanted: TruthTest) -> Node:
    """LIKE: a set of strings where the pattern is one, else a test of each."""
    if pattern.ignore_case or pattern.shape not in ("exact", "prefix"):
        return lower_pattern(name, Like(pattern), wanted)
    inside = ValueSet.prefix(pattern.text)
    if pattern.shape == "exact":
        inside = ValueSet.points([pattern.text])
    if wanted is TruthTest.TRUE:
        return Leaf(name, inside)
    return leaf_where(name, Truth(inside, STRINGS.intersect(inside.complement())), wanted)


def lower_pattern(name: str, pattern: Pattern, wanted: TruthTest) -> Node:
    """A string pattern: TRUE or FALSE for strings, NULL for everything else."""
    test = Test(pattern, wanted in POSITIVE)
    inside = Leaf(name, domain_of(test).where([test]))
    if wanted in (TruthTest.TRUE, TruthTest.FALSE):
        return inside
    # NULL for everything that is no string, and NULL is neither TRUE nor FALSE.
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
