"""Subscriptions from a file, one at a time.

A subscription is one object: `id` and `where`, optionally `language`, `subscriber` and `timezone`; anything else
is kept as metadata. In JSON, `where` is text or, for languages that are JSON themselves, an object or an
array. In CSV and Parquet there is a column for each, and an empty field is one that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from palio.errors import EventError, InputError
from palio.events import DEFAULT_LIMITS, Limits
from palio.events.json import parse_value
from palio.events.values import type_name
from palio.files.folders import is_of_conditions, read_conditions
from palio.files.json_text import read_lines, read_values
from palio.files.line import SubscriptionLine
from palio.files.sources import STANDARD_INPUT, Kind, Source, check_there, kind_of

OnError: TypeAlias = Callable[[InputError], None]
_Fault: TypeAlias = Callable[[int, str], None]


def read_subscriptions(
    path: str | Path,
    format: str | None = None,
    on_error: OnError | None = None,
    limits: Limits = DEFAULT_LIMITS,
    language: str | None = None,
) -> Generator[SubscriptionLine, None, None]:
    """The subscriptions of a file, read as they are asked for; or of a folder, each a file of its own.

    One that cannot be read goes to `on_error` and is left out, or is raised where there is no `on_error`. A
    file that cannot be read at all is raised at once, one that cannot be read any further when that is
    found.
    """
    if format is None and str(path) != STANDARD_INPUT and is_of_conditions(path):
        return read_conditions(path, language, on_error or _raise)
    check_there(path)
    kind = kind_of(path, format)
    return _subscriptions(Source(path, kind.compression), str(path), kind, on_error, limits)


def _raise(error: InputError) -> None:
    raise error


def _subscriptions(
    source: Source, path: str, kind: Kind, on_error: OnError | None, limits: Limits
) -> Generator[SubscriptionLine, None, None]:
    def report(line: int, reason: str) -> None:
        error = InputError(source.name, reason, line)
        if on_error is None:
            raise error
        on_error(error)

    with source:
        for line, members in _objects(source, path, kind, report, limits):
            try:
                yield _subscription(members, line, f"{source.name}:{line}")
            except _Wrong as wrong:
                report(line, str(wrong))


def _objects(
    source: Source, path: str, kind: Kind, report: _Fault, limits: Limits
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects a file consists of, with their lines; a row of columns, without the empty fields."""
    if kind.format == "csv":
        from palio.files.csv_text import line_of, read_text

        for numbers, batch in read_text(source.stream, source.name, report):
            for number, row in zip(numbers, batch.to_pylist(), strict=True):
                yield line_of(number), _without_nulls(row)
    elif kind.format == "parquet":
        from palio.files.parquet import ParquetRows

        rows = ParquetRows(source, path, kind.compression, 8192).rows()
        for number, row in enumerate(rows, start=1):
            yield number, _without_nulls(row)
    else:
        cut = read_lines if kind.format == "jsonl" else read_values
        for texts in cut(source.stream, source.name, limits.json_bytes, report):
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


class _Wrong(Exception):
    """What is wrong with one subscription."""


def _subscription(members: dict[str, Any], line: int, place: str) -> SubscriptionLine:
    rest = dict(members)
    for name in ("id", "where"):
        if rest.get(name) is None:
            raise _Wrong(f'there is no "{name}"')
    id, where = _name_in(rest, "id"), rest.pop("where")
    if not isinstance(where, str | dict | list):
        raise _Wrong(f'"where" must be a condition as text, or as JSON, not {type_name(where)}')
    language = rest.pop("language", None)
    if language is not None and not isinstance(language, str):
        raise _Wrong(f'"language" must be a string, not {type_name(language)}')
    subscriber = _name_in(rest, "subscriber") if rest.get("subscriber") is not None else None
    rest.pop("subscriber", None)
    timezone = rest.pop("timezone", None)
    if timezone is not None and not isinstance(timezone, str):
        raise _Wrong(f'"timezone" must be the name of a time zone, not {type_name(timezone)}')
    return SubscriptionLine(id, where, language, subscriber, rest, timezone, line, place)


def _name_in(members: dict[str, Any], member: str) -> str:
    """Take the member of an object that names something out of it: text, or an integer as its digits."""
    value = members.pop(member)
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise _Wrong(f'"{member}" must be a string or an integer, not {type_name(value)}')
    if not value:
        raise _Wrong(f'"{member}" is empty')
    return value
