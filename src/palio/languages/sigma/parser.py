"""Parser of Sigma rules: detections and condition become one formula, in the names of the rule's fields.

Detections are named groups of tests on fields. A mapping requires all of its fields, a list one of its parts; a plain
value, or a list of values, is searched for in the whole event. The modifiers behind a field's name are left to pySigma.

The condition combines them: `selection and not 1 of filter_*`. pySigma's own parser of conditions was rejected: it
backtracks, takes exponential time for nested brackets, and reports an error without a position. This one is a
recursive-descent parser with the position of every error:

    condition   = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | "(" condition ")" | quantifier "of" pattern | name
    quantifier  = "1" | "any" | "all"

A subscription sees one event at a time. Rules that count events, or wait for a second one, are refused with that
reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from palio.errors import MissingExtra, PalioError, ParseError
from palio.filters.like import LikePattern, escape_like
from palio.filters.regex import Regex
from palio.languages.sigma.pcre import to_java
from palio.languages.sigma.yaml_loader import YamlError, load_documents

if TYPE_CHECKING:
    from sigma.types import SigmaType


# --- formulas --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FieldTest:
    """A field has one of some values or, where no field is named, any attribute of the event has."""

    field: str | None
    values: tuple[SigmaType, ...]
    path: tuple[str | int, ...]  # where in the rule it is written
    cased: bool = False  # whether case matters where the values are other fields; other values know it themselves


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """Every part holds."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """Some part holds."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    """The part does not hold."""

    part: Formula


Formula: TypeAlias = FieldTest | AllOf | AnyOf | Not

# --- condition -------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r"\s*([\w*-]+|\S)")
_QUANTIFIERS: Final[dict[str, type[AllOf] | type[AnyOf]]] = {"1": AnyOf, "any": AnyOf, "all": AllOf}
_MAX_CONDITION_LEVELS: Final = 100
_MAX_CONDITION_WORDS: Final = 10_000


class ConditionError(PalioError, ValueError):
    """An error in a condition, with its position."""

    def __init__(self, position: int, reason: str, hint: str | None = None) -> None:
        self.position = position
        self.reason = reason
        self.hint = hint
        super().__init__(reason)


def parse_condition(text: str, detections: Mapping[str, Formula]) -> Formula:
    """The formula of a condition, the named detections in their places."""
    if text.count(" ") > _MAX_CONDITION_WORDS:
        raise ConditionError(0, f"the condition has more than {_MAX_CONDITION_WORDS:,} words")
    parser = _ConditionParser(text, detections)
    formula = parser.alternatives()
    if parser.word is not None:
        parser.refuse(f"{parser.word!r} does not continue the condition")
    return formula


class _ConditionParser:
    def __init__(self, text: str, detections: Mapping[str, Formula]) -> None:
        self._text = text
        self._detections = detections
        self._levels = 0
        self._end = 0
        self.word: str | None = None
        self.position = 0
        self._next()

    def alternatives(self) -> Formula:
        self._levels += 1
        if self._levels > _MAX_CONDITION_LEVELS:
            self.refuse(f"the condition is nested more than {_MAX_CONDITION_LEVELS} levels deep")
        parts = [self._conjunction()]
        while self._take_if("or"):
            parts.append(self._conjunction())
        self._levels -= 1
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _conjunction(self) -> Formula:
        parts = [self._negation()]
        while self._take_if("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _negation(self) -> Formula:
        negated = False
        while self._take_if("not"):
            negated = not negated
        formula = self._operand()
        return Not(formula) if negated else formula

    def _operand(self) -> Formula:
        if self._take_if("("):
            formula = self.alternatives()
            if not self._take_if(")"):
                self.refuse("a ( is never closed" if self.word is None else f"{self.word!r} does not continue this")
            return formula
        word, start = self.word, self.position
        if word is None:
            self.refuse("the condition ends too soon")
        self._next()
        if self._take_if("of"):
            return self._selection(word, start)
        if word not in self._detections:
            is_name = re.fullmatch(r"[\w-]+", word) is not None
            self.refuse(f"there is no detection {word!r}" if is_name else f"{word!r} is not expected here", start)
        return self._detections[word]

    def _selection(self, quantifier: str, start: int) -> Formula:
        joined = _QUANTIFIERS.get(quantifier.lower())
        if joined is None:
            self.refuse(f"{quantifier!r} is no quantifier", start, "it is written `1 of …`, `any of …` or `all of …`")
        pattern, at = self.word, self.position
        if pattern is None or not re.fullmatch(r"[\w*-]+", pattern):
            self.refuse("after `of` comes a pattern of names, such as selection_*, or them")
        self._next()
        names = self._names(pattern)
        if not names:
            self.refuse(f"no detection is named like {pattern!r}", at)
        return joined(tuple(self._detections[name] for name in names))

    def _names(self, pattern: str) -> list[str]:
        """The detections a pattern means; a name that begins with _ only if the pattern does too."""
        # A detection may itself be named `them`.
        wanted = "*" if pattern.lower() == "them" and pattern not in self._detections else pattern
        like = LikePattern.parse("%".join(map(escape_like, wanted.split("*"))))
        return [
            name
            for name in self._detections
            if like.matches(name) and (wanted.startswith("_") or not name.startswith("_"))
        ]

    def _take_if(self, word: str) -> bool:
        """Consume the next word if it is this one; a detection may be named like an operator."""
        if self.word is None or self.word.lower() != word or (self.word in self._detections and word.isalpha()):
            return False
        self._next()
        return True

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        if match is None:
            self.word, self.position = None, len(self._text)
            return
        self.word, self.position = match[1], match.start(1)
        self._end = match.end()

    def refuse(self, reason: str, position: int | None = None, hint: str | None = None) -> NoReturn:
        if hint is None and self._detections:
            hint = "the detections are " + ", ".join(list(self._detections)[:20])
        raise ConditionError(self.position if position is None else position, reason, hint)


# --- detections ------------------------------------------------------------------------------------------

Path: TypeAlias = tuple[str | int, ...]
_MAX_DETECTION_LEVELS: Final = 50
_SCALAR_TYPES: Final = (str, int, float, bool, type(None))


class DetectionError(PalioError, ValueError):
    """An error in a detection, with its path in the rule."""

    def __init__(self, path: Path, reason: str, hint: str | None = None) -> None:
        self.path = path
        self.reason = reason
        self.hint = hint
        super().__init__(reason)


def parse_detection(definition: Any, path: Path) -> Formula:
    """The formula of one detection."""
    if len(path) > _MAX_DETECTION_LEVELS:
        raise DetectionError(path, f"a detection is nested more than {_MAX_DETECTION_LEVELS} levels deep")
    if isinstance(definition, Mapping):
        if not definition:
            raise DetectionError(path, "a detection cannot be empty")
        return _combine(AllOf, [_parse_item(key, value, (*path, str(key))) for key, value in definition.items()])
    if isinstance(definition, list) and not all(isinstance(each, _SCALAR_TYPES) for each in definition):
        return _combine(AnyOf, [parse_detection(each, (*path, at)) for at, each in enumerate(definition)])
    if isinstance(definition, list | str | int | float | bool | None):
        if definition is None or definition == [] or (isinstance(definition, list) and None in definition):
            raise DetectionError(path, "null is the value of a field; here no field is named")
        return _parse_item("", definition, path)
    raise DetectionError(path, f"a detection is a mapping, a list or a value, not {type(definition).__name__}")


def _combine(kind: type[AllOf] | type[AnyOf], parts: list[Formula]) -> Formula:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _parse_item(key: Any, value: Any, path: Path) -> Formula:
    """A field with its modifiers, and its values."""
    try:
        from sigma.conditions import ConditionAND
        from sigma.exceptions import SigmaError
        from sigma.modifiers import modifier_mapping
        from sigma.rule.detection import SigmaDetectionItem
    except ImportError:
        raise MissingExtra("Sigma rules", "sigma") from None
    if not isinstance(key, str):
        raise DetectionError(path, f"a field's name is text, not {type(key).__name__}")
    field, *modifiers = key.split("|")
    # pySigma has no field references with regard to case, so the modifier is taken out and kept in the test.
    cased = {"cased", "fieldref"} <= set(modifiers)
    modifiers = [_MODIFIER_ALIASES.get(each, each) for each in modifiers if each != "cased" or not cased]
    key = "|".join((field, *modifiers))
    for modifier in key.split("|")[1:]:
        if modifier not in modifier_mapping:
            hint = f"the modifiers are {', '.join(sorted((*modifier_mapping, *_MODIFIER_ALIASES)))}"
            raise DetectionError(path, f"there is no modifier {modifier!r}", hint)
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, _SCALAR_TYPES):
            raise DetectionError(path, f"a value is text, a number, a boolean or null, not {type(each).__name__}")
        if "re" in key.split("|")[1:]:
            _check_expression(each, path)
    try:
        item = SigmaDetectionItem.from_mapping(key, value)
    except SigmaError as error:
        raise DetectionError(path, _reason(error)) from None
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError) as error:
        # pySigma checks some combinations and fails with any of these on others.
        raise DetectionError(path, f"the values and modifiers do not go together: {error}") from None
    values = tuple(item.value)
    formula: Formula
    if item.value_linking is ConditionAND and len(values) > 1:
        formula = AllOf(tuple(FieldTest(item.field, (each,), path, cased) for each in values))
    else:
        formula = FieldTest(item.field, values, path, cased)
    return Not(formula) if item.negated else formula


def _check_expression(text: Any, path: Path) -> None:
    """Refuse an expression before pySigma compiles it: its error would be another engine's, and printed as well."""
    if not isinstance(text, str):
        raise DetectionError(path, f"a regular expression is text, not {text!r}")
    try:
        Regex.compile(to_java(text))
    except ValueError as error:
        raise DetectionError(path, str(error)) from None


_MODIFIER_ALIASES: Final = {"utf16le": "wide"}  # names of the specification that pySigma does not have
_INCOMPATIBLE_VALUE: Final = re.compile(r"Modifier Sigma(\w+)Modifier incompatible to value type of '(.*)'", re.DOTALL)


def _reason(error: Exception) -> str:
    """The reason of an error of pySigma, in the words of a rule."""
    message = str(error.args[0]) if error.args else type(error).__name__
    incompatible = _INCOMPATIBLE_VALUE.match(message)
    return f"a modifier does not take the value {incompatible[2]!r}" if incompatible else message


def fields_in(formula: Formula) -> Iterator[str]:
    """The names of all fields of a formula, those that are compared with included."""
    stack = [formula]
    while stack:
        match stack.pop():
            case FieldTest(field, values):
                if field is not None:
                    yield field
                yield from (each.field for each in values if hasattr(each, "field"))
            case AllOf(parts) | AnyOf(parts):
                stack.extend(parts)
            case Not(part):
                stack.append(part)


# --- rule ------------------------------------------------------------------------------------------------

_LOGSOURCE_PARTS: Final = ("category", "product", "service")


@dataclass(frozen=True)
class RuleText:
    """A rule as it was given, for errors to point into."""

    text: str

    def refuse(self, path: Path, reason: str, hint: str | None = None, offset: int = 0) -> ParseError:
        """The error that names a path, and points to it as well as it can be found."""
        where = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")
        named = f"{where}: {reason}" if where else reason
        return ParseError(self.text, self._position(path) + offset, named, hint)

    def _position(self, path: Path) -> int:
        """The position of the last name of a path, searched for one name after the other: loaded YAML has none."""
        at = last = 0
        for name in path:
            if isinstance(name, str):
                at = self.text.find(name, at)
                if at < 0:
                    break
                last = at
        return last

    def value_position(self, path: Path, value: str) -> int:
        """Where the value of a path stands, as an offset from the path; 0 where it is not found as it is."""
        start = self._position(path)
        at = self.text.find(value, start)
        return at - start if at >= 0 else 0


@dataclass(frozen=True)
class Rule:
    """A parsed rule: its log source, and one formula for detections and condition."""

    source: RuleText
    logsource: Mapping[str, Any]
    formula: Formula


def parse_rule(condition: Any) -> Rule:
    """A rule from its YAML text, or from what was read from it."""
    return parse_document(*_document(condition))


def parse_document(source: RuleText, document: Mapping[str, Any]) -> Rule:
    """A rule from what was read from its text."""
    # Documents of Sigma that are no single rule, each refused with its own reason.
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
    return Rule(source, _logsource(document, source), _parse_formula(detection, source))


def _document(condition: Any) -> tuple[RuleText, Mapping[str, Any]]:
    if isinstance(condition, Mapping):
        source = RuleText(_as_json(condition))
        if not all(isinstance(key, str) for key in condition):
            raise source.refuse((), "the names in a rule are texts")
        return source, condition
    if isinstance(condition, bytes):
        condition = condition.decode("utf-8", "replace")
    if not isinstance(condition, str):
        raise ParseError(str(condition)[:1000], 0, f"a rule is YAML text or a dict, not {type(condition).__name__}")
    source = RuleText(condition)
    try:
        documents = load_documents(condition)
    except YamlError as error:
        raise ParseError(condition, error.position, error.reason) from None
    if len(documents) > 1:
        raise ParseError(
            condition,
            0,
            f"there are {len(documents)} documents; a condition is one rule",
            "read_rules() reads them all",
        )
    return source, single_mapping(documents, condition)


def single_mapping(documents: list[Any], text: str) -> Mapping[str, Any]:
    """The mapping that is all of a text's documents."""
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise ParseError(text, 0, "a rule is a YAML mapping with a `detection`")
    return documents[0]


def _as_json(condition: Mapping[str, Any]) -> str:
    """A rule given as a dict as text, for errors to point into; only its keys where it is not JSON."""
    try:
        return json.dumps(condition, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(list(condition))


def _logsource(document: Mapping[str, Any], source: RuleText) -> Mapping[str, Any]:
    logsource = document.get("logsource")
    if logsource is None:
        return {}
    if not isinstance(logsource, Mapping):
        raise source.refuse(("logsource",), "a log source is a mapping of category, product and service")
    for part in _LOGSOURCE_PARTS:
        if not isinstance(logsource.get(part), str | None):
            raise source.refuse(("logsource", part), f"a {part} is text")
    return logsource


def _parse_formula(detection: Mapping[str, Any], source: RuleText) -> Formula:
    detections: dict[str, Formula] = {}
    for name, definition in detection.items():
        if not isinstance(name, str):
            raise source.refuse(("detection",), f"a detection's name is text, not {name!r}")
        if name == "condition":
            continue
        try:
            detections[name] = parse_detection(definition, ("detection", name))
        except DetectionError as error:
            raise source.refuse(error.path, error.reason, error.hint) from None
    conditions = detection.get("condition")
    texts = conditions if isinstance(conditions, list) else [conditions]
    if not detections or not texts or conditions is None:
        missing = "detections" if not detections else "condition"
        raise source.refuse(("detection",), f"a rule has a {missing.removesuffix('s')}; this one has none")
    formulas = [_parse_condition_text(text, detections, source) for text in texts]
    return formulas[0] if len(formulas) == 1 else AnyOf(tuple(formulas))


def _parse_condition_text(text: Any, detections: Mapping[str, Formula], source: RuleText) -> Formula:
    path: Path = ("detection", "condition")
    if not isinstance(text, str):
        raise source.refuse(path, f"a condition is text, not {type(text).__name__}")
    if "|" in text:
        raise source.refuse(
            path, "an aggregation counts events over time; a subscription sees one event at a time",
            offset=source.value_position(path, "|"),
        )  # fmt: skip
    try:
        return parse_condition(text, detections)
    except ConditionError as error:
        # 0 where the text is not found as it is (quoted, or folded over lines): then the error points at the path.
        start = source.value_position(path, text)
        raise source.refuse(path, error.reason, error.hint, start + error.position if start else 0) from None
