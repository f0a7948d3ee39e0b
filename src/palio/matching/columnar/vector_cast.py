"""CAST of vectors; the meaning is that of `filters.expressions.cast`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.events.values import MAX_INT64
from palio.filters.expressions.ast import Call
from palio.filters.expressions.cast import target_of
from palio.matching.columnar.vector_arithmetic import as_double
from palio.matching.columnar.vector_compiler import Form, Part, VectorCompiler
from palio.matching.columnar.vector_text import as_text
from palio.matching.columnar.vector_time import as_day, as_moment, moments_after_1970
from palio.matching.columnar.vectors import Vector, of_arrow, without

_BITS: Final = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_SECOND: Final = 1_000_000


def _cast(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    part, name = parts[0], str(parts[1].value).replace(" ", "").lower()
    if part.kind not in target_of(name).sources:
        return compiler.null
    convert = _TARGETS.get(name)
    return None if convert is None else convert(compiler, part)


def _to_whole(bits: int) -> Callable[[VectorCompiler, Part], Part | None]:
    bound = 2**bits

    def convert(compiler: VectorCompiler, part: Part) -> Part | None:
        name = ("whole", bits)
        if part.kind is str:
            part = compiler.read_text(part, int)
        if part.kind is float:
            return compiler.strict(name, int, lambda vector: _whole_doubles(vector, bits), part)
        if part.kind is datetime:
            part = compiler.strict("seconds", int, lambda at: Vector(at.values // _SECOND, at.valid), part)
        if part.kind is bool:
            return compiler.strict(name, int, lambda vector: Vector(vector.values.astype(np.int64), vector.valid), part)
        if part.kind is not int:
            return None
        if bits == 63:
            return part
        return compiler.strict(
            name,
            int,
            lambda vector: Vector(
                vector.values, without(vector.valid, (vector.values < -bound) | (vector.values >= bound))
            ),
            part,
        )

    return convert


def _whole_doubles(vector: Vector, bits: int) -> Vector:
    """What is before the point; 2.0**63 is the largest integer of 64 bits, as in Java."""
    bound = 2.0**bits
    whole = np.trunc(vector.values)
    inside = (whole >= -bound) & (whole < bound)
    numbers = np.where(inside, whole, 0).astype(np.int64)
    if bits == 63:
        is_next = vector.values == bound
        numbers, inside = np.where(is_next, MAX_INT64, numbers), inside | is_next
    return Vector(numbers, without(vector.valid, ~inside))


def _to_double(compiler: VectorCompiler, part: Part) -> Part | None:
    if part.kind is str:
        return compiler.read_text(part, float)
    if part.kind is datetime:
        return compiler.strict(
            "seconds as double", float, lambda at: Vector(at.values.astype(np.float64) / 1e6, at.valid), part
        )
    return as_double(compiler, part)


def _to_single(compiler: VectorCompiler, part: Part) -> Part | None:
    if part.kind is Decimal:
        return None
    # An integer is rounded once, not by way of a double.
    source = part if part.kind in (int, bool) else _to_double(compiler, part)
    if source is None:
        return None
    return compiler.strict("single", float, lambda vector: Vector(_singles(vector.values), vector.valid), source)


def _singles(values: Any) -> Any:
    return values.astype(np.float32).astype(np.float64)


def _to_boolean(compiler: VectorCompiler, part: Part) -> Part | None:
    if part.kind is str:
        return compiler.read_text(part, bool)
    if part.kind is bool:
        return part
    if part.kind not in (int, float):
        return None
    return compiler.strict("boolean", bool, lambda vector: Vector(vector.values != 0, vector.valid), part)


def _to_moment(compiler: VectorCompiler, part: Part) -> Part | None:
    if part.kind in (str, date, datetime):
        return as_moment(compiler, part)
    if part.kind is int:
        return moments_after_1970(compiler, part, _SECOND)
    if part.kind is not float:
        return None
    micros = compiler.strict("micros", int, lambda vector: _whole_doubles(_times_million(vector), 63), part)
    return moments_after_1970(compiler, micros, 1)


def _times_million(vector: Vector) -> Vector:
    return Vector(vector.values * 1_000_000, vector.valid)


def _to_bytes(compiler: VectorCompiler, part: Part) -> Part | None:
    if part.kind is bytes:
        return part
    return compiler.strict("binary", bytes, lambda vector: of_arrow(vector.values.cast(pa.large_binary())), part)


_TARGETS: Final[Mapping[str, Callable[[VectorCompiler, Part], Part | None]]] = {
    **{name: _to_whole(bits) for name, bits in _BITS.items()},
    "double": _to_double,
    "float": _to_single,
    "boolean": _to_boolean,
    "string": as_text,
    "date": as_day,
    "timestamp": _to_moment,
    "binary": _to_bytes,
}

CAST_FORMS: Final[Mapping[str, Form]] = {"cast": _cast}
