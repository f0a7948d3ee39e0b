"""Compilation of all kernels of matching ahead of their first use, for images of containers.

Kernels that take addresses and other numbers have one signature, which their annotations state, so they are compiled
without being called. Those that build an index, evaluate many different expressions or match XML take arrays whose
dimensions no annotation states: they are called with small ones.

Run as a program with the names of groups, it is the compiler that `kernel_readiness` starts in the background. Where
there is a second processor, a second process begins at the other end. Each finds on disk what the other has done
(`kernel_cache`), and they meet somewhere in the middle. A process of one thread forks the second one, which saves it
the second of a processor that its imports take.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_type_hints

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher

from palio.garbage_collector import paused_collector
from palio.matching.columnar import (
    bulk_kernels,
    encoding_kernels,
    expression_kernels,
    filing_kernels,
    layout,
    match_kernels,
    pattern_cache_kernels,
    pattern_kernels,
    pivot_kernels,
    posting_kernels,
    program_kernels,
)
from palio.matching.columnar.kernel_cache import folders, try_lock
from palio.matching.columnar.kernel_readiness import (
    EXPRESSIONS,
    PLAIN,
    XML,
    compiler_process,
    group_of,
    readiness,
)

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


def compile_kernels(
    groups: Sequence[str] = tuple(readiness), report: Callable[[int, int], None] | None = None
) -> Precompilation:
    """Compile every kernel of some groups that is not on disk; `report` gets how many are ready, of how many.

    Costs some ten seconds of a processor the first time, which two share, and half a second afterwards.
    """
    started, began = time.perf_counter(), time.time()
    if PLAIN in groups:
        import_module("palio.matching.matcher")  # the others do without it
    found = list(kernels(groups))
    with paused_collector(), ExitStack() as compiling:
        for group in groups:
            compiling.enter_context(readiness[group].compiling_here())
        # Before the second process, which then has what Numba loads for its first kernel.
        _compile_for_numbers(found[0])
        compiling.enter_context(_second_process(groups))
        for kernel in found:
            _compile_for_numbers(kernel)
            if report is not None:
                report(sum(bool(each.signatures) for each in found), len(found))
        for group in groups:
            _compile_for_arrays(group)
            readiness[group].record_compiled()
    if report is not None:
        report(len(found), len(found))
    return Precompilation(
        kernels=len(found),
        compiled=sum(bool(each.stats.cache_misses) or _is_newer(each, began) for each in found),
        seconds=time.perf_counter() - started,
        folder=found[0].stats.cache_path,
    )


def _compile_from_end(groups: Sequence[str]) -> None:
    """Compile kernels in the opposite order; records them, because the first process may have been ended."""
    with paused_collector(), ExitStack() as compiling:
        for group in reversed(groups):
            compiling.enter_context(readiness[group].compiling_here())
            _compile_for_arrays(group)
            for kernel in reversed(list(kernels((group,)))):
                _compile_for_numbers(kernel)
            readiness[group].record_compiled()


def _compile_for_numbers(kernel: Any) -> None:
    arguments = _numbers(kernel)
    if arguments is not None:
        kernel.compile(arguments)


def _compile_for_arrays(group: str) -> None:
    """Compile the kernels of a group that take arrays, if it has some."""
    if group == PLAIN:
        from palio.matching.matcher import Matcher

        matcher = Matcher()
        matcher.add_many(map(str, range(_SUBSCRIPTIONS)), [f"a = {n} AND b = 'b{n}'" for n in range(_SUBSCRIPTIONS)])
        matcher.merge()
    elif group == EXPRESSIONS:
        integers, numbers = np.empty((0, layout.CODE_FIELDS), np.int64), np.empty((0, 0))
        flags, whole = np.empty((0, 0), np.uint8), np.empty(0, np.uint8)
        leaves = expression_kernels.Leaves(integers, flags, whole)
        registers = expression_kernels.Registers(integers, numbers, flags, whole)
        expression_kernels.run_program(integers, numbers, leaves, registers, 0, 0, 0, 0, 0, 0)
    elif group == XML:
        from palio.matching.xml_kernels import COMPILED_KERNELS, COMPILED_SCAN
        from palio.xml.document_parser import parse_document
        from palio.xml.document_scanner import DocumentScanner
        from palio.xml.pattern_index import PatternIndex
        from palio.xml.xpath_parser import parse_xpath

        patterns = PatternIndex(COMPILED_KERNELS)
        patterns.add(parse_xpath("//a[b]/c"))
        patterns.match(parse_document("<a><b/><c/></a>", scanner=DocumentScanner(COMPILED_SCAN)))


@contextmanager
def _second_process(groups: Sequence[str]) -> Iterator[None]:
    """A process that compiles from the other end, where there is something to compile and a processor for it.

    Of processes that start together, one has a second. A group that is not plain is too small to be shared.
    """
    options = compiler_process(_FROM_END, *groups)
    has_work = PLAIN in groups and not all(readiness[group].are_recorded() for group in groups)
    if options is None or not has_work or _count_processors() == 1:
        yield
        return
    with (folders()[0] / "second-compiler.lock").open("w") as lock:
        end = _start_second(options, groups) if try_lock(lock.fileno()) else None
        try:
            yield
        finally:
            if end is not None:
                end()  # what is left to it is on disk already


def _start_second(options: dict[str, Any], groups: Sequence[str]) -> Callable[[], None]:
    """Start the second process; returns what ends it."""
    if threading.active_count() > 1 or not hasattr(os, "fork"):  # a fork would copy the locks of other threads as held
        process = subprocess.Popen(**options)

        def end() -> None:
            process.terminate()
            process.wait()

        return end
    forked = os.fork()
    if forked == 0:
        try:
            _compile_from_end(groups)
        finally:
            os._exit(0)

    def end_fork() -> None:
        os.kill(forked, signal.SIGTERM)
        os.waitpid(forked, 0)

    return end_fork


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


def kernels(groups: Sequence[str] = tuple(readiness)) -> Iterator[Any]:
    """The kernels of some groups that are called from Python."""
    for module in _MODULES:
        if group_of(module.__name__) not in groups:
            continue
        for each in vars(module).values():
            is_own = isinstance(each, Dispatcher) and each.py_func.__module__ == module.__name__
            # Inlined functions are compiled within the kernels that call them.
            if is_own and not each.targetoptions.get("no_cpython_wrapper"):
                yield each
    if XML in groups:
        from palio.matching.xml_kernels import COMPILED_KERNELS, COMPILED_SCAN

        yield from (*COMPILED_KERNELS, COMPILED_SCAN)


def _numbers(kernel: Any) -> tuple[Any, ...] | None:
    """Numba's types of the arguments, if all of them are numbers."""
    hints = [hint for name, hint in get_type_hints(kernel.py_func).items() if name != "return"]
    return tuple(map(_NUMBERS.__getitem__, hints)) if set(hints) <= set(_NUMBERS) else None


if __name__ == "__main__":
    chosen = [each for each in sys.argv[1:] if each in readiness] or list(readiness)
    if _FROM_END in sys.argv:
        _compile_from_end(chosen)  # as nice as the first process, which has started it
    else:
        os.nice(_NICENESS)
        compile_kernels(chosen)
