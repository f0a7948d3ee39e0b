"""Subscription filter policies of Amazon SNS; `docs/languages/sns.md` is the specification.

A policy is an event pattern of EventBridge with fewer operators and tighter limits, so it is parsed by the same code.
It looks at the attributes of a message or at its body, as the scope says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from palio.errors import EventError, ParseError
from palio.events.json import parse_value
from palio.events.values import DEFAULT_LIMITS, type_name
from palio.filters.filter import Filter
from palio.filters.text_cache import TextCache
from palio.languages.eventbridge.dialect import EVENTBRIDGE, Dialect
from palio.languages.eventbridge.document import Document, Location, ObjectNode, parse_document
from palio.languages.eventbridge.lowering import lower_rule
from palio.languages.eventbridge.parser import Rule, fields_of, parse_rule, value_combinations

__all__ = ["Scope", "event_of_attributes", "parse"]

Scope = Literal["attributes", "body"]


_BODY: Final = replace(
    EVENTBRIDGE,
    service="SNS",
    operators=frozenset({"prefix", "suffix", "equals-ignore-case", "anything-but", "numeric", "cidr", "exists"}),
    excludable=frozenset({"prefix", "suffix"}),
    ignores_case_in_parts=False,
    excludes_lists=False,
    max_number=Decimal("1e9"),
    max_exact_number=Decimal("1e9"),
    fraction_digits=5,
    max_or_combinations=None,  # combinations are counted together with the values, in _check_policy
)
_DIALECTS: Final[dict[str, Dialect]] = {
    "attributes": replace(_BODY, dots_are_steps=False),  # a message attribute may have a dot in its name
    "body": _BODY,
}
_MAX_KEYS: Final = 5
_MAX_COMBINATIONS: Final = 150
_MAX_BYTES: Final = 256 * 1024
_LIFTED: Final = "strict=False lifts the limits of the service"


def parse(condition: Any, *, scope: Scope = "attributes", strict: bool = True, timezone: str = "UTC") -> Filter:
    """The filter of a filter policy, given as JSON text or as the dictionary it stands for.

    With the scope `attributes` a policy asks for a message's attributes by name; `event_of_attributes` makes an
    event of them. With the scope `body` it asks for the members of the body, which is the event. What SNS refuses
    is refused; without `strict`, its quotas are lifted, and a bare value may stand for a list of one. `timezone` has
    no effect: policies have no literals of time.

    >>> wanted = parse({"store": ["example_corp"], "price": [{"numeric": [">=", 100]}]})
    >>> wanted.matches({"store": "example_corp", "price": 120})
    True
    """
    if scope not in _DIALECTS:
        known = " or ".join(map(repr, _DIALECTS))
        raise ParseError(str(scope), 0, f"the scope of a filter policy is {known}, not {scope!r}")
    if isinstance(condition, str):
        return _parse_text(condition, scope, strict)
    return _parse(parse_document(condition), scope, strict)


@TextCache
def _parse_text(text: str, scope: Scope, strict: bool) -> Filter:
    return _parse(parse_document(text), scope, strict)


def _parse(document: Document, scope: Scope, strict: bool) -> Filter:
    if document.root.content == ObjectNode(()):
        return Filter.everything  # SNS takes an empty policy for none: every message passes
    dialect = _DIALECTS[scope] if strict else _DIALECTS[scope].unlimited()
    rule = parse_rule(document, dialect)
    _check_policy(rule, document, scope, strict)
    return lower_rule(rule, document, dialect)


def _check_policy(rule: Rule, document: Document, scope: str, strict: bool) -> None:
    """Refuse a policy that is nested where it cannot be, or larger than SNS takes."""
    location = Location(document.text)
    if scope == "attributes" and any(len(field.path) > 1 for field in fields_of(rule)):
        raise location.refuse(
            document.root, "a policy on message attributes cannot be nested", 'scope="body" asks for the message body'
        )
    if not strict:
        return
    assert isinstance(document.root.content, ObjectNode)  # or it would be no rule
    if len(document.root.content.members) > _MAX_KEYS:
        raise location.refuse(document.root, f"SNS takes policies of at most {_MAX_KEYS} keys", _LIFTED)
    combinations = value_combinations(rule)
    if combinations > _MAX_COMBINATIONS:
        raise location.refuse(
            document.root,
            f"SNS takes at most {_MAX_COMBINATIONS} combinations of a policy's values, and here are {combinations:,}",
            _LIFTED,
        )
    if len(document.text.encode()) > _MAX_BYTES:
        raise location.refuse(document.root, f"SNS takes policies of at most {_MAX_BYTES // 1024} KB", _LIFTED)


# --- messages --------------------------------------------------------------------------------------------


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
        if not _has_base_type(kind, "Binary"):
            event[name] = _value(kind, _member(attribute, ("StringValue", "Value"), name), str(name))
    return event


def _member(attribute: Mapping[str, Any], names: tuple[str, str], attribute_name: str) -> Any:
    for name in names:
        if name in attribute:
            return attribute[name]
    raise EventError(f"a message attribute without {' or '.join(names)}", str(attribute_name))


def _has_base_type(kind: str, base: str) -> bool:
    """Whether a type is a base type, perhaps with a label that the publisher added: `Number.int`."""
    return kind == base or kind.startswith(f"{base}.")


def _value(kind: str, value: Any, name: str) -> Any:
    if kind == "String.Array":
        return _elements(value, name)
    if _has_base_type(kind, "Number"):
        return _number(value, name)
    if _has_base_type(kind, "String"):
        return value
    raise EventError(f"a message attribute is a String, a String.Array, a Number or Binary, not {kind!r}", name)


def _elements(value: Any, name: str) -> Any:
    """The elements of a String.Array; a text that is no JSON is a string, and a lone value itself, as in SNS."""
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
