"""Compilation of all kernels ahead of use: the second process."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palio.matching import precompilation
from palio.matching.columnar.kernel_readiness import KernelReadiness


class RecordedProcess:
    """A process that does nothing, and says whether it was ended."""

    def __init__(self, started: list[RecordedProcess], options: dict[str, Any]) -> None:
        self.options = options
        self.is_ended = False
        started.append(self)

    def terminate(self) -> None:
        self.is_ended = True

    def wait(self) -> None:
        assert self.is_ended, "waited for a process that was not told to end"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RecordedProcess]:
    """The processes that were started, on a machine with two processors and an empty folder of kernels."""
    processes: list[RecordedProcess] = []
    monkeypatch.setattr(subprocess, "Popen", lambda **options: RecordedProcess(processes, options))
    monkeypatch.setattr(precompilation, "_count_processors", lambda: 2)
    monkeypatch.setattr(precompilation, "folders", lambda: [tmp_path])
    monkeypatch.setattr(KernelReadiness, "are_recorded", lambda _: False)
    # As in a process with several threads, which must not fork.
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    return processes


def test_of_compilers_that_start_together_one_has_a_second_process(started: list[RecordedProcess]) -> None:
    with precompilation._second_process(["plain"]), precompilation._second_process(["plain"]):
        assert [process.options["args"][-2:] for process in started] == [["--from-end", "plain"]]
    assert started[0].is_ended
    with precompilation._second_process(["plain"]):  # the lock is free again
        assert len(started) == 2


@pytest.mark.parametrize(
    ("owner", "name", "answer"),
    [
        (KernelReadiness, "are_recorded", lambda _: True),
        (precompilation, "compiler_process", lambda *_: None),
    ],
)
def test_no_second_process_where_nothing_is_to_be_done_or_kept(
    owner: Any, name: str, answer: Callable[..., Any], started: list[RecordedProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, answer)
    with precompilation._second_process(["plain"]):
        assert not started


def test_a_group_that_few_need_is_compiled_by_one_process(started: list[RecordedProcess]) -> None:
    with precompilation._second_process(["patterns"]):
        assert not started


def test_no_second_process_on_one_processor(started: list[RecordedProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompilation, "_count_processors", lambda: 1)
    with precompilation._second_process(["plain"]):
        assert not started
