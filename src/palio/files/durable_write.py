"""Durable writes to a disk: syncing a path, and replacing a private file as a whole."""

from __future__ import annotations

import os
from pathlib import Path


def fsync_path(path: Path) -> None:
    """Make the content of a file durable, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_private_file(path: Path, data: bytes) -> None:
    """Replace a file that only its owner may read; a crash leaves the old content or the new."""
    # Beside the file, because a rename cannot cross file systems.
    draft = path.with_suffix(".new")
    # With its mode from the start: the content is secret, and a `chmod` afterwards would come too late.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)  # before the name points to it: a crash must not leave an empty file
    os.replace(draft, path)
    fsync_path(path.parent)  # the new name too: a revoked token must not come back after a loss of power
