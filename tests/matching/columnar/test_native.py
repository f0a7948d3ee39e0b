"""The machine operations do what they say, on this processor and as they are written for others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core import caching

from palio.matching.columnar import native
from palio.matching.columnar.native import (
    address_of,
    compiled,
    count_bits,
    equal,
    float_bits,
    i8_at,
    i16_at,
    i32_at,
    i64_at,
    lowest_bit,
    negative,
    nonzero_each,
    pack,
    shifted,
    u8_at,
    u16_at,
    u32_at,
    within,
    within_each,
    within_few,
    within_fewer,
)

words = st.lists(st.integers(0, 65535), min_size=32, max_size=32)
few = st.lists(st.integers(0, 9), min_size=32, max_size=32)
longs = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=16, max_size=16)
masks = st.integers(0, 65535)


def bits(flags: list[bool]) -> int:
    return sum(1 << index for index, flag in enumerate(flags) if flag)


def test_elements_are_read_at_any_width_and_sign() -> None:
    @njit
    def read(address: int, index: int) -> tuple[int, ...]:
        return (
            u8_at(address, index),
            i8_at(address, index),
            u16_at(address, index),
            i16_at(address, index),
            u32_at(address, index),
            i32_at(address, index),
            i64_at(address, index),
        )

    data = np.frombuffer(bytes(range(200, 256)) + bytes(range(16)), np.uint8).copy()
    kinds = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.int64)
    for index in range(8):
        assert read(address_of(data), index) == tuple(int(data.view(kind)[index]) for kind in kinds)


@settings(deadline=None, max_examples=50)
@given(words | few, words | few, words | few, words)
def test_sixteen_entries_are_tested_at_once(
    axes: list[int], lows: list[int], highs: list[int], table: list[int]
) -> None:
    arrays = [np.array(each, np.uint16) for each in (axes, lows, highs, table)]
    slots = [table[axis & 31] for axis in axes]
    assert _within_each(*map(address_of, arrays), 31) == bits(
        [low <= slot <= high for slot, low, high in zip(slots[:16], lows, highs, strict=False)]
    )
    assert _nonzero_each(address_of(arrays[0]), address_of(arrays[3]), 31) == bits([slot != 0 for slot in slots[:16]])
    for value in (0, 5, 65535, lows[3]):
        tests = [low <= value <= high for low, high in zip(lows[:16], highs, strict=False)]
        assert _within(address_of(arrays[1]), address_of(arrays[2]), value) == bits(tests)
        assert _equal(address_of(arrays[1]), value) == bits([low == value for low in lows])


@pytest.mark.parametrize("has_instruction", [True, False])
def test_thirty_two_entries_are_tested_at_once_where_axes_are_few(
    has_instruction: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_instruction:
        monkeypatch.setattr(native, "HAS_TABLE_LOOKUP", False)

    @njit
    def test_them(axes: int, lows: int, highs: int, table: int) -> int:
        return within_few(axes, lows, highs, table)

    @njit
    def test_half(axes: int, lows: int, highs: int, table: int) -> int:
        return within_fewer(axes, lows, highs, table)

    @settings(deadline=None, max_examples=50)
    @given(words | few, words | few, words | few, words, words)
    def check(axes: list[int], lows: list[int], highs: list[int], first: list[int], second: list[int]) -> None:
        table = first + second
        arrays = [np.array(each, np.uint16) for each in (axes, lows, highs, table)]
        slots = [table[axis & 63] for axis in axes]
        assert test_them(*map(address_of, arrays)) == bits(
            [low <= slot <= high for slot, low, high in zip(slots, lows, highs, strict=True)]
        )
        slots = [table[axis & 31] for axis in axes[:16]]
        assert test_half(*map(address_of, arrays)) == bits(
            [low <= slot <= high for slot, low, high in zip(slots, lows[:16], highs[:16], strict=True)]
        )

    check()


@njit
def _within_each(axes: int, lows: int, highs: int, table: int, mask: int) -> int:
    return within_each(axes, lows, highs, table, mask)


@njit
def _nonzero_each(axes: int, table: int, mask: int) -> int:
    return nonzero_each(axes, table, mask)


@njit
def _within(lows: int, highs: int, value: int) -> int:
    return within(lows, highs, value)


@njit
def _equal(values: int, value: int) -> int:
    return equal(values, value)


@njit
def _negative(values: int) -> int:
    return negative(values)


def packer() -> Any:
    @njit
    def pack_them(source: int, mask: int, target: int) -> None:
        pack(source, mask, target)

    return pack_them


@pytest.mark.parametrize("has_instruction", [True, False])
def test_chosen_integers_are_packed(has_instruction: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_instruction:
        monkeypatch.setattr(native, "_HAS_COMPRESS", False)
    pack_them = packer()

    @settings(deadline=None, max_examples=50)
    @given(longs, masks)
    def check(values: list[int], mask: int) -> None:
        source, target = np.array(values, np.int32), np.zeros(32, np.int32)
        pack_them(address_of(source), mask, address_of(target))
        expected = [value for index, value in enumerate(values) if mask >> index & 1]
        assert target[: len(expected)].tolist() == expected
        assert _negative(address_of(source)) == bits([value < 0 for value in values])

    check()


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 63), st.floats())
def test_bits_are_counted_found_and_shifted(mask: int, value: int, by: int, number: float) -> None:
    assert _bit_operations(mask, value, by, number) == (
        (mask & -mask).bit_length() - 1,
        mask.bit_count(),
        int(np.int64(np.uint64(value % 2**64) >> np.uint64(by))) if by else value,
        int(np.float64(number).view(np.int64)),
    )


@njit
def _bit_operations(mask: int, value: int, by: int, number: float) -> tuple[int, int, int, int]:
    return lowest_bit(mask), count_bits(mask), shifted(value, by), float_bits(number)


def double(value: int) -> int:
    return 2 * value


def test_kernels_compile_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    kernel: Callable[[int], int] = compiled(double)
    assert kernel(21) == 42


def test_a_processor_without_wide_vectors_gives_the_same_matches(tmp_path: Path) -> None:
    program = """
import random, numpy as np
from tests.matching.columnar.test_search import match_all, match_each, searcher_for
from tests.matching.columnar.twin import Inputs, matching
for seed in range(12):
    inputs = Inputs(seed)
    rows = inputs.rows(200)
    events = inputs.events(rows, 10)
    searcher = searcher_for(rows, inputs.sizes)
    assert match_all(searcher, events) == match_each(searcher, events) == [matching(rows, e) for e in events]
print("same")
"""
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "same\n", done.stderr
