"""Readiness of kernels: a compiler in the background, its record on disk, and what is done without either."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palio.matching import precompilation
from palio.matching.columnar import kernel_readiness as module
from palio.matching.columnar.kernel_readiness import KernelReadiness


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of kernels."""
    monkeypatch.setattr(module, "folders", lambda: [tmp_path])
    return tmp_path


@pytest.fixture
def start_compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Set what happens in the place of the compiler's process."""

    def set_to(run: Callable[[], Any]) -> None:
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: run())

    return set_to


def test_kernels_are_ready_when_the_compiler_has_left_its_record(folder: Path, start_compiler: Any) -> None:
    may_end = threading.Event()
    readiness = KernelReadiness()

    def compile_all() -> None:
        assert may_end.wait(60)
        KernelReadiness().record_compiled()

    start_compiler(compile_all)
    assert not readiness.are_ready()
    assert not list(folder.iterdir())
    may_end.set()
    readiness.wait_until_ready()
    assert readiness.are_ready()
    assert KernelReadiness().are_ready()  # as every later process sees it


def test_a_compiler_that_fails_is_followed_by_one_in_this_process(
    folder: Path, start_compiler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    readiness = KernelReadiness()
    names: list[str] = []

    def compile_here(groups: tuple[str, ...]) -> None:
        assert groups == ("plain",)
        names.append(threading.current_thread().name)
        readiness.record_compiled()

    monkeypatch.setattr(precompilation, "compile_kernels", compile_here)
    start_compiler(lambda: None)
    readiness.wait_until_ready()
    assert names == ["palio-kernels"]


def test_where_no_compiler_works_nobody_waits_for_it(
    folder: Path, start_compiler: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: tuple[str, ...]) -> None:
        raise RuntimeError("no compiler here")

    start_compiler(lambda: None)
    monkeypatch.setattr(precompilation, "compile_kernels", fail)
    readiness = KernelReadiness()
    readiness.wait_until_ready()
    assert not readiness.are_ready()
    assert [each.getMessage() for each in caplog.records] == ["kernels (plain) cannot be compiled; matching stays slow"]


def test_where_nothing_can_be_kept_no_process_is_started(start_compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "folders", list)
    readiness = KernelReadiness()
    monkeypatch.setattr(precompilation, "compile_kernels", lambda _: readiness.record_compiled())
    start_compiler(lambda: pytest.fail("a process was started"))
    readiness.wait_until_ready()


def test_no_archive_is_written_before_kernels_are_compiled(
    folder: Path, start_compiler: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    start_compiler(threading.Event().wait)
    readiness = KernelReadiness()
    elsewhere = tmp_path_factory.mktemp("archive")
    assert readiness.write_archive(elsewhere) is None
    readiness.record_compiled()
    archive = readiness.write_archive(elsewhere)
    assert archive is not None
    before = sorted(folder.iterdir())
    readiness.install_archive(archive)  # kernels are here: nothing to do
    assert sorted(folder.iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_the_thread_that_compiles_sees_kernels_ready_and_others_do_not(start_compiler: Any) -> None:
    start_compiler(threading.Event().wait)  # for ever: its thread ends with the process
    readiness = KernelReadiness()
    seen: list[bool] = []
    with readiness.compiling_here():
        other = threading.Thread(target=lambda: seen.append(readiness.are_ready()))
        other.start()
        other.join()
        seen.append(readiness.are_ready())
    assert [*seen, readiness.are_ready()] == [False, True, False]


@pytest.mark.usefixtures("folder")
def test_a_forked_process_starts_a_compiler_of_its_own(start_compiler: Any) -> None:
    start_compiler(threading.Event().wait)
    readiness = KernelReadiness()
    assert not readiness.are_ready()
    readiness._forget_compiler()  # what fork calls in the child
    start_compiler(lambda: KernelReadiness().record_compiled())
    readiness.wait_until_ready()


def test_a_first_answer_needs_no_compiled_kernel(tmp_path: Path) -> None:
    program = """
import palio
from palio.matching.columnar.kernel_readiness import KernelReadiness
KernelReadiness._start = lambda self: None  # no compiler for a folder that is removed
matcher = palio.Matcher()
matcher.add_many(["a", "b"], ["x > 3 AND y = 'b'", "y LIKE '%b%'"])
assert matcher.match({"x": 5, "y": "b"}) == {"a", "b"}
assert matcher.match_batch([{"x": 5, "y": "b"}] * 3).num_rows == 6
from palio.matching.precompilation import kernels
assert not any(kernel.signatures for kernel in kernels())
"""
    paths = os.pathsep.join(path for path in sys.path if path)
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")
