"""Which options does a source have? One that it does not know is refused: a mistyped `where` would read everything."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from palio.errors import PipelineError

READING: Final = ("start", "until", "maxRowsPerBatch", "rowsPerPartition", "onLoss")
_OF_SPARK: Final = ("path", "checkpointLocation")  # which it hands on to every source


def check_options(source: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that a source does not have; Spark tells them in lower case."""
    names = {name.lower(): name for name in (*known, *_OF_SPARK)}
    for name in given:
        if name.lower() not in names:
            near = get_close_matches(name.lower(), names, 1)
            meant = f"is {names[near[0]]} meant?" if near else f"it has {', '.join(known)}"
            raise PipelineError(f"the source {source} has no option {name!r}; {meant}")
