"""The events of a piece of a batch, one by one: made only when a condition needs them so, and of what it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.events import Event
from palio.events.groups import Element, Group, Grouped
from palio.events.names import join_path, split_path
from palio.matching.columnar.segment import Ints
from palio.matching.flat_columns import is_within

_MOST_OF_ALL: Final = 2  # where fewer than one in so many rows are asked, only those are read


class SingleEvents:
    """The events of a piece, by row."""

    def __init__(self, piece: pa.RecordBatch | list[Event], paths: bool = False) -> None:
        self._piece = piece
        self._paths = paths
        self._made: dict[tuple[int, ...] | None, list[Mapping[str, Any]]] = {}  # by the columns they are made of

    def all(self) -> list[Mapping[str, Any]]:
        return self._of_columns(None)

    def _of_columns(self, places: tuple[int, ...] | None) -> list[Mapping[str, Any]]:
        known = self._made.get(places)
        if known is None:
            piece = self._piece if isinstance(self._piece, list) else _narrowed(self._piece, places)
            known = self._made[places] = list(self._read(piece))
        return known

    def _read(self, piece: pa.RecordBatch | list[Event]) -> Iterable[Mapping[str, Any]]:
        """Events by their attributes: by the paths of these, where the columns are named by those."""
        events = (event.attributes for event in (piece if isinstance(piece, list) else Event.from_arrow(piece)))
        if not self._paths or isinstance(piece, list):
            return events
        rename = _Renaming(piece.schema.names)
        return (rename.all_in(attributes) for attributes in events)

    def some(self, rows: Ints, names: Collection[str] | None) -> Iterable[Mapping[str, Any]]:
        """The events of some rows, in that order; of their attributes at least those that are named."""
        if isinstance(self._piece, list) or None in self._made:
            known = self.all()
            return [known[row] for row in rows.tolist()]
        columns = None if names is None else _columns_of(self._piece, names, self._paths)
        if columns not in self._made:
            distinct, places = np.unique(rows, return_inverse=True)
            if len(distinct) * _MOST_OF_ALL < self._piece.num_rows:
                with suppress(pa.ArrowNotImplementedError):  # of columns of some rare types, rows cannot be taken
                    taken = list(self._read(_narrowed(self._piece, columns).take(pa.array(distinct))))
                    return [taken[place] for place in places.tolist()]
        known = self._of_columns(columns)
        return [known[row] for row in rows.tolist()]


class _Renaming(dict[str, str]):
    """From an attribute whose first name was taken as a name of its own to one whose first name is a path."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__((join_path((path,)), path) for path in paths)

    def __missing__(self, attribute: str) -> str:
        first, *rest = split_path(attribute)
        self[attribute] = renamed = ".".join((first, join_path(rest)))
        return renamed

    def all_in(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same attributes by their other names; those that belong together still do."""
        if isinstance(attributes, Grouped):
            return Grouped(self.all_in(attributes.alone), self._groups(attributes.groups))
        return {self[name]: value for name, value in attributes.items()}

    def _groups(self, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        return tuple(
            Group(self[path], tuple(Element(self.all_in(alone), self._groups(inner)) for alone, inner in elements))
            for path, elements in groups
        )


def _columns_of(batch: pa.RecordBatch, names: Collection[str], paths: bool) -> tuple[int, ...]:
    """The places of the columns that have a part in some attributes."""
    first = {split_path(name)[0] for name in names}

    def has_part(column: str) -> bool:
        return any(is_within(name, column) for name in names) if paths else column in first

    return tuple(place for place, column in enumerate(batch.schema.names) if has_part(column))


def _narrowed(batch: pa.RecordBatch, places: tuple[int, ...] | None) -> pa.RecordBatch:
    return batch if places is None else batch.select(list(places))
