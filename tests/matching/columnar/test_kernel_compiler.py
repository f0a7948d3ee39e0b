"""Compiler of kernels: what it leaves out of Numba's work, and what it must not."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from numba.core import errors
from numba.core.types import functions

from palio.matching.columnar.kernel_readiness import kernel_readiness
from palio.matching.columnar.native import compiled, compiled_for_building, compiled_with_arrays, inlined, wrapped

NOTHING: Final = -1


@inlined
def _half(value: int) -> int:
    return value >> 1


@compiled
def last_even(values: Any) -> int:
    """The half of the last even number, or -1: `found` holds a constant first, then what a function gives."""
    found = NOTHING
    for place in range(len(values)):
        if values[place] % 2 == 0:
            found = _half(values[place])
    return found


@compiled
def mixed(small: Any, wide: int, real: float) -> float:
    """Operators on integers of several widths and on floats, some of them at several places."""
    total = 0
    for place in range(len(small)):
        each = small[place]
        total = total + each * 3 - (each >> 1)
        total = wrapped(total * 31) ^ wide
        if each == 7 or total < 0:
            total += each
    return total * real + total % 5


@compiled
def fails(values: Any) -> int:
    """No kernel: integers have no attributes."""
    return int(values[0].nothing)


@compiled
def mixes(integers: Any, floats: Any) -> float:
    """No kernel either: integers in `value` would be rounded to floats."""
    total = 0.0
    for place in range(len(integers)):
        if place % 2 == 0:
            value = integers[place]
            total += value * 3
        else:
            value = floats[place]
            total += value
    return total


@compiled
def sum_in_matching(values: Any) -> int:
    total = 0
    for place in range(len(values)):
        total += values[place]
    return total


@compiled_for_building
def sum_in_building(values: Any) -> int:
    total = 0
    for place in range(len(values)):
        total += values[place]
    return total


@compiled_with_arrays
def doubled(values: Any) -> int:
    """A kernel that makes an array."""
    made = np.empty(len(values), np.int64)
    for place in range(len(values)):
        made[place] = 2 * values[place]
    return int(made.sum())


@pytest.mark.parametrize("values", [[], [3, 5], [8, 3], [2, 6, 7]])
def test_a_variable_may_hold_a_constant_first(values: list[int]) -> None:
    expected = ([NOTHING] + [value >> 1 for value in values if value % 2 == 0])[-1]
    with kernel_readiness.compiling_here():
        assert last_even(np.array(values, np.int32)) == expected


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
def test_operators_are_resolved_by_types(kind: Any) -> None:
    values = [7, 0, 100, 1, 127]
    if np.issubdtype(kind, np.signedinteger):
        values += [-7, -128]
    total = 0
    for each in values:
        total = total + each * 3 - (each >> 1)
        total = ((total * 31 + 2**63) % 2**64 - 2**63) ^ -12345
        if each == 7 or total < 0:
            total += each
    with kernel_readiness.compiling_here():
        assert mixed(np.array(values, kind), -12345, 0.5) == total * 0.5 + total % 5


def test_numbas_search_for_overloads_is_back_after_a_kernel_and_after_a_failure() -> None:
    before = functions.BaseFunction.get_call_type
    with kernel_readiness.compiling_here():
        last_even(np.zeros(1, np.uint16))
        assert functions.BaseFunction.get_call_type is before
        with pytest.raises(errors.TypingError, match="nothing"):
            fails(np.zeros(1, np.int64))
    assert functions.BaseFunction.get_call_type is before


def test_a_variable_that_holds_integers_and_floats_is_refused() -> None:
    with (
        kernel_readiness.compiling_here(),
        pytest.raises(errors.TypingError, match="'value' holds integers and floats"),
    ):
        mixes(np.zeros(1, np.int64), np.zeros(1))


def test_an_inlined_function_has_no_machine_code_of_its_own() -> None:
    last_even._cache.disable()  # type: ignore[attr-defined]  # a kernel on disk has its functions within it
    with kernel_readiness.compiling_here():
        last_even(np.zeros(1, np.int64))
    (overload,) = _half.overloads.values()  # type: ignore[attr-defined]
    engine = overload.library.codegen._engine
    assert not engine.is_symbol_defined(overload.fndesc.llvm_func_name)
    (kernel, *_) = last_even.overloads.values()  # type: ignore[attr-defined]
    assert engine.is_symbol_defined(kernel.fndesc.llvm_func_name)


def test_kernels_that_make_arrays_count_references() -> None:
    with kernel_readiness.compiling_here():
        assert doubled(np.array([1, 2, 3])) == 12


def test_kernels_of_matching_have_vector_instructions_and_those_of_building_are_compiled_without() -> None:
    values = np.arange(100, dtype=np.int64)
    code = []
    for kernel in (sum_in_matching, sum_in_building):
        kernel._cache.disable()  # type: ignore[attr-defined]
        with kernel_readiness.compiling_here():
            assert kernel(values) == 4950
        (overload,) = kernel.overloads.values()  # type: ignore[attr-defined]
        code.append(overload.library.get_llvm_str())
    assert [" x i64>" in each for each in code] == [True, False]
