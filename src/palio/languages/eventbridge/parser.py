"""Parser of event patterns: the fields of a pattern, and where `$or` leaves a choice between them.

All fields of an object are to match, and of a `$or` one of its objects. A `$or` is a choice only where it can be one:
an array of at least two objects, none of which uses the name of an operator as a field. Where some `$or` is not, all of
them are ordinary field names, and if the pattern makes no sense that way either, it is refused.

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
from palio.languages.eventbridge.dialect import Dialect, max_active_states
from palio.languages.eventbridge.document import ArrayNode, Document, JsonValue, Location, ObjectNode, kind_of
from palio.languages.eventbridge.operators import Alternative, parse_alternatives, wildcards_in

# Names that an object inside `$or` may not use for a field: those of tests, of operators, and some set aside.
RESERVED: Final = frozenset(
    (
        "exactly equals-ignore-case prefix suffix anything-but exists wildcard numeric cidr = < <= > >= regex "
        "not-wildcard not-equals-ignore-case date-after date-on-or-after date-before date-on-or-before in-date-range "
        "ip-address-in-range ip-address-not-in-range"
    ).split()
)
MAX_CHOICES: Final = 1_000
"""Combinations of branches that are expanded where a field is named twice."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and what its list asks; one alternative is to hold."""

    path: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    size: int

    @property
    def dotted(self) -> str:
        """The identity of a field: a dot in a name counts as a step into an object."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these rules is to hold."""

    branches: tuple[Rule, ...]


Rule: TypeAlias = tuple[Field | Choice, ...]


def parse_rule(document: Document, dialect: Dialect) -> Rule:
    """The rule of a pattern."""
    location = Location(document.text)
    if not isinstance(document.root.content, ObjectNode):
        raise location.refuse(document.root, f"a pattern is an object, not {kind_of(document.root)}")
    try:
        rule = _RuleParser(dialect, or_is_choice=True).object(document.root, location, (), False)
    except ParseError:
        if not _has_member(document.root, "$or"):
            raise
        # Where some `$or` is no choice, all of them are field names. If that fails too, the first error is raised. With
        # no choices left, there are no combinations to count.
        try:
            rule = _RuleParser(dialect, or_is_choice=False).object(document.root, location, (), False)
        except ParseError:
            pass
        else:
            return rule
        raise
    _check_or_combinations(rule, document, dialect)
    return rule


@dataclass(frozen=True, slots=True)
class _RuleParser:
    dialect: Dialect
    or_is_choice: bool
    """Whether `$or` leaves a choice, or is a field like any other."""

    def object(self, value: JsonValue, location: Location, path: tuple[str, ...], inside_or: bool) -> Rule:
        assert isinstance(value.content, ObjectNode)
        if not value.content.members:
            raise location.refuse(value, "an empty object asks for nothing", 'ask for a field, as in {"a": [1]}')
        parts = (self.member(name, each, location, path, inside_or) for name, each in value.content.members)
        return tuple(chain.from_iterable(parts))

    def member(self, name: str, value: JsonValue, location: Location, path: tuple[str, ...], inside_or: bool) -> Rule:
        inside = location.inside(name)
        if name == "$or" and self.or_is_choice:
            return (self.choice(value, inside, path),)
        # Refused only inside `$or`: `parse_rule` then takes `$or` for a field whose list holds tests.
        if inside_or and name in RESERVED:
            raise inside.refuse(value, f"inside $or, {name!r} cannot be the name of a field")
        match value.content:
            case ObjectNode():
                return self.object(value, inside, (*path, name), inside_or)
            case ArrayNode(items):
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

    def field(self, path: tuple[str, ...], items: tuple[JsonValue, ...], location: Location) -> Field:
        alternatives = tuple(parse_alternatives(items, location, self.dialect))
        limit = self.dialect.max_wildcard_states
        # Counted up to one beyond the limit, which is enough to refuse.
        if limit is not None and max_active_states(wildcards_in(items), limit + 1) > limit:
            raise location.refuse(
                items[0],
                f"{self.dialect.service} finds the wildcards of this field too complex",
                "use fewer of them, or fewer characters that repeat after a *; strict=False lifts the limit",
            )
        return Field(path, alternatives, len(items))

    def choice(self, value: JsonValue, location: Location, path: tuple[str, ...]) -> Choice:
        if not isinstance(value.content, ArrayNode):
            raise location.refuse(value, f"$or takes an array of objects, not {kind_of(value)}")
        branches: list[Rule] = []
        for index, item in enumerate(value.content.items):
            if not isinstance(item.content, ObjectNode):
                raise location.item(index).refuse(item, f"$or chooses between objects, and here is {kind_of(item)}")
            branches.append(self.object(item, location.item(index), path, True))
        if len(branches) < 2:
            raise location.refuse(value, "$or leaves a choice between at least two objects")
        return Choice(tuple(branches))


def _has_member(value: JsonValue, name: str) -> bool:
    """Whether some object within a value has a member of this name."""
    match value.content:
        case ObjectNode(members):
            return any(each == name or _has_member(inner, name) for each, inner in members)
        case ArrayNode(items):
            return any(_has_member(item, name) for item in items)
    return False


def _check_or_combinations(rule: Rule, document: Document, dialect: Dialect) -> None:
    if dialect.max_or_combinations is not None and _or_combinations(rule) > dialect.max_or_combinations:
        raise Location(document.text).refuse(
            document.root,
            f"{dialect.service} takes at most {dialect.max_or_combinations:,} combinations of what $or chooses between",
            "strict=False lifts the limits of the service",
        )


def _or_combinations(rule: Rule) -> int:
    """The lengths of all arrays of `$or`, multiplied."""
    choices = [item for item in rule if isinstance(item, Choice)]
    return prod(len(each.branches) * prod(map(_or_combinations, each.branches)) for each in choices)


def value_combinations(rule: Rule) -> int:
    """The combinations of one value from each list, as SNS counts them: a list counts once per level of its field."""
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


def has_repeated_field(rule: Rule) -> bool:
    """Whether some choice of branches names a field twice."""
    seen: set[str] = set()
    for item in rule:
        names = {field.dotted for field in fields_of((item,))}
        if seen & names or (isinstance(item, Choice) and any(map(has_repeated_field, item.branches))):
            return True
        seen |= names
    return False


def choices_of(rule: Rule) -> list[dict[str, Field]] | None:
    """Every choice of branches, as the fields it leaves, the last of each name; None where there are too many."""
    return _extend([{}], rule)


def _extend(choices: list[dict[str, Field]], rule: Rule) -> list[dict[str, Field]] | None:
    for item in rule:
        if isinstance(item, Field):
            # A field that is named again replaces the earlier one: the last counts.
            choices = [{**choice, item.dotted: item} for choice in choices]
            continue
        longer: list[dict[str, Field]] = []
        for branch in item.branches:
            extended = _extend(choices, branch)
            if extended is None or len(longer) + len(extended) > MAX_CHOICES:
                return None
            longer += extended
        choices = longer
    return choices
