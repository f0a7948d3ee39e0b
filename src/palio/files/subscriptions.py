"""Subscriptions from files: many in one file, or conditions in files of their own.

In a file of many a subscription is one object: `id` and `where`, optionally `language`, `subscriber` and `timezone`;
anything else is kept as metadata. In JSON, `where` is text or, for languages that are JSON themselves, an object or an
array. In CSV and Parquet there is a column for each, and an empty field is one that is not there.

In a folder every file is a condition. The suffix of its name says the language, where it says one at all; the id of the
subscription is its path without the suffix. A Sigma file may hold several rules, each with an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from palio.errors import EventError, InputError
from palio.events import DEFAULT_LIMITS, Limits
from palio.events.json import parse_value
from palio.events.values import type_name
from palio.files.input_file import STANDARD_INPUT, FileKind, InputFile, check_exists, kind_of
from palio.files.json_reader import read_lines, read_values


@dataclass(frozen=True, slots=True)
class SubscriptionLine:
    """A subscription as the file has it; its condition is not parsed yet."""

    id: str
    where: str | dict[str, Any] | list[Any]
    language: str | None = None
    subscriber: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    timezone: str | None = None
    line: int = 0
    """Its line in a file of many; its place in the order of a folder."""
    place: str = ""
    """Where it was found, for messages: `wants.jsonl:7`, `rules/login.yml`."""


_LANGUAGES: Final = {".sql": "sql", ".yml": "sigma", ".yaml": "sigma", ".json": None, ".txt": None}
_SUFFIXES: Final = ", ".join(_LANGUAGES)
_MAX_CONDITION_BYTES: Final = 4_000_000

OnError: TypeAlias = Callable[[InputError], None]


def is_condition_path(path: str | Path) -> bool:
    """Whether this is a folder, or a file that is itself a condition."""
    return (bool(str(path)) and Path(path).is_dir()) or Path(path).suffix in (".sql", ".yml", ".yaml")


def _read_conditions(
    path: str | Path, language: str | None, report: OnError
) -> Generator[SubscriptionLine, None, None]:
    """The subscriptions of a folder, in the order of their paths, or of a file that is a condition."""
    root = Path(path)
    files = _condition_files(root) if root.is_dir() else [root]
    if not files:
        raise InputError(
            str(path),
            f"there is no condition in it, a file whose name ends in {_SUFFIXES}; "
            "a list of subscriptions, .jsonl, .json, .csv or .parquet, is given by the name of its file",
        )
    for number, file in enumerate(files, start=1):
        text = _read_text(file, report)
        if text is None:
            continue
        file_language = _LANGUAGES[file.suffix] or language
        if file_language == "sigma":
            yield from _read_rules(file, text, number, report)
        else:
            name = file.relative_to(root) if root.is_dir() else Path(file.name)
            id = name.with_suffix("").as_posix()
            yield SubscriptionLine(id, text.strip(), file_language, line=number, place=str(file))


def _condition_files(root: Path) -> list[Path]:
    """The files below a folder that may hold conditions; nothing hidden."""
    candidates = (path for path in root.rglob("*") if path.suffix in _LANGUAGES and path.is_file())
    return sorted(path for path in candidates if not any(part.startswith(".") for part in path.relative_to(root).parts))


def _read_text(file: Path, report: OnError) -> str | None:
    try:
        if file.stat().st_size > _MAX_CONDITION_BYTES:
            report(
                InputError(str(file), f"it has more than the {_MAX_CONDITION_BYTES:,} bytes that a condition may have")
            )
            return None
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        report(InputError(str(file), error.strerror or str(error)))
    except UnicodeDecodeError as error:
        report(InputError(str(file), f"invalid UTF-8 at byte {error.start}"))
    return None


def _read_rules(file: Path, text: str, number: int, report: OnError) -> Generator[SubscriptionLine, None, None]:
    """The Sigma rules of a file; each has an id, a title and a level of its own."""
    from palio.languages.sigma.rule_files import describe_rule
    from palio.languages.sigma.yaml_loader import YamlError, load_documents

    try:
        documents = load_documents(text)
    except ImportError:
        raise InputError(str(file), "Sigma rules need the extra sigma; run: pip install 'palio[sigma]'") from None
    except YamlError as error:
        report(InputError(str(file), error.reason, text.count("\n", 0, error.position) + 1))
        return
    if not documents:
        report(InputError(str(file), "there is no rule in it"))
    for place, document in enumerate(documents, start=1):
        is_single = len(documents) == 1
        header = document if isinstance(document, dict) else {}
        id = str(header.get("id") or (file.stem if is_single else f"{file.stem}/{place}"))
        # The text of a single rule is kept, so that errors point into the file. One of several is written anew, because
        # a condition is the text of one rule.
        rule = text if is_single else _yaml(document)
        yield SubscriptionLine(id, rule, "sigma", metadata=describe_rule(header), line=number, place=str(file))


def _yaml(document: Any) -> str:
    import yaml

    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


_Report: TypeAlias = Callable[[int, str], None]


def read_subscriptions(
    path: str | Path,
    format: str | None = None,
    on_error: OnError | None = None,
    limits: Limits = DEFAULT_LIMITS,
    language: str | None = None,
) -> Generator[SubscriptionLine, None, None]:
    """The subscriptions of a file, read while they are iterated over; or of a folder, each a file of its own.

    The error of a subscription that cannot be read goes to `on_error`, and the subscription is left out; without
    `on_error` it is raised. The error of a file that cannot be opened is raised at once, that of a file that cannot
    be read any further when it is reached.
    """
    if format is None and str(path) != STANDARD_INPUT and is_condition_path(path):
        return _read_conditions(path, language, on_error or _raise)
    check_exists(path)
    kind = kind_of(path, format)
    if kind.format == "xml":
        raise InputError(str(path), "an XML file is an event; subscriptions are in .jsonl, .json, .csv or .parquet")
    return _read_file(InputFile(path, kind.compression), str(path), kind, on_error, limits)


def _raise(error: InputError) -> None:
    raise error


def _read_file(
    source: InputFile, path: str, kind: FileKind, on_error: OnError | None, limits: Limits
) -> Generator[SubscriptionLine, None, None]:
    def report(line: int, reason: str) -> None:
        error = InputError(source.name, reason, line)
        if on_error is None:
            raise error
        on_error(error)

    with source:
        for line, members in _read_objects(source, path, kind, report, limits):
            try:
                yield _subscription_of(members, line, f"{source.name}:{line}")
            except _InvalidSubscription as wrong:
                report(line, str(wrong))


def _read_objects(
    source: InputFile, path: str, kind: FileKind, report: _Report, limits: Limits
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects a file consists of, with their lines; a row of columns, without the empty fields."""
    if kind.format == "csv":
        from palio.files.csv_reader import line_of, read_text

        for numbers, batch in read_text(source.stream, source.name, report):
            for number, row in zip(numbers, batch.to_pylist(), strict=True):
                yield line_of(number), _without_nulls(row)
    elif kind.format == "parquet":
        from palio.files.parquet_reader import ParquetRows

        rows = ParquetRows(source, path, kind.compression, 8192).rows()
        for number, row in enumerate(rows, start=1):
            yield number, _without_nulls(row)
    else:
        split = read_lines if kind.format == "jsonl" else read_values
        for texts in split(source.stream, source.name, limits.json_bytes, report):
            for line, text in texts:
                try:
                    value = parse_value(text, limits)
                except EventError as error:
                    report(line, str(error))
                    continue
                if isinstance(value, dict):
                    yield line, value
                else:
                    report(line, 'a subscription is an object such as {"id": "desk", "where": "price > 100"}')


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


class _InvalidSubscription(Exception):
    """An error in one subscription."""


def _subscription_of(members: dict[str, Any], line: int, place: str) -> SubscriptionLine:
    rest = dict(members)
    for name in ("id", "where"):
        if rest.get(name) is None:
            raise _InvalidSubscription(f'there is no "{name}"')
    id, where = _take_name(rest, "id"), rest.pop("where")
    if not isinstance(where, str | dict | list):
        raise _InvalidSubscription(f'"where" must be a condition as text, or as JSON, not {type_name(where)}')
    language = rest.pop("language", None)
    if language is not None and not isinstance(language, str):
        raise _InvalidSubscription(f'"language" must be a string, not {type_name(language)}')
    subscriber = _take_name(rest, "subscriber") if rest.get("subscriber") is not None else None
    rest.pop("subscriber", None)
    timezone = rest.pop("timezone", None)
    if timezone is not None and not isinstance(timezone, str):
        raise _InvalidSubscription(f'"timezone" must be the name of a time zone, not {type_name(timezone)}')
    return SubscriptionLine(id, where, language, subscriber, rest, timezone, line, place)


def _take_name(members: dict[str, Any], member: str) -> str:
    """Remove a member that is a name from an object, and return it: text, or an integer as its digits."""
    value = members.pop(member)
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise _InvalidSubscription(f'"{member}" must be a string or an integer, not {type_name(value)}')
    if not value:
        raise _InvalidSubscription(f'"{member}" is empty')
    return value
