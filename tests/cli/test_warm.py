"""`palio warm`: the kernels of matching, compiled and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from palio.cli.main import palio
from palio.matching import precompilation
from palio.matching.precompilation import Precompilation, kernels


def test_every_kernel_is_ready_and_the_folder_that_keeps_them_is_told() -> None:
    answer = CliRunner().invoke(palio, ["warm", "--json"])
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert told["kernels"] == len(list(kernels())) >= told["compiled"]
    assert Path(told["folder"]).is_dir()
    shown = CliRunner().invoke(palio, ["warm"])
    assert f"{told['kernels']} kernels are ready" in shown.stdout


def test_kernels_that_can_be_kept_nowhere_are_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompilation, "compile_kernels", lambda **_: Precompilation(28, 28, 9.5, None))
    answer = CliRunner().invoke(palio, ["warm"])
    assert answer.exit_code == 1
    assert "28 of them compiled now, in 9.5 s" in answer.stdout
    assert "set NUMBA_CACHE_DIR" in answer.stdout
