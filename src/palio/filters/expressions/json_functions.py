"""Values within JSON texts: get_json_object().

A path is `$` and then names (`.name`, `['a name']`) and indexes (`[0]`), as in Spark. Its wildcards are refused: what
they give depends on how many values they find. Numbers are written as Spark writes them (`1.50` as `1.5`), texts
without their quotes, objects and arrays without blanks. Spark also reads texts in single quotes; here they are no JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, Final

from palio.filters.expressions import text_cast

MAX_JSON_DEPTH: Final = 200

_STEP: Final = re.compile(r"\.([^.\[]+)|\['([^'?]+)'\]|\[([0-9]{1,9})\]")
_BLANKS: Final = " \t\r\n"


class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object; a name may occur twice."""


class _Integer(str):
    """The digits of a JSON integer, of any length."""


def json_path(path: str) -> Callable[[str], str | None]:
    """The function that finds what a path leads to; a ValueError tells why a path is none."""
    steps = parse_path(path)

    def find(text: str) -> str | None:
        if text.count("{") + text.count("[") > MAX_JSON_DEPTH and _depth(text) > MAX_JSON_DEPTH:
            return None
        root, _ = _decoder.raw_decode(text.lstrip(_BLANKS))  # what follows the value is not read
        return _written(_follow(root, steps))

    return find


def parse_path(path: str) -> list[str | int]:
    """The names and indexes of a path; a ValueError tells why it is none."""
    if not path.startswith("$"):
        raise ValueError(f"a path begins with $, and {path!r} does not")
    if "*" in path:
        raise ValueError("wildcards in a path are not supported: name what is looked for, such as $.a[0].b")
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(f"{path[at:]!r} is no step of a path; steps are .name, ['name'] and [0]")
        steps.append(int(found[3]) if found[3] else found[1] or found[2])
        at = found.end()
    return steps


def _depth(text: str) -> int:
    """How deeply brackets nest, at most: those within texts are counted, too."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _follow(value: Any, steps: list[str | int]) -> Any:
    for place, step in enumerate(steps):
        if isinstance(step, int):
            if type(value) is not list or step >= len(value):
                return None
            value = value[step]
        elif not isinstance(value, _Object):
            return None
        else:
            # Of two values of one name, the first counts that the rest of the path finds something in.
            named = (_follow(each, steps[place + 1 :]) for name, each in value if name == step)
            return next((each for each in named if each is not None), None)
    return value


def _written(value: Any) -> str | None:
    if value is None:
        return None
    return value if type(value) is str else _json(value)


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
