"""Brute-force evaluation of EventBridge patterns on the JSON itself.

Written from EventBridge's documentation and the observable behaviour of its engine; it shares nothing with
`palio.languages`. A pattern is expanded into all choices its `$or` leave, each a mapping from a dotted path to the
list asked of it; an event is taken apart into the values found at each path. An array of values counts as so many
values. Of an array with objects in it one object is chosen, or one array within it, for all paths together.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tests.nested_events import has_object


def matches(pattern: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether an event matches a pattern that is valid."""
    return any(
        all(_field_matches(asked, found.get(path, [])) for path, asked in choice.items())
        for found in _readings(event, "")
        for choice in _choices(pattern, "", [{}])
    )


def _readings(value: Any, path: str) -> list[dict[str, list[Any]]]:
    """All ways to choose objects from the arrays of a value, each as the values at every path."""
    if isinstance(value, dict):
        return _together([_readings(inner, f"{path}.{name}" if path else name) for name, inner in value.items()])
    if not isinstance(value, list):
        return [{path: [value]}]
    if not has_object(value):
        return [{path: found}] if (found := list(_values(value))) else [{}]
    beside = [{path: list(_values([inner for inner in value if not has_object(inner)]))}]
    objects = [reading for inner in value if has_object(inner) for reading in _readings(inner, path)]
    return _together([beside, objects or [{}]])


def _together(parts: list[list[dict[str, list[Any]]]]) -> list[dict[str, list[Any]]]:
    """Every choice of one reading of each part, with the values of all of them."""
    found: list[dict[str, list[Any]]] = [{}]
    for part in parts:
        found = [
            {path: [*one.get(path, []), *other.get(path, [])] for path in one.keys() | other.keys()}
            for one in found
            for other in part
        ]
    return found


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for inner in value:
            yield from _values(inner)
    elif not isinstance(value, dict):
        yield value


def _choices(pattern: dict[str, Any], path: str, before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All ways to choose among the objects of `$or`; a path that was there before is asked anew."""
    for name, inner in pattern.items():
        location = f"{path}.{name}" if path else name
        if name == "$or":
            before = [choice for branch in inner for choice in _choices(branch, path, before)]
        elif isinstance(inner, dict):
            before = _choices(inner, location, before)
        else:
            before = [{**choice, location: inner} for choice in before]
    return before


def _field_matches(asked: list[Any], values: list[Any]) -> bool:
    if not values:
        return {"exists": False} in asked
    return any(_accepts(each, value) for each in asked for value in values)


def _accepts(asked: Any, value: Any) -> bool:
    if not isinstance(asked, dict):
        return _equal(asked, value)
    ((test, operand),) = asked.items()
    match test:
        case "exists":
            return operand is True
        case "anything-but" if isinstance(operand, dict):
            ((inner, texts),) = operand.items()
            return not any(_accepts({inner: text}, value) for text in (texts if isinstance(texts, list) else [texts]))
        case "anything-but":
            return not any(_equal(each, value) for each in (operand if isinstance(operand, list) else [operand]))
        case "numeric":
            return _is_number(value) and all(
                _compares(operator, _number(value), _number(bound))
                for operator, bound in zip(operand[::2], operand[1::2], strict=True)
            )
    return isinstance(value, str) and _text_matches(test, operand, value)


def _text_matches(test: str, operand: Any, value: str) -> bool:
    match test:
        case "exactly":
            return value == operand
        case "cidr":
            return _in_network(value, operand)
        case "equals-ignore-case":
            return re.fullmatch(_any_case(operand), value) is not None
        case "prefix" if isinstance(operand, dict):
            return re.match(_any_case(operand["equals-ignore-case"]), value) is not None
        case "suffix" if isinstance(operand, dict):
            return re.fullmatch(f".*{_any_case(operand['equals-ignore-case'])}", value, re.DOTALL) is not None
        case "prefix":
            return value[: len(operand)] == operand
        case "suffix":
            return value[len(value) - len(operand) :] == operand if len(operand) <= len(value) else False
        case "wildcard":
            tokens = re.findall(r"\\.|\*|.", operand, re.DOTALL)
            written = (".*" if token == "*" else re.escape(token[-1]) for token in tokens)
            return re.fullmatch("".join(written), value, re.DOTALL) is not None
    raise AssertionError(test)


def _any_case(text: str) -> str:
    """Each letter for itself, as it is in lower and in upper case."""
    return "".join(f"(?:{re.escape(letter.lower())}|{re.escape(letter.upper())})" for letter in text)


def _equal(asked: Any, value: Any) -> bool:
    if _is_number(asked) and _is_number(value):
        return _number(asked) == _number(value)
    return type(asked) is type(value) and asked == value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _number(value: Any) -> Decimal:
    """A number as its digits say; a float as the shortest digits that mean it."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _compares(operator: str, left: Decimal, right: Decimal) -> bool:
    return {
        "=": left == right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def _in_network(value: str, network: str) -> bool:
    address, bits = network.split("/")
    try:
        found, base = ipaddress.ip_address(value), ipaddress.ip_address(address)
    except ValueError:
        return False
    rest = base.max_prefixlen - int(bits)
    return found.version == base.version and int(found) >> rest == int(base) >> rest
