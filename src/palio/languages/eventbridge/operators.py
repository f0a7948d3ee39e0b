"""Comparison operators of a field: values that stand for themselves, and tests such as `{"prefix": "eu-"}`.

A test is an object of one member, the name of an operator. Its operands are accepted and refused as by EventBridge's
own compiler of rules.

Numbers are compared by value, however they are written: 300, 300.0 and 3.0e2 are one number. What `numeric` and
`anything-but` compare with must be a number that binary64 keeps exactly as it was written, because events are
read that way; a number that only stands for itself may have any digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from functools import partial
from ipaddress import ip_address
from typing import Final

from palio.events.values import fits_decimal
from palio.filters.comparisons import compare
from palio.filters.kinds import Kind
from palio.filters.value_sets import NO_VALUE, ValueSet
from palio.languages.eventbridge.dialect import Dialect
from palio.languages.eventbridge.document import ArrayNode, JsonValue, Location, ObjectNode, kind_of
from palio.languages.eventbridge.value_predicates import (
    ANYTHING,
    ValueTest,
    equals_ignoring_case,
    exactly,
    in_network,
    none_of,
    prefix,
    prefix_ignoring_case,
    suffix,
    suffix_ignoring_case,
    wildcard,
    within,
)


@dataclass(frozen=True, slots=True)
class Absent:
    """The field is missing."""


# A computed test is bound to the name of its attribute, so it is made when the name is known.
DeferredTest = Callable[[str], ValueTest]
Alternative = ValueTest | DeferredTest | Absent

_STRING_TESTS: Final[Mapping[str, Callable[[str], ValueTest]]] = {
    "exactly": lambda text: exactly([text]),
    "prefix": prefix,
    "suffix": suffix,
    "equals-ignore-case": equals_ignoring_case,
    "wildcard": wildcard,
}
_STRING_TESTS_IGNORING_CASE: Final[Mapping[str, Callable[[str], ValueTest]]] = {
    "prefix": prefix_ignoring_case,
    "suffix": suffix_ignoring_case,
}


def parse_alternatives(items: tuple[JsonValue, ...], location: Location, dialect: Dialect) -> list[Alternative]:
    """The tests of a field's list, one of which is to hold."""
    plain: list[str | bool | None] = []
    numbers: list[ValueSet] = []
    alternatives: list[Alternative] = []
    for index, item in enumerate(items):
        match item.content:
            case None | bool() | str():
                plain.append(item.content)
            case Decimal():
                numbers.append(_exact_number(item, location.item(index), dialect))
            case ObjectNode():
                alternatives.append(_parse_test(item, location.item(index), dialect))
            case ArrayNode():
                raise location.item(index).refuse(
                    item, "an array inside the list of a field", "the list holds values and tests side by side"
                )
    # Plain values are one set, however many there are; each number may be a set of its own, see `_equal_numbers`.
    if plain:
        alternatives.append(exactly(plain))
    alternatives.extend(within(values) for values in numbers)
    return alternatives


def wildcards_in(items: tuple[JsonValue, ...]) -> Iterator[str]:
    """The texts of all wildcards in a field's list, wanted or excluded."""
    for item in items:
        match item.content:
            case ObjectNode((("wildcard", JsonValue(str(text))),)):
                yield text
            case ObjectNode((("wildcard", JsonValue(ArrayNode(several))),)):
                yield from (each.content for each in several if isinstance(each.content, str))
            case ObjectNode((("anything-but", inner),)):
                yield from wildcards_in((inner,))


def _exact_number(item: JsonValue, location: Location, dialect: Dialect) -> ValueSet:
    assert isinstance(item.content, Decimal)
    _check_bound(item, dialect.max_exact_number, location, dialect)
    return _equal_numbers(item.content, dialect)


def _check_bound(item: JsonValue, bound: Decimal | None, location: Location, dialect: Dialect) -> None:
    assert isinstance(item.content, Decimal)
    if bound is not None and item.content.copy_abs() > bound:
        raise location.refuse(
            item,
            f"{dialect.service} compares numbers between -{bound:,f} and {bound:,f}",
            "strict=False lifts the limits of the service",
        )


def _parse_test(item: JsonValue, location: Location, dialect: Dialect) -> Alternative:
    name, operand = _only_member(item, location, dialect.operators, dialect)
    inside = location.inside(name)
    match name:
        case "exists":
            if not isinstance(operand.content, bool):
                raise inside.refuse(operand, f"exists is true or false, not {kind_of(operand)}")
            return ANYTHING if operand.content else Absent()
        case "numeric":
            return within(_parse_numeric(operand, inside, dialect))
        case "cidr":
            return partial(in_network, network=_parse_network(operand, inside))
        case "anything-but":
            return _parse_anything_but(operand, inside, dialect)
        case "prefix" | "suffix" if dialect.ignores_case_in_parts and isinstance(operand.content, ObjectNode):
            _, folded = _only_member(operand, inside, frozenset({"equals-ignore-case"}), dialect)
            return _STRING_TESTS_IGNORING_CASE[name](_text(folded, inside.inside("equals-ignore-case")))
    return _string_test(name, operand, inside)


def _only_member(
    value: JsonValue, location: Location, known: frozenset[str], dialect: Dialect
) -> tuple[str, JsonValue]:
    """The one member of a test, whose name must be known."""
    assert isinstance(value.content, ObjectNode)
    members = value.content.members
    names = ", ".join(sorted(known))
    if not members:
        raise location.refuse(value, "a test without a name", f"{dialect.service} knows {names}")
    name, operand = members[0]
    if name not in known:
        raise location.refuse(
            value, f"{dialect.service} has no test {name[:80]!r} here", f"what may stand here: {names}"
        )
    if len(members) > 1:
        raise location.refuse(
            members[1][1],
            f"a test has one name, and here is a second one, {members[1][0][:80]!r}",
            "write each test as an object of its own; one of them is to hold",
        )
    return name, operand


def _text(operand: JsonValue, location: Location) -> str:
    if not isinstance(operand.content, str):
        raise location.refuse(operand, f"this takes a string, not {kind_of(operand)}")
    return operand.content


def _string_test(name: str, operand: JsonValue, location: Location) -> ValueTest:
    text = _text(operand, location)
    try:
        return _STRING_TESTS[name](text)
    except ValueError as error:
        raise location.refuse(operand, str(error), r"\* is an asterisk and \\ a backslash") from None


def _parse_anything_but(operand: JsonValue, location: Location, dialect: Dialect) -> ValueTest:
    match operand.content:
        case str():
            return none_of([exactly([operand.content])])
        case Decimal():
            return none_of([within(_equal_numbers(_comparable_number(operand, location, dialect), dialect))])
        case ArrayNode(items):
            return none_of([_parse_uniform_list(items, operand, location, dialect)])
        case ObjectNode():
            return none_of(_parse_excluded(operand, location, dialect))
    raise location.refuse(
        operand, f"anything-but takes a string, a number, a list of one kind of them or a test, not {kind_of(operand)}"
    )


def _parse_uniform_list(
    items: tuple[JsonValue, ...], operand: JsonValue, location: Location, dialect: Dialect
) -> ValueTest:
    """The values of a list of strings alone, or of numbers alone."""
    strings: list[str | bool | None] = []
    sets: list[ValueSet] = []
    for index, item in enumerate(items):
        match item.content:
            case str():
                strings.append(item.content)
            case Decimal():
                sets.append(_equal_numbers(_comparable_number(item, location.item(index), dialect), dialect))
            case _:
                raise location.item(index).refuse(
                    item, f"the list of anything-but holds strings or numbers, not {kind_of(item)}"
                )
    if not items or (strings and sets):
        raise location.refuse(operand, "the list of anything-but is of strings alone or of numbers alone")
    return exactly(strings) if strings else ValueTest(tuple(sets), ())


def _parse_excluded(operand: JsonValue, location: Location, dialect: Dialect) -> list[ValueTest]:
    """The tests inside `anything-but`: one name, with a text or a list of them."""
    name, inner = _only_member(operand, location, dialect.excludable, dialect)
    inside = location.inside(name)
    if not (isinstance(inner.content, ArrayNode) and dialect.excludes_lists):
        return [_parse_excluded_test(name, inner, inside)]
    items = inner.content.items
    if not items:
        raise inside.refuse(inner, "an empty list excludes nothing")
    return [_parse_excluded_test(name, item, inside.item(index)) for index, item in enumerate(items)]


def _parse_excluded_test(name: str, operand: JsonValue, location: Location) -> ValueTest:
    if operand.content == "" and name in ("prefix", "suffix"):
        raise location.refuse(operand, f"every string has the empty {name}, and nothing would be left")
    return _string_test(name, operand, location)


_MAX_EXPONENT: Final = 308  # of binary64
_MIN_EXPONENT: Final = -324
_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MAX_TRUNCATED: Final = Decimal("1e20")  # beyond that, no number of an event has digits behind the point
_LOWER: Final = (">", ">=")
_UPPER: Final = ("<", "<=")


def _equal_numbers(literal: Decimal, dialect: Dialect) -> ValueSet:
    """The numbers equal to a literal; none where no event can hold it."""
    if dialect.fraction_digits is not None and literal.copy_abs() < _MAX_TRUNCATED:
        return _compare_truncated("=", literal, dialect.fraction_digits)
    if literal.is_zero():
        return _compare_exactly("=", Decimal(0))
    if not _MIN_EXPONENT <= literal.adjusted() <= _MAX_EXPONENT:
        return NO_VALUE
    if _is_exact_binary64(literal):
        return _compare_exactly("=", literal)
    # Where binary64 rounds the literal, an event's fraction with these digits is rounded to the same float when it is
    # read; a whole number keeps its digits.
    is_rounded = literal != literal.to_integral_value() and float(literal) != 0
    exact = _compare_exactly("=", literal) if _is_decimal(literal) else NO_VALUE
    rounded = compare("=", float(literal)).true if is_rounded else NO_VALUE
    return ValueSet.of(
        {
            Kind.INTEGER: exact.part(Kind.INTEGER),
            Kind.DECIMAL: exact.part(Kind.DECIMAL),
            Kind.FLOAT: rounded.part(Kind.FLOAT),
        }
    )


def _compare_exactly(operator: str, literal: Decimal) -> ValueSet:
    """The numbers that satisfy a comparison with a literal: exactly, but for floats, which compare as binary64."""
    # A literal with more digits than any decimal of an event compares with all of them as its nearest float does.
    return compare(operator, literal if _is_decimal(literal) else float(literal)).true


def _compare(operator: str, literal: Decimal, dialect: Dialect) -> ValueSet:
    if dialect.fraction_digits is not None and literal.copy_abs() < _MAX_TRUNCATED:
        return _compare_truncated(operator, literal, dialect.fraction_digits)
    return _compare_exactly(operator, literal)


def _compare_truncated(operator: str, literal: Decimal, digits: int) -> ValueSet:
    """The numbers that satisfy a comparison with a literal where both are cut to some digits behind the point."""
    # All numbers of the interval [first, first + unit) are cut to the same number as the literal.
    unit = Decimal(1).scaleb(-digits)
    first = literal.quantize(unit, ROUND_FLOOR, _EXACT)
    match operator:
        case "=":
            return _compare_exactly(">=", first).intersect(_compare_exactly("<", first + unit))
        case "<" | ">=":
            return _compare_exactly(operator, first)
        case "<=":
            return _compare_exactly("<", first + unit)
    return _compare_exactly(">=", first + unit)


def _is_decimal(literal: Decimal) -> bool:
    """Whether an event can hold a number as a decimal: with 38 digits, of which any part is behind the point."""
    # Zeros at the end are no digits that the decimal must hold: 1.0 with fifty zeros is 1.
    return fits_decimal(literal.normalize(_EXACT))


def _is_exact_binary64(literal: Decimal) -> bool:
    """Whether binary64 keeps a number as it was written."""
    return Decimal(repr(float(literal))) == literal


def _comparable_number(value: JsonValue, location: Location, dialect: Dialect) -> Decimal:
    """The number of a value, if values of events can be compared with it."""
    literal = value.content
    assert isinstance(literal, Decimal)
    if literal.is_zero():
        return Decimal(0)
    in_range = _MIN_EXPONENT <= literal.adjusted() <= _MAX_EXPONENT
    # The range first: float() of a number beyond it is infinite, or zero.
    if not in_range or not _is_exact_binary64(literal):
        raise location.refuse(
            value,
            "this number cannot be compared: binary64 does not keep it exactly",
            "write it with fewer digits",
        )
    _check_bound(value, dialect.max_number, location, dialect)
    return literal


def _parse_numeric(operand: JsonValue, location: Location, dialect: Dialect) -> ValueSet:
    """The numbers that satisfy the operand of `numeric`: one comparison, or a lower and an upper bound."""
    if not isinstance(operand.content, ArrayNode):
        raise location.refuse(operand, f"numeric takes an array, not {kind_of(operand)}", _FORM)
    items = operand.content.items
    if not items:
        raise location.refuse(operand, "numeric takes an operator and a number, and here is nothing", _FORM)
    operator = _operator(items[0], location, ("=", *_LOWER, *_UPPER))
    first = _operand(items, 1, operand, location, dialect)
    values = _compare(operator, first, dialect)
    if len(items) == 2:
        return values
    if operator not in _LOWER:
        raise location.refuse(items[2], f"nothing may follow after {operator} and its number", _FORM)
    second = _operator(items[2], location, _UPPER)
    last = _operand(items, 3, operand, location, dialect)
    if len(items) > 4:
        raise location.refuse(items[4], "a range has a lower and an upper bound, and nothing more", _FORM)
    if first >= last:
        raise location.refuse(items[3], f"the range is empty: its lower bound {first} is not below {last}")
    return values.intersect(_compare(second, last, dialect))


_FORM: Final = 'write ["=", 5], [">", 0], ["<=", 9] or a range [">=", 0, "<", 10]'


def _operator(item: JsonValue, location: Location, allowed: tuple[str, ...]) -> str:
    if not isinstance(item.content, str):
        raise location.refuse(item, f"an operator is a string, not {kind_of(item)}", _FORM)
    if item.content not in allowed:
        raise location.refuse(item, f"the operator here is one of {' '.join(allowed)}, not {item.content!r}", _FORM)
    return item.content


def _operand(
    items: tuple[JsonValue, ...], index: int, operand: JsonValue, location: Location, dialect: Dialect
) -> Decimal:
    operator = items[index - 1].content
    if index >= len(items):
        raise location.refuse(operand, f"{operator} is followed by no number", _FORM)
    if not isinstance(items[index].content, Decimal):
        raise location.refuse(items[index], f"{operator} takes a number, not {kind_of(items[index])}", _FORM)
    return _comparable_number(items[index], location, dialect)


def _parse_network(operand: JsonValue, location: Location) -> str:
    """A network in CIDR notation, checked; host bits are ignored."""
    text = _text(operand, location)
    address, slash, mask = text.partition("/")
    if not slash or not mask or "/" in mask:
        raise location.refuse(
            operand, "a network is an address, a slash and the number of its bits", "as in 10.0.0.0/8"
        )
    if not (mask.isascii() and mask.isdigit() and len(mask) <= 4):  # a long mask is never converted
        raise location.refuse(operand, f"the bits of a network are a whole number, not {mask[:80]!r}")
    try:
        parsed = ip_address(_decimal_octets(address))
    except ValueError:
        raise location.refuse(operand, f"{address[:80]!r} is no IP address") from None
    widest = parsed.max_prefixlen - 1  # EventBridge refuses /32 and /128, networks of one address
    if int(mask) > widest:
        raise location.refuse(
            operand,
            f"a network of IPv{parsed.version} has at most {widest} bits",
            "a single address is written as a string by itself",
        )
    return f"{parsed}/{int(mask)}"


def _decimal_octets(address: str) -> str:
    """An address without leading zeros in its octets, which Python refuses; ValueError for a mixed notation."""
    # Python reads a zone (fe80::1%eth0) and IPv4 inside IPv6; both are refused here.
    if "%" in address or (":" in address and "." in address):
        raise ValueError(address)
    octets = address.split(".")
    if all(octet.isascii() and octet.isdigit() and len(octet) < 10 for octet in octets):
        return ".".join(str(int(octet)) for octet in octets)
    return address
