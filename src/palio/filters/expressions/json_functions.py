"""Values within JSON texts: get_json_object().

A path is `$` and then names (`.name`, `['a name']`), indexes (`[0]`) and wildcards (`[*]`), as in Spark, where a
wildcard gives what it finds as a JSON array, or alone where it is the only one. Numbers are written as Spark writes
them (`1.50` as `1.5`), texts without their quotes, objects and arrays without blanks. Spark also reads texts in single
quotes; here they are no JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import Enum
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

from palio.filters.expressions import text_cast

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
            return text if "I" not in text else f'"{text}"'
        case _Integer():
            return str(value)
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
