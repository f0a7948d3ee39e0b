"""Collections of Sigma rules: a file, a folder or an archive, each rule a filter or refused with the reason."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from palio.errors import InputError, ParseError
from palio.garbage_collector import paused_collector

if TYPE_CHECKING:
    from palio.filters.filter import Filter
    from palio.languages.sigma.logsources import LogSources

_ENDINGS: Final = (".yml", ".yaml")
_MAX_FILE_BYTES: Final = 4_000_000


@dataclass(frozen=True)
class SigmaRule:
    """A rule as a filter, with what a subscription needs beside it."""

    id: str
    filter: Filter = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)
    path: str

    @property
    def title(self) -> str:
        return str(self.metadata.get("title", ""))

    @property
    def level(self) -> str | None:
        """informational, low, medium, high or critical, where the rule says."""
        level = self.metadata.get("level")
        return None if level is None else str(level)


@dataclass(frozen=True)
class RefusedRule:
    """A rule that cannot be a filter, and the reason."""

    path: str
    id: str | None
    title: str
    reason: str


@dataclass(frozen=True)
class Rules:
    """A collection: the rules that are filters, and those that were refused."""

    rules: Sequence[SigmaRule]
    refused: Sequence[RefusedRule]

    def __iter__(self) -> Iterator[SigmaRule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)


@dataclass(frozen=True)
class RuleFile:
    """A file of rules: its path within the folder or archive, and its text."""

    path: str
    text: str


def read_rules(
    path: str | PathLike[str],
    *,
    folders: Sequence[str] | None = None,
    logsources: LogSources | Mapping[str, Any] | str | PathLike[str] | None = None,
    timezone: str = "UTC",
) -> Rules:
    """The rules of a file, of a folder and all below it, or of an archive (`.zip`, `.tar`, also `.gz`, `.xz`, `.bz2`).

    Of a large collection, `folders` are the names of the top folders to read. Reading takes some milliseconds a rule.
    `InputError` says that the file cannot be read at all; what is wrong with single rules is among the `refused`.
    """
    from palio.languages.sigma.logsources import LogSources

    mapping = LogSources.read(logsources)
    rules: list[SigmaRule] = []
    refused: list[RefusedRule] = []
    # A rule leaves many objects that stay, and none in circles: looking for those took a quarter of the time.
    with paused_collector():
        for file in rule_files(path, folders=folders):
            for found in rules_in(file, mapping, timezone):
                if isinstance(found, SigmaRule):
                    rules.append(found)
                else:
                    refused.append(found)
    return Rules(rules, refused)


def rules_in(file: RuleFile, logsources: LogSources, timezone: str = "UTC") -> Iterator[SigmaRule | RefusedRule]:
    """The rules of one file, which may have several documents."""
    from palio.languages.sigma.lowering import lower_rule
    from palio.languages.sigma.parser import RuleText, parse_document, parse_rule, single_mapping
    from palio.languages.sigma.yaml_loader import YamlError, load_documents

    try:
        documents = load_documents(file.text)
    except YamlError as error:
        wrong = ParseError(file.text, error.position, error.reason)
        yield RefusedRule(file.path, None, "", str(wrong))
        return
    for number, document in enumerate(documents, start=1):
        header = document if isinstance(document, Mapping) else {}
        id = str(header["id"]) if header.get("id") else None
        title = str(header.get("title") or "")
        try:
            if len(documents) == 1:  # errors point into the file
                rule = parse_document(RuleText(file.text), single_mapping(documents, file.text))
            else:
                rule = parse_rule(document)
            filter = lower_rule(rule, logsources, timezone)
        except ParseError as error:
            yield RefusedRule(file.path, id, title, str(error))
            continue
        named = id or (file.path if len(documents) == 1 else f"{file.path}#{number}")
        yield SigmaRule(named, filter, _metadata(header), file.path)


def describe_rule(header: Mapping[str, Any]) -> dict[str, Any]:
    """The title, level, status and tags of a rule, as JSON values."""
    metadata: dict[str, Any] = {name: str(header[name]) for name in ("title", "level", "status") if header.get(name)}
    tags = header.get("tags")
    if isinstance(tags, list):
        metadata["tags"] = [str(tag) for tag in tags]
    return metadata


def _metadata(header: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a rule, and its log source."""
    metadata = describe_rule(header)
    logsource = header.get("logsource")
    if isinstance(logsource, Mapping):
        parts = ("category", "product", "service")
        metadata["logsource"] = {part: str(logsource[part]) for part in parts if logsource.get(part)}
    return metadata


def rule_files(path: str | PathLike[str], *, folders: Sequence[str] | None = None) -> Iterator[RuleFile]:
    """The files of a folder or an archive that may hold rules, in the order of their paths."""
    place = Path(path)
    for name, raw in _contents(place, folders):
        if len(raw) > _MAX_FILE_BYTES:
            raise InputError(f"{path}: {name}", f"it has more than the {_MAX_FILE_BYTES:,} bytes that a rule may have")
        try:
            yield RuleFile(name, raw.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: {name}", f"invalid UTF-8 at byte {error.start}") from None


def _contents(place: Path, folders: Sequence[str] | None) -> Iterator[tuple[str, bytes]]:
    try:
        if place.is_dir():
            names = sorted(each.relative_to(place).as_posix() for each in place.rglob("*") if each.is_file())
            yield from ((name, (place / name).read_bytes()) for name in names if _is_wanted(name, folders))
        elif zipfile.is_zipfile(place):
            with zipfile.ZipFile(place) as archive:
                for name in sorted(archive.namelist()):
                    if _is_wanted(name, folders):
                        yield name, _read_bounded(archive.open(name))
        elif place.suffix in _ENDINGS:
            yield place.name, place.read_bytes()
        else:
            yield from _from_tar(place, folders)
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(str(place), f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _from_tar(place: Path, folders: Sequence[str] | None) -> Iterator[tuple[str, bytes]]:
    # A tar can only be read in the order it was written in, so the files are collected, then sorted.
    contents: list[tuple[str, bytes]] = []
    with tarfile.open(place) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isfile() and _is_wanted(name, folders):
                stream = archive.extractfile(member)
                assert stream is not None  # it is a file
                contents.append((name, _read_bounded(stream)))
    yield from sorted(contents)


def _read_bounded(stream: Any) -> bytes:
    """The content of a stream, cut one byte beyond the limit: the caller sees that it is too long."""
    with stream:
        raw: bytes = stream.read(_MAX_FILE_BYTES + 1)
    return raw


def _is_wanted(name: str, folders: Sequence[str] | None) -> bool:
    path = PurePosixPath(name)
    if path.suffix not in _ENDINGS or any(part.startswith(".") for part in path.parts):
        return False
    return folders is None or path.parts[0] in folders
