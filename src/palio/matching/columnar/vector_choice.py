"""Choices among vectors: CASE, IF, COALESCE, NVL2, NULLIF, GREATEST and LEAST.

The kind of a chosen value may depend on which of the others are NULL in its row (`special_forms`). There is a vector
form where it cannot: all candidates are of one kind, or all are numbers and one of them is known to be a double from
the expression alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.filters.expressions.ast import Call
from palio.filters.expressions.coercion import ValueType
from palio.matching.columnar.array_types import Flags
from palio.matching.columnar.vector_arithmetic import as_double
from palio.matching.columnar.vector_comparison import compare, presence, truth
from palio.matching.columnar.vector_compiler import Form, Part, VectorCompiler
from palio.matching.columnar.vectors import IN_NUMPY, Vector, null_of, of_arrow

_CHOSEN_KINDS: Final[frozenset[ValueType]] = frozenset({*IN_NUMPY, str, bytes})


def _unified(compiler: VectorCompiler, parts: Sequence[Part]) -> tuple[ValueType, list[Part]] | None:
    """Candidates brought to one kind; None where it may differ from row to row."""
    known = {part.known for part in parts} - {None, NoneType}
    kinds = {part.kind for part in parts} - {NoneType} | known
    if len(kinds) == 1:
        (kind,) = kinds
        return None if kind not in _CHOSEN_KINDS else (kind, list(parts))
    if kinds == {int, float} and float in known:
        return float, [part if part.kind is NoneType else as_double(compiler, part) for part in parts]
    return None


def _pick(where: Flags, chosen: Vector, otherwise: Vector, kind: ValueType) -> Vector:
    """The chosen values where told, and others elsewhere; a vector without values is NULL everywhere."""
    first, second = (null_of(kind) if each.values is None else each for each in (chosen, otherwise))
    if not np.ndim(where):
        return first if where else second
    if kind not in IN_NUMPY:
        return of_arrow(pc.if_else(pa.array(where), first.values, second.values))
    values = np.where(where, first.values, second.values)
    if first.valid is None and second.valid is None:
        return Vector(values)
    return Vector(values, np.where(where, *(True if each.valid is None else each.valid for each in (first, second))))


def _is_true(vector: Vector) -> Flags:
    is_true: Flags = vector.values if vector.valid is None else vector.values & vector.valid
    return is_true


def _case(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    whens, thens = parts[0 : len(parts) - 1 : 2], list(parts[1::2])
    candidates = [*thens, *(parts[-1:] if len(parts) % 2 else [])]
    unified = _unified(compiler, candidates)
    if unified is None:
        return None
    kind, values = unified
    if not len(parts) % 2:
        values.append(compiler.null)
    conditions = [truth(compiler, when) for when in whens]

    def compute(*vectors: Vector) -> Vector:
        tests, branches = vectors[: len(conditions)], vectors[len(conditions) :]
        result = branches[-1]
        for test, branch in zip(reversed(tests), reversed(branches[:-1]), strict=True):
            result = _pick(_is_true(test), branch, result, kind)
        return result

    return compiler.derive(("case", len(conditions)), kind, compute, *conditions, *values)


def _coalesce(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    unified = _unified(compiler, parts)
    if unified is None:
        return None
    kind, values = unified
    present = [part for part in values if part.kind is not NoneType]

    def compute(*vectors: Vector) -> Vector:
        result = vectors[-1]
        for vector in reversed(vectors[:-1]):
            result = vector if vector.valid is None else _pick(vector.valid, vector, result, kind)
        return result

    return compiler.derive("coalesce", kind, compute, *present) if present else compiler.null


def _nvl2(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    tested, *candidates = parts
    unified = _unified(compiler, candidates)
    if unified is None:
        return None
    kind, (present, absent) = unified

    def compute(test: Vector, first: Vector, second: Vector) -> Vector:
        return _pick(test.values, first, second, kind)

    return compiler.derive("nvl2", kind, compute, presence(compiler, tested), present, absent)


def _nullif(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    left, right = parts
    if left.kind is NoneType:
        return compiler.null
    equal = compare(compiler, "=", left, right)
    if equal is None or left.kind not in _CHOSEN_KINDS:
        return None
    kind = left.kind

    def compute(value: Vector, same: Vector) -> Vector:
        return _pick(_is_true(same), Vector(None), value, kind)

    return compiler.derive("nullif", kind, compute, left, truth(compiler, equal))


def _extreme(beyond: str) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        unified = _unified(compiler, parts)
        if unified is None:
            return None
        kind, values = unified
        present = [part for part in values if part.kind is not NoneType]
        if not present:
            return compiler.null
        best = present[0]
        for part in present[1:]:
            # Of two equal values the first is taken: 0.0 and -0.0 are such.
            further = compare(compiler, beyond, part, best)
            if further is None:
                return None
            best = compiler.derive(("further", beyond), kind, _further(kind), part, best, truth(compiler, further))
        return best

    return form


def _further(kind: ValueType) -> Callable[[Vector, Vector, Vector], Vector]:
    def compute(value: Vector, best: Vector, is_beyond: Vector) -> Vector:
        is_true = _is_true(is_beyond)
        if best.valid is not None:
            is_true = is_true | (~best.valid if value.valid is None else ~best.valid & value.valid)
        return _pick(is_true, value, best, kind)

    return compute


CHOICE_FORMS: Final[Mapping[str, Form]] = {
    "case": _case,
    "if": _case,
    "coalesce": _coalesce,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "greatest": _extreme(">"),
    "least": _extreme("<"),
}
