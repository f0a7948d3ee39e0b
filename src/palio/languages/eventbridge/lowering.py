"""Lowering of event patterns to filters.

A field is an attribute by its path, and its list a set of values, so the index holds the conditions of a pattern as
they are. A rule is two-valued: it is FALSE wherever it is not TRUE.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from palio.events.names import dot_readings, join_path
from palio.filters.filter import Filter
from palio.filters.tree import And, Leaf, Node, Or
from palio.filters.value_sets import ValueSet
from palio.languages.eventbridge.dialect import Dialect
from palio.languages.eventbridge.document import Document, Location
from palio.languages.eventbridge.operators import Absent
from palio.languages.eventbridge.parser import MAX_CHOICES, Field, Rule, choices_of, has_repeated_field
from palio.languages.eventbridge.value_predicates import ABSENT, EXISTING, ValueTest, none_of
from palio.languages.grammar import SPLIT_HINT, too_many_conditions

_MAX_DOTS: Final = 5  # in the names of one field; each doubles the ways to read them


def lower_rule(rule: Rule, document: Document, dialect: Dialect) -> Filter:
    """The filter of a rule."""
    # Of a field named twice the last one counts, and which one is last may depend on the branch of a `$or`. Only then
    # are the combinations of branches written out; their number may grow exponentially.
    if has_repeated_field(rule):
        choices = choices_of(rule)
        if choices is None:
            raise Location(document.text).refuse(
                document.root,
                f"a field is named twice, and $or leaves more than {MAX_CHOICES:,} choices around it",
                "name each field once",
            )
        lowered = [tuple(choice.values()) for choice in choices]
        holds: Node = Or(tuple(_lower_true(fields, document, dialect) for fields in lowered))
        _check_size(holds, document)
        return Filter.of_tree(
            holds,
            lambda: And(tuple(_lower_false(fields, document, dialect) for fields in lowered)),
        )
    holds = _lower_true(rule, document, dialect)
    _check_size(holds, document)
    return Filter.of_tree(holds, lambda: _lower_false(rule, document, dialect))


def _check_size(tree: Node, document: Document) -> None:
    refusal = too_many_conditions(tree, "pattern")
    if refusal is not None:
        raise Location(document.text).refuse(document.root, refusal, SPLIT_HINT)


def _lower_true(rule: Rule, document: Document, dialect: Dialect) -> Node:
    """The tree where a rule is TRUE: all of its fields match, and some branch of each choice."""
    parts = (
        _lower_field_true(item, _names_of(item, document, dialect))
        if isinstance(item, Field)
        else Or(tuple(_lower_true(branch, document, dialect) for branch in item.branches))
        for item in rule
    )
    return And(tuple(parts))


def _lower_false(rule: Rule, document: Document, dialect: Dialect) -> Node:
    """The tree where a rule is FALSE, by De Morgan's laws."""
    parts = (
        _lower_field_false(item, _names_of(item, document, dialect))
        if isinstance(item, Field)
        else And(tuple(_lower_false(branch, document, dialect) for branch in item.branches))
        for item in rule
    )
    return Or(tuple(parts))


def _lower_field_true(field: Field, names: list[str]) -> Node:
    alternatives: list[Node] = [
        Leaf(name, values) for name in names for test in _conditions(field, name) for values in test.inside
    ]
    if _wants_absence(field):
        # A field is absent only if it is absent under every reading of the dots in its name.
        alternatives.append(And(tuple(Leaf(name, ABSENT) for name in names)))
    return Or(tuple(alternatives))


def _lower_field_false(field: Field, names: list[str]) -> Node:
    failed: list[Node] = [
        Or((Leaf(name, ABSENT), *(Leaf(name, values) for values in sets)))
        for name in names
        for sets in _outside(_conditions(field, name))
    ]
    if _wants_absence(field):
        failed.append(Or(tuple(Leaf(name, EXISTING) for name in names)))
    return And(tuple(failed))


def _outside(conditions: list[ValueTest]) -> Iterator[tuple[ValueSet, ...]]:
    """Unions of sets: no condition holds for a value exactly if the value is in all of these unions.

    Conditions that hold in one set share a union, so that a field with a long list has few.
    """
    single = [test for test in conditions if len(test.inside) == 1]
    if single:
        yield none_of(single).inside
    yield from (test.outside for test in conditions if len(test.inside) > 1)


def _conditions(field: Field, name: str) -> list[ValueTest]:
    present = [each for each in field.alternatives if not isinstance(each, Absent)]
    return [each if isinstance(each, ValueTest) else each(name) for each in present]


def _wants_absence(field: Field) -> bool:
    return any(isinstance(each, Absent) for each in field.alternatives)


def _names_of(field: Field, document: Document, dialect: Dialect) -> list[str]:
    """The attributes a field may be: several where a name in its path has a dot, which may be a step as well.

    Where events may be flattened, a step may be a dot of a name, too, as it is to EventBridge's engine, which flattens
    patterns and events alike.
    """
    names = (field.dotted,) if dialect.flattened else field.path
    if not dialect.dots_are_steps or not any("." in name for name in names):
        return [join_path(field.path)]
    if sum(name.count(".") for name in names) > _MAX_DOTS:
        steps = (
            "steps and dots in names, each of which may be either"
            if dialect.flattened
            else ("dots in names, each of which may be a step into an object")
        )
        raise Location(document.text).refuse(
            document.root,
            f"{field.dotted[:80]}: more than {_MAX_DOTS} {steps}",
            "leave out `flattened`" if dialect.flattened else "write objects for the steps",
        )
    readings = product(*map(dot_readings, names))
    return [join_path(step for steps in reading for step in steps) for reading in readings]
