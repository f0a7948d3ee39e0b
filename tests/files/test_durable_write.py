"""Durable writes to a disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from palio.files import durable_write
from palio.files.durable_write import fsync_path, replace_private_file


def test_files_and_folders_are_synced_by_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(durable_write.os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    file = tmp_path / "file"
    file.write_bytes(b"content")
    fsync_path(file)
    fsync_path(tmp_path)
    assert synced == [file.stat().st_ino, tmp_path.stat().st_ino]


def test_a_private_file_is_replaced_as_a_whole_and_then_its_folder_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secrets.json"
    replace_private_file(file, b"old")
    found: list[tuple[int, bytes]] = []

    def fsync(descriptor: int) -> None:
        found.append((os.fstat(descriptor).st_ino, file.read_bytes()))

    monkeypatch.setattr(durable_write.os, "fsync", fsync)
    replace_private_file(file, b"new")
    assert found == [(file.stat().st_ino, b"old"), (tmp_path.stat().st_ino, b"new")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secrets.json"
    replace_private_file(file, b"old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable_write.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        replace_private_file(file, b"new")
    assert file.read_bytes() == b"old"
