"""Reader of many XML files, one event each, in batches.

An `EventReader` of each file would give batches of one event, which cost the matcher more than large ones do. Events
have the numbers of their files, counted from 1; a file that cannot be read is counted, reported and left out. A folder
stands for the XML files in it, at any depth, by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from palio.errors import DocumentError, InputError
from palio.events import DEFAULT_LIMITS, Event, Limits
from palio.files.events import OnError
from palio.files.input_file import InputFile, check_exists, kind_of

PATH_ATTRIBUTE: Final = "path"
"""As the column of the files that Spark reads."""
_BATCH_EVENTS: Final = 1_000
_BATCH_CHARACTERS: Final = 4_000_000


class DocumentFiles:
    """Iterates over the documents of some files, once; `path_attribute`, if any, has the path of each."""

    def __init__(
        self,
        paths: Sequence[str],
        on_error: OnError,
        limits: Limits = DEFAULT_LIMITS,
        path_attribute: str | None = PATH_ATTRIBUTE,
    ) -> None:
        paths = [each for path in paths for each in _files_of(path)]
        self.name = f"{len(paths):,} files"
        self.size: int | None = sum(Path(path).stat().st_size for path in paths)
        """Bytes of all files as they are stored."""
        self.position = 0
        """Bytes of the files that have been read."""
        self.numbers: Sequence[int] = range(0)
        """The numbers of the events in the batch that was given last."""
        self.paths = paths
        self._path_attribute = path_attribute
        self._on_error = on_error
        self._limits = limits

    def __iter__(self) -> Iterator[list[Event]]:
        events: list[Event] = []
        numbers: list[int] = []
        characters = 0
        for number, path in enumerate(self.paths, start=1):
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
            attributes = {} if self._path_attribute is None else {self._path_attribute: path}
            return Event.from_xml(data, attributes, limits=self._limits)
        except DocumentError as error:
            self._on_error(InputError(path, error.reason, error.line))
            return None


def are_documents(path: str) -> bool:
    """Whether a path is a folder, or a file that is an XML document by its name."""
    if Path(path).is_dir():
        return True
    try:
        return kind_of(path).format == "xml"
    except InputError:
        return False


def _files_of(path: str) -> list[str]:
    """The file of a path, or the XML files of a folder."""
    check_exists(path)
    if Path(path).is_dir():
        found = sorted(str(file) for file in Path(path).rglob("*") if file.is_file() and are_documents(str(file)))
        if not found:
            raise InputError(path, "there is no file in it whose name ends in .xml")
        return found
    if not are_documents(path):
        reason = "several files of events are XML documents, one event each; read others by themselves"
        raise InputError(path, reason)
    return [path]
