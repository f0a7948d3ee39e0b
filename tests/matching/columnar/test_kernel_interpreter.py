"""Interpreted kernels answer as compiled ones do, and operations in Python do what their machine code does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from palio.matching.columnar import native
from palio.matching.columnar.kernel_interpreter import OPERATIONS
from palio.matching.columnar.native import address_of

memories = st.binary(min_size=256, max_size=256)
numbers = st.integers(-(2**63), 2**63 - 1)

# Operations with the arguments to try them on: places are within the first half of the memory.
READERS = ["u8_at", "i8_at", "u16_at", "i16_at", "u32_at", "i32_at", "i64_at"]
WRITERS = ["put_u8", "put_u16", "put_i32", "put_i64"]


def compiled_operation(name: str, arity: int) -> Any:
    operation = getattr(native, name)
    parameters = ", ".join("abcde"[:arity])
    scope = {"operation": operation}
    exec(f"def call({parameters}):\n    return operation({parameters})", scope)
    return njit(scope["call"])


ARITY = {
    **dict.fromkeys(READERS, 2),
    **dict.fromkeys(WRITERS, 3),
    "shifted": 2,
    "wrapped": 1,
    "count_bits": 1,
    "within_each": 5,
    "within_few": 4,
    "within_fewer": 4,
    "nonzero_each": 3,
    "within": 3,
    "equal": 2,
    "lower": 2,
    "negative": 1,
    "pack": 3,
    "fill": 2,
    "fill_words": 2,
}


def arguments_of(name: str, memory: int, number: int) -> tuple[int, ...]:
    if name in READERS:
        return memory, number % 16
    if name in WRITERS:
        return memory, number % 16, number
    return {
        "shifted": (number, number % 64),
        "wrapped": (number,),
        "count_bits": (number,),
        "within_each": (memory, memory + 32, memory + 64, memory + 96, 15),
        "within_few": (memory, memory + 32, memory + 64, memory + 96),
        "within_fewer": (memory, memory + 32, memory + 64, memory + 96),
        "nonzero_each": (memory, memory + 32, 63),
        "within": (memory, memory + 32, number),
        "equal": (memory, number),
        "lower": (memory, memory + 128),
        "negative": (memory,),
        "pack": (memory, number & 0xFFFF, memory + 128),
        "fill": (memory, number),
        "fill_words": (memory, number),
    }[name]


@pytest.mark.parametrize("name", ARITY)
def test_operations_in_python_do_what_machine_code_does(name: str) -> None:
    compiled = compiled_operation(name, ARITY[name])

    @settings(max_examples=30)
    @given(memories, numbers)
    def check(memory: bytes, number: int) -> None:
        one, other = (np.frombuffer(memory, np.uint8).copy() for _ in range(2))
        result = compiled(*arguments_of(name, address_of(one), number))
        assert OPERATIONS[name](*arguments_of(name, address_of(other), number)) == result
        # What `pack` writes behind the chosen ones is nobody's.
        end = 128 + 4 * (number & 0xFFFF).bit_count() if name == "pack" else 256
        assert bytes(one[:end]) == bytes(other[:end])

    check()


def test_every_operation_has_both_forms() -> None:
    assert all(hasattr(native, name) for name in OPERATIONS)
    operations = {name for name, value in vars(native).items() if type(value).__name__ == "_Intrinsic"}
    assert {name for name in operations if not name.startswith("_")} == set(OPERATIONS)


@pytest.mark.parametrize("seeds", [2, pytest.param(200, marks=pytest.mark.deep)])
def test_matching_without_a_compiled_kernel_answers_as_brute_force(
    seeds: int, tmp_path: Path, project_folder: Path
) -> None:
    paths = os.pathsep.join([str(project_folder), *(path for path in sys.path if path)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.matching.columnar.interpreted_run", str(seeds)],
        env={**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path)},
        cwd=project_folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.nbc"))
