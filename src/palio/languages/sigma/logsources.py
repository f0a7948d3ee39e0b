"""Mapping of Sigma log sources to events: channel, event id, and the names of fields.

A mapping is a dict, or a YAML or JSON file, in the form that the tools around Sigma have used since its beginning:

    logsources:
      any name:
        category: process_creation        # of these three, those given must be the rule's
        product: windows
        conditions: {EventID: 1}          # further conditions, written as a detection is
        rewrite: {product: windows, service: sysmon}   # go on with this log source
        fieldmappings: {Image: NewProcessName}         # a field's name in these events, or several
      another:
        product: windows
        service: sysmon
        sources: ["WinEventLog:Microsoft-Windows-Sysmon/Operational"]   # the same as a condition on Channel
    fieldmappings: {CommandLine: process.command_line}                  # for all rules

Entries that ask for the same category, product and service are alternatives; entries that ask for different ones,
and all apply to a rule, add up. A log source without an entry adds no condition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias

from palio.errors import InputError
from palio.filters.tree import Node
from palio.languages.sigma import windows_log
from palio.languages.sigma.yaml_loader import load_documents

Key: TypeAlias = tuple[str | None, str | None, str | None]  # category, product, service
_PARTS: Final = ("category", "product", "service")
_KNOWN: Final = frozenset((*_PARTS, "conditions", "rewrite", "sources", "fieldmappings", "index", "definition"))
_WINDOWS_LOG: Final = "WinEventLog:"
_MAX_REWRITES: Final = 8


@dataclass(frozen=True)
class LogSourceMapping:
    """One way in which a log source occurs in events: conditions, written as detections, and names of fields."""

    conditions: tuple[Mapping[str, Any], ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lowered: dict[tuple[str, bool], tuple[Node, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The conditions' trees by time zone and wanted truth value: thousands of rules share a log source."""

    def join(self, other: LogSourceMapping) -> LogSourceMapping:
        return LogSourceMapping(self.conditions + other.conditions, {**self.names, **other.names})


@dataclass(frozen=True)
class _LogSourceEntry:
    key: Key
    mapping: LogSourceMapping
    rewritten: Key | None


@dataclass(frozen=True)
class LogSources:
    """All mappings of log sources."""

    entries: tuple[_LogSourceEntry, ...]
    names: Mapping[str, tuple[str, ...]]
    known: frozenset[Key] | None = None  # all log sources that exist, where a list of them was given
    _resolved: dict[Key, list[LogSourceMapping]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def read(cls, mapping: LogSources | Mapping[str, Any] | str | PathLike[str] | None) -> LogSources:
        """A mapping from what a caller gives: nothing for Windows as it is, a dict, or the path of a file."""
        if mapping is None:
            return default_mapping()
        if isinstance(mapping, LogSources):
            return mapping
        if isinstance(mapping, Mapping):
            return _read(mapping, "the mapping of log sources")
        return _read_file(str(mapping))

    def mappings(self, logsource: Mapping[str, Any]) -> list[LogSourceMapping]:
        """The mappings of a rule's log source, which are alternatives."""
        key = _key_of(logsource)
        if self.known is not None and not self._is_known(key):
            raise ValueError(f"the log source {_describe(key)} is not in the list of log sources")
        if key not in self._resolved:
            self._resolved[key] = [
                LogSourceMapping(names=self.names).join(mapping) for mapping in self._find_mappings(key, 0)
            ]
        return self._resolved[key]

    def _find_mappings(self, key: Key, depth: int) -> list[LogSourceMapping]:
        if depth > _MAX_REWRITES:
            raise ValueError(f"the mapping of the log source {_describe(key)} goes round in a circle")
        groups: dict[Key, list[_LogSourceEntry]] = {}
        for entry in self.entries:
            if all(mine in (None, theirs) for mine, theirs in zip(entry.key, key, strict=True)):
                groups.setdefault(entry.key, []).append(entry)
        # Entries of one key are alternatives, groups of different keys add up: the mappings are their product.
        mappings = [LogSourceMapping()]
        for alternatives in groups.values():
            added = [mapping for entry in alternatives for mapping in self._follow_rewrite(entry, depth)]
            mappings = [before.join(after) for before in mappings for after in added]
        return mappings

    def _follow_rewrite(self, entry: _LogSourceEntry, depth: int) -> list[LogSourceMapping]:
        if entry.rewritten is None:
            return [entry.mapping]
        return [entry.mapping.join(further) for further in self._find_mappings(entry.rewritten, depth + 1)]

    def _is_known(self, key: Key) -> bool:
        assert self.known is not None
        category, product, service = key
        # The list has categories and services apart, each with its product, or a category without one.
        listed = ((category, product, None), (None, product, service), (category, None, None), key)
        return any(each in self.known for each in listed)


@cache
def default_mapping() -> LogSources:
    """The channels and event ids of Windows; other products have no entries."""
    return _read(windows_log.default_mapping(), "the default mapping")


@cache
def _read_file(path: str) -> LogSources:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"the mapping of log sources cannot be read: {error}") from error
    try:
        documents = [json.loads(text)] if path.endswith(".json") else load_documents(text)
    except ValueError as error:
        raise InputError(path, f"the mapping of log sources cannot be read: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError(path, "a mapping of log sources is one YAML or JSON object")
    return _read(documents[0], path)


def _read(mapping: Mapping[str, Any], source: str) -> LogSources:
    if "legit" in mapping:
        return _read_list(mapping, source)
    # Without the key `logsources`, the mapping itself has the entries, unless it has field mappings alone.
    entries = mapping.get("logsources", {} if "fieldmappings" in mapping else mapping)
    if isinstance(entries, Mapping):
        listed = list(entries.items())
    elif isinstance(entries, Sequence) and not isinstance(entries, str):
        listed = [(str(number), each) for number, each in enumerate(entries)]
    else:
        raise InputError(source, "`logsources` is a mapping or a list of entries")
    return LogSources(
        tuple(_entry(name, entry, source) for name, entry in listed),
        _names(mapping.get("fieldmappings") if "logsources" in mapping or not entries else None, source),
    )


def _read_list(mapping: Mapping[str, Any], source: str) -> LogSources:
    """The mapping of a list of existing log sources with their fields, such as SigmaHQ's, which rules are checked by.

    A rule of another log source is refused. The list has no channels and event ids; they are those of the default.
    """
    known: set[Key] = set()
    for part in (mapping.get("legit"), mapping.get("addon")):
        if not isinstance(part, Mapping):
            continue
        for product, kinds in part.items():
            if not isinstance(kinds, Mapping):
                raise InputError(source, f"the list of log sources of {product!r} is no mapping")
            # Log sources without a product are under the name "empty".
            name = None if product == "empty" else str(product)
            if name is not None:
                known.add((None, name, None))
            known.update((category, name, None) for category in kinds.get("category") or ())
            known.update((None, name, service) for service in kinds.get("service") or ())
    standard = default_mapping()
    return LogSources(standard.entries, standard.names, frozenset(known))


def _entry(name: Any, entry: Any, source: str) -> _LogSourceEntry:
    if not isinstance(entry, Mapping):
        raise InputError(source, f"the entry {name!r} is no mapping")
    unknown = [key for key in entry if key not in _KNOWN]
    if unknown:
        raise InputError(source, f"the entry {name!r} has {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}")
    key = _key_of(entry)
    if not any(key):
        raise InputError(source, f"the entry {name!r} names no category, product or service")
    conditions = entry.get("conditions") or {}
    rewritten = entry.get("rewrite")
    if not isinstance(conditions, Mapping) or not isinstance(rewritten, Mapping | None):
        raise InputError(source, f"the `conditions` and the `rewrite` of the entry {name!r} are mappings")
    definitions = [dict(each) for each in (conditions, _channels(entry.get("sources"))) if each]
    return _LogSourceEntry(
        key,
        LogSourceMapping(tuple(definitions), _names(entry.get("fieldmappings"), source)),
        None if rewritten is None else _key_of(rewritten),
    )


def _channels(sources: Any) -> dict[str, Any]:
    """The condition on the channel that sources express; files are ignored, because an event does not name its file."""
    names = [each for each in _as_list(sources) if isinstance(each, str) and each.startswith(_WINDOWS_LOG)]
    return {"Channel": [each.removeprefix(_WINDOWS_LOG) for each in names]} if names else {}


def _names(mapping: Any, source: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(mapping, Mapping | None):
        raise InputError(source, "`fieldmappings` is a mapping from the name of a field to its name in the events")
    names = {str(field): tuple(_as_list(name)) for field, name in (mapping or {}).items()}
    for field_name, several in names.items():
        if not several or not all(isinstance(each, str) for each in several):
            raise InputError(source, f"the field {field_name!r} is mapped to a name or a list of names")
    return names


def _as_list(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        yield from value
    elif value is not None:
        yield value


def _key_of(logsource: Mapping[str, Any]) -> Key:
    category, product, service = (logsource.get(part) for part in _PARTS)
    return category, product, service


def _describe(key: Key) -> str:
    return ", ".join(f"{part} {name!r}" for part, name in zip(_PARTS, key, strict=True) if name is not None)
