"""How Spark writes down where the sources of a stream stood: a version, its own figures, a line for each source."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from palio.errors import PipelineError

_VERSION: Final = b"v1"
_NOTHING: Final = b"-"


def read_offsets(data: bytes, place: str) -> list[Any]:
    """The offsets of the sources, in their order; None for a source that has given nothing yet."""
    lines = data.rstrip(b"\n").split(b"\n")
    if lines[0] != _VERSION or len(lines) < 3:
        raise PipelineError(f"{place} is written in a form of Spark's that is not known here: {lines[0][:20]!r}")
    return [None if line == _NOTHING else _read(line) for line in lines[2:]]


def _read(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line.decode()
