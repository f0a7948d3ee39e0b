"""What a message's attributes say, as an event that policies can be asked of."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from palio.errors import EventError
from palio.events.json import parse_value
from palio.events.limits import DEFAULT_LIMITS
from palio.events.values import type_name


def event_of_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The message attributes that SNS filters by, by name: strings, numbers, and arrays of both.

    An attribute is as it is published (`DataType`, `StringValue`) or as it is delivered (`Type`, `Value`). Binary
    attributes are left out, as SNS passes them over.

    >>> event_of_attributes({"store": {"DataType": "String", "StringValue": "example_corp"},
    ...                      "price": {"Type": "Number", "Value": "301.5"},
    ...                      "kinds": {"Type": "String.Array", "Value": '["rugby", 7, null]'}})
    {'store': 'example_corp', 'price': Decimal('301.5'), 'kinds': ['rugby', 7, None]}
    """
    if not isinstance(attributes, Mapping):
        raise EventError(f"message attributes are a mapping of names, not {type_name(attributes)}")
    event: dict[str, Any] = {}
    for name, attribute in attributes.items():
        if not isinstance(attribute, Mapping):
            raise EventError(f"a message attribute has a type and a value, this is {type_name(attribute)}", str(name))
        kind = str(_member(attribute, ("DataType", "Type"), name))
        if not _is(kind, "Binary"):
            event[name] = _value(kind, _member(attribute, ("StringValue", "Value"), name), str(name))
    return event


def _member(attribute: Mapping[str, Any], names: tuple[str, str], attribute_name: str) -> Any:
    for name in names:
        if name in attribute:
            return attribute[name]
    raise EventError(f"a message attribute without {' or '.join(names)}", str(attribute_name))


def _is(kind: str, base: str) -> bool:
    """Whether a type is one of the three, perhaps with a label of the publisher's: `Number.int`."""
    return kind == base or kind.startswith(f"{base}.")


def _value(kind: str, value: Any, name: str) -> Any:
    if kind == "String.Array":
        return _elements(value, name)
    if _is(kind, "Number"):
        return _number(value, name)
    if _is(kind, "String"):
        return value
    raise EventError(f"a message attribute is a String, a String.Array, a Number or Binary, not {kind!r}", name)


def _elements(value: Any, name: str) -> Any:
    """What a String.Array holds; SNS takes any text there: one that is no JSON is a string, and a lone value itself."""
    try:
        elements = parse_value(value, DEFAULT_LIMITS)
    except EventError:
        return value
    if isinstance(elements, dict) or (
        isinstance(elements, list) and any(isinstance(each, list | dict) for each in elements)
    ):
        raise EventError("a String.Array is a JSON array of strings, numbers, booleans and nulls", name)
    return elements


def _number(value: Any, name: str) -> Any:
    if isinstance(value, int | float | Decimal):
        return value
    try:
        number = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        raise EventError(f"{str(value)[:80]!r} is no number", name) from None
    if not number.is_finite():
        raise EventError(f"{str(value)[:80]!r} is no number", name)
    return int(number) if number == number.to_integral_value() and abs(number) < Decimal("1e38") else number
