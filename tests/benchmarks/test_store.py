"""The benchmark of the store runs, and counts what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import store


def test_every_kind_of_write_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(store, "PUBLISHERS", (1, 20))
    store.main(["--seconds", "0.05", "--directory", str(tmp_path), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert [(each["what"], each["safety"], each["publishers"]) for each in answer["speeds"]] == [
        ("alone", "durable", 1),
        ("logged", "durable", 1),
        ("logged", "durable", 20),
        ("logged", "relaxed", 1),
        ("logged", "relaxed", 20),
        ("logged, finished", "durable", 20),
        ("queued, acknowledged", "durable", 20),
    ]
    assert all(each["events_per_second"] > 0 for each in answer["speeds"])
    store.main(["--seconds", "0.02", "--directory", str(tmp_path)])
    assert "making one write safe takes this disk" in capsys.readouterr().out
