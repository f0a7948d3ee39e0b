"""Random Arrow columns of every type that `arrow_columns.simplify` gives, mostly of edge cases.

The columns have the names that the generator of expressions uses (`tests.filters.expressions.generator`), and mostly
the kind that it takes them for; some have another, because an event carries no schema.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from palio.matching.columnar.arrow_columns import simplify
from tests.filters.expressions.samples import DAYS, MOMENTS, POOLS, TEXTS, WORDS
from tests.strategies import BYTES, DATES, FLOATS, INTEGERS, STRINGS, TIMESTAMPS

_ASCII = [
    "",
    "a",
    "Abc",
    " x ",
    "10",
    "-7",
    "2.5",
    "true",
    "2024-02-29",
    "2024-02-29 12:00:00",
    "ab",
    "b%",
    "zz Top",
    "\t1",
]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: dict[str, list[pa.DataType]] = {
    "integer": [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.int64(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    ],
    "double": [pa.float64(), pa.float64(), pa.float32(), pa.float16()],
    "decimal": [pa.decimal128(10, 2), pa.decimal128(18, 4), pa.decimal128(38, 10), pa.decimal128(38, 0)],
    "text": [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    "day": [pa.date32(), pa.date64()],
    "moment": [pa.timestamp(unit, zone) for unit in ("us", "s", "ms", "ns") for zone in ("UTC", None, "Asia/Tokyo")],
    "truth": [pa.bool_()],
    "binary": [pa.binary(), pa.large_binary(), pa.binary_view()],
}
_KINDS = {
    **dict.fromkeys("ijn", "integer"),
    **dict.fromkeys("de", "double"),
    **dict.fromkeys("mk", "decimal"),
    **dict.fromkeys("srw", "text"),
    **dict.fromkeys("tu", "day"),
    **dict.fromkeys(("ts", "us"), "moment"),
    **dict.fromkeys("bc", "truth"),
    **dict.fromkeys("xy", "binary"),
}


def random_columns(random: Random, rows: int) -> dict[str, pa.Array]:
    """A column for every name of the generator's scalars; some are missing."""
    columns = {}
    for name, kind in _KINDS.items():
        chance = random.random()
        if chance < 0.02:
            continue
        if chance < 0.05:
            columns[name] = pa.nulls(rows)
            continue
        other = random.choice(list(_TYPES)) if chance > 0.9 else kind
        columns[name] = simplify(_column(random, other, POOLS[name] if other == kind else (), rows), name)
    return columns


def _column(random: Random, kind: str, pool: tuple[Any, ...], rows: int) -> pa.Array:
    data_type = random.choice(_TYPES[kind])
    plain = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    source = _VALUES[kind](random, plain)
    if pool and random.random() < 0.5:
        source = [value for value in pool if _fits(value, plain)] or source
    share = random.choice((0.0, 0.1, 0.5, 1.0)) if random.random() < 0.7 else 0.1
    # A slice, because a column of a batch need not begin where its buffers do.
    before = random.choice((0, 0, 3, 9))
    values = [None if random.random() < share else random.choice(source) for _ in range(rows + before)]
    array = pa.array(values, plain) if kind != "moment" else _moments(values, plain)
    if pa.types.is_dictionary(data_type):
        array = array.dictionary_encode()
        if random.random() < 0.3:  # a null in the dictionary, too
            array = pa.DictionaryArray.from_arrays(
                array.indices, pa.concat_arrays([array.dictionary, pa.nulls(1, plain)])
            )
    return array.slice(before)


def _moments(values: list[Any], data_type: pa.DataType) -> pa.Array:
    """Timestamps as integers of their unit, which may be beyond the years of Python."""
    numbers = [None if value is None else _in_unit(value, data_type.unit) for value in values]
    return pa.array(numbers, pa.int64()).cast(data_type)


def _in_unit(value: datetime | int, unit: str) -> int:
    if isinstance(value, int):
        return value
    micros = (value - _EPOCH) // timedelta(microseconds=1)
    number = {"s": micros // 1_000_000, "ms": micros // 1_000, "us": micros, "ns": micros * 1_000 + 7}[unit]
    return max(min(number, 2**63 - 2_000), 2_000 - 2**63)


def _fits(value: Any, data_type: pa.DataType) -> bool:
    try:
        pa.array([value], data_type)
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    return True


def _integers(random: Random, data_type: pa.DataType) -> list[Any]:
    bits = data_type.bit_width
    ends = (0, 2**bits - 1) if pa.types.is_unsigned_integer(data_type) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    # The largest unsigned ones are decimals to an expression.
    some = [*INTEGERS, *ends, *range(-5, 6), 12, 31, 127, *(random.randint(-(2**40), 2**40) for _ in range(5))]
    if data_type == pa.uint64() and random.random() < 0.5:
        some = [value for value in some if value < 2**63]
    return [value for value in some if ends[0] <= value <= ends[1]]


def _doubles(random: Random, data_type: pa.DataType) -> list[Any]:
    some = [*FLOATS, *(random.uniform(-100, 100) for _ in range(8)), 0.5, -1.5, 253402300799.5, -62135596800.5, 1e-3]
    if data_type != pa.float16():
        return some
    return [np.float16(value) for value in some if not 65_504 < abs(value) < math.inf]


def _decimals(random: Random, data_type: pa.DataType) -> list[Any]:
    most = 10**data_type.precision - 1
    digits = [0, 1, -1, most, -most, 250, 12345, *(random.randint(-(10**9), 10**9) for _ in range(4))]
    return [Decimal((number < 0, Decimal(number).as_tuple().digits, -data_type.scale)) for number in digits]


def _texts(random: Random, data_type: pa.DataType) -> list[Any]:
    return random.choice(([*TEXTS, *STRINGS], [*WORDS, *STRINGS], _ASCII, _ASCII))


def _dates(random: Random, data_type: pa.DataType) -> list[Any]:
    return [*DATES, *DAYS, *(date(2024, 1, 1) + timedelta(random.randint(-900, 900)) for _ in range(6))]


def _instants(random: Random, data_type: pa.DataType) -> list[Any]:
    near = [datetime(2024, 3, 31, tzinfo=UTC) + timedelta(seconds=random.randint(-(10**7), 10**7)) for _ in range(8)]
    ends = [] if data_type.unit == "ns" else [-(2**63), 2**63 - 1]
    return [*(MOMENTS if data_type.unit == "ns" else (*TIMESTAMPS, *MOMENTS)), *near, *ends]


_VALUES = {
    "integer": _integers,
    "double": _doubles,
    "decimal": _decimals,
    "text": _texts,
    "day": _dates,
    "moment": _instants,
    "truth": lambda random, data_type: [True, False],
    "binary": lambda random, data_type: BYTES,
}
