"""Values within JSON texts: get_json_object(), and the fields of from_json().

A path is `$` and then names (`.name`, `['a name']`), indexes (`[0]`) and wildcards (`[*]`), as in Spark, where a
wildcard gives what it finds as a JSON array, or alone where it is the only one. Numbers are written as Spark writes
them (`1.50` as `1.5`), texts without their quotes, objects and arrays without blanks. Spark also reads texts in single
quotes; here they are no JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring
from math import inf, isfinite, nan
from typing import Any, Final, TypeAlias

from palio.events.names import split_path
from palio.filters.expressions import text_cast
from palio.filters.expressions.cast import target_of, to_date, to_moment
from palio.filters.expressions.coercion import Value, day_at, moment_at

MAX_JSON_DEPTH: Final = 200

_STEP: Final = re.compile(r"(\.\*|\['\*'\])|\.\s*([^.\[]+)|\['\s*([^'?]+)'\]|\[\s*([0-9]{1,9})\]|\[(\*)\]")
_BLANKS: Final = " \t\r\n"


class _Wildcard(Enum):
    ELEMENTS = "[*]"
    MEMBERS = ".*"  # which finds nothing in Spark either


class _Style(Enum):
    """How what is found is written: a text alone without quotes, with them, or arrays as their elements."""

    RAW = "raw"
    QUOTED = "quoted"
    FLAT = "flat"


Step: TypeAlias = str | int | _Wildcard


class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object; a name may occur twice."""


class _Integer(str):
    """The digits of a JSON integer, of any length."""


class _Fraction(str):
    """The text of a JSON number with a point or an exponent."""


def json_path(path: str) -> Callable[[str], str | None]:
    """The function that finds what a path leads to; a ValueError tells why a path is none."""
    steps = tuple(_steps(path))

    def find(text: str) -> str | None:
        if text.count("{") + text.count("[") > MAX_JSON_DEPTH and _depth(text) > MAX_JSON_DEPTH:
            return None
        root, _ = _decoder.raw_decode(text.lstrip(_BLANKS))  # what follows the value is not read
        written: list[str] = []
        return " ".join(written) if _write(root, steps, _Style.RAW, written) else None

    return find


def json_field(path: str, kind: str) -> Callable[[str, str], Value]:
    """The function that finds a field by the names on a path and converts it to a type, in a time zone.

    As Spark's from_json() does: of two fields of one name the last counts, and a value of another type is NULL.
    """
    names = split_path(path)
    convert = _converter(kind)

    def find(text: str, zone: str) -> Value:
        if text.count("{") + text.count("[") > MAX_JSON_DEPTH and _depth(text) > MAX_JSON_DEPTH:
            return None
        value, _ = _field_decoder.raw_decode(text.lstrip(_BLANKS))
        for name in names:
            if not isinstance(value, _Object):
                return None
            value = next((each for key, each in reversed(value) if key == name), None)
        return None if value is None else convert(value, zone)

    return find


def _converter(kind: str) -> Callable[[Any, str], Value]:
    if kind.startswith("decimal"):
        target = target_of(kind)
        return lambda value, zone: target.convert(_exact(value), zone)
    if kind in _INTEGER_BITS:
        limit = 1 << _INTEGER_BITS[kind] - 1
        return lambda value, zone: _integer(value, limit)
    return _CONVERTERS[kind]


def _integer(value: Any, limit: int) -> int | None:
    if type(value) is not _Integer or len(value) > _MAX_INTEGER_CHARACTERS or not -limit <= int(value) < limit:
        return None
    return int(value)


def _byte(value: Any, zone: str) -> Value:
    # Spark's JSON reader takes bytes without a sign, too.
    found = _integer(value, 256)
    return None if found is None or found < -128 else found if found < 128 else found - 256


def _exact(value: Any) -> Value:
    if type(value) is str and not _NUMBER.fullmatch(value):
        return None
    return Decimal(value) if type(value) in (str, _Integer, _Fraction) else None


def _text(value: Any, zone: str) -> Value:
    return value if type(value) is str else _json(value)


def _boolean(value: Any, zone: str) -> Value:
    return value if type(value) is bool else None


def _double(value: Any, zone: str) -> Value:
    if type(value) is str:
        return _NAMED_NUMBERS.get(value)
    return float(value) if type(value) in (_Integer, _Fraction, float) else None


def _date(value: Any, zone: str) -> Value:
    if type(value) is not str:
        return None
    found = to_date(value, zone)
    if found is None and _WHOLE.fullmatch(value):
        return day_at(int(value))  # as older versions of Spark wrote dates: in days since 1970
    return found


def _timestamp(value: Any, zone: str) -> Value:
    if type(value) is str:
        return to_moment(value, zone)
    seconds = _integer(value, 1 << 63)
    return None if seconds is None else moment_at(seconds * 1_000_000)


_CONVERTERS: Final[Mapping[str, Callable[[Any, str], Value]]] = {
    "string": _text,
    "boolean": _boolean,
    "tinyint": _byte,
    "double": _double,
    "date": _date,
    "timestamp": _timestamp,
}
_INTEGER_BITS: Final = {"smallint": 16, "int": 32, "bigint": 64}
FIELD_TYPES: Final = (*_CONVERTERS, *_INTEGER_BITS)
"""Types of the fields of from_json(), beside decimals."""
_MAX_INTEGER_CHARACTERS: Final = 20
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_WHOLE: Final = re.compile(r"-?[0-9]{1,7}")
_NAMED_NUMBERS: Final = {
    "NaN": nan,
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), inf),
    **dict.fromkeys(("-Infinity", "-INF"), -inf),
}


def parse_path(path: str) -> list[str | int]:
    """The names and indexes of a path without wildcards; a ValueError tells why it is none."""
    steps = [each for each in _steps(path) if not isinstance(each, _Wildcard)]
    if len(steps) < len(_steps(path)):
        raise ValueError("wildcards in a path are not supported here: name what is looked for, such as $.a[0].b")
    return steps


def _steps(path: str) -> list[Step]:
    if not path.startswith("$"):
        raise ValueError(f"a path begins with $, and {path!r} does not")
    steps: list[Step] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(f"{path[at:]!r} is no step of a path; steps are .name, ['name'], [0] and [*]")
        members, name, quoted, index, _ = found.groups()
        if members:
            steps.append(_Wildcard.MEMBERS)
        elif index:
            steps.append(int(index))
        else:
            steps.append(name or quoted or _Wildcard.ELEMENTS)
        at = found.end()
        if len(steps) > MAX_JSON_DEPTH:
            raise ValueError(f"a path has at most {MAX_JSON_DEPTH} steps: JSON that nests deeper is not read")
    return steps


def _depth(text: str) -> int:
    """How deeply brackets nest, at most: those within texts are counted, too."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _write(value: Any, steps: tuple[Step, ...], style: _Style, written: list[str]) -> bool:
    """Append what a path finds in a value, as JSON; whether it finds anything. What it found before that may stay."""
    if not steps:
        return _write_found(value, style, written)
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        if not isinstance(value, _Object):
            return False
        # Of two values of one name, the first counts that the rest of the path finds something in.
        named = (each for name, each in value if name == step and each is not None)
        return any(_write(each, rest, style, written) for each in named)
    if type(value) is not list or step is _Wildcard.MEMBERS:
        return False
    if isinstance(step, int):
        next_style = _Style.QUOTED if rest[:1] == (_Wildcard.ELEMENTS,) else style
        return step < len(value) and _write(value[step], rest, next_style, written)
    return _write_elements(value, rest, style, written)


def _write_found(value: Any, style: _Style, written: list[str]) -> bool:
    if style is _Style.RAW and type(value) is str:
        written.append(value)
    elif style is _Style.FLAT and type(value) is list:
        return sum(_write(each, (), style, written) for each in value) > 0  # all are written, not the first only
    else:
        written.append(_json(value))
    return True


def _write_elements(values: list[Any], rest: tuple[Step, ...], style: _Style, written: list[str]) -> bool:
    """What the rest of a path finds in each element: in an array, or by itself where it is the only one."""
    found: list[str] = []
    if rest[:1] == (_Wildcard.ELEMENTS,):
        # Two wildcards in a row give one array, whatever the depth of what they find.
        hits = sum(_write(each, rest[1:], _Style.FLAT, found) for each in values)
        written.append(f"[{','.join(found)}]")
        return hits > 0
    inner = _Style.FLAT if style is _Style.FLAT else _Style.QUOTED
    hits = sum(_write(each, rest, inner, found) for each in values)
    if style is _Style.QUOTED or hits > 1:
        written.append(f"[{','.join(found)}]")
    elif hits:
        written.append(",".join(found))
    return hits > 0


def _json(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            text = text_cast.to_text(value)
            return text if isfinite(value) else f'"{text}"'
        case _Integer():
            return str(value) if value != "-0" else "0"
        case _Fraction():
            return _json(float(value))
        case str():
            return _ASTRAL.sub(_surrogates, encode_basestring(value))
        case _Object():
            return "{" + ",".join(f"{_json(name)}:{_json(each)}" for name, each in value) + "}"
    return "[" + ",".join(map(_json, value)) + "]"


_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def _surrogates(found: re.Match[str]) -> str:
    data = found[0].encode("utf-16-be")
    return f"\\u{data[:2].hex().upper()}\\u{data[2:].hex().upper()}"


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_Integer, parse_constant=_no_number, strict=False
)
_field_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_Integer, parse_float=_Fraction, parse_constant=float, strict=False
)
