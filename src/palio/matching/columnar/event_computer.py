"""Computed attributes of single events: the codes of the values of expressions.

Each distinct expression is evaluated once for an event, whatever number of attributes hold its values. Expressions are
kept by an attribute that they require, so that those of an attribute that an event lacks are passed by together. A
hundred comparisons of two attributes take some 30 µs; hence the loop without a call but that of the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from palio.filters.expressions.coercion import Arrays
from palio.filters.kinds import KIND_OF_TYPE, Kind
from palio.filters.tree import Attributes
from palio.matching.columnar.computed_attributes import ComputedAttribute
from palio.matching.columnar.patterns import AttributeTests

Coder: TypeAlias = tuple[Callable[[Any], int] | None, AttributeTests | None]
"""What finds the code of a value on an attribute's axis, and the tests of the value."""

_LOOKED_UP: Final = (True, False, None)  # values whose codes are found once; a comparison has no others


class _Target(NamedTuple):
    """A computed attribute of an expression."""

    kind: Kind | None
    coder: Callable[[Any], int] | None
    tests: AttributeTests | None
    misplaces_fractions: bool


class _Expression(NamedTuple):
    """An expression, and the attributes that hold its values."""

    run: Callable[[Any, Any], Any]
    targets: list[_Target]
    of_true: list[int]
    of_false: list[int]
    of_null: list[int]


class EventComputer:
    """Evaluates the computed attributes of a segment for one event at a time."""

    def __init__(
        self, attributes: Sequence[ComputedAttribute], coders: Mapping[str, Coder], misplaced: Collection[str]
    ) -> None:
        by_expression: dict[tuple[str, bool, Any], list[ComputedAttribute]] = {}
        for each in attributes:
            by_expression.setdefault((each.timezone, each.is_of_intervals, each.expression), []).append(each)
        self._groups: dict[str | None, list[_Expression]] = {}  # by an attribute that they require
        for same in by_expression.values():
            targets = [_Target(each.kind, *coders[each.name], each.name in misplaced) for each in same]
            group = self._groups.setdefault(min(same[0].required, default=None), [])
            group.append(_Expression(same[0].run, targets, *(_codes(targets, each) or [] for each in _LOOKED_UP)))

    def codes(self, attributes: Attributes, arrays: Arrays) -> list[int] | None:
        """The codes of an event of whose arrays one element is chosen; None where the index cannot encode it."""
        codes: list[int] = []
        for name, group in self._groups.items():
            if name is not None and name not in attributes:
                for expression in group:
                    codes += expression.of_null
                continue
            for run, targets, of_true, of_false, of_null in group:
                value = run(attributes, arrays)
                if value is True:
                    codes += of_true
                elif value is False:
                    codes += of_false
                elif value is None:
                    codes += of_null
                elif (found := _codes(targets, value)) is None:
                    return None
                else:
                    codes += found
        return codes


def _codes(targets: list[_Target], value: Any) -> list[int] | None:
    """The codes of the value of an expression; None where the index cannot encode it."""
    kind = KIND_OF_TYPE.get(type(value))  # none for an interval of time, which counts as NULL
    codes: list[int] = []
    for wanted, coder, tests, misplaces_fractions in targets:
        if kind is None or kind is Kind.NULL or (wanted is not None and kind is not wanted):
            if tests is not None:
                codes += tests.when_missing
            continue
        if misplaces_fractions and isinstance(value, Decimal | float):
            return None
        if coder is not None:
            codes.append(coder(value))
        if tests is not None:
            codes += tests.codes(value)
    return codes
