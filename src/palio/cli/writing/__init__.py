"""Matches into a file, as the command line writes them.

A row is an event's number, the id of a subscription that wants it, and, where asked for, that subscription's
subscriber and the event itself. `.jsonl`, `.json`, `.csv` and `.parquet`, each also `.gz`, `.xz` or `.zst`;
written as they come, and put in place when they are complete (`target.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palio.cli.writing.formats import FORMATS
from palio.cli.writing.target import STANDARD_OUTPUT, OutputError, Target, undisturbed
from palio.errors import InputError
from palio.files.sources import Kind, kind_of

if TYPE_CHECKING:
    from palio.events import Event

__all__ = ["COLUMNS", "MatchWriter", "OutputError", "open_writer", "refuse_inputs"]

COLUMNS = ("event", "subscription", "subscriber", "content")


def open_writer(
    path: str | Path | None, format: str | None = None, columns: Sequence[str] = ("event", "subscription")
) -> MatchWriter:
    """Open a file for matches; None or `-` is standard output, as JSON lines unless a format is given.

    `columns` are some of `event`, `subscription`, `subscriber`, `content`, in the order they shall have.
    """
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or not columns or len(set(columns)) != len(columns):
        raise ValueError(f"columns are some of {', '.join(COLUMNS)}, each once; not {', '.join(columns)}")
    kind = _kind(path, format)
    if kind.compression is not None or kind.format == "parquet":
        _refuse_terminal(path)
    return MatchWriter(Target(path, kind.compression), kind, columns)


def refuse_inputs(out: str | Path | None, *inputs: str | Path) -> None:
    """Refuse to write over what is being read."""
    for each in inputs:
        with suppress(OSError):
            if out is not None and os.path.samefile(out, each):
                raise OutputError(str(out), f"it is read from as {each}, and would be lost; write to another file")


class MatchWriter:
    """Takes matches a piece at a time; in a `with`, the file is completed at the end.

    It is completed after Ctrl-C too, with what there was by then. After any other exception it is
    discarded, and the file that was in its place, if there was one, stays.
    """

    def __init__(self, target: Target, kind: Kind, columns: Sequence[str]) -> None:
        self.rows = 0
        """How many matches have been written."""
        self._target = target
        self._columns = tuple(columns)
        self._open = True
        try:
            with undisturbed(), target.failures():
                self._format = FORMATS[kind.format](target.stream, self._columns)
        except BaseException:
            target.discard()
            raise

    def write(
        self,
        event: Any,
        subscription: Any,
        subscriber: Any = None,
        content: Sequence[Event] | None = None,
    ) -> None:
        """Write one piece: columns of equal length, as sequences, NumPy or Arrow arrays."""
        given = {"event": event, "subscription": subscription, "subscriber": subscriber, "content": content}
        columns = {name: given[name] for name in self._columns}
        absent = [name for name, values in columns.items() if values is None]
        if absent:
            raise ValueError(f"the column {absent[0]} was announced, but is not given")
        if len({len(values) for values in columns.values()}) > 1:
            raise ValueError("the columns of a piece have one length")
        with undisturbed(), self._target.failures():
            self._format.write(columns)
            self._target.flush()
            self.rows += len(event)

    def close(self) -> None:
        """Complete the file and put it in its place."""
        if not self._open:
            return
        self._open = False
        try:
            with undisturbed(), self._target.failures():
                self._format.finish()
                self._target.finish()
        except BaseException:
            self._target.discard()
            raise

    def discard(self) -> None:
        """Write nothing after all."""
        if self._open:
            self._open = False
            # Finished first, or the libraries would try when the objects go, and complain to nobody.
            with suppress(Exception):
                self._format.finish()
            self._target.discard()

    def __enter__(self) -> MatchWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self.close()
        else:
            self.discard()


def _kind(path: str | Path | None, format: str | None) -> Kind:
    if format is None and (path is None or str(path) == STANDARD_OUTPUT):
        return Kind("jsonl", None)
    try:
        return kind_of(STANDARD_OUTPUT if path is None else path, format)
    except InputError:
        known = f"{', '.join('.' + name for name in FORMATS)}, each also with .gz, .xz or .zst"
        if format is not None:
            raise OutputError(_shown(path), f"there is no format {format!r}; known are {known}") from None
        raise OutputError(_shown(path), f"its name does not say what to write; end it in {known}") from None


def _refuse_terminal(path: str | Path | None) -> None:
    if (path is None or str(path) == STANDARD_OUTPUT) and sys.stdout.isatty():
        raise OutputError(_shown(path), "a terminal cannot show this format; write it to a file")


def _shown(path: str | Path | None) -> str:
    return "standard output" if path is None or str(path) == STANDARD_OUTPUT else str(path)
