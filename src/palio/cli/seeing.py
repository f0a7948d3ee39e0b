"""Which attributes do the events of a batch have?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from palio.events import Event
from palio.events.names import join_path

if TYPE_CHECKING:
    import pyarrow as pa


def names_in(batch: Any) -> Iterator[str]:
    """The names of all attributes of a list of events; of a table, those that its columns stand for, empty or not."""
    if isinstance(batch, list):
        for event in batch:
            yield from event.attributes
        return
    for field in batch.schema:
        if _has_map(field.type):  # whose keys only the rows know
            yield from names_in(list(Event.from_arrow(batch.select([field.name]))))
        else:
            yield from _paths((field.name,), field.type)


def _paths(path: tuple[str, ...], kind: pa.DataType) -> Iterator[str]:
    if _is_list(kind):
        yield from _paths(path, kind.value_type)
    elif _fields(kind):
        for field in _fields(kind):
            yield from _paths((*path, field.name), field.type)
    else:
        yield join_path(path)


def _has_map(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    if types.is_map(kind):
        return True
    return _has_map(kind.value_type) if _is_list(kind) else any(_has_map(field.type) for field in _fields(kind))


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    return any(is_one(kind) for is_one in (types.is_list, types.is_large_list, types.is_fixed_size_list))


def _fields(kind: pa.DataType) -> list[pa.Field]:
    import pyarrow.types as types

    return [kind.field(place) for place in range(kind.num_fields)] if types.is_struct(kind) else []
