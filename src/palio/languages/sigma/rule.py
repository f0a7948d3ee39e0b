"""One rule: its log source, its detections and its conditions, taken apart and checked; what no filter can be, refused.

A subscription sees one event at a time. Rules that count events, or wait for a second one, ask for something else, and
are refused with that reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any as Anything
from typing import Final

from palio.errors import ParseError
from palio.languages.sigma.conditions import ConditionError, read_condition
from palio.languages.sigma.detections import DetectionError, Path, read_detection
from palio.languages.sigma.documents import DocumentError, read_documents
from palio.languages.sigma.formulas import Any, Formula

_PARTS: Final = ("category", "product", "service")


@dataclass(frozen=True)
class Source:
    """A rule as it was given, for errors to point into."""

    text: str

    def refuse(self, path: Path, reason: str, hint: str | None = None, offset: int = 0) -> ParseError:
        """The error that names a path, and points to it as well as it can be found."""
        where = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")
        named = f"{where}: {reason}" if where else reason
        return ParseError(self.text, self._position(path) + offset, named, hint)

    def _position(self, path: Path) -> int:
        """Where the last name of a path stands, looked for one name after the other."""
        at = found = 0
        for name in path:
            if isinstance(name, str):
                at = self.text.find(name, at)
                if at < 0:
                    break
                found = at
        return found

    def value_position(self, path: Path, value: str) -> int:
        """Where the value of a path stands, as an offset from the path; 0 where it is not found as it is."""
        start = self._position(path)
        at = self.text.find(value, start)
        return at - start if at >= 0 else 0


@dataclass(frozen=True)
class Rule:
    """What a rule asks of an event, and of which log source."""

    source: Source
    logsource: Mapping[str, Anything]
    formula: Formula


def read_rule(condition: Anything) -> Rule:
    """A rule from its YAML text, or from what was read from it."""
    source, document = _document(condition)
    if "correlation" in document:
        raise source.refuse(
            ("correlation",), "a correlation counts events over time; a subscription sees one event at a time"
        )
    if "filter" in document and "detection" not in document:
        raise source.refuse(("filter",), "a filter changes other rules; by itself it is no condition")
    if "action" in document:
        raise source.refuse(("action",), "rules that are put together from several documents are not supported")
    detection = document.get("detection")
    if not isinstance(detection, Mapping):
        raise source.refuse(("detection",) if "detection" in document else (), "a rule has a mapping `detection`")
    if "timeframe" in detection:
        raise source.refuse(
            ("detection", "timeframe"), "a timeframe spans several events; a subscription sees one event at a time"
        )
    return Rule(source, _logsource(document, source), _formula(detection, source))


def _document(condition: Anything) -> tuple[Source, Mapping[str, Anything]]:
    if isinstance(condition, Mapping):
        source = Source(_as_json(condition))
        if not all(isinstance(key, str) for key in condition):
            raise source.refuse((), "the names in a rule are texts")
        return source, condition
    if isinstance(condition, bytes):
        condition = condition.decode("utf-8", "replace")
    if not isinstance(condition, str):
        raise ParseError(str(condition)[:1000], 0, f"a rule is YAML text or a dict, not {type(condition).__name__}")
    source = Source(condition)
    try:
        documents = read_documents(condition)
    except DocumentError as error:
        raise ParseError(condition, error.position, error.reason) from None
    if len(documents) > 1:
        raise ParseError(
            condition,
            0,
            f"there are {len(documents)} documents; a condition is one rule",
            "read_rules() reads them all",
        )
    if not documents or not isinstance(documents[0], Mapping):
        raise ParseError(condition, 0, "a rule is a YAML mapping with a `detection`")
    return source, documents[0]


def _as_json(condition: Mapping[str, Anything]) -> str:
    try:
        return json.dumps(condition, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(list(condition))


def _logsource(document: Mapping[str, Anything], source: Source) -> Mapping[str, Anything]:
    logsource = document.get("logsource")
    if logsource is None:
        return {}
    if not isinstance(logsource, Mapping):
        raise source.refuse(("logsource",), "a log source is a mapping of category, product and service")
    for part in _PARTS:
        if not isinstance(logsource.get(part), str | None):
            raise source.refuse(("logsource", part), f"a {part} is text")
    return logsource


def _formula(detection: Mapping[str, Anything], source: Source) -> Formula:
    detections: dict[str, Formula] = {}
    for name, definition in detection.items():
        if not isinstance(name, str):
            raise source.refuse(("detection",), f"a detection's name is text, not {name!r}")
        if name == "condition":
            continue
        try:
            detections[name] = read_detection(definition, ("detection", name))
        except DetectionError as error:
            raise source.refuse(error.path, error.reason, error.hint) from None
    conditions = detection.get("condition")
    texts = conditions if isinstance(conditions, list) else [conditions]
    if not detections or not texts or conditions is None:
        missing = "detections" if not detections else "condition"
        raise source.refuse(("detection",), f"a rule has a {missing.removesuffix('s')}; this one has none")
    formulas = [_condition(text, detections, source) for text in texts]
    return formulas[0] if len(formulas) == 1 else Any(tuple(formulas))


def _condition(text: Anything, detections: Mapping[str, Formula], source: Source) -> Formula:
    path: Path = ("detection", "condition")
    if not isinstance(text, str):
        raise source.refuse(path, f"a condition is text, not {type(text).__name__}")
    if "|" in text:
        raise source.refuse(
            path, "an aggregation counts events over time; a subscription sees one event at a time",
            offset=source.value_position(path, "|"),
        )  # fmt: skip
    try:
        return read_condition(text, detections)
    except ConditionError as error:
        start = source.value_position(path, text)
        raise source.refuse(path, error.reason, error.hint, start + error.position if start else 0) from None
