"""Interpreter of kernels: the same functions run by Python, for as long as they are not compiled.

Compiling all kernels takes seconds, and a first answer must not wait for it. A kernel is a Python function that reads
and writes memory by the operations of `native`. With these operations written in Python, the function runs as it
stands, some hundred times slower. So there is one definition of every kernel, and nothing to keep in step.

Python's integers do not overflow. Where a kernel means 64 bits, it says so by `wrapped`, which costs compiled code
nothing. Arrays of the index are handed over as memoryviews, whose elements are Python's integers too: those of NumPy
would overflow at their own width, as compiled code does not.

Rejected: a second search over the same arrays, in NumPy. It would be as long as the kernels, and one more thing to
change with the layout.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from ctypes import c_double, c_float, c_int8, c_int16, c_int32, c_int64, c_uint8, c_uint16, c_uint32, memmove, string_at
from functools import cache
from types import FunctionType
from typing import Any, Final

import numpy as np
from numba.core.dispatcher import Dispatcher

_NATIVE: Final = "palio.matching.columnar.native"
_INDEX: Final = "palio.matching.columnar."  # modules whose kernels count in Python's integers
_BITS_64: Final = (1 << 64) - 1
_DOUBLE: Final = struct.Struct("<d")
_LONG: Final = struct.Struct("<q")
_SIXTEEN_SHORTS: Final = struct.Struct("<16H")
_THIRTY_TWO_SHORTS: Final = struct.Struct("<32H")
_SIXTEEN_INTEGERS: Final = struct.Struct("<16i")


@cache
def interpreted(kernel: Any) -> Callable[..., Any]:
    """The function of a kernel, with Python in the place of everything compiled that it calls."""
    function = _copy(kernel.py_func)
    if not kernel.py_func.__module__.startswith(_INDEX):
        return function

    def call(*arguments: Any) -> Any:
        return function(*map(_with_python_elements, arguments))

    return call


def _copy(function: FunctionType) -> FunctionType:
    made = FunctionType(function.__code__, _globals_of(function.__module__), function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


_globals: dict[str, dict[str, Any]] = {}


def _globals_of(module: str) -> dict[str, Any]:
    """The names of a module of kernels, with interpreted functions and operations under them."""
    known = _globals.get(module)
    if known is not None:
        return known
    given = vars(sys.modules[module])
    # Known before it is filled: functions of a module call each other.
    made = _globals[module] = dict(given)
    operations = {
        id(value): OPERATIONS[name] for name, value in vars(sys.modules[_NATIVE]).items() if name in OPERATIONS
    }
    for name, value in given.items():
        if isinstance(value, Dispatcher):
            made[name] = _copy(value.py_func)
        elif id(value) in operations:
            made[name] = operations[id(value)]
    return made


def _with_python_elements(argument: Any) -> Any:
    """An argument with arrays as memoryviews, within named tuples of arrays too."""
    if isinstance(argument, np.ndarray):
        return argument.data
    if isinstance(argument, tuple) and hasattr(argument, "_fields"):
        return type(argument)(*map(_with_python_elements, argument))
    return argument


# The operations


def _reader(kind: Any, size: int) -> Callable[[int, int], Any]:
    read = kind.from_address
    return lambda address, index: read(address + size * index).value


def _writer(kind: Any, size: int) -> Callable[[int, int, int], None]:
    def put(address: int, index: int, value: int) -> None:
        kind.from_address(address + size * index).value = value  # cut to its width, as compiled code does

    return put


def _wrapped(value: int) -> int:
    value &= _BITS_64
    return value - (1 << 64) if value >> 63 else value


def _shifted(value: int, by: int) -> int:
    return _wrapped((value & _BITS_64) >> by)


def _float_bits(value: float) -> int:
    return int(_LONG.unpack(_DOUBLE.pack(value))[0])


def _lowest_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _count_bits(mask: int) -> int:
    return (mask & _BITS_64).bit_count()


def _prefetch(address: int) -> None:
    pass


def _shorts(address: int) -> tuple[int, ...]:
    return _SIXTEEN_SHORTS.unpack(string_at(address, 32))


def _more_shorts(address: int) -> tuple[int, ...]:
    return _THIRTY_TWO_SHORTS.unpack(string_at(address, 64))


def _short_at(table: int, index: int) -> int:
    return int(c_uint16.from_address(table + 2 * index).value)


def _mask(flags: list[bool]) -> int:
    return sum([1 << lane for lane, flag in enumerate(flags) if flag])


def _within_each(axes: int, lows: int, highs: int, table: int, mask: int) -> int:
    tests = zip(_shorts(axes), _shorts(lows), _shorts(highs), strict=True)
    return _mask([low <= _short_at(table, axis & mask) <= high for axis, low, high in tests])


def _within_few(axes: int, lows: int, highs: int, table: int) -> int:
    values = _more_shorts(table) + _more_shorts(table + 64)
    tests = zip(_more_shorts(axes), _more_shorts(lows), _more_shorts(highs), strict=True)
    return _mask([low <= values[axis & 63] <= high for axis, low, high in tests])


def _within_fewer(axes: int, lows: int, highs: int, table: int) -> int:
    values = _shorts(table) + _shorts(table + 32)
    tests = zip(_shorts(axes), _shorts(lows), _shorts(highs), strict=True)
    return _mask([low <= values[axis & 31] <= high for axis, low, high in tests])


def _nonzero_each(axes: int, table: int, mask: int) -> int:
    return _mask([_short_at(table, axis & mask) != 0 for axis in _shorts(axes)])


def _within(lows: int, highs: int, value: int) -> int:
    value &= 0xFFFF
    return _mask([low <= value <= high for low, high in zip(_shorts(lows), _shorts(highs), strict=True)])


def _equal(values: int, value: int) -> int:
    value &= 0xFFFF
    return _mask([each == value for each in _more_shorts(values)])


def _lower(source: int, target: int) -> int:
    text = string_at(source, 32)
    memmove(target, text.lower(), 32)
    return 0 if text.isascii() else _mask([byte >= 0x80 for byte in text])


def _negative(source: int) -> int:
    return _mask([value < 0 for value in _SIXTEEN_INTEGERS.unpack(string_at(source, 64))])


def _pack(source: int, mask: int, target: int) -> None:
    text = string_at(source, 64)
    chosen = b"".join([text[4 * lane : 4 * lane + 4] for lane in range(16) if mask >> lane & 1])
    memmove(target, chosen, len(chosen))


def _fill(target: int, value: int) -> None:
    memmove(target, (value & 0xFFFFFFFF).to_bytes(4, "little") * 16, 64)


def _fill_words(target: int, value: int) -> None:
    memmove(target, (value & _BITS_64).to_bytes(8, "little") * 8, 64)


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "u8_at": _reader(c_uint8, 1),
    "i8_at": _reader(c_int8, 1),
    "u16_at": _reader(c_uint16, 2),
    "i16_at": _reader(c_int16, 2),
    "u32_at": _reader(c_uint32, 4),
    "i32_at": _reader(c_int32, 4),
    "i64_at": _reader(c_int64, 8),
    "f32_at": _reader(c_float, 4),
    "f64_at": _reader(c_double, 8),
    "put_u8": _writer(c_uint8, 1),
    "put_u16": _writer(c_uint16, 2),
    "put_i32": _writer(c_int32, 4),
    "put_i64": _writer(c_int64, 8),
    "float_bits": _float_bits,
    "shifted": _shifted,
    "wrapped": _wrapped,
    "lowest_bit": _lowest_bit,
    "count_bits": _count_bits,
    "prefetch": _prefetch,
    "within_each": _within_each,
    "within_few": _within_few,
    "within_fewer": _within_fewer,
    "nonzero_each": _nonzero_each,
    "within": _within,
    "equal": _equal,
    "lower": _lower,
    "negative": _negative,
    "pack": _pack,
    "fill": _fill,
    "fill_words": _fill_words,
}
"""What the operations of `native` do, by name."""
