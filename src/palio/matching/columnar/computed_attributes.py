"""Computed attributes: expressions whose values the index holds like those of attributes.

`lower(name) = 'ann'` asks for a value of `lower(name)`. Ten thousand such conditions ask for ten thousand values of the
same expression, so the expression is an attribute of its own: computed once for an event, or once for a batch in
columns, it has an axis, slots and postings like any other. What a condition compares with constants becomes the
constants' set of values of the expression (`computed_range`); of any other condition, `a < b` say, the expression is
the condition itself, and its value TRUE or FALSE.

A computed attribute is named by its canonical SQL and its time zone, behind a NUL that no other attribute begins with.
The name is all that an index keeps of it: opened again, the expression is parsed from the name.

`abs(price - 5.06) < 0.03` is a range of `+price` whose ends depend on the kind of number: floats are rounded where
decimals are not. No interval of slots says such a set, but one interval for each kind does. A computed attribute may
therefore be of one kind alone: an event has it where the value of the expression is of that kind, and such a condition
is one alternative for every kind. Of a kind of its own are intervals of time, which are no values of events: a computed
attribute of intervals has their microseconds, and `ended - started > INTERVAL 5 MINUTES` is a range of these.

An expression that few conditions share is not worth an evaluation for every event where the rest of its condition is
selective. It stays a residual, evaluated on candidates (`ExpressionUses`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import pairwise, product
from typing import Any, Final

from palio.events.values import Scalar
from palio.filters.comparisons import OPERATORS, compare_literal, number_terms
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, Micros, attributes_of, walk
from palio.filters.expressions.coercion import Arrays, Scalars
from palio.filters.expressions.extension_functions import reads_whole_event
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.static_analysis import Kinds, required_attributes
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.kinds import KIND_OF_TYPE, KINDS, MISSING, NUMBERS, Kind
from palio.filters.normal_form import Conjunction, expand
from palio.filters.rewriting import canonical_range
from palio.filters.sql_writer import expression_to_sql
from palio.filters.text_cache import MAX_SHORT_CHARACTERS
from palio.filters.tree import And, Leaf, Node, Or, Residual, domain_of, leaves
from palio.filters.value_predicates import Computed, Test, computed_range
from palio.filters.value_sets import NO_VALUE, PRESENT, ValueSet
from palio.languages.sql.parser import parse_condition
from palio.matching.columnar.array_members import membership_in

_MARK: Final = "\0"  # no attribute of an event begins with it
_KIND_MARK: Final = ";"  # no time zone has it
_INTERVALS: Final = "INTERVAL"  # in place of a kind
MIN_SHARING_CONDITIONS: Final = 4
"""Conditions that make an expression worth computing for every event."""
MAX_CONJUNCTIONS: Final = 16
"""Conjunctions to which a tree is expanded; a larger one is a program of jumps."""
_NO_ARRAYS: Final[Arrays] = {}
_HASHED_BY_VALUE: Final = frozenset((bool, int, float, Decimal, str, date))  # not times: those of two zones differ
_MAX_NAMED_EXPRESSIONS: Final = 65_536


class ComputedAttribute:
    """An expression, evaluated for one event at a time; `vector_evaluation` evaluates it for columns."""

    def __init__(self, name: str) -> None:
        self.name = name
        head, text = name[len(_MARK) :].split(_MARK, 1)
        zone, _, kind = head.partition(_KIND_MARK)
        self.timezone = zone or "UTC"
        self.is_of_intervals = kind == _INTERVALS
        """Whether its values are the microseconds of intervals of time."""
        self.kind = Kind[kind] if kind and not self.is_of_intervals else None
        """The kind of its values; None for any."""
        self.expression: Expression = parse_condition(text, timezone=self.timezone)
        self.scalars = frozenset(node.name for node in walk(self.expression) if isinstance(node, Attribute))
        """The attributes of which it reads one element."""
        self.arrays = frozenset(node.name for node in walk(self.expression) if isinstance(node, Array))
        """The attributes of which it reads the whole array."""
        self.required = required_attributes(self.expression)
        """The attributes without which its value is NULL."""

    @cached_property
    def run(self) -> Any:
        """The compiled expression, whose value may be of any kind, and an interval of time where none is asked for."""
        compiled = compile_expression(self.expression, self.timezone)
        if not self.is_of_intervals:
            return compiled

        def micros(scalars: Scalars, arrays: Arrays) -> int | None:
            value: Any = compiled(scalars, arrays)
            return value.micros if type(value) is Micros else None

        return micros

    def value(self, scalars: Scalars, arrays: Arrays = _NO_ARRAYS) -> Scalar:
        """The value for an event. An interval of time, which no constant of an index compares with, counts as NULL."""
        value = self.run(scalars, arrays)
        kind = KIND_OF_TYPE.get(type(value))
        return value if kind is not None and (self.kind is None or kind is self.kind) else None


def is_computed(name: str) -> bool:
    """Whether an attribute's name is that of a computed one."""
    return name.startswith(_MARK)


def expression_text(name: str) -> str:
    """The SQL of the expression that a computed attribute is named by."""
    return name.rpartition(_MARK)[2]


def computed_name(expression: Expression, timezone: str) -> str:
    """The name of the computed attribute of an expression."""
    known = _names.get((expression, timezone))
    if known is not None:
        return known
    made = f"{_MARK}{'' if timezone == 'UTC' else timezone}{_MARK}{expression_to_sql(expression)}"
    if len(made) <= MAX_SHORT_CHARACTERS:
        if len(_names) >= _MAX_NAMED_EXPRESSIONS:
            _names.clear()
        _names[expression, timezone] = made
    return made


_names: dict[tuple[Expression, str], str] = {}  # of short expressions: a long one takes megabytes


def of_kind(name: str, kind: Kind) -> str:
    """The name of a computed attribute for its values of one kind alone."""
    zone, text = name[len(_MARK) :].split(_MARK, 1)
    return f"{_MARK}{zone}{_KIND_MARK}{kind.name}{_MARK}{text}"


def interval_name(expression: Expression, timezone: str) -> str:
    """The name of the computed attribute that has the microseconds of the intervals that an expression is."""
    zone, text = computed_name(expression, timezone)[len(_MARK) :].split(_MARK, 1)
    return f"{_MARK}{zone}{_KIND_MARK}{_INTERVALS}{_MARK}{text}"


def kind_within(name: str) -> Kind | None:
    """The kind that the values of an attribute are of, where its name says it."""
    if not is_computed(name):
        return None
    kind = name[len(_MARK) :].partition(_MARK)[0].partition(_KIND_MARK)[2]
    return Kind[kind] if kind and kind != _INTERVALS else None


def of_any_kind(name: str) -> str:
    """The name of a computed attribute for its values of all kinds."""
    kind = kind_within(name)
    return name if kind is None else name.replace(f"{_KIND_MARK}{kind.name}{_MARK}", _MARK, 1)


def computed_attribute(name: str) -> ComputedAttribute:
    """The computed attribute of a name."""
    return ComputedAttribute(name) if len(name) > MAX_SHORT_CHARACTERS else _short_attribute(name)


@lru_cache(_MAX_NAMED_EXPRESSIONS)
def _short_attribute(name: str) -> ComputedAttribute:
    return ComputedAttribute(name)


@dataclass(frozen=True, slots=True)
class _ComputedLeaf:
    """A condition on a computed attribute, and the attributes whose presence it implies."""

    leaf: Leaf
    implied: frozenset[str]
    condition: tuple[Expression, bool, str] | None = None
    """The expression, what it is to be, and its time zone; None where it is not to be that."""

    def rewritten(self) -> _ComputedLeaf | None:
        """The condition on the innermost value that it restricts, which other constants in it may share.

        `abs(x - 5) < 3` and `abs(x - 7) < 3` are conditions on different expressions, and both are ranges of `x + 0`.
        """
        found = None if self.condition is None else canonical_range(*self.condition)
        if found is None or found[1].tests or asks_for_null(found[1]) or _has_cuts_within_a_float(found[1]):
            return None
        assert self.condition is not None
        value, values = found
        if isinstance(value, Attribute) and _is_interval(values):
            name = value.name
        else:
            name = computed_name(value, self.condition[2])
        return _ComputedLeaf(Leaf(name, values), _implied(value, values))


def _has_cuts_within_a_float(values: ValueSet) -> bool:
    """Whether different decimals at which a set begins and ends are one float, as around 7 in `x - 10.125 = 7.0D`.

    Slots are in the order of floats, where cuts before and after numbers of one float have no order for decimals.
    """
    numbers: list[Any] = [number for number, _ in values.parts[Kind.DECIMAL].cuts]
    return any(one != other and float(one) == float(other) for one, other in pairwise(numbers))


def rewritten_alternatives(expression: Expression, wants: bool, timezone: str) -> list[Leaf] | None:
    """A condition as alternatives on the innermost value that it restricts; None where it is not rewritten."""
    found = _ComputedLeaf(_NO_LEAF, frozenset(), (expression, wants, timezone)).rewritten()
    return None if found is None else _alternatives(found.leaf)


_NO_LEAF: Final = Leaf("", NO_VALUE)


def _implied(value: Expression, values: ValueSet) -> frozenset[str]:
    return required_attributes(value) if values.parts[Kind.MISSING].is_empty else frozenset()


def _is_interval(values: ValueSet) -> bool:
    """Whether runs of slots say a set: its numbers are the same ones in all kinds of number."""
    numbers = [values.parts[kind] for kind in NUMBERS]
    alike = all(part.is_empty for part in numbers) or all(part.is_full for part in numbers)
    return alike or number_terms(values) is not None


def _alternatives(leaf: Leaf) -> list[Leaf]:
    """A condition as one that intervals of slots say, or as several of which a value meets one at most: by kind."""
    name, values = leaf.attribute, leaf.values
    if not is_computed(name) or values.tests or values.contains(MISSING) or _is_interval(values):
        return [leaf]
    parts = dict(zip(KINDS, values.parts, strict=True))
    found = [Leaf(of_kind(name, kind), ValueSet.of({kind: parts.pop(kind)})) for kind in NUMBERS]
    return [each for each in (*found, Leaf(name, ValueSet.of(parts))) if not each.values.is_empty]


def _computed_leaf(expression: Expression, wants: bool, timezone: str, holds: bool = True) -> _ComputedLeaf:
    """The condition that an expression is TRUE (or FALSE), or, where `holds` is False, that it is not."""
    leaf, value = _leaf_and_value(expression, wants, timezone)
    if not holds:
        if leaf.values.tests:  # such a set has no complement
            leaf, value = Leaf(computed_name(expression, timezone), ValueSet.points([wants])), expression
        leaf = Leaf(leaf.attribute, leaf.values.complement())
    return _ComputedLeaf(leaf, _implied(value, leaf.values), (expression, wants, timezone) if holds else None)


def leaf_of_expression(expression: Expression, wants: bool, timezone: str) -> Leaf:
    """A condition on the computed attribute of the value that an expression compares with constants, or of itself."""
    return _leaf_and_value(expression, wants, timezone)[0]


def _leaf_and_value(expression: Expression, wants: bool, timezone: str) -> tuple[Leaf, Expression]:
    intervals = _range_of_intervals(expression, wants)
    if intervals is not None:
        value, values = intervals
        return Leaf(interval_name(value, timezone), values), value
    found = computed_range(expression, wants, timezone)
    value, values = (expression, ValueSet.points([wants])) if found is None or asks_for_null(found[1]) else found
    return Leaf(computed_name(value, timezone), values), value


def _range_of_intervals(expression: Expression, wants: bool) -> tuple[Expression, ValueSet] | None:
    """What an expression compares with intervals of time, and the microseconds that it must have; else None."""
    match expression:
        case Call("between", (Call() as value, Literal(Micros(low)), Literal(Micros(high)))):
            truth = compare_literal(">=", low, "UTC").conjoin(compare_literal("<=", high, "UTC"))
        case Call(function, (Call() as value, Literal(Micros(micros)))) if function in OPERATORS:
            truth = compare_literal(function, micros, "UTC")
        case Call(function, (Literal(Micros(micros)), Call() as value)) if function in OPERATORS:
            truth = compare_literal(MIRRORED[function], micros, "UTC")
        case _:
            return None
    return (value, truth.true if wants else truth.false) if attributes_of(value) else None


def asks_for_null(values: ValueSet) -> bool:
    """Whether a condition asks for NULL, or for anything else.

    That can be asked of an interval of time too, which has no slot, so it is computed as a whole.
    """
    return not values.parts[Kind.MISSING].is_empty or values == PRESENT


def is_computable(residual: Residual) -> bool:
    """Whether a residual could be a computed attribute: it reads nothing but what it names, and no test holds it."""
    return not reads_whole_event(residual.expression) and membership_in(residual) is None


def has_computed_conditions(node: Node) -> bool:
    """Whether some condition of a tree is an expression that could be a computed attribute."""
    match node:
        case Leaf(_, values):
            return any(isinstance(test.pattern, Computed) for test in values.tests)
        case Residual():
            return is_computable(node)
        case And(children) | Or(children):
            return any(map(has_computed_conditions, children))


def split_leaf(leaf: Leaf) -> tuple[Leaf | None, list[_ComputedLeaf]]:
    """A leaf as what its intervals and patterns ask, None where that is implied, and its computed conditions."""
    tests = [test for test in leaf.values.tests if isinstance(test.pattern, Computed)]
    if not tests:
        return leaf, []
    tests.sort(key=lambda test: test.key)
    found = [_of_test(test) for test in tests]
    rest = ValueSet(leaf.values.parts, leaf.values.tests.difference(tests))
    is_implied = any(test.wanted and rest == domain_of(test) for test in tests)
    return (None if is_implied else Leaf(leaf.attribute, rest)), found


def _of_test(test: Test) -> _ComputedLeaf:
    assert isinstance(test.pattern, Computed)
    return _computed_leaf(test.pattern.expression, test.pattern.wants, test.pattern.timezone, test.wanted)


def names_restricted(condition: Leaf | Residual) -> list[str]:
    """The names of the attributes that a condition on an expression could be a condition on, the expression first."""
    found = split_leaf(condition)[1] if isinstance(condition, Leaf) else [_of_residual(condition)]
    names: list[str] = []
    for each in found:
        other = each.rewritten()
        names += [each.leaf.attribute, *([] if other is None else [other.leaf.attribute])]
    return names


class ExpressionUses:
    """How many conditions share each expression: a count over all conditions of a segment, before any is added."""

    def __init__(self, trees: Iterable[Node], uses_elsewhere: Mapping[str, int] | None = None) -> None:
        """Of trees, and of conditions that are in the segment without a tree: how many have each computed attribute."""
        found = [each for tree in trees for each in _computed_leaves(tree)]
        self._uses = Counter(uses_elsewhere)
        self._uses.update(each.leaf.attribute for each in found)
        self._rewritten: dict[_ComputedLeaf, _ComputedLeaf | None] = {
            each: each.rewritten() for each in found if not self._is_shared(each)
        }
        self._uses += Counter(each.leaf.attribute for each in self._rewritten.values() if each is not None)

    def _is_shared(self, leaf: _ComputedLeaf) -> bool:
        return self._uses[leaf.leaf.attribute] >= MIN_SHARING_CONDITIONS

    def _shared_form(self, leaf: _ComputedLeaf) -> _ComputedLeaf | None:
        """A condition on an expression that several share; None where there is none."""
        if self._is_shared(leaf):
            return leaf
        other = self._rewritten.get(leaf)
        if other is None:
            return None
        # An attribute of events is an axis anyway.
        return other if self._is_shared(other) or not is_computed(other.leaf.attribute) else None

    def lift(self, conjunction: Conjunction) -> LiftedConjunction:
        """A conjunction with its shared expressions as conditions on computed attributes, as alternatives."""
        plain: dict[str, ValueSet] = {}
        computed: list[_ComputedLeaf] = []
        for name, values in conjunction.leaves.items():
            own, found = split_leaf(Leaf(name, values))
            if own is not None:
                plain[name] = own.values
            computed += found
        computed += [_of_residual(each) for each in conjunction.residuals if is_computable(each)]
        forms = [self._shared_form(each) for each in computed]
        shared = [each for each in forms if each is not None]
        if not shared and not any(map(_selects, plain.values())):
            # Every event with the attributes would be a candidate, and the expressions computed for it anyway.
            shared = computed
        implied = frozenset[str]().union(*(each.implied for each in shared))
        leaves = {name: values for name, values in plain.items() if values != PRESENT or name not in implied}
        for each in shared:
            name, values = each.leaf.attribute, each.leaf.values
            # One interval of slots must say both: the index takes the intervals of one axis as alternatives.
            leaves[name] = leaves[name].intersect(values) if name in leaves else values
        alternatives, is_wider = _multiplied_out([Leaf(name, values) for name, values in leaves.items()])
        return LiftedConjunction(
            alternatives,
            [each for each in conjunction.residuals if not is_computable(each)],
            is_wider or len(shared) < len(computed),
            any(is_computed(each.leaf.attribute) for each in shared),
            any(is_computed(each.leaf.attribute) and not self._is_shared(each) for each in shared),
        )

    def indexed(self, node: Node) -> list[str]:
        """The names of the attributes that the index holds because of a tree, those of expressions among them."""
        alternatives = expand(node, MAX_CONJUNCTIONS)
        if alternatives is None:
            return [leaf.attribute for leaf in leaves(lift_tree(node)) if isinstance(leaf, Leaf)]
        lifted = [self.lift(conjunction) for conjunction in alternatives]
        return [leaf.attribute for each in lifted for conditions in each.alternatives for leaf in conditions]

    def is_checked(self, node: Node) -> bool:
        """Whether candidates of a tree must be checked, because the index holds a wider condition."""
        return any(self.lift(conjunction).is_wider for conjunction in expand(node, MAX_CONJUNCTIONS) or ())

    def unshared(self, node: Node) -> list[str]:
        """The names of the expressions that are computed for every event because of a tree, and that too few share."""
        found = dict.fromkeys(map(of_any_kind, filter(is_computed, self.indexed(node))))
        return [name for name in found if self._uses[name] < MIN_SHARING_CONDITIONS]


@dataclass(frozen=True, slots=True)
class LiftedConjunction:
    """A conjunction for the index."""

    alternatives: list[list[Leaf]]
    """Conjunctions, one of which holds at most."""
    residuals: list[Residual]
    is_wider: bool
    """Whether expressions are left out, which must be evaluated on candidates."""
    is_computed: bool
    """Whether there are conditions on computed attributes."""
    is_unshared: bool
    """Whether some expression is computed for every event because of this condition and a few others."""


def _multiplied_out(leaves: list[Leaf]) -> tuple[list[list[Leaf]], bool]:
    """A conjunction as alternatives, and whether conditions are left out because these would be too many."""
    kept: list[list[Leaf]] = []
    count = 1
    for alternatives in sorted(map(_alternatives, leaves), key=len):
        count *= len(alternatives)
        if count <= MAX_CONJUNCTIONS:
            kept.append(alternatives)
    return [list(each) for each in product(*kept)], len(kept) < len(leaves)


def _of_residual(residual: Residual) -> _ComputedLeaf:
    return _computed_leaf(residual.expression, residual.wants, residual.timezone)


def _selects(values: ValueSet) -> bool:
    """Whether a condition leaves few of all events: it needs a value, and not just any."""
    return values.parts[Kind.MISSING].is_empty and values != PRESENT


def lift_tree(node: Node) -> Node:
    """A tree with all its expressions as conditions on computed attributes."""
    match node:
        case Leaf():
            own, found = split_leaf(node)
            parts = [each.leaf for each in found]
            if own is not None:
                parts.insert(0, own)
            return parts[0] if len(parts) == 1 else And(tuple(parts))
        case Residual():
            return _of_residual(node).leaf if is_computable(node) else node
        case And(children):
            return And(tuple(map(lift_tree, children)))
        case Or(children):
            return Or(tuple(map(lift_tree, children)))


def required_values(node: Node, limit: int) -> Iterator[tuple[ComputedAttribute, list[Any]]]:
    """The computed attributes that must have one of some values, at most `limit`, for a tree to hold.

    A value of any kind that is in the set equals one of them, as Python compares.
    """
    for child in node.children if isinstance(node, And) else (node,):
        for each in () if isinstance(child, And | Or) else _computed_leaves(child):
            attribute = computed_attribute(each.leaf.attribute)
            values = each.leaf.values
            kind = KIND_OF_TYPE.get(Kinds().of(attribute.expression))  # type: ignore[arg-type]
            if kind is not None:  # `lower(s) = '5'` asks for no number
                values = ValueSet.of({kind: values.parts[kind], Kind.MISSING: values.parts[Kind.MISSING]})
            found = values.values(limit)
            if found and all(type(value) in _HASHED_BY_VALUE and value == value for value in found):
                yield attribute, found


def _computed_leaves(node: Node) -> Iterator[_ComputedLeaf]:
    match node:
        case Leaf():
            yield from split_leaf(node)[1]
        case Residual():
            if is_computable(node):
                yield _of_residual(node)
        case And(children) | Or(children):
            for child in children:
                yield from _computed_leaves(child)
