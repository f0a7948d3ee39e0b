"""Where does a broker keep what must outlive it? In a directory that nobody but its owner can look into."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEFAULT: Final = Path("palio-data")


def make_private(directory: Path) -> Path:
    """The directory, made where it is not there, closed to others where it is open to them."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_mode & 0o077:
        directory.chmod(0o700)
    return directory
