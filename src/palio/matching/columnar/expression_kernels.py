"""Kernel that runs expression programs: thousands of different expressions over a block of rows.

An expression program (`expression_program`) is a list of instructions on registers. A register holds the values of a
part of an expression for the rows of a block, as integers of 64 bits or as the bits of doubles, and which of them are
not NULL; `whole` says that none is, and spares the look at each. An instruction is a loop over the rows of a block,
which LLVM turns into vector instructions. The last instruction of an expression emits the codes of its values, of those
alone that some condition asks for.

The meaning is that of `vector_arithmetic` and `vector_comparison`: an overflow and a division by zero are NULL, NaN is
the greatest number and equals itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from palio.matching.columnar.array_types import Bytes, Floats, Int64s
from palio.matching.columnar.encoding_kernels import float_slot_of, integer_slot_of, row_of
from palio.matching.columnar.layout import (
    AXIS_HIGHEST_ASKED,
    AXIS_LOWEST_ASKED,
    CODE_HIGH,
    CODE_LEFT,
    CODE_LOW,
    CODE_OPERATION,
    CODE_RIGHT,
    CODE_TARGET,
    FALSE,
)
from palio.matching.columnar.native import compiled, i32_at, i64_at, inlined, put_i32, put_i64

OP_LOAD: Final = 0
OP_CONSTANT: Final = 1
OP_DOUBLE: Final = 2
OP_ADD: Final = 3
OP_SUBTRACT: Final = 4
OP_MULTIPLY: Final = 5
OP_REMAINDER: Final = 6
OP_NEGATE: Final = 7
OP_ABSOLUTE: Final = 8
OP_ADD_DOUBLES: Final = 9
OP_SUBTRACT_DOUBLES: Final = 10
OP_MULTIPLY_DOUBLES: Final = 11
OP_DIVIDE_DOUBLES: Final = 12
OP_REMAINDER_OF_DOUBLES: Final = 13
OP_NEGATE_DOUBLE: Final = 14
OP_ABSOLUTE_DOUBLE: Final = 15
OP_EQUAL: Final = 16
OP_LESS: Final = 17
OP_LESS_OR_EQUAL: Final = 18
OP_EQUAL_DOUBLES: Final = 19
OP_LESS_DOUBLES: Final = 20
OP_LESS_OR_EQUAL_DOUBLES: Final = 21
OP_AND: Final = 22
OP_OR: Final = 23
OP_NOT: Final = 24
OP_IS_TRUE: Final = 25
OP_IS_FALSE: Final = 26
OP_IS_NOT_NULL: Final = 27
OP_EMIT_INTEGERS: Final = 28
OP_EMIT_DOUBLES: Final = 29
OP_EMIT_BOOLEANS: Final = 30


class Leaves(NamedTuple):
    """What a program reads: a row of numbers for each leaf, which of them are not NULL, and whether none is."""

    values: Int64s
    valid: Bytes
    whole: Bytes


class Registers(NamedTuple):
    """Memory of a program: a row for each register; `values` and `doubles` are one memory."""

    values: Int64s
    doubles: Floats
    valid: Bytes
    whole: Bytes


_LEAST: Final = -0x8000000000000000
_SMALL: Final = 1 << 31  # below it, no product of two integers overflows


@inlined
def join_nulls(valid: Bytes, whole: Bytes, left: int, right: int, target: int, rows: int) -> None:
    """NULL where one of two operands is."""
    whole[target] = whole[left] & whole[right]
    if whole[target] == 0:
        for row in range(rows):
            valid[target, row] = (valid[left, row] | whole[left]) & (valid[right, row] | whole[right])


@inlined
def exclude(valid: Bytes, whole: Bytes, target: int, row: int, rows: int) -> None:
    """NULL in one row."""
    if whole[target] != 0:
        whole[target] = 0
        for each in range(rows):
            valid[target, each] = 1
    valid[target, row] = 0


@inlined
def add(values: Int64s, valid: Bytes, whole: Bytes, left: int, right: int, target: int, rows: int) -> None:
    a, b, total = values[left], values[right], values[target]
    overflow = 0
    for row in range(rows):
        total[row] = a[row] + b[row]
        # An overflow has happened where both operands differ in sign from the sum.
        overflow |= (a[row] ^ total[row]) & (b[row] ^ total[row])
    if overflow < 0:
        for row in range(rows):
            if (a[row] ^ total[row]) & (b[row] ^ total[row]) < 0:
                exclude(valid, whole, target, row, rows)


@inlined
def subtract(values: Int64s, valid: Bytes, whole: Bytes, left: int, right: int, target: int, rows: int) -> None:
    a, b, rest = values[left], values[right], values[target]
    overflow = 0
    for row in range(rows):
        rest[row] = a[row] - b[row]
        overflow |= (a[row] ^ b[row]) & (a[row] ^ rest[row])
    if overflow < 0:
        for row in range(rows):
            if (a[row] ^ b[row]) & (a[row] ^ rest[row]) < 0:
                exclude(valid, whole, target, row, rows)


@inlined
def multiply(values: Int64s, valid: Bytes, whole: Bytes, left: int, right: int, target: int, rows: int) -> None:
    a, b, product = values[left], values[right], values[target]
    bits = 0
    for row in range(rows):
        product[row] = a[row] * b[row]
        bits |= (a[row] ^ (a[row] >> 63)) | (b[row] ^ (b[row] >> 63))
    if bits < _SMALL:
        return
    for row in range(rows):
        # Dividing undoes a product that did not wrap; -1 is apart, because the least integer has no quotient by it.
        if a[row] == -1:
            if b[row] == _LEAST:
                exclude(valid, whole, target, row, rows)
        elif a[row] != 0 and product[row] // a[row] != b[row]:
            exclude(valid, whole, target, row, rows)


@inlined
def take_remainder(values: Int64s, valid: Bytes, whole: Bytes, left: int, right: int, target: int, rows: int) -> None:
    """The remainder with the sign of the dividend."""
    for row in range(rows):
        a, b = values[left, row], values[right, row]
        rest = 0
        if b == 0:
            exclude(valid, whole, target, row, rows)
        elif b != -1:
            rest = a % b
            if rest != 0 and (a < 0) != (b < 0):
                rest -= b
        values[target, row] = rest


@inlined
def divide(doubles: Floats, valid: Bytes, whole: Bytes, left: int, right: int, target: int, rows: int) -> None:
    a, b, quotient = doubles[left], doubles[right], doubles[target]
    zeros = 0
    for row in range(rows):
        quotient[row] = a[row] / b[row]
        zeros |= b[row] == 0
    if zeros:
        for row in range(rows):
            if b[row] == 0:
                exclude(valid, whole, target, row, rows)


@inlined
def join_truths(
    values: Int64s, valid: Bytes, whole: Bytes, left: int, right: int, target: int, rows: int, ends_it: int
) -> None:
    """AND or OR of two conditions: `ends_it` is the truth that decides without the other, 0 or 1."""
    whole[target] = whole[left] & whole[right]
    a, b, truth = values[left], values[right], values[target]
    if whole[target] != 0:
        if ends_it == 0:
            for row in range(rows):
                truth[row] = a[row] & b[row]
        else:
            for row in range(rows):
                truth[row] = a[row] | b[row]
        return
    for row in range(rows):
        is_left, is_right = valid[left, row] | whole[left], valid[right, row] | whole[right]
        decided = (is_left != 0 and a[row] == ends_it) or (is_right != 0 and b[row] == ends_it)
        truth[row] = ends_it if decided else 1 - ends_it
        valid[target, row] = decided or (is_left & is_right) != 0


@inlined
def emit(codes: int, stride: int, lengths: int, row: int, code: int, longest: int) -> int:
    """Add a code to a row where there is room, and count it where there is none."""
    length = i32_at(lengths, row)
    if length < stride:
        put_i64(codes, row * stride + length, code)
    put_i32(lengths, row, length + 1)
    return max(longest, length + 1)


@compiled
def run_program(
    code: Int64s,
    bounds: Floats,
    leaves: Leaves,
    registers: Registers,
    axes: int,
    first: int,
    rows: int,
    codes: int,
    stride: int,
    lengths: int,
) -> int:
    """Add the codes of all expressions for a block of rows to the rows' runs of codes; return the longest run.

    Codes beyond `stride` are counted and not written: then the caller makes room and runs the program again.
    `code` and `bounds` are one memory.
    """
    values, doubles, valid, whole = registers
    longest = 0
    for at in range(len(code)):
        operation = code[at, CODE_OPERATION]
        target = code[at, CODE_TARGET]
        left = code[at, CODE_LEFT]
        right = code[at, CODE_RIGHT]
        if operation >= OP_EMIT_INTEGERS:
            axis = row_of(axes, right)
            word = right << 32
            mask = 0
            if operation == OP_EMIT_DOUBLES:
                numbers = doubles[left]
                # The bounds are a little too wide; NaN is in none.
                lowest = bounds[at, CODE_LOW]
                highest = bounds[at, CODE_HIGH]
                for row in range(rows):
                    mask += (numbers[row] >= lowest and numbers[row] <= highest) or numbers[row] != numbers[row]
                if mask == 0:
                    continue
                for row in range(rows):
                    number = numbers[row]
                    if ((number >= lowest and number <= highest) or number != number) and (
                        whole[left] | valid[left, row]
                    ) != 0:
                        slot = float_slot_of(axes, axis, number)
                        if i64_at(axis, AXIS_LOWEST_ASKED) <= slot <= i64_at(axis, AXIS_HIGHEST_ASKED):
                            longest = emit(codes, stride, lengths, row, word | slot, longest)
                continue
            low = code[at, CODE_LOW]
            high = code[at, CODE_HIGH]
            integers = values[left]
            for row in range(rows):
                mask += integers[row] >= low and integers[row] <= high
            if mask == 0:
                continue
            for row in range(rows):
                if low <= integers[row] <= high and (whole[left] | valid[left, row]) != 0:
                    if operation == OP_EMIT_BOOLEANS:
                        slot = FALSE + integers[row]
                    else:
                        slot = integer_slot_of(axes, axis, integers[row])
                    longest = emit(codes, stride, lengths, row, word | slot, longest)
            continue
        if operation == OP_LOAD:
            whole[target] = leaves.whole[left]
            for row in range(rows):
                values[target, row] = leaves.values[left, first + row]
            if whole[target] == 0:
                for row in range(rows):
                    valid[target, row] = leaves.valid[left, first + row]
        elif operation == OP_CONSTANT:
            whole[target] = 1
            for row in range(rows):
                values[target, row] = code[at, CODE_LOW]
        elif operation == OP_AND:
            join_truths(values, valid, whole, left, right, target, rows, 0)
        elif operation == OP_OR:
            join_truths(values, valid, whole, left, right, target, rows, 1)
        elif operation >= OP_IS_TRUE:
            whole[target] = 1
            for row in range(rows):
                present = (whole[left] | valid[left, row]) != 0
                if operation == OP_IS_NOT_NULL:
                    values[target, row] = present
                else:
                    values[target, row] = present and values[left, row] == (operation == OP_IS_TRUE)
        else:
            join_nulls(valid, whole, left, right, target, rows)
            if operation == OP_ADD:
                add(values, valid, whole, left, right, target, rows)
            elif operation == OP_SUBTRACT:
                subtract(values, valid, whole, left, right, target, rows)
            elif operation == OP_MULTIPLY:
                multiply(values, valid, whole, left, right, target, rows)
            elif operation == OP_REMAINDER:
                take_remainder(values, valid, whole, left, right, target, rows)
            elif operation == OP_NEGATE or operation == OP_ABSOLUTE:
                for row in range(rows):
                    integer = values[left, row]
                    if integer == _LEAST:
                        exclude(valid, whole, target, row, rows)
                    values[target, row] = -integer if operation == OP_NEGATE or integer < 0 else integer
            elif operation == OP_DOUBLE:
                for row in range(rows):
                    doubles[target, row] = values[left, row]
            elif operation == OP_ADD_DOUBLES:
                for row in range(rows):
                    doubles[target, row] = doubles[left, row] + doubles[right, row]
            elif operation == OP_SUBTRACT_DOUBLES:
                for row in range(rows):
                    doubles[target, row] = doubles[left, row] - doubles[right, row]
            elif operation == OP_MULTIPLY_DOUBLES:
                for row in range(rows):
                    doubles[target, row] = doubles[left, row] * doubles[right, row]
            elif operation == OP_DIVIDE_DOUBLES:
                divide(doubles, valid, whole, left, right, target, rows)
            elif operation == OP_REMAINDER_OF_DOUBLES:
                for row in range(rows):
                    if doubles[right, row] == 0:
                        exclude(valid, whole, target, row, rows)
                    doubles[target, row] = np.fmod(doubles[left, row], doubles[right, row])
            elif operation == OP_NEGATE_DOUBLE:
                for row in range(rows):
                    doubles[target, row] = -doubles[left, row]
            elif operation == OP_ABSOLUTE_DOUBLE:
                for row in range(rows):
                    doubles[target, row] = abs(doubles[left, row])
            elif operation == OP_EQUAL:
                for row in range(rows):
                    values[target, row] = values[left, row] == values[right, row]
            elif operation == OP_LESS:
                for row in range(rows):
                    values[target, row] = values[left, row] < values[right, row]
            elif operation == OP_LESS_OR_EQUAL:
                for row in range(rows):
                    values[target, row] = values[left, row] <= values[right, row]
            elif operation == OP_EQUAL_DOUBLES:
                for row in range(rows):
                    a = doubles[left, row]
                    b = doubles[right, row]
                    values[target, row] = a == b or (a != a and b != b)
            elif operation == OP_LESS_DOUBLES:
                for row in range(rows):
                    a = doubles[left, row]
                    b = doubles[right, row]
                    values[target, row] = a < b or (a == a and b != b)
            elif operation == OP_LESS_OR_EQUAL_DOUBLES:
                for row in range(rows):
                    b = doubles[right, row]
                    values[target, row] = doubles[left, row] <= b or b != b
            elif operation == OP_NOT:
                for row in range(rows):
                    values[target, row] = 1 - values[left, row]
    return longest
