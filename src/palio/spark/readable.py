"""Rows that no event could be: one of them must not end a job, or a stream for good.

A text in Spark may hold bytes that are no UTF-8, and an array more values than an event may have. What is wrong in a
text becomes U+FFFD, as where Spark itself makes characters of it; an array that is too long is not there.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from palio.events import DEFAULT_LIMITS

_types = pa.types


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as it is, or with what could not be read put right."""
    columns = batch.columns
    put_right = [_readable(column) for column in columns]
    if _are_same(put_right, columns):
        return batch
    return pa.RecordBatch.from_arrays(put_right, batch.schema.names)


def _are_same(some: list[Any], others: list[Any]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))


def _readable(array: Any) -> Any:
    kind = array.type
    if _types.is_string(kind) or _types.is_large_string(kind):
        return _text(array)
    if _types.is_dictionary(kind):
        values = array.dictionary
        put_right = _readable(values)
        return array if put_right is values else pa.DictionaryArray.from_arrays(array.indices, put_right)
    if _types.is_struct(kind):
        members = array.flatten()
        right = [_readable(each) for each in members]
        if _are_same(right, members):
            return array
        return pa.StructArray.from_arrays(right, fields=list(kind), mask=array.is_null())
    if _types.is_list(kind):
        return _list(array)
    return array


def _text(array: Any) -> Any:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        pieces = array.cast(pa.large_binary() if _types.is_large_string(array.type) else pa.binary()).to_pylist()
        texts = [None if each is None else each.decode("utf-8", "replace") for each in pieces]
        return pa.array(texts, array.type)
    return array


def _list(array: Any) -> Any:
    lengths = pc.list_value_length(array)
    if (pc.max(lengths).as_py() or 0) > DEFAULT_LIMITS.array_length:
        short = pc.less_equal(lengths, DEFAULT_LIMITS.array_length)
        array = pc.if_else(short, array, pa.scalar(None, array.type))
    values = array.flatten()
    put_right = _readable(values)
    if put_right is values:
        return array
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    offsets = pa.array([0, *counts.cumsum().tolist()], pa.int32())
    return pa.ListArray.from_arrays(offsets, put_right, array.type, mask=array.is_null())
