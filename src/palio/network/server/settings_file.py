"""Settings file in TOML: read with the line of an error, and written from the settings in effect."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from palio.errors import InputError, InvalidArgument
from palio.network.addresses import Address
from palio.network.server.settings import Settings
from palio.network.settings_validation import ABSENT, InvalidSetting

MAX_FILE_BYTES: Final = 1024 * 1024
_SECRETS: Final = frozenset({"token"})  # never written


def read_settings(path: Path, before: Settings) -> Settings:
    """The settings of a file, over those before; `InputError` with the line at fault."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(str(path), f"more than {MAX_FILE_BYTES:,} bytes are no file of settings")
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"not UTF-8 text, at byte {error.start:,}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), str(error)) from None
    try:
        return before.with_changes(table)
    except InvalidArgument as error:
        # Errors of values begin with the name of the setting.
        at = error.path if isinstance(error, InvalidSetting) else str(error).split()[0].rstrip(":")
        line = find_line(text, at)
        raise InputError(str(path), f"line {line}: {error}" if line else str(error)) from None


def find_line(text: str, path: str) -> int | None:
    """The line of a setting such as `limits.event.depth`, or of the innermost table around it; None without one.

    `tomllib` keeps no positions. Each line that alone is a table header or the beginning of a setting is read by
    itself; those inside of texts and arrays of several lines are not, and settings are seldom there.
    """
    best: tuple[int, int] | None = None
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = _path_of(stripped) or table
            found = table
        elif "=" in stripped and not stripped.startswith("#"):
            found = (*table, *_path_of(stripped.partition("=")[0] + "= 0"))
        else:
            continue
        length = _common_length(found, path)
        if length and (best is None or length > best[0]):
            best = length, number
    return None if best is None else best[1]


def _path_of(line: str) -> tuple[str, ...]:
    """The names in a header or in the key of a setting; none where the line cannot be read."""
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path = []
    while isinstance(value, dict) and value:
        [(name, value)] = list(value.items())[:1]
        path.append(name)
    return tuple(path)


def _common_length(found: tuple[str, ...], path: str) -> int:
    """The number of names by which a line leads to a path; 0 where it leads elsewhere."""
    written = [".".join(found), ".".join(json.dumps(each) if "." in each or ":" in each else each for each in found)]
    return len(found) if any(path == each or path.startswith(f"{each}.") for each in written if each) else 0


def write_settings(settings: Settings) -> str:
    """All settings as a file, which read again gives the same ones; secrets are left out."""
    return "".join(_lines(settings, ()))


def _lines(settings: Any, path: tuple[str, ...]) -> Iterator[str]:
    named = dict(settings) if isinstance(settings, Mapping) else {
        each.name: getattr(settings, each.name) for each in fields(settings)
    }  # fmt: skip
    tables = {name: value for name, value in named.items() if _is_table(value)}
    if path and (len(named) > len(tables) or not named):
        yield f"\n[{'.'.join(map(_key, path))}]\n"
    for name, value in named.items():
        if name in _SECRETS and value:
            yield f"# {name} is set, and not shown\n"
        elif name not in tables:
            yield f"{_key(name)} = {_value('off' if name == 'http' else value)}\n"
    for name, value in tables.items():
        yield from _lines(value, (*path, name))


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (is_dataclass(value) and not isinstance(value, Address))


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: Any) -> str:
    match value:
        case None:
            return json.dumps(ABSENT)
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:_}" if value >= 10_000 else str(value)
        case float():
            return repr(value)
        case tuple() | list():
            return f"[{', '.join(map(_value, value))}]"
    return json.dumps(str(value), ensure_ascii=False)
