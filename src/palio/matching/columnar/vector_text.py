"""String functions on vectors.

Arrow's functions are used where they mean what `filters.expressions.text_functions` means: for any text in UTF-8 where
bytes or code points are compared, counted or cut, for ASCII only where letters change case. Every other function of one
column is computed once per distinct value (`vector_compiler`), and so are these where the column has a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from types import NoneType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.filters.expressions import text_cast
from palio.filters.expressions.ast import Call
from palio.filters.expressions.coercion import INTERVALS
from palio.filters.expressions.text_functions import TEXT_LIMIT
from palio.filters.like import LikePattern
from palio.matching.columnar.vector_compiler import Form, Part, VectorCompiler
from palio.matching.columnar.vectors import Vector, dump, is_ascii, mask_arrow, of_arrow, of_dictionary

_EXACT_CASTS: Final = frozenset({int, bool, date})
_MAX_POSITION: Final = 2**31 - 1


def as_text(compiler: VectorCompiler, part: Part) -> Part:
    """Values as CAST writes them; binary values are read as UTF-8."""
    if part.kind is str or part.kind is NoneType:
        return part
    if part.kind in INTERVALS:
        return compiler.null
    zone = compiler.timezone
    if part.is_constant:
        return compiler.constant(text_cast.to_text(part.value, zone))  # type: ignore[arg-type]
    if part.kind in _EXACT_CASTS:
        kind = part.kind
        return compiler.strict(
            "string", str, lambda vector: of_arrow(dump(vector, kind, len(vector.values)).cast(pa.large_string())), part
        )
    return compiler.mapped("string", str, lambda value: text_cast.to_text(value, zone), part)


def on_texts(compute: Callable[[pa.Array], pa.Array]) -> Callable[[Vector], Vector]:
    """A function of strings, on the entries of a dictionary where a column has one."""

    def on_vector(vector: Vector) -> Vector:
        if not vector.is_encoded:
            return of_arrow(compute(vector.values))
        dictionary = vector.dictionary()
        return of_dictionary(pa.DictionaryArray.from_arrays(dictionary.indices, compute(dictionary.dictionary)))

    return on_vector


def to_numbers(compute: Callable[[pa.Array], pa.Array], dtype: Any) -> Callable[[Vector], Vector]:
    """A function from strings to integers or booleans."""

    def on_vector(vector: Vector) -> Vector:
        if not vector.is_encoded:
            return Vector(
                np.asarray(compute(vector.values).fill_null(0 if dtype is np.int64 else False)).astype(dtype),
                vector.valid,
            )
        dictionary = vector.dictionary()
        entries = np.asarray(compute(dictionary.dictionary)).astype(dtype)
        if not len(entries):
            return Vector(np.zeros(len(dictionary), dtype), vector.valid)
        return Vector(entries[np.asarray(dictionary.indices.fill_null(0))], vector.valid)

    return on_vector


# Functions of one text


def _letters(on_ascii: Callable[[pa.Array], pa.Array], on_text: Callable[[str], str]) -> Form:
    def compute(array: pa.Array) -> pa.Array:
        if is_ascii(array):
            return on_ascii(array)
        entries = array.dictionary_encode()
        changed = [None if text is None else on_text(text) for text in entries.dictionary.to_pylist()]
        return pa.array(changed, array.type).take(entries.indices)

    return _of_text(str, on_texts(compute))


def _of_text(kind: type, compute: Callable[[Vector], Vector]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        if len(parts) != 1 or parts[0].kind is bytes:
            return None
        return compiler.strict(call.function, kind, compute, as_text(compiler, parts[0]))

    return form


def _trimmed(trim: Callable[..., pa.Array], characters_first: bool = True) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        characters, text = (" ", parts[0]) if len(parts) == 1 else _trim_arguments(parts, characters_first)
        if characters is None:
            return None
        return compiler.strict(
            (call.function, characters),
            str,
            on_texts(lambda array: trim(array, characters=characters) if characters else array),
            as_text(compiler, text),
        )

    return form


def _trim_arguments(parts: Sequence[Part], characters_first: bool) -> tuple[str | None, Part]:
    first, second = parts if characters_first else parts[::-1]
    return first.text, second


def _substring(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    numbers = [part.value for part in parts[1:] if part.is_constant and type(part.value) is int]
    if len(numbers) < len(parts) - 1 or any(abs(each) > _MAX_POSITION for each in numbers) or numbers[0] < 0:
        return None
    start = max(numbers[0] - 1, 0)
    stop = max(start + numbers[1], start) if len(numbers) == 2 else None
    return _sliced(compiler, parts[0], start, stop)


def _left(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    count = parts[1].value
    if not parts[1].is_constant or type(count) is not int or abs(count) > _MAX_POSITION:
        return None
    return _sliced(compiler, parts[0], 0, max(count, 0))


def _sliced(compiler: VectorCompiler, text: Part, start: int, stop: int | None) -> Part | None:
    if text.kind is bytes:
        return None

    def compute(array: pa.Array) -> pa.Array:
        # By bytes it is several times faster than by code points, but Arrow fails where there is no end.
        if stop is not None and is_ascii(array):
            return pc.binary_slice(array.cast(pa.large_binary()), start, stop).cast(array.type)
        return pc.utf8_slice_codeunits(array, start, stop)

    return compiler.strict(("substring", start, stop), str, on_texts(compute), as_text(compiler, text))


def _length(array: pa.Array) -> pa.Array:
    return pc.binary_length(array) if is_ascii(array) else pc.utf8_length(array)


def _replace(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    search = parts[1].text
    by = parts[2].text if len(parts) == 3 else ""
    if search is None or by is None:
        return None
    if not search:
        return as_text(compiler, parts[0])
    replaced = on_texts(lambda array: pc.replace_substring(array, pattern=search, replacement=by))
    limited = (lambda vector: _limited(replaced(vector))) if len(by) > len(search) else replaced
    return compiler.strict(("replace", search, by), str, limited, as_text(compiler, parts[0]))


# Tests of a text for a part


def _test(name: str, function: Callable[..., pa.Array]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        text, part = parts
        if text.kind is not str or part.text is None:
            return compiler.null if {text.kind, part.kind} == {str, bytes} else None
        return compiler.strict((name, part.text), bool, _tested(function, part.text), text)

    return form


def _tested(function: Callable[..., pa.Array], pattern: str) -> Callable[[Vector], Vector]:
    return to_numbers(lambda array: function(array, pattern=pattern), np.bool_)


_SHAPES: Final[dict[str, Callable[..., pa.Array]]] = {
    "prefix": pc.starts_with,
    "suffix": pc.ends_with,
    "substring": pc.match_substring,
}


def _like(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    text, pattern = parts[0], parts[1].text
    if text.kind is not str or pattern is None or len(parts) > 2:
        return None
    try:
        parsed = LikePattern.parse(pattern, "\\", False)
    except ValueError:
        return compiler.null
    function = _SHAPES.get(parsed.shape)
    if function is None:
        return None
    return compiler.strict((parsed.shape, parsed.text), bool, _tested(function, parsed.text), text)


def _instr(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    if len(parts) > 2:
        return None
    text, part = parts
    if part.text is None:
        return None
    pattern = part.text

    def find(array: pa.Array) -> pa.Array:
        if is_ascii(array):
            return pc.add(pc.find_substring(array, pattern=pattern).cast(pa.int64()), 1)
        return pa.array([None if each is None else each.find(pattern) + 1 for each in array.to_pylist()], pa.int64())

    return compiler.strict(("instr", pattern), int, to_numbers(find, np.int64), as_text(compiler, text))


# Concatenation


def _concat(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    if any(part.kind is bytes for part in parts):
        return None
    texts = [as_text(compiler, part) for part in parts]
    return compiler.strict("concat", str, _joined, *texts)


def _joined(*vectors: Vector) -> Vector:
    empty = pa.scalar("", pa.large_string())
    joined = pc.binary_join_element_wise(*(vector.values for vector in vectors), empty, null_handling="emit_null")
    return _limited(of_arrow(joined))


def _limited(vector: Vector) -> Vector:
    """Strings no longer than the limit; a longer one is NULL."""
    array = vector.values
    longest = pc.max(pc.binary_length(array)).as_py()
    if longest is None or longest <= TEXT_LIMIT:
        return vector
    short = pc.less_equal(pc.utf8_length(array), TEXT_LIMIT).fill_null(False)
    return of_arrow(mask_arrow(array, np.asarray(short)))


TEXT_FORMS: Final[Mapping[str, Form]] = {
    "lower": _letters(pc.ascii_lower, str.lower),
    "upper": _letters(pc.ascii_upper, str.upper),
    "length": _of_text(int, to_numbers(_length, np.int64)),
    "octet_length": _of_text(int, to_numbers(pc.binary_length, np.int64)),
    "bit_length": _of_text(int, to_numbers(lambda array: pc.multiply(pc.binary_length(array), 8), np.int64)),
    "reverse": _of_text(str, on_texts(pc.utf8_reverse)),
    "trim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "btrim": _trimmed(pc.utf8_trim, characters_first=False),
    "substring": _substring,
    "left": _left,
    "concat": _concat,
    "replace": _replace,
    "startswith": _test("prefix", pc.starts_with),
    "endswith": _test("suffix", pc.ends_with),
    "contains": _test("substring", pc.match_substring),
    "like": _like,
    "instr": _instr,
}
