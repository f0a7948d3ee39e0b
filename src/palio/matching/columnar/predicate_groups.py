"""Predicate groups of a template: all predicates of a conjunction on one attribute, and short cuts to their intervals.

`conjunctions` writes the condition of a template out into few conjunctions of groups. A comparison of an expression
with constants is a predicate on the computed attribute of the expression, and falls into groups like any other. A
*short cut* knows the intervals of a group of a common form from its literals alone, without the value set that lowering
would make. Lowering stays the one place that defines what a condition means: a property test compares every short cut
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, TypeAlias

from palio.filters.comparisons import equality_cuts, is_word, reads_only_as_text
from palio.filters.expressions.ast import Attribute, Call, Literal
from palio.filters.expressions.text_cast import to_boolean, to_date, to_double, to_integer, to_timestamp
from palio.filters.kinds import HIGHEST_CUT, LOWEST_CUT, Kind, timestamp_at
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.rewriting import may_begin_another_kind
from palio.filters.tree import Leaf
from palio.filters.value_sets import ValueSet, after_prefix
from palio.languages.sql.lowering import INVERSE, POSITIVE, TruthTest, inner_test
from palio.languages.sql.template_parameters import (
    INTEGER,
    STRING,
    Arguments,
    ComputedConstant,
    Parameter,
    bind_some,
    parameters_in,
)
from palio.languages.sql.template_predicates import (
    AttributePredicate,
    BooleanTest,
    Comparison,
    Condition,
    Connective,
    ExpressionPredicate,
    Form,
    InList,
    Negation,
    NullTest,
    PatternMatch,
    as_test,
)
from palio.matching.columnar.computed_attributes import (
    MAX_CONJUNCTIONS,
    computed_attribute,
    computed_name,
    interval_name,
    is_computed,
    leaf_of_expression,
)
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.slot_order import Region

_EXACT_IN_FLOATS: Final = 2**53


@dataclass(frozen=True, slots=True)
class KnownValues:
    """A predicate without parameters: the values that an attribute must have."""

    values: ValueSet

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Leaf:
        return Leaf("", self.values)


Predicate: TypeAlias = AttributePredicate | ExpressionPredicate | KnownValues
# A predicate, and the truth value that it must, or must not, have.
PredicateTest: TypeAlias = tuple[Predicate, TruthTest]
_NamedTest: TypeAlias = tuple[str, Predicate, TruthTest]
PredicateGroup: TypeAlias = list[PredicateTest]  # on one attribute; one value must satisfy all
# Operators and parameters of comparisons with integers; without operators, the parameters of an equality with strings.
# Templates of one form differ in their attribute alone, and are filled together.
SharedForm: TypeAlias = tuple[tuple[str, ...], tuple[Parameter, ...]]

_OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conjunctions(condition: Condition, timezone: str) -> list[list[tuple[str, PredicateGroup]]] | None:
    """A condition as at most `MAX_CONJUNCTIONS` conjunctions of groups, by attribute; None where it has none."""
    alternatives = _Expansion(timezone).alternatives(condition, TruthTest.TRUE)
    if alternatives is None:
        return None
    found = []
    for each in alternatives:
        groups: dict[str, PredicateGroup] = {}
        for name, predicate, test in each:
            # LIKE is NULL for everything but strings. NOT TRUE and NOT FALSE take those values in, which makes two
            # leaves of one predicate, and a group is one set of values.
            if isinstance(predicate, PatternMatch) and test in (TruthTest.NOT_TRUE, TruthTest.NOT_FALSE):
                return None
            groups.setdefault(name, []).append((predicate, test))
        if any(is_membership(group) and len(group) > 1 for group in groups.values()):
            return None  # each constant has an axis of its own
        needed = frozenset[str]().union(*(_needed(name, group) for name, group in groups.items()))
        kept = {name: group for name, group in groups.items() if name not in needed or not _is_presence(group)}
        found.append([(name, _without_presence(group)) for name, group in kept.items()])
    return found


def _without_presence(group: PredicateGroup) -> PredicateGroup:
    """A group without the predicates that any value satisfies, where another asks for certain values."""
    if not any(isinstance(predicate, NullTest) for predicate, _ in group) or not any(map(_needs_value, group)):
        return group
    return [each for each in group if not _is_presence([each])]


def _needs_value(predicate_test: PredicateTest) -> bool:
    predicate, test = predicate_test
    if test not in (TruthTest.TRUE, TruthTest.FALSE):
        return False
    if isinstance(predicate, Comparison):
        return predicate.operator != "<=>"
    return isinstance(predicate, InList | PatternMatch)


def _needed(name: str, group: PredicateGroup) -> Iterable[str]:
    """The attributes without which the expression of a group has no value that the group asks for."""
    if is_rare(group):
        return [
            each
            for predicate, test in group
            if isinstance(predicate, ExpressionPredicate) and test is TruthTest.TRUE
            for each in predicate.needed
        ]
    return computed_attribute(name).required if is_computed(name) else ()


def _is_presence(group: PredicateGroup) -> bool:
    """Whether a group asks for any value."""
    return all(isinstance(each, NullTest) and not each.is_null and test is TruthTest.TRUE for each, test in group)


def is_rare(group: PredicateGroup) -> bool:
    """Whether the computed attribute of a group is another in every row."""
    return any(
        isinstance(predicate, ExpressionPredicate) and predicate.form is Form.COMPUTED and bool(predicate.naming)
        for predicate, _ in group
    )


def is_membership(group: PredicateGroup) -> bool:
    """Whether a group asks for a constant in an array."""
    return any(isinstance(predicate, ExpressionPredicate) and predicate.form is Form.MEMBER for predicate, _ in group)


@dataclass(frozen=True, slots=True)
class _Expansion:
    timezone: str

    def alternatives(self, condition: Condition, test: TruthTest) -> list[list[_NamedTest]] | None:
        match condition:
            case Negation(part):
                return self.alternatives(part, INVERSE[test])
            case BooleanTest(positive, part):
                return self.alternatives(part, inner_test(positive, test))
            case Connective(is_and, parts):
                each = [self.alternatives(part, test) for part in parts]
                return _product(each) if is_and is (test in POSITIVE) else _sum(each)
            case ExpressionPredicate():
                return self._of_expression(condition, test)
        return [[(condition.name, condition, test)]]

    def _of_expression(self, predicate: ExpressionPredicate, test: TruthTest) -> list[list[_NamedTest]] | None:
        if predicate.form is Form.PLAIN:
            (name,) = predicate.names
            if isinstance(predicate.value, Attribute) and isinstance(predicate.compared, Comparison):
                return [[(name, predicate.compared, test)]]
            return [[(name, predicate, test)]]
        if predicate.form is Form.MEMBER:
            (name,) = predicate.names
            return [[(f"{name}\0", predicate, test)]] if test is TruthTest.TRUE else None
        # NULL is no value of a computed attribute.
        if predicate.form is Form.OTHER or test not in (TruthTest.TRUE, TruthTest.FALSE):
            return None
        if not any(parameters_in(predicate.expression)):
            leaf = leaf_of_expression(predicate.expression, test is TruthTest.TRUE, self.timezone)
            return [[(leaf.attribute, KnownValues(leaf.values), test)]]
        if predicate.compares_times and self.timezone != "UTC":
            return None  # the first midnight of a calendar may be NULL
        if predicate.naming:
            return [[(f"\0{parameters_of(predicate)[0].index}", predicate, test)]]
        if predicate.value is None or predicate.compared is None:
            return None
        name_of = interval_name if predicate.compares_intervals else computed_name
        name = name_of(predicate.value, self.timezone)
        found = self.alternatives(predicate.compared, test)
        return found and [[(name, part, test) for _, part, test in each] for each in found]


def _sum(parts: Sequence[list[list[_NamedTest]] | None]) -> list[list[_NamedTest]] | None:
    found: list[list[_NamedTest]] = []
    for part in parts:
        if part is None or len(found) + len(part) > MAX_CONJUNCTIONS:
            return None
        found += part
    return found


def _product(parts: Sequence[list[list[_NamedTest]] | None]) -> list[list[_NamedTest]] | None:
    found: list[list[_NamedTest]] = [[]]
    for part in parts:
        if part is None or len(found) * len(part) > MAX_CONJUNCTIONS:
            return None
        found = [[*one, *other] for one in found for other in part]
    return found


def parameters_of(predicate: Predicate) -> tuple[Parameter, ...]:
    match predicate:
        case Comparison(_, _, ComputedConstant(expression)):
            return tuple(dict.fromkeys(parameters_in(expression)))
        case Comparison(_, _, operand) | PatternMatch(_, _, operand):
            return (operand,) if isinstance(operand, Parameter) else ()
        case InList(_, operands):
            return tuple(operand for operand in operands if isinstance(operand, Parameter))
        case ExpressionPredicate(expression):
            return tuple(dict.fromkeys(parameters_in(expression)))
    return ()


def operator_of(predicate_test: PredicateTest) -> str | None:
    """The comparison that must hold; None for other predicates, and where NULL counts as a value."""
    predicate, test = predicate_test
    if (
        not isinstance(predicate, Comparison)
        or predicate.operator not in _OPPOSITE
        or test not in (TruthTest.TRUE, TruthTest.FALSE)
    ):
        return None
    return predicate.operator if test is TruthTest.TRUE else _OPPOSITE[predicate.operator]


def bounds_of(group: PredicateGroup) -> dict[str, Parameter] | None:
    """The comparisons of a group by operator, where it is one, or one from below and one from above."""
    found: dict[str, Parameter] = {}
    for predicate, test in group:
        operator = operator_of((predicate, test))
        if operator is None or not isinstance(predicate, Comparison) or not isinstance(predicate.operand, Parameter):
            return None
        found[operator] = predicate.operand
    if len(found) != len(group):
        return None
    if len(found) == 1 or (len(found) == 2 and len({*found} & {"<", "<="}) == 1 == len({*found} & {">", ">="})):
        return found
    return None


def column_bounds_of(group: PredicateGroup) -> dict[str, Parameter] | None:
    """The comparisons of a group by operator, an IN list as an equality with its one parameter; None for others."""
    match group:
        case [(InList(_, (Parameter(is_list=True) as listed,)), TruthTest.TRUE)]:
            return {"=": listed}
    bounds = bounds_of(group)
    if bounds is None or len({_BY_KIND.get(_family(each)) for each in bounds.values()}) > 1:
        return None  # of a number and a time, say
    return bounds


def _family(parameter: Parameter) -> str:
    return parameter.before if parameter.kind == STRING else "number"


def shared_form_of(group: PredicateGroup) -> SharedForm | None:
    """The form of a group whose attribute is compared with integers or equal to strings; None for others."""
    bounds = bounds_of(group)
    if bounds is not None and all(parameter.kind == INTEGER for parameter in bounds.values()):
        return tuple(bounds), tuple(bounds.values())
    parameters = equalities_of(group)
    if parameters is not None and parameters[0].kind == STRING and not parameters[0].before:
        return (), parameters
    return None


def equalities_of(group: PredicateGroup) -> tuple[Parameter, ...] | None:
    """The parameters of a group that is an equality with one of them, all of one kind: each stands for itself."""
    match group:
        case [(Comparison(_, "=", Parameter() as parameter), TruthTest.TRUE)]:
            return (parameter,)
        case [(InList(_, operands) as listed, TruthTest.TRUE)]:
            parameters = parameters_of(listed)
            alike = len({(parameter.kind, parameter.before) for parameter in parameters}) == 1
            return parameters if alike and len(parameters) == len(operands) else None
    return None


# Short cuts: intervals that follow from the literals without a value set. None where one does not apply to them.

ShortCut: TypeAlias = Callable[[ConditionsBuilder, str, PredicateGroup, list[Any], str], list[int] | None]
Bounds: TypeAlias = list[tuple[str, Any]]  # operators with the values compared with


def short_cut(group: PredicateGroup) -> ShortCut | None:
    bounds = bounds_of(group)
    if bounds is not None:
        found = {_BY_KIND.get(_family(parameter)) for parameter in bounds.values()}
        return found.pop() if len(found) == 1 else None
    match group:
        case [(PatternMatch(), TruthTest.TRUE)]:
            return _pattern
        case [(PatternMatch(), TruthTest.FALSE)]:
            return _other_than_pattern
        case [(InList(), TruthTest.FALSE)]:
            return _unlisted
        case [(ExpressionPredicate(value=Call("coalesce", (Attribute(), _)), compared=compared), TruthTest.TRUE)]:
            return _coalesced if _is_equality_with_text(compared) else None
        case [(ExpressionPredicate(value=Call("left" | "substring"), compared=compared), TruthTest.TRUE)]:
            return _beginning if _is_equality_with_text(compared) else None
    return None


def _numbers(builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str) -> list[int]:
    """A number is compared with every kind of number, and with no other value."""
    return _compared(builder, name, Region.NUMBER, _with_operators(group, values))


def _texts(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """Plain text is compared with strings alone, and one that reads as a number or a time with those too."""
    readings = [_readings(value, zone) for value in values]
    if not all(readings):
        return None
    operators = [operator_of(each) or "" for each in group]
    found: list[int] = []
    for region in (Region.STRING, Region.NUMBER, Region.DATE, Region.TIMESTAMP):
        bounds = [
            (operator, each[region]) for operator, each in zip(operators, readings, strict=True) if region in each
        ]
        if len(bounds) == len(values):
            found += _compared(builder, name, region, bounds)
    return found


def _readings(text: str, zone: str) -> dict[Region, Any]:
    """What a text is compared as, by the kind of the value; none where intervals of slots do not say it."""
    if is_word(text):
        return {Region.STRING: text}
    whole, number = to_integer(text), to_double(text)
    if whole != number or to_boolean(text) is not None or (whole is not None and abs(whole) >= _EXACT_IN_FLOATS):
        return {}
    readings = {
        Region.STRING: text,
        Region.NUMBER: number,
        Region.DATE: to_date(text),
        Region.TIMESTAMP: to_timestamp(text, zone),
    }
    return {region: value for region, value in readings.items() if value is not None}


def _times(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """A date equals the timestamp of its midnight, and is compared with timestamps as that."""
    bounds = list(zip(map(operator_of, group), (equality_cuts(value, zone) for value in values), strict=True))
    found: list[int] = []
    axis = builder.axis((name, None))
    for kind, region, value_at in _TIMES:
        spans: list[tuple[Any, Any]] = [(None, None)]
        for operator, places in bounds:
            below, above = places[kind]
            if operator == "<>":
                spans = [(None, below), (above, None)]
                continue
            low, high = spans[0]
            low = {"=": below, ">=": below, ">": above}.get(operator or "", low)
            high = {"=": above, "<=": above, "<": below}.get(operator or "", high)
            spans = [(low, high)]
        for ends in spans:
            if any(end is not None and not LOWEST_CUT[kind] < end < HIGHEST_CUT[kind] for end in ends):
                return None  # beyond the years that a value can hold
            low, high = (None if end is None else (value_at(end), False) for end in ends)
            found.append(builder.axes.between(axis, region, low, high))
    return found


def _compared(builder: ConditionsBuilder, name: str, region: Region, bounds: Bounds) -> list[int]:
    axes, axis = builder.axes, builder.axis((name, None))
    if bounds[0][0] == "=":
        return [axes.equal(axis, region, bounds[0][1])]
    if bounds[0][0] == "<>":
        value = bounds[0][1]
        return [axes.between(axis, region, None, (value, False)), axes.between(axis, region, (value, True), None)]
    low = high = None
    for operator, value in bounds:
        if operator in (">", ">="):
            low = (value, operator == ">")
        else:
            high = (value, operator == "<=")
    return [axes.between(axis, region, low, high)]


def _with_operators(group: PredicateGroup, values: list[Any]) -> Bounds:
    return [(operator_of(predicate_test) or "", value) for predicate_test, value in zip(group, values, strict=True)]


def _unlisted(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """NOT IN a list of plain texts, or of exact numbers: the strings or the numbers between those listed."""
    listed, _ = group[0]
    if len(parameters_of(listed)) != len(getattr(listed, "operands", ())):
        return None  # NULL among them, say
    members = {each for value in values for each in (value if isinstance(value, tuple) else (value,))}
    kinds = {type(each) for each in members}
    if kinds == {int} or kinds == {Decimal}:
        region = Region.NUMBER
    elif kinds == {str} and all(reads_only_as_text(text, zone) for text in members):
        region = Region.STRING
    else:
        return None
    axis = builder.axis((name, None))
    ordered = sorted(members)
    lows = [None, *((each, True) for each in ordered)]
    highs = [*((each, False) for each in ordered), None]
    return [builder.axes.between(axis, region, *ends) for ends in zip(lows, highs, strict=True)]


def _pattern(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """A text, the strings from a prefix on, or a hit of the pattern's own axis."""
    pattern = _compiled_pattern(group, values)
    if pattern is None:
        return None
    if isinstance(pattern, LikePattern) and not pattern.ignore_case:
        if pattern.shape == "exact":
            return _compared(builder, name, Region.STRING, [("=", pattern.text)])
        if pattern.shape == "prefix":
            return _with_prefix(builder, name, pattern.text) if pattern.text else None
    return [builder.interval_of_pattern(name, as_test(pattern))]


def _other_than_pattern(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """NOT LIKE: any string that does not hit the pattern's own axis."""
    pattern = _compiled_pattern(group, values)
    is_plain = isinstance(pattern, LikePattern) and not pattern.ignore_case and pattern.shape in ("exact", "prefix")
    if pattern is None or is_plain or (isinstance(pattern, LikePattern) and pattern.matches_every_string):
        return None
    strings = builder.axes.between(builder.axis((name, None)), Region.STRING, None, None)
    return [strings, builder.interval_of_pattern(name, as_test(pattern), wanted=False)]


def _compiled_pattern(group: PredicateGroup, values: list[Any]) -> LikePattern | Regex | None:
    """The pattern of a group with its literal; None for a regular expression that is none."""
    predicate, _ = group[0]
    assert isinstance(predicate, PatternMatch)
    try:
        return predicate.pattern([*[None] * predicate.operand.index, values[0]])
    except ValueError:
        return None


def _with_prefix(builder: ConditionsBuilder, name: str, prefix: str) -> list[int]:
    end = after_prefix(prefix)
    last = None if end is None else (end, False)
    return [builder.axes.between(builder.axis((name, None)), Region.STRING, (prefix, False), last)]


def _is_equality_with_text(compared: object) -> bool:
    match compared:
        case Comparison(_, "=", Parameter(is_text=True, is_list=False)):
            return True
    return False


def _filled_equality(group: PredicateGroup, values: list[Any]) -> tuple[Call, str] | None:
    """The call and the text of a group that compares them, with its literals; None where text reads otherwise too."""
    predicate, _ = group[0]
    assert isinstance(predicate, ExpressionPredicate)
    places = parameters_of(predicate)
    given = dict(zip([each.index for each in places], values, strict=True))
    match bind_some(predicate.expression, given):
        case Call("=", (Call() as call, Literal(str() as text))) | Call("=", (Literal(str() as text), Call() as call)):
            return call, text
    return None


def _coalesced(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """coalesce(x, 'a') = 'b': what is NULL is not 'b', and a text stays what it is."""
    match _filled_equality(group, values):
        case (Call(_, (_, Literal(str() as other))), str() as text) if other != text:
            if reads_only_as_text(text, zone) and reads_only_as_text(other, zone):
                return _compared(builder, name, Region.STRING, [("=", text)])
    return None


def _beginning(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """left(x, 3) = 'abc': the strings with that prefix, where no other value is written so."""
    match _filled_equality(group, values):
        case (Call("left", (Attribute(), Literal(int() as size))), str() as text):
            pass
        case (Call("substring", (Attribute(), Literal(0 | 1), Literal(int() as size))), str() as text):
            pass
        case _:
            return None
    if not 0 < size < 2**31 or not reads_only_as_text(text, zone) or may_begin_another_kind(text, text + "\0"):
        return None
    if len(text) != size:
        return _compared(builder, name, Region.STRING, [("=", text)]) if len(text) < size else []
    return _with_prefix(builder, name, text)


_TIMES: Final = (
    (Kind.DATE, Region.DATE, date.fromordinal),
    (Kind.TIMESTAMP, Region.TIMESTAMP, timestamp_at),
)
_BY_KIND: Final[dict[str, ShortCut]] = {
    "number": _numbers,
    "": _texts,
    **dict.fromkeys(("date", "timestamp", "timestamp_ltz", "timestamp_ntz"), _times),
}
