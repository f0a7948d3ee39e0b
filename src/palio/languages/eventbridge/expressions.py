"""Reading the list of a field: values that stand for themselves, and tests such as `{"prefix": "eu-"}`.

A test is an object of one member, its name; what each takes, and what is refused, is what EventBridge's own
compiler of rules takes and refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Final

from palio.filters.values import ValueSet
from palio.languages.eventbridge import texts
from palio.languages.eventbridge.conditions import ANYTHING, Condition, exactly, in_network, none_of, within
from palio.languages.eventbridge.dialect import Dialect
from palio.languages.eventbridge.document import Array, Object, Value, kind_of
from palio.languages.eventbridge.networks import read_network
from palio.languages.eventbridge.numbers import comparable, equal_to, read_numeric
from palio.languages.eventbridge.refusal import Place


@dataclass(frozen=True, slots=True)
class Absent:
    """The field is not there."""


# What a test says may depend on the name of the attribute it is asked of.
Asked = Callable[[str], Condition]
Alternative = Condition | Asked | Absent

_PARTS: Final[Mapping[str, Callable[[str], Condition]]] = {
    "exactly": lambda text: exactly([text]),
    "prefix": texts.prefix,
    "suffix": texts.suffix,
    "equals-ignore-case": texts.equal_in_any_case,
    "wildcard": texts.wildcard,
}
_IN_ANY_CASE: Final[Mapping[str, Callable[[str], Condition]]] = {
    "prefix": texts.prefix_in_any_case,
    "suffix": texts.suffix_in_any_case,
}


def read_alternatives(items: tuple[Value, ...], place: Place, dialect: Dialect) -> list[Alternative]:
    """What the items of a field's list ask, one of which is to hold."""
    plain: list[str | bool | None] = []
    numbers: list[ValueSet] = []
    asked: list[Alternative] = []
    for index, item in enumerate(items):
        match item.content:
            case None | bool() | str():
                plain.append(item.content)
            case Decimal():
                numbers.append(_exact_number(item, place.item(index), dialect))
            case Object():
                asked.append(_read_test(item, place.item(index), dialect))
            case Array():
                raise place.item(index).refuse(
                    item, "an array inside the list of a field", "the list holds values and tests side by side"
                )
    if plain:
        asked.append(exactly(plain))
    asked.extend(within(each) for each in numbers)
    return asked


def wildcards_in(items: tuple[Value, ...]) -> Iterator[str]:
    """The texts of all wildcards in a field's list, wanted or excluded."""
    for item in items:
        match item.content:
            case Object((("wildcard", Value(str(text))),)):
                yield text
            case Object((("wildcard", Value(Array(several))),)):
                yield from (each.content for each in several if isinstance(each.content, str))
            case Object((("anything-but", inner),)):
                yield from wildcards_in((inner,))


def _exact_number(item: Value, place: Place, dialect: Dialect) -> ValueSet:
    literal = item.content
    assert isinstance(literal, Decimal)
    if dialect.largest_exact is not None and literal.copy_abs() > dialect.largest_exact:
        bound = f"{dialect.largest_exact:,f}"
        raise place.refuse(
            item,
            f"{dialect.service} compares numbers between -{bound} and {bound}",
            "strict=False lifts the limits of the service",
        )
    return equal_to(literal, dialect)


def _read_test(item: Value, place: Place, dialect: Dialect) -> Alternative:
    name, operand = _only_member(item, place, dialect.tests, dialect)
    inside = place.inside(name)
    match name:
        case "exists":
            if not isinstance(operand.content, bool):
                raise inside.refuse(operand, f"exists is true or false, not {kind_of(operand)}")
            return ANYTHING if operand.content else Absent()
        case "numeric":
            return within(read_numeric(operand, inside, dialect))
        case "cidr":
            return partial(in_network, network=read_network(operand, inside))
        case "anything-but":
            return _read_anything_but(operand, inside, dialect)
        case "prefix" | "suffix" if dialect.ignores_case_in_parts and isinstance(operand.content, Object):
            _, folded = _only_member(operand, inside, frozenset({"equals-ignore-case"}), dialect)
            return _IN_ANY_CASE[name](_text(folded, inside.inside("equals-ignore-case")))
    return _part(name, operand, inside)


def _only_member(value: Value, place: Place, known: frozenset[str], dialect: Dialect) -> tuple[str, Value]:
    """The one member of a test, whose name must be known."""
    assert isinstance(value.content, Object)
    members = value.content.members
    names = ", ".join(sorted(known))
    if not members:
        raise place.refuse(value, "a test without a name", f"{dialect.service} knows {names}")
    name, operand = members[0]
    if name not in known:
        raise place.refuse(value, f"{dialect.service} has no test {name[:80]!r} here", f"what may stand here: {names}")
    if len(members) > 1:
        raise place.refuse(
            members[1][1],
            f"a test has one name, and here is a second one, {members[1][0][:80]!r}",
            "write each test as an object of its own; one of them is to hold",
        )
    return name, operand


def _text(operand: Value, place: Place) -> str:
    if not isinstance(operand.content, str):
        raise place.refuse(operand, f"this takes a string, not {kind_of(operand)}")
    return operand.content


def _part(name: str, operand: Value, place: Place) -> Condition:
    text = _text(operand, place)
    try:
        return _PARTS[name](text)
    except ValueError as error:
        raise place.refuse(operand, str(error), r"\* is an asterisk and \\ a backslash") from None


def _read_anything_but(operand: Value, place: Place, dialect: Dialect) -> Condition:
    match operand.content:
        case str():
            return none_of([exactly([operand.content])])
        case Decimal():
            return none_of([within(equal_to(comparable(operand, place, dialect), dialect))])
        case Array(items):
            return none_of([_all_of_a_kind(items, operand, place, dialect)])
        case Object():
            return none_of(_read_excluded(operand, place, dialect))
    raise place.refuse(
        operand, f"anything-but takes a string, a number, a list of one kind of them or a test, not {kind_of(operand)}"
    )


def _all_of_a_kind(items: tuple[Value, ...], operand: Value, place: Place, dialect: Dialect) -> Condition:
    """The values of a list of strings alone, or of numbers alone."""
    strings: list[str | bool | None] = []
    sets: list[ValueSet] = []
    for index, item in enumerate(items):
        match item.content:
            case str():
                strings.append(item.content)
            case Decimal():
                sets.append(equal_to(comparable(item, place.item(index), dialect), dialect))
            case _:
                raise place.item(index).refuse(
                    item, f"the list of anything-but holds strings or numbers, not {kind_of(item)}"
                )
    if not items or (strings and sets):
        raise place.refuse(operand, "the list of anything-but is of strings alone or of numbers alone")
    return exactly(strings) if strings else Condition(tuple(sets), ())


def _read_excluded(operand: Value, place: Place, dialect: Dialect) -> list[Condition]:
    """The tests inside `anything-but`: one name, with a text or a list of them."""
    name, inner = _only_member(operand, place, dialect.excluded, dialect)
    inside = place.inside(name)
    if not (isinstance(inner.content, Array) and dialect.excludes_lists):
        return [_excluded_part(name, inner, inside)]
    items = inner.content.items
    if not items:
        raise inside.refuse(inner, "an empty list excludes nothing")
    return [_excluded_part(name, item, inside.item(index)) for index, item in enumerate(items)]


def _excluded_part(name: str, operand: Value, place: Place) -> Condition:
    if operand.content == "" and name in ("prefix", "suffix"):
        raise place.refuse(operand, f"every string has the empty {name}, and nothing would be left")
    return _part(name, operand, place)
