"""Fixtures of the tests of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files.sample_files import Make


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make_file(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return make_file
