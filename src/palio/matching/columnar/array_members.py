"""Membership in arrays: all conditions `array_contains(attribute, constant)` on one attribute, by the elements.

`exists(attribute, x -> x = constant)` is another way to write it.

Each constant is a test with an axis of its own, on which an event stands where the array has the constant. The elements
of an array are looked up among the constants, so that an array costs its length, however many constants there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from palio.events.values import Scalar
from palio.filters.comparisons import compare_literal
from palio.filters.expressions.ast import Array, Call, Expression, Literal
from palio.filters.expressions.coercion import widen
from palio.filters.expressions.value_comparison import among
from palio.filters.kinds import KINDS, NUMBERS, Kind
from palio.filters.tree import Residual
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.arrow_columns import list_lengths, slots_of_values
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.axes_builder import AxesBuilder, Region
from palio.matching.columnar.layout import HIT_SLOT

_NUMBERS: Final = frozenset((int, float, Decimal))
_AXIS_BITS: Final = 31
_NUMBER_KINDS: Final = frozenset(NUMBERS)
_MAX_EXACT_INTEGER: Final = (1 << 53) - 1  # any number that is widened to it as a double is that integer


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """Whether an array has an element that equals a constant."""

    constant: Literal
    timezone: str = "UTC"


def membership_in(residual: Residual) -> tuple[str, ArrayMember] | None:
    """The attribute and the test of a residual that asks whether an array has a constant; None for any other."""
    match residual.expression:
        case Call("array_contains", (Array(name), Literal() as constant)) if residual.wants:
            return name, ArrayMember(constant, residual.timezone)
        case Call("exists", (Array(name), Call("lambda", (_, condition)))) if residual.wants:
            compared = _constant_of_elements(condition, residual.timezone)
            return None if compared is None else (name, ArrayMember(compared, residual.timezone))
    return None


def _constant_of_elements(condition: Expression, timezone: str) -> Literal | None:
    """The constant with which a lambda function compares the element alone, where membership says the same.

    A comparison converts a text that reads as a number, a time or a truth value for elements of these kinds, and it
    widens one element, where membership widens all of them: such constants are left to the comparison.
    """
    match condition:
        case Call("=", (Call("variable"), Literal(value) as constant)) | Call(
            "=", (Literal(value) as constant, Call("variable"))
        ):
            if isinstance(value, bool) or not isinstance(value, int | str):
                return None
            if isinstance(value, int) and abs(value) > _MAX_EXACT_INTEGER:
                return None
            own = {Kind.STRING} if isinstance(value, str) else _NUMBER_KINDS
            equal = compare_literal("=", value, timezone).true
            others = (part for kind, part in zip(KINDS, equal.parts, strict=True) if kind not in own)
            return constant if all(part.is_empty for part in others) else None
    return None


class ArrayMembers:
    """The tests of the arrays of one attribute, by constant."""

    def __init__(self, tests: Sequence[tuple[int, ArrayMember]]) -> None:
        self._strings: dict[str, list[int]] = {}
        self._exact: dict[Any, list[int]] = {}  # integers and decimals, as they meet others of their like
        self._rounded: dict[Any, list[int]] = {}  # the same as doubles, as they meet doubles
        self._doubles: dict[Any, list[int]] = {}
        self._others: list[tuple[int, Any, str]] = []
        for code, test in tests:
            value = test.constant.value
            if type(value) is str:
                self._strings.setdefault(value, []).append(code)
            elif type(value) in _NUMBERS and value == value:
                wide = widen(value, float, "UTC")
                if type(value) is float:
                    self._doubles.setdefault(value, []).append(code)
                else:
                    self._exact.setdefault(value, []).append(code)
                    self._rounded.setdefault(wide, []).append(code)
            else:
                self._others.append((code, value, test.timezone))

    def codes(self, array: tuple[Scalar, ...]) -> list[int]:
        """The codes of the constants that an array has, each once."""
        kinds = {type(element) for element in array}
        kinds.discard(type(None))
        found: dict[int, None] = {}
        for table, key in self._lookups(array, kinds):
            found |= dict.fromkeys(table.get(key, ()))
        if self._others and not kinds <= {str}:
            found |= {code: None for code, value, zone in self._others if among(value, array, zone)}
        return list(found)

    def _lookups(self, array: tuple[Any, ...], kinds: set[type]) -> list[tuple[dict[Any, list[int]], Any]]:
        # Where all are numbers and one is a double, even two integers meet as doubles.
        is_widened = float in kinds and kinds <= _NUMBERS
        lookups: list[tuple[dict[Any, list[int]], Any]] = []
        for element in array:
            kind = type(element)
            if kind is str:
                lookups.append((self._strings, element))
            elif kind in _NUMBERS:
                wide = widen(element, float, "UTC")
                lookups.append((self._doubles, wide))
                lookups.append((self._rounded, wide) if is_widened or kind is float else (self._exact, element))
        return lookups

    def rows_and_codes(self, column: pa.Array, read: Callable[[pa.Array], list[Any]]) -> tuple[Int64s, Int64s]:
        """The rows of a column of lists, and the codes of the constants that each has."""
        # All elements have one kind, so that each decides by itself.
        elements = column.flatten()
        if pa.types.is_string(elements.type) or pa.types.is_large_string(elements.type):
            found = self._by_slot
            # A batch has tens of thousands of different strings: they are looked up by the kernel, not by Python.
            index = slots_of_values(self._axis, 0, elements)[:-1].astype(np.int64)
            index[np.asarray(elements.is_null())] = len(found.lengths) - 1
        else:
            encoded = elements if pa.types.is_dictionary(elements.type) else elements.dictionary_encode()
            found = _ListsOfCodes.of([*(self.codes((value,)) for value in read(encoded.dictionary)), []])
            index = np.asarray(encoded.indices.cast(pa.int64()).fill_null(len(encoded.dictionary)))
        count = found.lengths[index]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        codes = found.codes[np.repeat(found.starts[index], count) + within]
        rows = np.repeat(np.repeat(np.arange(len(column), dtype=np.int64), list_lengths(column)), count)
        # An element that stands twice in a list counts once. One number is sorted several times faster than two.
        pairs = np.sort(rows << _AXIS_BITS | codes >> 32)
        pairs = pairs[np.diff(pairs, prepend=-1) != 0]
        return pairs >> _AXIS_BITS, (pairs & (1 << _AXIS_BITS) - 1) << 32 | HIT_SLOT

    @cached_property
    def _axis(self) -> Axes:
        """An axis with a slot for each string."""
        builder = AxesBuilder()
        builder.declare(0)
        for text in self._strings:
            builder.equal(0, Region.STRING, text)
        return builder.finish()[0]

    @cached_property
    def _by_slot(self) -> _ListsOfCodes:
        lists: list[list[int]] = [[] for _ in range(int(self._axis.sizes[0]) + 1)]
        for text, codes in self._strings.items():
            lists[self._axis.slot(0, text)] = codes
        return _ListsOfCodes.of(lists)


class _ListsOfCodes(NamedTuple):
    """Lists of codes, one after the other."""

    lengths: Int64s
    starts: Int64s
    codes: Int64s

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> _ListsOfCodes:
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        return cls(lengths, np.cumsum(lengths) - lengths, np.fromiter(chain.from_iterable(lists), np.int64))
