"""Kernels that encode values as slots: integers, floats, texts, and whole columns of an Arrow batch.

A value's slot is the number of cuts that are not above it. Numbers find it by a table over the leading bits of the
value, which leaves a handful of cuts to search; texts by a hash table of those that are compared for equality. A text
of up to seven bytes is its own hash key, so that finding the key is finding the text.
"""

from __future__ import annotations

import math

from palio.matching.columnar.layout import (
    ARRAY_BUFFERS,
    ARRAY_CHILDREN,
    ARRAY_LENGTH,
    ARRAY_NULLS,
    ARRAY_OFFSET,
    AXES_CUT_KINDS,
    AXES_FLOAT_CUTS,
    AXES_HINTS,
    AXES_INSTANT_CUTS,
    AXES_INTEGER_CUTS,
    AXES_ROWS,
    AXES_TABLES,
    AXES_TEXT,
    AXES_TEXT_STARTS,
    AXIS_BYTES,
    AXIS_DATES,
    AXIS_FIELDS,
    AXIS_FLOAT_HINTS,
    AXIS_FLOAT_PLACE,
    AXIS_INTEGER_COUNT,
    AXIS_INTEGER_HINTS,
    AXIS_NULLS,
    AXIS_NUMBER_COUNT,
    AXIS_NUMBER_PLACE,
    AXIS_NUMBERS,
    AXIS_STRINGS,
    AXIS_TIMESTAMPS,
    COLUMN_AXIS,
    COLUMN_DIVIDE,
    COLUMN_FIELDS,
    COLUMN_KIND,
    COLUMN_MULTIPLY,
    COLUMN_OFFSET,
    COLUMN_SLOTS,
    COLUMN_TEXT,
    COLUMN_TEXT_END,
    COLUMN_VALID,
    COLUMN_VALID_END,
    COLUMN_VALUES,
    CUT_AFTER_INTEGER,
    FALSE,
    FIBONACCI_64,
    KIND_BOOL,
    KIND_BYTES32,
    KIND_BYTES64,
    KIND_DATE32,
    KIND_DATE64,
    KIND_F32,
    KIND_F64,
    KIND_I16,
    KIND_I32,
    KIND_I64,
    KIND_NULL,
    KIND_SLOT8,
    KIND_SLOT16,
    KIND_SLOT32,
    KIND_SLOT64,
    KIND_TEXT32,
    KIND_TEXT64,
    KIND_TIMESTAMP,
    KIND_U8,
    KIND_U16,
    KIND_U32,
    KIND_U64,
    NULL,
    TEXT_BITS,
    TEXT_COUNT,
    TEXT_ORDERED,
    TEXT_PLACE,
    TEXT_TABLE,
)
from palio.matching.columnar.native import (
    compiled,
    f32_at,
    f64_at,
    float_bits,
    i8_at,
    i16_at,
    i32_at,
    i64_at,
    inlined,
    lowest_bit,
    put_i32,
    put_i64,
    shifted,
    u8_at,
    u16_at,
    u32_at,
    wrapped,
)

_HASH_MULTIPLIER = -4417276706812531889
_NAN = 0x7FF8000000000000
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF
_INT64_LIMIT_FLOAT = 9223372036854775808.0  # one more than the largest integer of 64 bits
_HASH_MARK = -0x8000000000000000  # in the key of a text longer than seven bytes, which is only its hash


@inlined
def row_of(axes: int, axis: int) -> int:
    """The address of an axis's row of facts."""
    return i64_at(axes, AXES_ROWS) + 8 * AXIS_FIELDS * axis


@inlined
def upper_bound(cuts: int, low: int, high: int, value: int) -> int:
    """How many of the cuts up to `high` are at most a value, the first `low` being known to be."""
    while low < high:
        middle = (low + high) >> 1
        if i64_at(cuts, middle) <= value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def hinted_upper_bound(cuts: int, count: int, hints: int, shift: int, smallest: int, value: int) -> int:
    """`upper_bound` in a whole run of cuts, by the table that says where a value's leading bits begin."""
    if count == 0 or value < i64_at(cuts, 0):
        return 0
    if value >= i64_at(cuts, count - 1):
        return count
    if hints == 0:
        return upper_bound(cuts, 0, count, value)
    hint = hints + 4 * shifted(value - smallest, shift)
    # One value per hint: the table has the rank itself.
    if shift == 0:
        return i32_at(hint, 1)
    low = i32_at(hint, 0)
    many = i32_at(hint, 1) - low
    if many > 4:
        return upper_bound(cuts, low, low + many, value)
    # A few comparisons that all run are faster than fewer that must be guessed; the array is padded.
    place = cuts + 8 * low
    low += (many > 0) & (i64_at(place, 0) <= value)
    low += (many > 1) & (i64_at(place, 1) <= value)
    low += (many > 2) & (i64_at(place, 2) <= value)
    low += (many > 3) & (i64_at(place, 3) <= value)
    return low


@inlined
def hints_at(axes: int, row: int, which: int) -> int:
    place = i64_at(row, which)
    return 0 if place < 0 else i64_at(axes, AXES_HINTS) + 4 * place


@inlined
def integer_rank(axes: int, row: int, value: int) -> int:
    cuts = i64_at(axes, AXES_INTEGER_CUTS) + 8 * i64_at(row, AXIS_NUMBER_PLACE)
    count = i64_at(row, AXIS_INTEGER_COUNT)
    shift = i64_at(row, AXIS_INTEGER_HINTS + 1)
    smallest = i64_at(row, AXIS_INTEGER_HINTS + 2)
    return hinted_upper_bound(cuts, count, hints_at(axes, row, AXIS_INTEGER_HINTS), shift, smallest, value)


@inlined
def order_of(value: float) -> int:
    """The place of a float among all: -0.0 is 0.0, NaN is one value above infinity."""
    if value != value:
        return _NAN
    bits = float_bits(value + 0.0)
    return bits if bits >= 0 else bits ^ _MAGNITUDE


@inlined
def order_rank(axes: int, row: int, order: int) -> int:
    cuts = i64_at(axes, AXES_FLOAT_CUTS) + 8 * i64_at(row, AXIS_FLOAT_PLACE)
    count = i64_at(row, AXIS_NUMBER_COUNT)
    shift = i64_at(row, AXIS_FLOAT_HINTS + 1)
    smallest = i64_at(row, AXIS_FLOAT_HINTS + 2)
    return hinted_upper_bound(cuts, count, hints_at(axes, row, AXIS_FLOAT_HINTS), shift, smallest, order)


@inlined
def between_integers(axes: int, row: int, value: float) -> int:
    """The rank of a float where all constants are integers that floats hold exactly."""
    count = i64_at(row, AXIS_NUMBER_COUNT)
    if value != value or value >= _INT64_LIMIT_FLOAT:
        return count
    if value < -_INT64_LIMIT_FLOAT:
        return 0
    # Now within 64 bits: the conversion cannot overflow.
    whole = int(math.floor(value))
    rank = integer_rank(axes, row, whole)
    if rank == count or value == whole:
        return rank
    # Between two integers lies the cut after the lower one, if there is one.
    place = i64_at(row, AXIS_NUMBER_PLACE) + rank
    cut = i64_at(i64_at(axes, AXES_INTEGER_CUTS), place)
    kind = u8_at(i64_at(axes, AXES_CUT_KINDS), place)
    return rank + (cut == whole + 1 and kind == CUT_AFTER_INTEGER)


@inlined
def integer_slot_of(axes: int, row: int, value: int) -> int:
    return i64_at(row, AXIS_NUMBERS) + integer_rank(axes, row, value)


@inlined
def float_slot_of(axes: int, row: int, value: float) -> int:
    first = i64_at(row, AXIS_NUMBERS)
    if i64_at(row, AXIS_FLOAT_PLACE) < 0:
        return first + between_integers(axes, row, value)
    return first + order_rank(axes, row, order_of(value))


@inlined
def instant_slot_of(axes: int, row: int, which: int, value: int) -> int:
    cuts = i64_at(axes, AXES_INSTANT_CUTS) + 8 * i64_at(row, which + 1)
    return i64_at(row, which) + upper_bound(cuts, 0, i64_at(row, which + 2), value)


@inlined
def text_key(text: int, length: int, end: int) -> int:
    """The hash key of a text; exact up to seven bytes. `end` is where readable memory ends."""
    if length < 8:
        if text + 8 <= end:
            word = i64_at(text, 0) & ((1 << (8 * length)) - 1)
        else:
            word = 0
            for index in range(length):
                word |= u8_at(text, index) << (8 * index)
        # The length distinguishes texts that end in zero bytes; plus 1, so that no key is 0, the mark of a free place.
        return word | (length + 1) << 56
    key = length * _HASH_MULTIPLIER
    for place in range(text, text + length - 8, 8):
        key = (key ^ i64_at(place, 0)) * FIBONACCI_64
        key ^= shifted(key, 32)
    key = (key ^ i64_at(text + length, -1)) * FIBONACCI_64
    return wrapped((key ^ shifted(key, 29)) | _HASH_MARK)


@inlined
def first_probe(key: int, bits: int) -> int:
    """The place in a hash table of 2^bits places at which probing for a key begins (Fibonacci hashing)."""
    return shifted(key * FIBONACCI_64, 64 - bits)


@inlined
def equal_long_texts(left: int, right: int, length: int) -> bool:
    """Whether two texts of one length, eight bytes or more, are equal."""
    for index in range(0, length - 8, 8):
        if i64_at(left + index, 0) != i64_at(right + index, 0):
            return False
    return i64_at(left + length, -1) == i64_at(right + length, -1)


@inlined
def text_less_than(left: int, left_length: int, right: int, right_length: int) -> bool:
    """Whether a text comes before another, byte by byte."""
    for index in range(min(left_length, right_length)):
        a = u8_at(left, index)
        b = u8_at(right, index)
        if a != b:
            return a < b
    return left_length < right_length


@inlined
def search_text(axes: int, row: int, which: int, text: int, length: int, key: int) -> int:
    """The slot of a text on an axis; `which` says whether it is a string or bytes."""
    first = i64_at(row, which)
    starts = i64_at(axes, AXES_TEXT_STARTS) + 8 * i64_at(row, which + TEXT_PLACE)
    table = i64_at(axes, AXES_TABLES) + 16 * i64_at(row, which + TEXT_TABLE)
    bits = i64_at(row, which + TEXT_BITS)
    if bits == 0:
        return first
    texts = i64_at(axes, AXES_TEXT)
    place = first_probe(key, bits)
    while True:
        found = i64_at(table, 2 * place)
        if found == 0:
            break
        if found == key:
            value = i64_at(table, 2 * place + 1)
            if key > 0:
                return value & 0xFFFFFFFF
            number = starts + 8 * (value >> 32)
            start = i64_at(number, 0)
            if i64_at(number, 1) - start == length and equal_long_texts(texts + start, text, length):
                return value & 0xFFFFFFFF
        place = (place + 1) & ((1 << bits) - 1)
    # Without cuts among texts, all that equal no constant share one slot.
    if i64_at(row, which + TEXT_ORDERED) == 0:
        return first
    low = 0
    high = i64_at(row, which + TEXT_COUNT)
    while low < high:
        middle = (low + high) >> 1
        start = i64_at(starts, middle)
        if text_less_than(text, length, texts + start, i64_at(starts, middle + 1) - start):
            high = middle
        else:
            low = middle + 1
    return first + low


@compiled
def whole_slot(axes: int, axis: int, which: int, value: int) -> int:
    """The slot of an integer, a date or a timestamp: `which` is where its kind begins on an axis."""
    row = row_of(axes, axis)
    if which == AXIS_NUMBERS:
        return integer_slot_of(axes, row, value)
    return instant_slot_of(axes, row, which, value)


@compiled
def float_slot(axes: int, axis: int, value: float) -> int:
    return float_slot_of(axes, row_of(axes, axis), value)


@compiled
def text_slot(axes: int, axis: int, which: int, text: int, length: int) -> int:
    return search_text(axes, row_of(axes, axis), which, text, length, text_key(text, length, text + length))


@compiled
def fill_tables(texts: int, starts: int, kept: int, slots: int, jobs: int, count: int, tables: int) -> None:
    """Enter texts into empty hash tables, each with its slot and the number by which it is kept.

    A job is the first text of a table, how many it has, the table's place, and the bits of its size.
    """
    for job in range(count):
        first = i64_at(jobs, 4 * job)
        table = tables + 16 * i64_at(jobs, 4 * job + 2)
        bits = i64_at(jobs, 4 * job + 3)
        for index in range(first, first + i64_at(jobs, 4 * job + 1)):
            text = texts + i64_at(starts, index)
            end = texts + i64_at(starts, index + 1)
            key = text_key(text, end - text, end)
            place = first_probe(key, bits)
            while i64_at(table, 2 * place) != 0:
                place = (place + 1) & ((1 << bits) - 1)
            put_i64(table, 2 * place, key)
            put_i64(table, 2 * place + 1, i64_at(slots, index) | i64_at(kept, index) << 32)


@inlined
def valid_bits(bitmap: int, end: int, bit: int, count: int) -> int:
    """Up to 32 bits of a validity bitmap, from a given one on."""
    address = bitmap + (bit >> 3)
    if address + 8 <= end:
        word = i64_at(address, 0)
    else:
        word = 0
        # Eight bytes would reach beyond the buffer.
        for index in range(min(end - address, 7)):
            word |= u8_at(address, index) << (8 * index)
    return (word >> (bit & 7)) & ((1 << count) - 1)


@inlined
def number_at(kind: int, values: int, index: int) -> int:
    """An integer of a column, whatever its width."""
    if kind == KIND_I64 or kind == KIND_U64 or kind == KIND_TIMESTAMP or kind == KIND_DATE64 or kind == KIND_SLOT64:
        return i64_at(values, index)
    if kind == KIND_I32 or kind == KIND_DATE32 or kind == KIND_SLOT32:
        return i32_at(values, index)
    if kind == KIND_U32:
        return u32_at(values, index)
    if kind == KIND_I16 or kind == KIND_SLOT16:
        return i16_at(values, index)
    if kind == KIND_U16:
        return u16_at(values, index)
    if kind == KIND_U8:
        return u8_at(values, index)
    return i8_at(values, index)


@inlined
def slot_at(axes: int, column: int, row: int, kind: int, index: int) -> int:
    """The slot of one element of a column that is not null; -1 where it says nothing."""
    values = i64_at(column, COLUMN_VALUES)
    if KIND_TEXT32 <= kind <= KIND_BYTES64:
        if kind == KIND_TEXT32 or kind == KIND_BYTES32:
            start = i32_at(values, index)
            length = i32_at(values, index + 1) - start
        else:
            start = i64_at(values, index)
            length = i64_at(values, index + 1) - start
        which = AXIS_STRINGS if kind == KIND_TEXT32 or kind == KIND_TEXT64 else AXIS_BYTES
        text = i64_at(column, COLUMN_TEXT) + start
        key = text_key(text, length, i64_at(column, COLUMN_TEXT_END))
        return search_text(axes, row, which, text, length, key)
    if kind == KIND_F64:
        return float_slot_of(axes, row, f64_at(values, index))
    if kind == KIND_F32:
        return float_slot_of(axes, row, f32_at(values, index))
    if kind == KIND_BOOL:
        return FALSE + ((u8_at(values, index >> 3) >> (index & 7)) & 1)
    number = number_at(kind, values, index)
    if kind <= KIND_U64:
        return integer_slot_of(axes, row, number)
    if kind >= KIND_SLOT8:
        return i32_at(i64_at(column, COLUMN_SLOTS), number)
    which = AXIS_TIMESTAMPS if kind == KIND_TIMESTAMP else AXIS_DATES
    divide = i64_at(column, COLUMN_DIVIDE)
    number *= i64_at(column, COLUMN_MULTIPLY)
    if divide > 1:
        rest = number % divide
        number = (number - rest) // divide
    return instant_slot_of(axes, row, which, number)


@inlined
def write_code(codes: int, stride: int, lengths: int, row: int, code: int) -> None:
    length = i32_at(lengths, row)
    put_i64(codes, row * stride + length, code)
    put_i32(lengths, row, length + 1)


@inlined
def encode_short_texts(
    axes: int, column: int, row: int, index: int, start: int, valid: int, codes: int, stride: int, lengths: int
) -> int:
    """Encode those of 32 strings that are found at once by their key; return which are left.

    This is where most of the time of most batches goes, so it keeps everything at hand and calls nothing.
    """
    axis = i64_at(column, COLUMN_AXIS) << 32
    offsets = i64_at(column, COLUMN_VALUES) + 4 * index
    texts = i64_at(column, COLUMN_TEXT)
    end = i64_at(column, COLUMN_TEXT_END)
    table = i64_at(axes, AXES_TABLES) + 16 * i64_at(row, AXIS_STRINGS + TEXT_TABLE)
    bits = i64_at(row, AXIS_STRINGS + TEXT_BITS)
    mask = (1 << bits) - 1
    is_unordered = i64_at(row, AXIS_STRINGS + TEXT_ORDERED) == 0
    other = axis | i64_at(row, AXIS_STRINGS)
    left = 0
    while valid != 0:
        which = lowest_bit(valid)
        valid &= valid - 1
        begin = i32_at(offsets, which)
        length = i32_at(offsets, which + 1) - begin
        text = texts + begin
        if length < 8 and text + 8 <= end:
            key = (i64_at(text, 0) & ((1 << (8 * length)) - 1)) | (length + 1) << 56
            # Both of the first two places are looked at: a quarter of all texts is at the second one, and which texts
            # are cannot be guessed.
            place = first_probe(key, bits)
            entry = table + 16 * place
            second = table + 16 * ((place + 1) & mask)
            found = i64_at(entry, 0)
            found_second = i64_at(second, 0)
            if (found == key) | (found_second == key):
                slot = u32_at(entry if found == key else second, 2)
                write_code(codes, stride, lengths, start + which, axis | slot)
                continue
            if ((found == 0) | (found_second == 0)) & is_unordered:
                write_code(codes, stride, lengths, start + which, other)
                continue
        left |= 1 << which
    return left


@inlined
def encode_integers(
    axes: int, column: int, row: int, index: int, start: int, valid: int, codes: int, stride: int, lengths: int
) -> None:
    """Encode up to 32 integers of 64 bits."""
    axis = i64_at(column, COLUMN_AXIS) << 32
    values = i64_at(column, COLUMN_VALUES) + 8 * index
    cuts = i64_at(axes, AXES_INTEGER_CUTS) + 8 * i64_at(row, AXIS_NUMBER_PLACE)
    count = i64_at(row, AXIS_INTEGER_COUNT)
    hints = hints_at(axes, row, AXIS_INTEGER_HINTS)
    shift = i64_at(row, AXIS_INTEGER_HINTS + 1)
    smallest = i64_at(row, AXIS_INTEGER_HINTS + 2)
    first = i64_at(row, AXIS_NUMBERS)
    while valid != 0:
        which = lowest_bit(valid)
        valid &= valid - 1
        slot = first + hinted_upper_bound(cuts, count, hints, shift, smallest, i64_at(values, which))
        write_code(codes, stride, lengths, start + which, axis | slot)


@compiled
def encode_columns(
    axes: int, columns: int, count: int, first: int, rows: int, codes: int, stride: int, lengths: int
) -> None:
    """Add the codes (axis and slot) of a block of rows of all columns to the rows' runs of codes."""
    for place in range(count):
        column = columns + 8 * COLUMN_FIELDS * place
        kind = i64_at(column, COLUMN_KIND)
        axis = i64_at(column, COLUMN_AXIS)
        bitmap = i64_at(column, COLUMN_VALID)
        end = i64_at(column, COLUMN_VALID_END)
        offset = i64_at(column, COLUMN_OFFSET) + first
        row = row_of(axes, axis)
        nulls = i64_at(row, AXIS_NULLS) != 0
        hashed = kind == KIND_TEXT32 and i64_at(row, AXIS_STRINGS + TEXT_BITS) > 0
        for start in range(0, rows, 32):
            many = min(32, rows - start)
            every = (1 << many) - 1
            valid = every
            if kind == KIND_NULL:
                valid = 0
            elif bitmap != 0:
                valid = valid_bits(bitmap, end, offset + start, many)
            if nulls:
                absent = every & ~valid
                while absent != 0:
                    write_code(codes, stride, lengths, start + lowest_bit(absent), axis << 32 | NULL)
                    absent &= absent - 1
            if hashed:
                valid = encode_short_texts(axes, column, row, offset + start, start, valid, codes, stride, lengths)
            elif kind == KIND_I64:
                encode_integers(axes, column, row, offset + start, start, valid, codes, stride, lengths)
                valid = 0
            while valid != 0:
                which = start + lowest_bit(valid)
                valid &= valid - 1
                slot = slot_at(axes, column, row, kind, offset + which)
                if slot >= 0:
                    write_code(codes, stride, lengths, which, axis << 32 | slot)


@compiled
def bind_exported(batch: int, places: int, count: int, columns: int) -> None:
    """Fill in where the columns of a batch lie, as Arrow's C data interface says."""
    children = i64_at(batch, ARRAY_CHILDREN)
    for index in range(count):
        column = columns + 8 * COLUMN_FIELDS * index
        child = i64_at(children, i64_at(places, index))
        kind = i64_at(column, COLUMN_KIND)
        if kind == KIND_NULL:
            continue
        buffers = i64_at(child, ARRAY_BUFFERS)
        offset = i64_at(child, ARRAY_OFFSET)
        end = offset + i64_at(child, ARRAY_LENGTH)
        valid = i64_at(buffers, 0)
        values = i64_at(buffers, 1)
        if valid != 0 and i64_at(child, ARRAY_NULLS) != 0:
            put_i64(column, COLUMN_VALID, valid)
            put_i64(column, COLUMN_VALID_END, valid + (end + 7) // 8)
        put_i64(column, COLUMN_OFFSET, offset)
        put_i64(column, COLUMN_VALUES, values)
        if values != 0 and KIND_TEXT32 <= kind <= KIND_BYTES64:
            text = i64_at(buffers, 2)
            put_i64(column, COLUMN_TEXT, text)
            if kind == KIND_TEXT32 or kind == KIND_BYTES32:
                put_i64(column, COLUMN_TEXT_END, text + i32_at(values, end))
            else:
                put_i64(column, COLUMN_TEXT_END, text + i64_at(values, end))


@compiled
def encode_cells(axes: int, column: int, cell_axes: int, count: int, codes: int) -> None:
    """The codes of the elements of one column, none of which is null, each on an axis of its own; -1 without one."""
    kind = i64_at(column, COLUMN_KIND)
    offset = i64_at(column, COLUMN_OFFSET)
    for index in range(count):
        axis = i32_at(cell_axes, index)
        code = -1
        if axis >= 0:
            slot = slot_at(axes, column, row_of(axes, axis), kind, offset + index)
            if slot >= 0:
                code = axis << 32 | slot
        put_i64(codes, index, code)
