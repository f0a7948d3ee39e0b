"""Folders that commands on Spark write: never over what a command reads, nor over anything that is not its own.

Spark overwrites a folder by deleting it. So a folder is overwritten only where a mark says that one of these commands
made it, and where nothing else has come into it since; where no look is possible, as in a store of objects, it must
not be there yet.
"""

from __future__ import annotations

import glob
import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from palio.cli.writing import OutputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARK: Final = "_palio"  # readers of Parquet pass over names that begin so
_OWN: Final = ("part-*", ".part-*.crc", "_SUCCESS", "._SUCCESS.crc", _MARK)
_WILDCARDS: Final = "*?[{"

Mode = Literal["overwrite", "errorifexists"]


class OutputFolder:
    """A folder that rows are written to; made before Spark starts, so that a refusal costs nothing."""

    def __init__(self, address: str, *inputs: str) -> None:
        """Refuse a folder that is, holds or lies within one of the inputs, or that has anything else in it."""
        self.address = address
        self._local = _local(address)
        self._mode: Mode = "errorifexists"
        if self._local is None:
            for each in inputs:
                if _local(each) is None and _meet(_segments(address), _segments(each)):
                    raise self._refusal_for(each)
            return
        for each in inputs:
            local = _local(each)
            if local is not None and any(_meet(_real(self._local), place) for place in _places(local)):
                raise self._refusal_for(each)
        self._mode = self._look(self._local)

    def write(self, rows: DataFrame) -> None:
        """Write rows as Parquet in place of those of an earlier run."""
        rows.write.mode(self._mode).parquet(self.address)
        if self._local is not None and self._local.is_dir():
            (self._local / _MARK).touch()

    def _look(self, folder: Path) -> Mode:
        for place in (folder, *folder.parents):
            if place.exists() and not place.is_dir():
                raise OutputError(self.address, f"{place} is a file; name a folder to write to")
        if not folder.exists():
            return "errorifexists"
        names = sorted(os.listdir(folder))
        foreign = [name for name in names if not any(fnmatch(name, own) for own in _OWN)]
        if names and (foreign or _MARK not in names):
            first = (foreign or names)[0]
            reason = f"there is {first} in it, which would be lost; name a new folder, or remove this one before"
            raise OutputError(self.address, reason)
        return "overwrite"

    def _refusal_for(self, read: str) -> OutputError:
        return OutputError(self.address, f"it is read from as {read}, and would be lost; write to another folder")


def output_folder(address: str | None, *inputs: str) -> OutputFolder | None:
    """The folder a command was told to write to, if it was told one."""
    return None if address is None else OutputFolder(address, *inputs)


def _local(address: str) -> Path | None:
    """The path of a place on this machine; None where it is elsewhere."""
    scheme, colon, path = address.partition(":")
    if colon and scheme.lower() == "file":
        return Path("/" + path.lstrip("/"))
    return None if "://" in address else Path(address)


def _places(path: Path) -> list[tuple[str, ...]]:
    """What a path with wildcards may name: the pattern itself, its fixed part by its real name, and what is there."""
    segments = path.absolute().parts
    fixed = next((at for at, each in enumerate(segments) if any(c in each for c in _WILDCARDS)), len(segments))
    pattern = (*_real(Path(*segments[:fixed])), *segments[fixed:])
    return [pattern, *(_real(Path(each)) for each in glob.glob(str(path)))]


def _real(path: Path) -> tuple[str, ...]:
    return Path(os.path.realpath(path)).parts


def _segments(address: str) -> tuple[str, ...]:
    return tuple(each for each in address.split("/") if each)


def _meet(out: tuple[str, ...], read: tuple[str, ...]) -> bool:
    """Whether one of the two is the other, or lies within it."""
    return all(fnmatch(own, "*" if "{" in other else other) for own, other in zip(out, read, strict=False))
