"""Folders that commands on Spark write: never over what a command reads, nor over anything that is not its own.

Spark overwrites a folder by deleting it. So a folder is overwritten only where a mark says that one of these commands
made it, and where nothing else has come into it since; where no look is possible, as in a store of objects, it must
not be there yet.

On a disk, rows are written to a draft within the folder, which no reader looks into, and take the place of the old ones
when they are complete. A command that fails or is interrupted leaves the folder as it was.
"""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from contextlib import AbstractContextManager, nullcontext, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from palio.cli.writing import OutputError
from palio.cli.writing.target import undisturbed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARK: Final = "_palio"  # readers of Parquet pass over names that begin so
_OWN: Final = ("part-*", ".part-*.crc", "_SUCCESS", "._SUCCESS.crc", _MARK)
_DRAFTS: Final = "_draft-*"
_WILDCARDS: Final = "*?[{"

Mode = Literal["overwrite", "errorifexists"]


class OutputFolder:
    """A folder that rows are written to; made before Spark starts, so that a refusal costs nothing."""

    def __init__(self, address: str, *inputs: str) -> None:
        """Refuse a folder that is, holds or lies within one of the inputs, or that has anything else in it."""
        self.address = address
        self._local = _local(address)
        self._mode: Mode = "errorifexists"
        self._made: list[Path] = []
        self._is_written = False
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
        self._made = [place for place in (self._local, *self._local.parents) if not place.exists()]

    def __enter__(self) -> OutputFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Remove what did not come to its end; Spark must not write any more."""
        if self._local is None:
            return
        for draft in self._local.glob(_DRAFTS):
            shutil.rmtree(draft, ignore_errors=True)
        for made in self._made:
            with suppress(OSError):  # there is something in it
                made.rmdir()
        if kind is KeyboardInterrupt and not self._is_written:
            raise KeyboardInterrupt(f"interrupted; nothing was written to {self.address}") from None

    def write(self, rows: DataFrame) -> None:
        """Write rows as Parquet in place of those of an earlier run."""
        from palio.spark.shared_index import is_connect

        if self._local is None or is_connect(rows.sparkSession):  # where the server writes, there may be another disk
            rows.write.mode(self._mode).parquet(self.address)
            if self._local is not None and self._local.is_dir():
                (self._local / _MARK).touch()
            return
        draft = self._local / f"_draft-{secrets.token_hex(4)}"
        rows.write.mode("errorifexists").parquet(str(draft.absolute()))
        with undisturbed():
            self._look(self._local)  # again: somebody may have put something there
            self._put_in_place(self._local, draft)

    def _put_in_place(self, folder: Path, draft: Path) -> None:
        (folder / _MARK).touch()  # first: should it end here, it is ours to write anew
        for name in os.listdir(folder):
            if name != _MARK and (folder / name).is_file():
                (folder / name).unlink()
        for name in sorted(os.listdir(draft), key=lambda name: "_SUCCESS" in name):  # which says that all is there
            (draft / name).rename(folder / name)
        self._is_written = True

    def _look(self, folder: Path) -> Mode:
        for place in (folder, *folder.parents):
            if place.exists() and not place.is_dir():
                raise OutputError(self.address, f"{place} is a file; name a folder to write to")
        if not folder.exists():
            return "errorifexists"
        names = sorted(name for name in os.listdir(folder) if not fnmatch(name, _DRAFTS))
        foreign = [name for name in names if not any(fnmatch(name, own) for own in _OWN)]
        if names and (foreign or _MARK not in names):
            first = (foreign or names)[0]
            reason = f"there is {first} in it, which would be lost; name a new folder, or remove this one before"
            raise OutputError(self.address, reason)
        return "overwrite"

    def _refusal_for(self, read: str) -> OutputError:
        return OutputError(self.address, f"it is read from as {read}, and would be lost; write to another folder")


def output_folder(address: str | None, *inputs: str) -> AbstractContextManager[OutputFolder | None]:
    """The folder a command was told to write to, if it was told one."""
    return nullcontext() if address is None else OutputFolder(address, *inputs)


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
