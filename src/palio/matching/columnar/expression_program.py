"""Expression programs: many different expressions, evaluated together by one kernel.

An expression that thousands of conditions share is evaluated in NumPy, and its values are encoded like a column. Of ten
thousand *different* expressions each would cost a batch some calls from Python and every event a code, whether or not
anybody asks for its value. Here their parts become instructions for `expression_kernels`, a part that several have in
common once, and an expression gives a code only for the rows whose value some condition asks for.

Instructions exist for arithmetic, comparisons and logic on integers, doubles, truths, days and moments. Any other part,
`length(name)` say, is a leaf: it is computed in vectors (`vector_evaluation`), and read like a column.

Cost of an instruction: 0.2 to 1 nanoseconds for a row of a batch, and 25 nanoseconds for a single event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack, unpack
from typing import Any, Final

import numpy as np

from palio.filters.expressions.coercion import ValueType
from palio.matching.columnar import expression_kernels as kernels
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.layout import CODE_FIELDS, CODE_LEFT, CODE_RIGHT, CODE_TARGET
from palio.matching.columnar.native import address_of
from palio.matching.columnar.vector_compiler import IDENTITY, Operation, Part
from palio.matching.columnar.vectors import IN_NUMPY, Vector, number_of

BLOCK_ROWS: Final = 512
"""Rows that a program is run on at a time, so that its registers stay in the fast caches."""
_FIRST_ROOM: Final = 16  # codes of a row

_BINARY: Final[Mapping[Operation, int]] = {
    ("+", int): kernels.OP_ADD,
    ("-", int): kernels.OP_SUBTRACT,
    ("*", int): kernels.OP_MULTIPLY,
    ("%", int): kernels.OP_REMAINDER,
    ("+", float): kernels.OP_ADD_DOUBLES,
    ("-", float): kernels.OP_SUBTRACT_DOUBLES,
    ("*", float): kernels.OP_MULTIPLY_DOUBLES,
    ("/", float): kernels.OP_DIVIDE_DOUBLES,
    ("%", float): kernels.OP_REMAINDER_OF_DOUBLES,
    ("=", int): kernels.OP_EQUAL,
    ("<", int): kernels.OP_LESS,
    ("<=", int): kernels.OP_LESS_OR_EQUAL,
    ("=", float): kernels.OP_EQUAL_DOUBLES,
    ("<", float): kernels.OP_LESS_DOUBLES,
    ("<=", float): kernels.OP_LESS_OR_EQUAL_DOUBLES,
}
_UNARY: Final[Mapping[Operation, int]] = {
    ("double", int): kernels.OP_DOUBLE,
    ("neg", int): kernels.OP_NEGATE,
    ("neg", float): kernels.OP_NEGATE_DOUBLE,
    ("abs", int): kernels.OP_ABSOLUTE,
    ("abs", float): kernels.OP_ABSOLUTE_DOUBLE,
    ("not", bool): kernels.OP_NOT,
    ("istrue", bool): kernels.OP_IS_TRUE,
    ("isfalse", bool): kernels.OP_IS_FALSE,
    ("isnotnull", bool): kernels.OP_IS_NOT_NULL,
}
_CONNECTIVES: Final[Mapping[Operation, int]] = {("and", bool): kernels.OP_AND, ("or", bool): kernels.OP_OR}
_SWAPPED: Final[Mapping[str, str]] = {">": "<", ">=": "<="}
_COMPOSED: Final = frozenset(
    {IDENTITY, ("/", int), *((name, kind) for name in (*_SWAPPED, "<>") for kind in (int, float))}
)
_OPERATIONS: Final = frozenset({*_BINARY, *_UNARY, *_CONNECTIVES, *_COMPOSED})
FUNCTIONS_OF_PROGRAMS: Final = frozenset(
    {*(name for name, _ in _OPERATIONS), "isnull", "between", "<=>"} - {"", "double"}
)
"""The functions that programs compute, on columns of some types."""
_EMITS: Final[Mapping[ValueType, int]] = {
    int: kernels.OP_EMIT_INTEGERS,
    float: kernels.OP_EMIT_DOUBLES,
    bool: kernels.OP_EMIT_BOOLEANS,
}


def is_compilable(part: Part, only_columns: bool = False) -> bool:
    """Whether a program can compute the values of an expression; with `only_columns`, from columns alone."""
    if part.kind not in _EMITS or part.is_constant or not _has_instruction(part):
        return False
    stack = [part] if only_columns else []
    while stack:
        each = stack.pop()
        if _has_instruction(each):
            stack += each.operands
        elif not each.is_constant and each.attribute is None:
            return False
    return True


def _has_instruction(part: Part) -> bool:
    return part.operation in _OPERATIONS and all(operand.kind in IN_NUMPY for operand in part.operands)


class ExpressionProgram:
    """The instructions of some expressions; what it reads are leaves, columns or parts without an instruction."""

    def __init__(self, expressions: Sequence[tuple[Part, int]], axes: Axes) -> None:
        """Each expression with its axis; every part is `is_compilable`."""
        writer = _Writer()
        for part, axis in expressions:
            bounds = axes.asked_values(axis, part.kind)
            if bounds is not None:  # else no condition asks for a value of its kind
                writer.emit(part, axis, bounds)
        self.axes = axes
        self.leaves = writer.leaves
        """The parts whose values it is given, in order."""
        self.code, self.registers = writer.finish()
        self.room = _FIRST_ROOM
        """Codes of a row to make room for; more, once a row was seen to need them."""

    def bind(self, vectors: Sequence[Vector], count: int) -> BoundProgram:
        """The program for a batch, with the vectors of its leaves."""
        values = np.zeros((len(vectors), count), np.int64)
        valid = np.zeros((len(vectors), count), np.uint8)
        whole = np.zeros(len(vectors), np.uint8)
        for place, vector in enumerate(vectors):
            if vector.values is None:  # NULL in every row
                continue
            is_double = vector.values.dtype == np.float64
            values[place] = vector.values.view(np.int64) if is_double else vector.values
            whole[place] = vector.valid is None
            if vector.valid is not None:
                valid[place] = vector.valid
        return BoundProgram(self, kernels.Leaves(values, valid, whole), min(count, BLOCK_ROWS))

    def run_one(self, values: Sequence[Any]) -> list[int]:
        """The codes of an event, from the value of each leaf or None."""
        numbers = np.array([0 if value is None else _bits(value) for value in values], np.int64)
        whole = np.array([value is not None for value in values], np.uint8)
        bound = BoundProgram(self, kernels.Leaves(numbers.reshape(-1, 1), whole.reshape(-1, 1), whole), 1)
        while True:
            codes, lengths = np.empty(self.room, np.int64), np.zeros(1, np.int32)
            many = bound.add_codes(0, 1, address_of(codes), len(codes), address_of(lengths))
            if many <= len(codes):
                return codes[:many].tolist()  # type: ignore[no-any-return]


def _bits(value: Any) -> int:
    """A value as the integer that a register holds for it."""
    number = number_of(value)
    return int(unpack("<q", pack("<d", number))[0]) if isinstance(number, float) else int(number)


class BoundProgram:
    """A program with the leaves of one batch, and registers for a block of its rows."""

    def __init__(self, program: ExpressionProgram, leaves: kernels.Leaves, block_rows: int) -> None:
        self._program = program
        self._leaves = leaves
        values = np.empty((program.registers, block_rows), np.int64)
        valid, whole = np.empty(values.shape, np.uint8), np.empty(program.registers, np.uint8)
        self._registers = kernels.Registers(values, values.view(np.float64), valid, whole)

    @property
    def room(self) -> int:
        """Codes of a row to make room for."""
        return self._program.room

    def add_codes(self, first: int, rows: int, codes: int, stride: int, lengths: int) -> int:
        """Add the codes of a block of rows to their runs of codes; the length of the longest.

        Where it is above `stride` codes are missing, and `room` has grown.
        """
        program = self._program
        longest = kernels.run_program(
            program.code,
            program.code.view(np.float64),
            self._leaves,
            self._registers,
            program.axes.address,
            first,
            rows,
            codes,
            stride,
            lengths,
        )
        program.room = max(program.room, longest)
        return longest


class _Writer:
    """Writes instructions. Each has a register of its own, until `finish` gives free ones to others."""

    def __init__(self) -> None:
        self.leaves: list[Part] = []
        self._code: list[list[int]] = []
        self._place_of: dict[Part, int] = {}  # the register of a part is the place of its instruction
        self._doubles: dict[int, int] = {}

    def emit(self, part: Part, axis: int, bounds: tuple[Any, Any]) -> None:
        """Write an expression that emits codes of an axis for the values between two bounds."""
        self._write(_EMITS[part.kind], self._register(part), axis, *map(_bits, bounds))

    def _write(self, operation: int, left: int = 0, right: int = 0, low: int = 0, high: int = 0) -> int:
        place = len(self._code)
        self._code.append([operation, place, left, right, low, high])
        return place

    def _register(self, part: Part) -> int:
        """Write what a part is computed from, and the part; with a stack, because expressions may nest deeply."""
        known = self._place_of
        stack = [part]
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
            elif not _has_instruction(top):
                known[top] = self._leaf(top)
            elif missing := [operand for operand in top.operands if operand not in known]:
                stack += missing
            else:
                known[top] = self._operation(top, [known[operand] for operand in top.operands])
        return known[part]

    def _leaf(self, part: Part) -> int:
        if part.is_constant:
            return self._write(kernels.OP_CONSTANT, low=_bits(part.value))
        self.leaves.append(part)
        return self._write(kernels.OP_LOAD, len(self.leaves) - 1)

    def _operation(self, part: Part, operands: list[int]) -> int:
        assert part.operation is not None
        function, kind = part.operation
        if part.operation == IDENTITY:
            return operands[0]
        if part.operation in _UNARY:
            return self._write(_UNARY[part.operation], operands[0], operands[0])
        if part.operation in _CONNECTIVES:
            joined = operands[0]
            for operand in operands[1:]:
                joined = self._write(_CONNECTIVES[part.operation], joined, operand)
            return joined
        left, right = operands
        if function in _SWAPPED:
            function, left, right = _SWAPPED[function], right, left
        elif function == "/" and kind is int:
            kind, left, right = float, self._as_double(left), self._as_double(right)
        elif function == "<>":
            equal = self._write(_BINARY["=", kind], left, right)
            return self._write(kernels.OP_NOT, equal, equal)
        return self._write(_BINARY[function, kind], left, right)

    def _as_double(self, register: int) -> int:
        if register not in self._doubles:
            self._doubles[register] = self._write(kernels.OP_DOUBLE, register, register)
        return self._doubles[register]

    def finish(self) -> tuple[Int64s, int]:
        """The instructions, on as few registers as hold what is still to be read; and how many these are."""
        code = np.array(self._code, np.int64).reshape(-1, CODE_FIELDS)
        reads = [_registers_read(each) for each in self._code]
        last_read = {register: at for at, each in enumerate(reads) for register in each}
        free: list[int] = []
        given: dict[int, int] = {}
        count = 0
        for at, read in enumerate(reads):
            operation = self._code[at][0]
            if operation < kernels.OP_EMIT_INTEGERS:
                # Never one that the instruction reads: it may write before it has read all.
                if not free:
                    free.append(count)
                    count += 1
                given[at] = free.pop()
                code[at, CODE_TARGET] = given[at]
            for field, register in zip((CODE_LEFT, CODE_RIGHT), read, strict=False):
                code[at, field] = given[register]
            free += [given[register] for register in set(read) if last_read[register] == at]
        return code, count


def _registers_read(instruction: Sequence[int]) -> list[int]:
    operation, _, left, right, *_ = instruction
    if operation in (kernels.OP_LOAD, kernels.OP_CONSTANT):
        return []
    return [left] if operation >= kernels.OP_EMIT_INTEGERS else [left, right]
