"""Output folders of commands: never over an input of the command, nor over foreign files.

Spark overwrites a folder by deleting it. So a folder is overwritten only where a marker file says that one of these
commands made it and nothing else has been added; where that cannot be checked, as in an object store, the folder must
not exist yet.

On a disk, rows are written to a draft within the folder, which readers ignore, and replace the old ones when they are
complete. A command that fails or is interrupted leaves the folder as it was.
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

from palio.cli.output_file import OutputError, defer_interrupt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARKER: Final = "_palio"  # readers of Parquet ignore names that begin with an underscore
_OWN_FILES: Final = ("part-*", ".part-*.crc", "_SUCCESS", "._SUCCESS.crc", _MARKER)
_DRAFTS: Final = "_draft-*"
_WILDCARDS: Final = "*?[{"

Mode = Literal["overwrite", "errorifexists"]


class OutputFolder:
    """A folder for results, checked before Spark starts."""

    def __init__(self, address: str, *inputs: str) -> None:
        """Refuse a folder that overlaps with one of the inputs, or that has foreign files."""
        self.address = address
        self._local = _local(address)
        self._mode: Mode = "errorifexists"
        self._made: list[Path] = []
        self._is_written = False
        if self._local is None:
            for each in inputs:
                if _local(each) is None and _overlap(_segments(address), _segments(each)):
                    raise self._refusal_for(each)
            return
        for each in inputs:
            local = _local(each)
            if local is not None and any(_overlap(_real(self._local), place) for place in _places(local)):
                raise self._refusal_for(each)
        self._mode = self._check_contents(self._local)
        # Parents that Spark will create; they are removed again if nothing is written.
        self._made = [place for place in (self._local, *self._local.parents) if not place.exists()]

    def __enter__(self) -> OutputFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Remove unfinished drafts; Spark must not write any more."""
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
        """Write rows as Parquet, replacing those of an earlier run."""
        from palio.spark.shared_index import is_connect

        if self._local is None or is_connect(rows.sparkSession):  # the server may write to another disk
            rows.write.mode(self._mode).parquet(self.address)
            if self._local is not None and self._local.is_dir():
                (self._local / _MARKER).touch()
            return
        draft = self._local / f"_draft-{secrets.token_hex(4)}"
        rows.write.mode("errorifexists").parquet(str(draft.absolute()))
        # Ctrl-C waits here: the old rows are gone, and the new ones are moved one by one.
        with defer_interrupt():
            self._check_contents(self._local)  # again: files may have been added meanwhile
            self._put_in_place(self._local, draft)

    def _put_in_place(self, folder: Path, draft: Path) -> None:
        (folder / _MARKER).touch()  # first, so that a crash from here on leaves a folder that can be overwritten
        for name in os.listdir(folder):
            if name != _MARKER and (folder / name).is_file():
                (folder / name).unlink()
        for name in sorted(
            os.listdir(draft), key=lambda name: "_SUCCESS" in name
        ):  # last: it marks the folder as complete
            (draft / name).rename(folder / name)
        self._is_written = True

    def _check_contents(self, folder: Path) -> Mode:
        for place in (folder, *folder.parents):
            if place.exists() and not place.is_dir():
                raise OutputError(self.address, f"{place} is a file; name a folder to write to")
        if not folder.exists():
            return "errorifexists"
        names = sorted(name for name in os.listdir(folder) if not fnmatch(name, _DRAFTS))
        foreign = [name for name in names if not any(fnmatch(name, own) for own in _OWN_FILES)]
        if names and (foreign or _MARKER not in names):
            first = (foreign or names)[0]
            reason = f"there is {first} in it, which would be lost; name a new folder, or remove this one before"
            raise OutputError(self.address, reason)
        return "overwrite"

    def _refusal_for(self, read: str) -> OutputError:
        return OutputError(self.address, f"it is read from as {read}, and would be lost; write to another folder")


def output_folder(address: str | None, *inputs: str) -> AbstractContextManager[OutputFolder | None]:
    """The output folder of a command, if it has one."""
    return nullcontext() if address is None else OutputFolder(address, *inputs)


def _local(address: str) -> Path | None:
    """The path of an address on this machine; None for others."""
    scheme, colon, path = address.partition(":")
    if colon and scheme.lower() == "file":
        return Path("/" + path.lstrip("/"))
    return None if "://" in address else Path(address)


def _places(path: Path) -> list[tuple[str, ...]]:
    """What a path with wildcards may name: the pattern with its fixed part resolved, and its present matches."""
    segments = path.absolute().parts
    fixed = next((at for at, each in enumerate(segments) if any(c in each for c in _WILDCARDS)), len(segments))
    pattern = (*_real(Path(*segments[:fixed])), *segments[fixed:])
    return [pattern, *(_real(Path(each)) for each in glob.glob(str(path)))]


def _real(path: Path) -> tuple[str, ...]:
    return Path(os.path.realpath(path)).parts


def _segments(address: str) -> tuple[str, ...]:
    return tuple(each for each in address.split("/") if each)


def _overlap(out: tuple[str, ...], read: tuple[str, ...]) -> bool:
    """Whether one is the other, or lies within it."""
    return all(fnmatch(own, "*" if "{" in other else other) for own, other in zip(out, read, strict=False))
