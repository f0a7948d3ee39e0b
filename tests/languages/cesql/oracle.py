"""CESQL written down a second time, straight from its specification: trees of tuples, evaluated one by one.

It shares no code with `palio.languages.cesql`, is slow and simple, and knows nothing of filters. A tree is
`("literal", value)`, `("attribute", name)`, `("not" | "neg", x)`, `(operator, x, y)`, `("like", x, pattern)`,
`("in", x, items)`, `("exists", name)` or `("call", NAME, arguments)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

ZERO = {bool: False, int: 0, str: ""}
RESULTS = {
    **dict.fromkeys(["+", "-", "*", "/", "%", "neg"], int),
    **dict.fromkeys(["LENGTH", "ABS", "INT"], int),
    **dict.fromkeys(["CONCAT", "CONCAT_WS", "LOWER", "UPPER", "TRIM", "LEFT", "RIGHT", "SUBSTRING", "STRING"], str),
}
TAKES = {
    "LENGTH": [str], "LOWER": [str], "UPPER": [str], "TRIM": [str], "LEFT": [str, int], "RIGHT": [str, int],
    "SUBSTRING": [str, int, int], "ABS": [int], "INT": [int], "BOOL": [bool], "STRING": [str],
}  # fmt: skip


class Instant(str):
    """The text of a timestamp of the event."""


def evaluate(tree: tuple[Any, ...], event: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The value of a tree, and the kinds of its errors in the order in which they happened."""
    errors: list[str] = []
    value = _value(tree, event, errors)
    return (str(value) if isinstance(value, str) else value), errors


def _value(tree: tuple[Any, ...], event: Mapping[str, Any], errors: list[str]) -> Any:
    match tree:
        case ("literal", value):
            return value
        case ("attribute", name):
            return _attribute(name, event, errors)
        case ("exists", name):
            return name in ("id", "source", "specversion", "type") or event.get(name) is not None
        case ("and" | "or" as word, left, right):
            return _and_or(word, left, right, event, errors)
        case ("in", left, items):
            return _in(left, items, event, errors)
    operands, compute = _operation(tree)
    before = len(errors)
    values = [_value(each, event, errors) for each in operands]
    if len(errors) > before:
        return ZERO[RESULTS.get(tree[1] if tree[0] == "call" else tree[0], bool)]
    return compute(values, errors)


def _attribute(name: str, event: Mapping[str, Any], errors: list[str]) -> Any:
    value = event.get(name)
    if value is None:
        errors.append("missingAttribute")
        return False
    if isinstance(value, bytes | tuple):
        errors.append("generic")
        return False
    if isinstance(value, bool | str) or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    return Instant(text(value)) if isinstance(value, datetime) else text(value)


def text(value: Any) -> str:
    """The text that an attribute of a type which CESQL does not have is seen as."""
    if isinstance(value, datetime):
        digits = value.strftime("%Y-%m-%dT%H:%M:%S.%f").zfill(26)
        return re.sub(r"\.?0*$", "", digits) + "Z"
    if isinstance(value, date):
        return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, float) and abs(value) == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, float | Decimal):
        whole, _, fraction = format(Decimal(repr(value)) if isinstance(value, float) else value, "f").partition(".")
        shown = f"{whole}.{fraction.rstrip('0') or '0'}"
        return shown.removeprefix("-") if shown == "-0.0" else shown
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cast(value: Any, target: type, errors: list[str]) -> Any:
    if type(value) is target or (target is str and isinstance(value, str)):
        return value
    if target is str:
        return text(value)
    if not isinstance(value, str):
        return target(value)
    if target is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if target is int and re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII):
        digits = value.lstrip("+-").lstrip("0") or "0"
        if (
            len(digits) <= 10
            and -(2**31) <= int(value[:1].replace("+", "") + digits if value[0] == "-" else digits) < 2**31
        ):
            return -int(digits) if value[0] == "-" else int(digits)
    errors.append("cast")
    return ZERO[target]


def _and_or(word: str, left: Any, right: Any, event: Mapping[str, Any], errors: list[str]) -> bool:
    failed = False
    for operand in (left, right):
        before = len(errors)
        value = _value(operand, event, errors)
        if len(errors) > before:
            failed, value = True, False
        else:
            value = _cast(value, bool, errors)
        if word == "and" and not value:
            return False
        if word == "or" and value:
            return not failed
    return word == "and"


def _in(left: Any, items: list[Any], event: Mapping[str, Any], errors: list[str]) -> bool:
    before = len(errors)
    value = _value(left, event, errors)
    if len(errors) > before:
        return False
    failed = False
    for item in items:
        before = len(errors)
        other = _value(item, event, errors)
        if len(errors) > before:
            failed = True
        elif _equal(value, _cast(other, str if isinstance(value, str) else type(value), errors)):
            return not failed
    return False


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, Instant) or isinstance(right, Instant):
        moments = [_moment(left), _moment(right)]
        if None not in moments:
            return moments[0] == moments[1]
    return bool(left == right)


def _moment(spelled: str) -> datetime | None:
    shape = r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)"
    found = re.fullmatch(shape, spelled, re.ASCII)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    micros = ((fraction or ".") + "000000")[:7]
    try:
        return datetime.fromisoformat(f"{day}T{clock}{micros}{'+00:00' if zone in 'Zz' else zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _operation(tree: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """The operands of an operation that evaluates all of them, and what it does with their values."""
    match tree:
        case ("not", operand):
            return [operand], _not
        case ("neg", operand):
            return [operand], lambda values, errors: _bounded(-_cast(values[0], int, errors), errors)
        case ("like", operand, pattern):
            return [operand], lambda values, errors: _like(_cast(values[0], str, errors), pattern)
        case ("call", name, arguments):
            return arguments, lambda values, errors: _call(name, values, errors)
        case (operator, left, right):
            return [left, right], lambda values, errors: _binary(operator, *values, errors)
    raise AssertionError(tree)


def _not(values: list[Any], errors: list[str]) -> bool:
    if type(values[0]) is int:
        errors.append("cast")
        return True
    return not _cast(values[0], bool, errors)


def _binary(operator: str, left: Any, right: Any, errors: list[str]) -> Any:
    if operator in ("=", "!=", "<>"):
        target = str if isinstance(right, str) else type(right)
        return _equal(_cast(left, target, errors), right) is (operator == "=")
    if operator == "xor":
        return _cast(left, bool, errors) is not _cast(right, bool, errors)
    x, y = _cast(left, int, errors), _cast(right, int, errors)
    match operator:
        case "<":
            return x < y
        case "<=":
            return x <= y
        case ">":
            return x > y
        case ">=":
            return x >= y
        case "+":
            return _bounded(x + y, errors)
        case "-":
            return _bounded(x - y, errors)
        case "*":
            return _bounded(x * y, errors)
    if y == 0:
        errors.append("math")
        return 0
    quotient = int(Decimal(x) / Decimal(y))  # towards zero; 28 digits are enough for 32 bits
    return _bounded(quotient if operator == "/" else x - y * quotient, errors)


def _bounded(number: int, errors: list[str]) -> int:
    if -(2**31) <= number < 2**31:
        return number
    errors.append("math")
    return 0


def _like(value: str, pattern: str) -> bool:
    pieces = re.findall(r"\\%|\\_|%|_|[^%_]", pattern, re.DOTALL)
    known = {"%": ".*", "_": ".", "\\%": "%", "\\_": "_"}
    return re.fullmatch("".join(known.get(each) or re.escape(each) for each in pieces), value, re.DOTALL) is not None


def _call(name: str, values: list[Any], errors: list[str]) -> Any:
    if name in ("IS_INT", "IS_BOOL"):
        ignored: list[str] = []
        _cast(values[0], int if name == "IS_INT" else bool, ignored)
        return not ignored
    taken = TAKES.get(name) or [str] * len(values)
    x, *rest = [_cast(value, target, errors) for value, target in zip(values, taken, strict=False)] or [""]
    match name:
        case "LENGTH":
            return len(x)
        case "CONCAT":
            return "".join([x, *rest])
        case "CONCAT_WS":
            return "".join(part if at == 0 else x + part for at, part in enumerate(rest))
        case "LOWER":
            return x.lower()
        case "UPPER":
            return x.upper()
        case "TRIM":
            return re.sub(r"^[\s]+|[\s]+$", "", x) if x.isascii() and not re.search("[\x1c-\x1f]", x) else _trim(x)
        case "LEFT" | "RIGHT":
            if rest[0] < 0:
                errors.append("functionEvaluation")
                return x
            return x[: rest[0]] if name == "LEFT" else x[len(x) - min(rest[0], len(x)) :]
        case "SUBSTRING":
            return _substring(x, *rest, errors=errors)
        case "ABS":
            if x == -(2**31):
                errors.append("math")
                return 2**31 - 1
            return abs(x)
    return x  # the casts


def _trim(value: str) -> str:
    spaces = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    spaces += "\u2028\u2029\u202f\u205f\u3000"
    while value and value[0] in spaces:
        value = value[1:]
    while value and value[-1] in spaces:
        value = value[:-1]
    return value


def _substring(value: str, position: int, length: int | None = None, *, errors: list[str]) -> str:
    if position > len(value) or position < -len(value) or (length is not None and length < 0):
        errors.append("functionEvaluation")
        return ""
    if position == 0:
        return ""
    tail = value[position - 1 :] if position > 0 else value[len(value) + position :]
    return tail if length is None else tail[:length]
