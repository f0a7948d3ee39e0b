"""The values of a row as Arrow arrays, in a worker: see `attributes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.events.arrow import read_column
from palio.filters.expressions.values import moment_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ArrowValues:
    """An array, and the type that its values have in Spark."""

    array: Any
    kind: DataType

    @classmethod
    def of(cls, array: Any) -> ArrowValues:
        from pyspark.sql.pandas.types import from_arrow_type

        return cls(array, from_arrow_type(array.type, prefer_timestamp_ntz=True))  # as newer Sparks do by themselves

    def fields(self) -> dict[str, ArrowValues]:
        """All fields of structures."""
        return {name: self.field(name) for name in self.kind.names}  # type: ignore[attr-defined]

    def field(self, name: str) -> ArrowValues:
        place = self.kind.names.index(name)  # type: ignore[attr-defined]
        return ArrowValues(pc.struct_field(self.array, [place]), self.kind[name].dataType)  # type: ignore[index]

    def entry(self, key: str) -> ArrowValues:
        return ArrowValues(pc.map_lookup(self.array, pa.scalar(key), "first"), self.kind.valueType)  # type: ignore[attr-defined]

    def each(self, change: Callable[[ArrowValues], ArrowValues]) -> ArrowValues:
        changed = change(ArrowValues(self.array.flatten(), self.kind.elementType))  # type: ignore[attr-defined]
        return self._of_elements(changed.array, _lengths(self.array), changed.kind)

    def joined(self) -> ArrowValues:
        inner = self.array.flatten()
        gone = inner.is_null().to_numpy(zero_copy_only=False)
        lengths = _lengths(inner)
        filled = np.where(gone, 1, lengths)
        # Where each element is among those of all arrays; a missing one stands for an array that is not there.
        starts = np.cumsum(lengths) - lengths
        within = np.arange(filled.sum()) - np.repeat(np.cumsum(filled) - filled, filled)
        places = pa.array(np.repeat(starts, filled) + within, mask=np.repeat(gone, filled))
        kind = self.kind.elementType.elementType  # type: ignore[attr-defined]
        return self._of_elements(inner.flatten().take(places), self._summed(filled), kind)

    def without_nulls(self) -> ArrowValues:
        elements = self.array.flatten()
        kept = elements.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        return self._of_elements(elements.filter(elements.is_valid()), self._summed(kept), self.kind.elementType)  # type: ignore[attr-defined]

    def is_there(self) -> ArrowValues:
        from pyspark.sql.types import BooleanType

        found = pc.if_else(self.array.is_valid(), pa.scalar(True), pa.scalar(None, pa.bool_()))
        return ArrowValues(found, BooleanType())

    def structure(self, members: Mapping[str, ArrowValues]) -> ArrowValues:
        from pyspark.sql.types import StructField, StructType

        arrays = [member.array for member in members.values()]
        kind = StructType([StructField(name, member.kind) for name, member in members.items()])
        return ArrowValues(pa.StructArray.from_arrays(arrays, list(members), mask=self.array.is_null()), kind)

    def at_zone(self, zone: str) -> ArrowValues:
        if zone == "UTC":
            return self
        encoded = self.array.dictionary_encode()
        moments = [_moment(clock, zone) for clock in read_column(encoded.dictionary)]
        found = pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        return ArrowValues(found.take(encoded.indices), self.kind)

    def _summed(self, of_elements: _Ints) -> _Ints:
        """The sum of a number for each element, by array."""
        lengths = _lengths(self.array)
        ends = np.cumsum(lengths)
        sums = np.concatenate([[0], np.cumsum(of_elements)])
        found: _Ints = sums[ends] - sums[ends - lengths]
        return found

    def _of_elements(self, elements: Any, lengths: _Ints, kind: DataType) -> ArrowValues:
        """Arrays of so many of these elements each, NULL where these are."""
        from pyspark.sql.types import ArrayType

        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return ArrowValues(pa.ListArray.from_arrays(offsets, elements, mask=self.array.is_null()), ArrayType(kind))


def _lengths(array: Any) -> _Ints:
    """How many elements each array has; none where it is NULL."""
    lengths: _Ints = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _moment(clock: datetime | None, zone: str) -> datetime | None:
    """The moment at which the clocks of a zone show this; the first or the last that there is, where it lies beyond."""
    if clock is None:
        return None
    try:
        return moment_of(clock.replace(tzinfo=None), zone)
    except OverflowError:
        return (datetime.min if clock.year == 1 else datetime.max).replace(tzinfo=UTC)
