"""Choosing among values: coalesce, CASE, nvl2, nullif, greatest and least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Final

from palio.events.values import Scalar
from palio.filters.expressions import choices
from palio.filters.expressions.compiler import Compiled, Compiler, Form, Part, constant
from palio.filters.expressions.inference import branches
from palio.filters.expressions.tree import Call
from palio.filters.expressions.values import Value


class _Chooser:
    """Brings a value that was chosen among several to the kind that all of them share."""

    def __init__(self, compiler: Compiler, call: Call, parts: Sequence[Part]) -> None:
        self._zone = compiler.zone
        among: list[Any] = [compiler.kinds.of(branch) for branch in branches(call)]
        self._known = frozenset(among) - {None, NoneType}
        self._constants = [part.value for part in parts if part.is_constant]
        self._varying = [(at, part.run) for at, part in enumerate(parts) if part.kind is None]
        self._is_settled = not self._varying and len(self._known) == 1

    def __call__(
        self,
        chosen: Value,
        place: int,
        first: int,
        event: Mapping[str, Scalar],
        arrays: Mapping[str, tuple[Scalar, ...]],
    ) -> Value:
        """The value chosen at a place; those before `first` are known to be NULL."""
        if chosen is None or self._is_settled:
            return chosen
        beside = list(self._constants)
        # None is computed twice, or nesting would double the work at each level.
        for at, run in self._varying:
            if at >= first and at != place:
                beside.append(run(event, arrays))
        return choices.unify(chosen, beside, self._known, self._zone)


def _coalesce(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    runs, choose = [part.run for part in parts], _Chooser(compiler, call, parts)

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        for at, each in enumerate(runs):
            value = each(event, arrays)
            if value is not None:
                return choose(value, at, at, event, arrays)
        return None

    return run


def _case(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    pairs = zip(parts[0::2], parts[1::2], strict=False)
    cases = [(at, compiler.truth(when), then.run) for at, (when, then) in enumerate(pairs)]
    otherwise = parts[-1].run if len(parts) % 2 else constant(None).run
    choose = _Chooser(compiler, call, [*parts[1::2], *(parts[-1:] if len(parts) % 2 else [])])

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        for at, when, then in cases:
            if when(event, arrays) is True:
                return choose(then(event, arrays), at, 0, event, arrays)
        return choose(otherwise(event, arrays), len(cases), 0, event, arrays)

    return run


def _nvl2(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    tested, present, absent = (part.run for part in parts)
    choose = _Chooser(compiler, call, parts[1:])

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        if tested(event, arrays) is None:
            return choose(absent(event, arrays), 1, 0, event, arrays)
        return choose(present(event, arrays), 0, 0, event, arrays)

    return run


def _nullif(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    left, right = parts[0].run, parts[1].run
    compare = compiler.compare("=", *parts)

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        value, other = left(event, arrays), right(event, arrays)
        if value is None or other is None:
            return value
        return None if compare(value, other) else value

    return run


def _extreme(beyond: str) -> Form:
    def form(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
        runs, zone = [part.run for part in parts], compiler.zone
        known: frozenset[Any] = frozenset(part.kind for part in parts) - {None, NoneType}

        def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
            values: list[Value] = []
            for each in runs:
                values.append(each(event, arrays))  # noqa: PERF401
            return choices.extreme(values, known, beyond, zone)

        return run

    return form


FORMS: Final[dict[str, Form]] = {
    "case": _case,
    "if": _case,
    "coalesce": _coalesce,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "greatest": _extreme(">"),
    "least": _extreme("<"),
}
