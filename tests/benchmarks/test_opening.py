"""Opening: what a fresh process waits for, each part a positive time."""

from __future__ import annotations

import json

import opening
import pytest


def test_each_wait_is_measured_in_fresh_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert opening.main(["--size", "500", "--processes", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["subscriptions"] == 500
    assert found["file_bytes"] > 500
    assert list(found["milliseconds"]) == [
        "import palio",
        "loading the engine",
        "opening",
        "first match",
        "opening again",
        "first match of that",
    ]
    assert all(milliseconds > 0 for milliseconds in found["milliseconds"].values())
