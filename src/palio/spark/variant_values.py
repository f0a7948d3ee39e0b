"""Values of the type VARIANT in a worker, where Spark's own functions are not at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from palio.filters.expressions.cast import target_of
from palio.filters.expressions.json_functions import parse_path

_parse_path = lru_cache(maxsize=256)(parse_path)


def variant_value(variant: Mapping[str, bytes] | Any, path: str, target: str, zone: str) -> Any:
    """What a path leads to, as a type; NULL where there is nothing, or it cannot be cast."""
    from pyspark.sql.types import VariantVal

    if isinstance(variant, Mapping):  # as Arrow has it
        variant = VariantVal(variant["value"], variant["metadata"])
    value = variant.toPython()
    for step in _parse_path(path):
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    if isinstance(value, dict | list):
        return _json(value) if target == "string" else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    if value is None:
        return None
    cast = target_of(target)
    try:
        return cast.convert(value, zone) if type(value) in cast.sources else None
    except (ArithmeticError, ValueError):
        return None


def _json(value: Any) -> str:
    """An object or an array as text; `json` does not write decimals."""
    match value:
        case dict():
            return "{" + ",".join(f"{_json(name)}:{_json(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
        case Decimal():
            return f"{value:f}"
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
    return json.dumps(str(target_of("string").convert(value, "UTC")), ensure_ascii=False)
