"""Compilation of all kernels of matching ahead of their first use, for images of containers.

Kernels that take addresses and other numbers have one signature, which their annotations state, so they are compiled
without being called. Those that build an index, or evaluate many different expressions, take arrays whose dimensions no
annotation states; building a small index and matching an event compiles them.

Run as a program, it is the compiler that `kernel_readiness` starts in the background. Where there is a second
processor, a second process begins at the other end. Each finds on disk what the other has done (`kernel_cache`), and
they meet somewhere in the middle.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

from numba import types
from numba.core.dispatcher import Dispatcher

from palio.garbage_collector import paused_collector
from palio.matching.columnar import (
    bulk_kernels,
    encoding_kernels,
    expression_kernels,
    filing_kernels,
    match_kernels,
    pattern_cache_kernels,
    pattern_kernels,
    pivot_kernels,
    posting_kernels,
    program_kernels,
)
from palio.matching.columnar.computed_columns import MIN_PROGRAM_EXPRESSIONS
from palio.matching.columnar.kernel_cache import folders, try_lock
from palio.matching.columnar.kernel_readiness import are_recorded, compiler_process, kernel_readiness
from palio.matching.matcher import Matcher
from palio.matching.xml_kernels import COMPILED_KERNELS
from palio.xml.document_parser import parse_document
from palio.xml.pattern_index import PatternIndex
from palio.xml.xpath_parser import parse_xpath

# Without `renumbering_kernels`, which only the driver of a job with a long table of subscriptions needs.
_MODULES: Final = (
    match_kernels,
    encoding_kernels,
    expression_kernels,
    program_kernels,
    pattern_cache_kernels,
    pattern_kernels,
    filing_kernels,
    posting_kernels,
    pivot_kernels,
    bulk_kernels,
)
_NUMBERS: Final = {int: types.int64, float: types.float64}
_NICENESS: Final = 5  # of the compiler in the background: it gives way, and still ends on a busy machine
_FROM_END: Final = "--from-end"  # argument of the second process
_SUBSCRIPTIONS: Final = 32  # of one skeleton, so that they are loaded in bulk


@dataclass(frozen=True, slots=True)
class Precompilation:
    """Result of `compile_kernels`."""

    kernels: int
    compiled: int
    """Kernels that were not on disk."""
    seconds: float
    folder: str | None
    """Where they are kept; None where no folder can be written, and every process compiles them again."""


def compile_kernels(report: Callable[[int, int], None] | None = None) -> Precompilation:
    """Compile every kernel of matching that is not on disk; `report` gets how many are ready, and how many there are.

    Costs some 15 seconds of a processor the first time, which two share, and half a second afterwards.
    """
    started, began = time.perf_counter(), time.time()
    found = list(kernels())
    with _second_process(), paused_collector(), kernel_readiness.compiling_here():
        for kernel in found:
            _compile_for_numbers(kernel)
            if report is not None:
                report(sum(bool(each.signatures) for each in found), len(found))
        _compile_for_arrays()
    if report is not None:
        report(len(found), len(found))
    kernel_readiness.record_all_compiled()
    return Precompilation(
        kernels=len(found),
        compiled=sum(bool(each.stats.cache_misses) or _is_newer(each, began) for each in found),
        seconds=time.perf_counter() - started,
        folder=found[0].stats.cache_path,
    )


def _compile_from_end() -> None:
    """Compile all kernels in the opposite order; records it, because the first process may have been ended."""
    with paused_collector(), kernel_readiness.compiling_here():
        _compile_for_arrays()
        for kernel in reversed(list(kernels())):
            _compile_for_numbers(kernel)
    kernel_readiness.record_all_compiled()


def _compile_for_numbers(kernel: Any) -> None:
    arguments = _numbers(kernel)
    if arguments is not None:
        kernel.compile(arguments)


def _compile_for_arrays() -> None:
    matcher = Matcher()
    matcher.add_many(map(str, range(_SUBSCRIPTIONS)), [f"a = {n} AND b = 'b{n}'" for n in range(_SUBSCRIPTIONS)])
    many = range(MIN_PROGRAM_EXPRESSIONS)
    matcher.add_many([f"x{n}" for n in many], [f"a * {n} < c" for n in many])
    matcher.merge()
    matcher.match({"a": 1, "c": 0})
    patterns = PatternIndex(COMPILED_KERNELS)
    patterns.add(parse_xpath("//a[b]/c"))
    patterns.match(parse_document("<a><b/><c/></a>"))


@contextmanager
def _second_process() -> Iterator[None]:
    """A process that compiles from the other end, where there is something to compile and a processor for it.

    Of processes that start together, one has a second.
    """
    options = compiler_process(_FROM_END)
    if options is None or are_recorded() or _count_processors() == 1:
        yield
        return
    with (folders()[0] / "second-compiler.lock").open("w") as lock:
        process = subprocess.Popen(**options) if try_lock(lock.fileno()) else None
        try:
            yield
        finally:
            if process is not None:
                process.terminate()  # what is left to it is on disk already
                process.wait()


def _count_processors() -> int:
    """The processors that this process may use, which may be fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def _is_newer(kernel: Any, began: float) -> bool:
    """Whether the other process has compiled a kernel, since a time."""
    path: Path | None = getattr(kernel._cache, "index_path", None)  # none where nothing is kept
    return path is not None and path.stat().st_mtime >= began


def kernels() -> Iterator[Any]:
    """The kernels of matching that are called from Python."""
    for module in _MODULES:
        for each in vars(module).values():
            is_own = isinstance(each, Dispatcher) and each.py_func.__module__ == module.__name__
            # Inlined functions are compiled within the kernels that call them.
            if is_own and not each.targetoptions.get("no_cpython_wrapper"):
                yield each


def _numbers(kernel: Any) -> tuple[Any, ...] | None:
    """Numba's types of the arguments, if all of them are numbers."""
    hints = [hint for name, hint in get_type_hints(kernel.py_func).items() if name != "return"]
    return tuple(map(_NUMBERS.__getitem__, hints)) if set(hints) <= set(_NUMBERS) else None


if __name__ == "__main__":
    if _FROM_END in sys.argv:
        _compile_from_end()  # as nice as the first process, which has started it
    else:
        os.nice(_NICENESS)
        compile_kernels()
