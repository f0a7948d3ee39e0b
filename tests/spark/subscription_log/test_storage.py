"""A subscription log on disks that cannot keep one, and on those that answer badly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palio.errors import PipelineError
from palio.spark import SubscriptionLog
from palio.spark.storage import StorageFolder


def test_what_cannot_be_opened_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="nowhere://x cannot be opened"):
        SubscriptionLog("nowhere://x")
    place = StorageFolder(tmp_path)
    with pytest.raises(FileNotFoundError):
        place.read("missing")
    place.remove("missing")
    assert repr(place) == f"StorageFolder({str(tmp_path)!r})"


def test_a_disk_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("palio.spark.storage.os.link", refuse)
    with pytest.raises(PipelineError, match="has no links"):
        SubscriptionLog(tmp_path / "log").commit()
    assert list((tmp_path / "log" / "changes").iterdir()) == []


def test_an_answer_that_got_lost_on_the_way_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    link = os.link

    def forgetful(source: Any, target: Any) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr("palio.spark.storage.os.link", forgetful)
    assert StorageFolder(tmp_path).create("a", b"1")
    assert not StorageFolder(tmp_path).create("a", b"2")
    assert StorageFolder(tmp_path).read("a") == b"1"
