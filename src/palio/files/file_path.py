"""Validation of paths that callers hand in, before anything opens them."""

from __future__ import annotations

from os import PathLike, fsencode, fspath
from pathlib import Path
from typing import Any

from palio.errors import InvalidArgument


def checked_path(path: Any, what: str) -> Path:
    """A path that a file can have; `what` it leads to is named where it is none."""
    if not isinstance(path, str | PathLike) or not isinstance(fspath(path), str):
        raise InvalidArgument(f"the path of {what} is a text or a Path, not {type(path).__name__}")
    try:
        is_possible = b"\0" not in fsencode(path)
    except UnicodeError:
        is_possible = False
    if not is_possible:
        raise InvalidArgument(f"the path of {what} is one that a file can have, not {fspath(path)!r:.80}")
    return Path(path)
