"""Reader of many XML files, one event each, in batches.

An `EventReader` of each file would give batches of one event, which cost the matcher more than large ones do. Events
have the numbers of their files, counted from 1; a file that cannot be read is counted, reported and left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from palio.errors import DocumentError, InputError
from palio.events import DEFAULT_LIMITS, Event, Limits
from palio.files.events import OnError
from palio.files.input_file import InputFile, check_exists, kind_of

_BATCH_EVENTS: Final = 1_000
_BATCH_CHARACTERS: Final = 4_000_000


class DocumentFiles:
    """Iterates over the documents of some files, once."""

    def __init__(self, paths: Sequence[str], on_error: OnError, limits: Limits = DEFAULT_LIMITS) -> None:
        for path in paths:
            check_exists(path)
            if kind_of(path).format != "xml":
                raise InputError(
                    path, "several files of events are XML documents, one event each; match others by themselves"
                )
        self.name = f"{len(paths):,} files"
        self.size: int | None = sum(Path(path).stat().st_size for path in paths)
        """Bytes of all files as they are stored."""
        self.position = 0
        """Bytes of the files that have been read."""
        self.numbers: Sequence[int] = range(0)
        """The numbers of the events in the batch that was given last."""
        self._paths = paths
        self._on_error = on_error
        self._limits = limits

    def __iter__(self) -> Iterator[list[Event]]:
        events: list[Event] = []
        numbers: list[int] = []
        characters = 0
        for number, path in enumerate(self._paths, start=1):
            event = self._read(path)
            if event is None:
                continue
            events.append(event)
            numbers.append(number)
            characters += len(str(event["xml"]))
            if len(events) >= _BATCH_EVENTS or characters >= _BATCH_CHARACTERS:
                self.numbers = numbers
                yield events
                events, numbers, characters = [], [], 0
        if events:
            self.numbers = numbers
            yield events

    def __enter__(self) -> DocumentFiles:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing stays open between files."""

    def _read(self, path: str) -> Event | None:
        with InputFile(path, kind_of(path).compression) as source:
            data = source.stream.read(self._limits.json_bytes + 1)
            self.position += source.size or 0
        try:
            return Event.from_xml(data, limits=self._limits)
        except DocumentError as error:
            self._on_error(InputError(path, error.reason, error.line))
            return None
