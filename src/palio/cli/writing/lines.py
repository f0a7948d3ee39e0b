"""JSON objects into a file, one on a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from palio.cli.writing.target import STANDARD_OUTPUT, OutputError, Target, undisturbed
from palio.errors import InputError
from palio.files.sources import kind_of


@contextmanager
def open_lines(path: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes an object; the file is put in its place at the end, also after Ctrl-C."""
    compression = None if path is None or path == STANDARD_OUTPUT else _compression(path)
    target = Target(path, compression)

    def write(record: dict[str, Any]) -> None:
        with undisturbed(), target.failures():
            target.stream.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
            target.flush()

    try:
        yield write
    except KeyboardInterrupt:
        target.finish()
        raise
    except BaseException:
        target.discard()
        raise
    target.finish()


def _compression(path: str) -> str | None:
    try:
        kind = kind_of(path)
    except InputError:
        kind = None
    if kind is None or kind.format != "jsonl":
        raise OutputError(path, "let its name end in .jsonl, or .jsonl.gz, .jsonl.xz or .jsonl.zst")
    return kind.compression
