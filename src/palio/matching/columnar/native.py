"""Compilation of kernels, and the machine operations that Numba lacks.

Kernels take addresses (plain integers), not arrays. Unboxing an array costs a tenth of a microsecond on every
call, a read-only or memory-mapped array is another type that compiles again, and a kernel reads twenty of them;
an integer has neither problem. The price is that a caller keeps the memory alive, which the classes above do.

The vector operations are written as LLVM vectors of fixed length, which every processor can run: wide ones in one
instruction, narrow ones in several. Every operation gives and takes 64-bit signed integers, because Numba turns a
mix of signed and unsigned ones into floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from llvmlite import ir
from numba import njit, types
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from palio.matching.columnar.array_types import AnyArray
from palio.matching.columnar.kernel_cache import keep_on_disk
from palio.matching.columnar.kernel_compiler import BuildKernelCompiler, KernelCompiler
from palio.matching.columnar.kernel_interpreter import interpreted
from palio.matching.columnar.kernel_readiness import group_of, readiness

Function = TypeVar("Function", bound=Callable[..., Any])

I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
LANES: Final = 16  # entries tested at once against values looked up one by one
WIDE_LANES: Final = 32  # entries tested at once against one value
WORD_LANES: Final = 8  # words of 64 bits written at once
_LLVM: Final = llvm.llvm_version_info[0]
# The features Numba may use: those of the processor, or those that the environment names.
_GIVEN: Final = getattr(config, "CPU_FEATURES", None)
_FEATURES: Final = frozenset(cast(Any, get_host_cpu_features)().split(",") if _GIVEN is None else _GIVEN.split(","))
# VPCOMPRESSD packs the chosen ones of sixteen integers at once; LLVM has an intrinsic for it since 20.
_HAS_COMPRESS: Final = _LLVM >= 20 and "+avx512f" in _FEATURES
# VPERMI2W looks up thirty-two values at once in a table that fits two registers.
HAS_TABLE_LOOKUP: Final = {"+avx512bw", "+avx512vl"} <= _FEATURES
SMALL_TABLE_SLOTS: Final = 64  # values of such a table
_jit: Any = njit


def _operation(function: Callable[..., Any]) -> Any:
    """A function that kernels may call and that writes its own machine code. Nothing else may call it."""
    return intrinsic(function)


def compiled(function: Function) -> Function:
    """A kernel, which releases the GIL and is kept on disk where that is possible.

    Until kernels are ready (see `kernel_readiness`) Python interprets it; then the first call loads or compiles it.
    """
    return cast(Function, _kept(_dispatcher(function, pipeline_class=KernelCompiler, _nrt=False)))


def compiled_for_building(function: Function) -> Function:
    """A kernel that builds an index: compiled in less time, to code that is a little slower."""
    return cast(Function, _kept(_dispatcher(function, pipeline_class=BuildKernelCompiler, _nrt=False)))


def compiled_with_arrays(function: Function) -> Function:
    """A kernel that makes arrays, by the whole of Numba's compiler, which takes longer."""
    return cast(Function, _kept(_dispatcher(function)))


def inlined(function: Function) -> Function:
    """Compile as a part of the kernels that call it, once."""
    dispatcher = _dispatcher(function, pipeline_class=KernelCompiler, _nrt=False, no_cpython_wrapper=True)
    return cast(Function, dispatcher)


def _kept(dispatcher: Any) -> Any:
    keep_on_disk(dispatcher)
    compile_for = dispatcher._compile_for_args
    kernels = readiness[group_of(dispatcher.py_func.__module__)]

    # Numba calls this where it has no compiled form for the arguments, and then what it returns: calls of a compiled
    # kernel do not come here.
    def compile_or_interpret(*arguments: Any) -> Any:
        return compile_for(*arguments) if kernels.are_ready() else interpreted(dispatcher)

    dispatcher._compile_for_args = compile_or_interpret
    return dispatcher


def _dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    # Nobody calls kernels by a pointer to a C function: without the code for it, compiling takes a twentieth less.
    dispatcher = _jit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    # Numba compiles again for every constant and every width of integer that a function is called with; here they
    # are all widened first, which halves the time it takes to compile a kernel.
    given = dispatcher.get_call_template
    dispatcher.get_call_template = lambda arguments, names: given(tuple(map(_widened, arguments)), names)
    return dispatcher


def _widened(kind: Any) -> Any:
    return types.int64 if isinstance(kind, types.Integer | types.IntegerLiteral) else kind


def address_of(values: AnyArray) -> int:
    """Where an array begins. The array must be kept alive for as long as the address is used."""
    return int(values.__array_interface__["data"][0])


def _number(value: int, kind: ir.IntType, lanes: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)


def _undefined(kind: ir.Type) -> ir.Constant:
    return ir.Constant(kind, ir.Undefined)


def _at(builder: Any, address: Any, kind: ir.Type) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _vector(builder: Any, address: Any, kind: ir.IntType, lanes: int) -> Any:
    # Aligned to nothing: a posting begins where the one before it ended.
    return builder.load(_at(builder, address, ir.VectorType(kind, lanes)), align=1)


def _broadcast(builder: Any, value: Any, lanes: int) -> Any:
    kind = ir.VectorType(value.type, lanes)
    first = builder.insert_element(_undefined(kind), value, I32(0))
    return builder.shuffle_vector(first, _undefined(kind), _number(0, I32, lanes))


def _bits(builder: Any, mask: Any, lanes: int) -> Any:
    return builder.zext(builder.bitcast(mask, ir.IntType(lanes)), I64)


def _element(builder: Any, address: Any, index: Any, kind: ir.Type, size: int) -> Any:
    return _at(builder, builder.add(address, builder.mul(index, I64(size))), kind)


def _reader(kind: ir.IntType, signed: bool) -> Any:
    @_operation
    def read(context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, index = arguments
            value = builder.load(_element(builder, address, index, kind, kind.width // 8), align=1)
            if kind.width == 64:
                return value
            return builder.sext(value, I64) if signed else builder.zext(value, I64)

        return types.int64(types.int64, types.int64), generate

    return read


def _float_reader(kind: ir.Type, size: int) -> Any:
    @_operation
    def read(context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, index = arguments
            value = builder.load(_element(builder, address, index, kind, size), align=1)
            return value if isinstance(kind, ir.DoubleType) else builder.fpext(value, ir.DoubleType())

        return types.float64(types.int64, types.int64), generate

    return read


def _writer(kind: ir.IntType) -> Any:
    @_operation
    def write(context: Any, address: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, index, value = arguments
            value = value if kind.width == 64 else builder.trunc(value, kind)
            builder.store(value, _element(builder, address, index, kind, kind.width // 8), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return write


# `i32_at(address, index)` is what `array[index]` would be for an array of that kind beginning at that address.
u8_at: Callable[[int, int], int] = _reader(I8, signed=False)
i8_at: Callable[[int, int], int] = _reader(I8, signed=True)
u16_at: Callable[[int, int], int] = _reader(I16, signed=False)
i16_at: Callable[[int, int], int] = _reader(I16, signed=True)
u32_at: Callable[[int, int], int] = _reader(I32, signed=False)
i32_at: Callable[[int, int], int] = _reader(I32, signed=True)
i64_at: Callable[[int, int], int] = _reader(I64, signed=True)
f32_at: Callable[[int, int], float] = _float_reader(ir.FloatType(), 4)
f64_at: Callable[[int, int], float] = _float_reader(ir.DoubleType(), 8)
put_u8: Callable[[int, int, int], None] = _writer(I8)
put_u16: Callable[[int, int, int], None] = _writer(I16)
put_i32: Callable[[int, int, int], None] = _writer(I32)
put_i64: Callable[[int, int, int], None] = _writer(I64)


@_operation
def _float_bits(context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], I64)

    return types.int64(types.float64), generate


@_operation
def _shifted(context: Any, value: Any, by: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.lshr(*arguments)

    return types.int64(types.int64, types.int64), generate


@_operation
def _wrapped(context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return types.int64(types.int64), generate


@_operation
def _lowest_bit(context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], I1(1))

    return types.int64(types.int64), generate


@_operation
def _count_bits(context: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@_operation
def _prefetch(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        name = "llvm.prefetch.p0" if _LLVM >= 17 else "llvm.prefetch.p0i8"
        pointer = I8.as_pointer()
        shape = ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32])
        function = builder.module.globals.get(name) or ir.Function(builder.module, shape, name)
        builder.call(function, [_at(builder, arguments[0], I8), I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _looked_up(builder: Any, indices: Any, table: Any, mask: Any, lanes: int = LANES) -> Any:
    """The 16-bit values of a table at many indices, cut to a mask: those behind a run's end may be anything."""
    kind = ir.VectorType(I16, lanes)
    indices = builder.and_(indices, _broadcast(builder, builder.trunc(mask, I16), lanes))
    result = _undefined(kind)
    for lane in range(lanes):
        index = builder.zext(builder.extract_element(indices, I32(lane)), I64)
        address = builder.add(table, builder.shl(index, I64(1)))
        value = builder.load(_at(builder, address, I16), align=2)
        result = builder.insert_element(result, value, I32(lane))
    return result


@_operation
def _within_each(context: Any, axes: Any, lows: Any, highs: Any, table: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        axes, low, high = (_vector(builder, address, I16, LANES) for address in arguments[:3])
        values = _looked_up(builder, axes, arguments[3], arguments[4])
        above = builder.icmp_unsigned(">=", values, low)
        below = builder.icmp_unsigned("<=", values, high)
        return _bits(builder, builder.and_(above, below), LANES)

    return types.int64(*[types.int64] * 5), generate


def _within_table(lanes: int) -> Any:
    """As many lookups as a register has lanes, in a table of two registers."""

    @_operation
    def within_table(context: Any, axes: Any, lows: Any, highs: Any, table: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            axes, low, high, first = (_vector(builder, address, I16, lanes) for address in arguments)
            if HAS_TABLE_LOOKUP:
                second = _vector(builder, builder.add(arguments[3], I64(2 * lanes)), I16, lanes)
                name, wide = f"llvm.x86.avx512.vpermi2var.hi.{16 * lanes}", ir.VectorType(I16, lanes)
                shape = ir.FunctionType(wide, [wide] * 3)
                function = builder.module.globals.get(name) or ir.Function(builder.module, shape, name)
                values = builder.call(function, [first, axes, second])
            else:
                values = _looked_up(builder, axes, arguments[3], I64(2 * lanes - 1), lanes)
            above = builder.icmp_unsigned(">=", values, low)
            below = builder.icmp_unsigned("<=", values, high)
            return _bits(builder, builder.and_(above, below), lanes)

        return types.int64(*[types.int64] * 4), generate

    return within_table


@_operation
def _nonzero_each(context: Any, axes: Any, table: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = _looked_up(builder, _vector(builder, arguments[0], I16, LANES), arguments[1], arguments[2])
        return _bits(builder, builder.icmp_unsigned("!=", values, _number(0, I16, LANES)), LANES)

    return types.int64(*[types.int64] * 3), generate


@_operation
def _within(context: Any, lows: Any, highs: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        low, high = (_vector(builder, address, I16, LANES) for address in arguments[:2])
        value = _broadcast(builder, builder.trunc(arguments[2], I16), LANES)
        above = builder.icmp_unsigned(">=", value, low)
        below = builder.icmp_unsigned("<=", value, high)
        return _bits(builder, builder.and_(above, below), LANES)

    return types.int64(*[types.int64] * 3), generate


@_operation
def _equal(context: Any, values: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = _vector(builder, arguments[0], I16, WIDE_LANES)
        value = _broadcast(builder, builder.trunc(arguments[1], I16), WIDE_LANES)
        return _bits(builder, builder.icmp_unsigned("==", values, value), WIDE_LANES)

    return types.int64(types.int64, types.int64), generate


@_operation
def _lower(context: Any, source: Any, target: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = arguments
        values = _vector(builder, source, I8, WIDE_LANES)
        above = builder.icmp_unsigned(">=", values, _number(ord("A"), I8, WIDE_LANES))
        below = builder.icmp_unsigned("<=", values, _number(ord("Z"), I8, WIDE_LANES))
        lowered = builder.or_(values, _number(32, I8, WIDE_LANES))
        folded = builder.select(builder.and_(above, below), lowered, values)
        builder.store(folded, _at(builder, target, ir.VectorType(I8, WIDE_LANES)), align=1)
        foreign = builder.icmp_signed("<", values, _number(0, I8, WIDE_LANES))
        return _bits(builder, foreign, WIDE_LANES)

    return types.int64(types.int64, types.int64), generate


@_operation
def _negative(context: Any, source: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = _vector(builder, arguments[0], I32, LANES)
        return _bits(builder, builder.icmp_signed("<", values, _number(0, I32, LANES)), LANES)

    return types.int64(types.int64), generate


@_operation
def _pack(context: Any, source: Any, mask: Any, target: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, mask, target = arguments
        values = _vector(builder, source, I32, LANES)
        if not _HAS_COMPRESS:
            # Every lane is written and only the chosen ones move the target on: no branch to guess wrong.
            for lane in range(LANES):
                value = builder.extract_element(values, I32(lane))
                builder.store(value, _at(builder, target, I32), align=1)
                bit = builder.and_(builder.lshr(mask, I64(lane)), I64(1))
                target = builder.add(target, builder.shl(bit, I64(2)))
            return context.get_dummy_value()
        wide, choice = ir.VectorType(I32, LANES), ir.VectorType(I1, LANES)
        name = f"llvm.experimental.vector.compress.v{LANES}i32"
        shape = ir.FunctionType(wide, [wide, choice, wide])
        function = builder.module.globals.get(name) or ir.Function(builder.module, shape, name)
        chosen = builder.bitcast(builder.trunc(mask, I16), choice)
        packed = builder.call(function, [values, chosen, _undefined(wide)])
        builder.store(packed, _at(builder, target, wide), align=1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@_operation
def _fill(context: Any, target: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, value = arguments
        values = _broadcast(builder, builder.trunc(value, I32), LANES)
        builder.store(values, _at(builder, target, values.type), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_operation
def _fill_words(context: Any, target: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, value = arguments
        values = _broadcast(builder, value, WORD_LANES)
        builder.store(values, _at(builder, target, values.type), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


float_bits: Callable[[float], int] = _float_bits
"""The bits of a float as an integer."""

shifted: Callable[[int, int], int] = _shifted
"""An unsigned shift to the right, by less than 64."""

wrapped: Callable[[int], int] = _wrapped
"""An integer cut to 64 bits. Those of compiled kernels are never longer; those of interpreted ones may be."""

lowest_bit: Callable[[int], int] = _lowest_bit
"""The index of the lowest bit set; the mask is not zero."""

count_bits: Callable[[int], int] = _count_bits
"""How many bits of a mask are set."""

prefetch: Callable[[int], None] = _prefetch
"""Ask for the cache line at an address, which need not be readable."""

within_each: Callable[[int, int, int, int, int], int] = _within_each
"""(axes, lows, highs, table, mask): bit i says lows[i] <= table[axes[i] & mask] <= highs[i]; sixteen, all 16-bit."""

within_few: Callable[[int, int, int, int], int] = _within_table(WIDE_LANES)
"""(axes, lows, highs, table): `within_each` for thirty-two, in a table of 64 values; fast where `HAS_TABLE_LOOKUP`."""

within_fewer: Callable[[int, int, int, int], int] = _within_table(LANES)
"""(axes, lows, highs, table): `within_each` for sixteen, in a table of 32 values; fast where `HAS_TABLE_LOOKUP`."""

nonzero_each: Callable[[int, int, int], int] = _nonzero_each
"""(axes, table, mask): bit i says that table[axes[i] & mask] is not zero; sixteen, all 16-bit."""

within: Callable[[int, int, int], int] = _within
"""(lows, highs, value): bit i says lows[i] <= value <= highs[i]; sixteen, all 16-bit."""

equal: Callable[[int, int], int] = _equal
"""(values, value): bit i says values[i] == value; thirty-two, all 16-bit."""

lower: Callable[[int, int], int] = _lower
"""(source, target): write thirty-two bytes with ASCII letters in lower case; bit i says that byte i is not ASCII."""

negative: Callable[[int], int] = _negative
"""(values): bit i says values[i] < 0; sixteen 32-bit integers."""

pack: Callable[[int, int, int], None] = _pack
"""(source, mask, target): write those of sixteen 32-bit integers whose bit is set side by side; may write all
sixteen places of the target."""

fill: Callable[[int, int], None] = _fill
"""(target, value): write a 32-bit integer to sixteen places."""

fill_words: Callable[[int, int], None] = _fill_words
"""(target, value): write a 64-bit integer to eight places."""
