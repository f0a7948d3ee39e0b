"""Reading the structure of a pattern: which fields it names, and where `$or` leaves a choice between them.

All fields of an object are to match, and of a `$or` one of its objects. A `$or` is read as a choice only where it
can be one: an array of at least two objects, none of which uses the name of a test as a field. Where some `$or`
is not, all of them are ordinary field names, and if the pattern makes no sense that way either, it is refused.

A field that is named twice counts once: the later place decides, also where the two are inside and outside a `$or`.
That is EventBridge's rule, and it is why the order of a pattern's members is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Final, TypeAlias

from palio.errors import ParseError
from palio.languages.eventbridge.complexity import busiest
from palio.languages.eventbridge.dialect import Dialect
from palio.languages.eventbridge.document import Array, Document, Object, Value, kind_of
from palio.languages.eventbridge.expressions import Alternative, read_alternatives, wildcards_in
from palio.languages.eventbridge.refusal import Place

# Names that an object inside `$or` may not use for a field: those of tests, of operators, and some set aside.
RESERVED: Final = frozenset(
    (
        "exactly equals-ignore-case prefix suffix anything-but exists wildcard numeric cidr = < <= > >= regex "
        "not-wildcard not-equals-ignore-case date-after date-on-or-after date-before date-on-or-before in-date-range "
        "ip-address-in-range ip-address-not-in-range"
    ).split()
)
MOST_CHOICES: Final = 1_000  # combinations that are written out where a field is named twice


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and what its list asks; one alternative is to hold."""

    path: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    size: int

    @property
    def dotted(self) -> str:
        """The name by which fields are told apart: a dot in a name is like a step into an object."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these rules is to hold."""

    branches: tuple[Rule, ...]


Rule: TypeAlias = tuple[Field | Choice, ...]


def read_rule(document: Document, dialect: Dialect) -> Rule:
    """The rule that a pattern is."""
    place = Place(document.text)
    if not isinstance(document.root.content, Object):
        raise place.refuse(document.root, f"a pattern is an object, not {kind_of(document.root)}")
    try:
        rule = _Reader(dialect, chooses=True).object(document.root, place, (), False)
    except ParseError:
        if not _names(document.root, "$or"):
            raise
        try:
            rule = _Reader(dialect, chooses=False).object(document.root, place, (), False)
        except ParseError:
            pass
        else:
            return rule
        raise
    _check_combinations(rule, document, dialect)
    return rule


@dataclass(frozen=True, slots=True)
class _Reader:
    dialect: Dialect
    chooses: bool
    """Whether `$or` leaves a choice, or is a field like any other."""

    def object(self, value: Value, place: Place, path: tuple[str, ...], inside_or: bool) -> Rule:
        assert isinstance(value.content, Object)
        if not value.content.members:
            raise place.refuse(value, "an empty object asks for nothing", 'ask for a field, as in {"a": [1]}')
        parts = (self.member(name, each, place, path, inside_or) for name, each in value.content.members)
        return tuple(chain.from_iterable(parts))

    def member(self, name: str, value: Value, place: Place, path: tuple[str, ...], inside_or: bool) -> Rule:
        inside = place.inside(name)
        if name == "$or" and self.chooses:
            return (self.choice(value, inside, path),)
        if inside_or and name in RESERVED:
            raise inside.refuse(value, f"inside $or, {name!r} cannot be the name of a field")
        match value.content:
            case Object():
                return self.object(value, inside, (*path, name), inside_or)
            case Array(items):
                if not items:
                    raise inside.refuse(value, "an empty array accepts no value")
                return (self.field((*path, name), items, inside),)
        if self.dialect.bare_values:
            return (self.field((*path, name), (value,), inside),)
        raise inside.refuse(
            value,
            f"a field asks with an array of values or with an object, not with {kind_of(value)}",
            "put the value into an array",
        )

    def field(self, path: tuple[str, ...], items: tuple[Value, ...], place: Place) -> Field:
        alternatives = tuple(read_alternatives(items, place, self.dialect))
        limit = self.dialect.busiest_wildcards
        if limit is not None and busiest(wildcards_in(items), limit + 1) > limit:
            raise place.refuse(
                items[0],
                f"{self.dialect.service} finds the wildcards of this field too complex",
                "use fewer of them, or fewer characters that repeat after a *; strict=False lifts the limit",
            )
        return Field(path, alternatives, len(items))

    def choice(self, value: Value, place: Place, path: tuple[str, ...]) -> Choice:
        if not isinstance(value.content, Array):
            raise place.refuse(value, f"$or takes an array of objects, not {kind_of(value)}")
        branches: list[Rule] = []
        for index, item in enumerate(value.content.items):
            if not isinstance(item.content, Object):
                raise place.item(index).refuse(item, f"$or chooses between objects, and here is {kind_of(item)}")
            branches.append(self.object(item, place.item(index), path, True))
        if len(branches) < 2:
            raise place.refuse(value, "$or leaves a choice between at least two objects")
        return Choice(tuple(branches))


def _names(value: Value, name: str) -> bool:
    """Whether some object within a value has a member of this name."""
    match value.content:
        case Object(members):
            return any(each == name or _names(inner, name) for each, inner in members)
        case Array(items):
            return any(_names(item, name) for item in items)
    return False


def _check_combinations(rule: Rule, document: Document, dialect: Dialect) -> None:
    if dialect.most_combinations is not None and _or_combinations(rule) > dialect.most_combinations:
        raise Place(document.text).refuse(
            document.root,
            f"{dialect.service} takes at most {dialect.most_combinations:,} combinations of what $or chooses between",
            "strict=False lifts the limits of the service",
        )


def _or_combinations(rule: Rule) -> int:
    """The lengths of all arrays of `$or`, multiplied."""
    choices = [item for item in rule if isinstance(item, Choice)]
    return prod(len(each.branches) * prod(map(_or_combinations, each.branches)) for each in choices)


def value_combinations(rule: Rule) -> int:
    """How many ways there are to take one value of each list, each list counted once per level of its field."""
    factors = (
        item.size * len(item.path) if isinstance(item, Field) else sum(map(value_combinations, item.branches))
        for item in rule
    )
    return prod(factors)


def fields_of(rule: Rule) -> Iterator[Field]:
    """All fields of a rule."""
    for item in rule:
        if isinstance(item, Field):
            yield item
        else:
            yield from chain.from_iterable(map(fields_of, item.branches))


def repeats_a_field(rule: Rule) -> bool:
    """Whether some choice of branches names a field twice."""
    seen: set[str] = set()
    for item in rule:
        names = {field.dotted for field in fields_of((item,))}
        if seen & names or (isinstance(item, Choice) and any(map(repeats_a_field, item.branches))):
            return True
        seen |= names
    return False


def choices_of(rule: Rule) -> list[dict[str, Field]] | None:
    """Every choice of branches, as the fields it leaves, the last of each name; None where there are too many."""
    found: list[dict[str, Field]] | None = _extended([{}], rule)
    return found


def _extended(choices: list[dict[str, Field]], rule: Rule) -> list[dict[str, Field]] | None:
    for item in rule:
        if isinstance(item, Field):
            choices = [{**choice, item.dotted: item} for choice in choices]
            continue
        longer: list[dict[str, Field]] = []
        for branch in item.branches:
            extended = _extended(choices, branch)
            if extended is None or len(longer) + len(extended) > MOST_CHOICES:
                return None
            longer += extended
        choices = longer
    return choices
