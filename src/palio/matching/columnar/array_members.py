"""Membership in arrays: all conditions `array_contains(attribute, constant)` on one attribute, by the elements.

Each constant is a test with an axis of its own, on which an event stands where the array has the constant. The elements
of an array are looked up among the constants, so that an array costs its length, however many constants there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.events.values import Scalar
from palio.filters.expressions.ast import Array, Call, Literal
from palio.filters.expressions.coercion import widen
from palio.filters.expressions.value_comparison import among
from palio.filters.tree import Residual
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.arrow_columns import list_lengths

_NUMBERS: Final = frozenset((int, float, Decimal))


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
        # All elements have one kind, so that each decides by itself; each distinct one is looked up once.
        elements = column.flatten()
        encoded = elements if pa.types.is_dictionary(elements.type) else elements.dictionary_encode()
        found = [self.codes((value,)) for value in read(encoded.dictionary)]
        lengths = np.array([*map(len, found), 0], np.int64)
        flat = np.array([code for codes in found for code in codes], np.int64)
        index = np.asarray(encoded.indices.cast(pa.int64()).fill_null(len(found)))
        count = lengths[index]
        starts = np.cumsum(lengths) - lengths
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        codes = flat[np.repeat(starts[index], count) + within]
        lists = list_lengths(column)
        rows = np.repeat(np.repeat(np.arange(len(column), dtype=np.int64), lists), count)
        order = np.lexsort((codes, rows))
        rows, codes = rows[order], codes[order]
        # An element that stands twice in a list counts once.
        first = np.ones(len(rows), np.bool_)
        first[1:] = (rows[1:] != rows[:-1]) | (codes[1:] != codes[:-1])
        return rows[first], codes[first]
