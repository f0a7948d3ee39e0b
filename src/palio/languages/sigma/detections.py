"""Reading a rule's detections: named groups of questions about fields.

A mapping asks all of its fields; a list asks for one of its parts; a plain value, or a list of them, is looked for in
the whole event. What the modifiers behind a field's name make of its values is pySigma's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any as Anything
from typing import Final, TypeAlias

from palio.errors import MissingExtra, PalioError
from palio.filters.regex import Regex
from palio.languages.sigma.formulas import All, Any, Ask, Formula, Not
from palio.languages.sigma.pcre import to_java

Path: TypeAlias = tuple[str | int, ...]
_MOST_LEVELS: Final = 50
_SCALARS: Final = (str, int, float, bool, type(None))


class DetectionError(PalioError, ValueError):
    """What is wrong with a detection, and where in the rule."""

    def __init__(self, path: Path, reason: str, hint: str | None = None) -> None:
        self.path = path
        self.reason = reason
        self.hint = hint
        super().__init__(reason)


def read_detection(definition: Anything, path: Path) -> Formula:
    """The formula of one detection."""
    if len(path) > _MOST_LEVELS:
        raise DetectionError(path, f"a detection is nested more than {_MOST_LEVELS} levels deep")
    if isinstance(definition, Mapping):
        if not definition:
            raise DetectionError(path, "a detection cannot be empty")
        return _joined(All, [_item(key, value, (*path, str(key))) for key, value in definition.items()])
    if isinstance(definition, list) and not all(isinstance(each, _SCALARS) for each in definition):
        return _joined(Any, [read_detection(each, (*path, at)) for at, each in enumerate(definition)])
    if isinstance(definition, list | str | int | float | bool | None):
        if definition is None or definition == [] or (isinstance(definition, list) and None in definition):
            raise DetectionError(path, "null is the value of a field; here no field is named")
        return _item("", definition, path)
    raise DetectionError(path, f"a detection is a mapping, a list or a value, not {type(definition).__name__}")


def _joined(kind: type[All] | type[Any], parts: list[Formula]) -> Formula:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _item(key: Anything, value: Anything, path: Path) -> Formula:
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
    cased = {"cased", "fieldref"} <= set(modifiers)  # which pySigma cannot say of a field
    modifiers = [_SAME_MODIFIER.get(each, each) for each in modifiers if each != "cased" or not cased]
    key = "|".join((field, *modifiers))
    for modifier in key.split("|")[1:]:
        if modifier not in modifier_mapping:
            hint = f"the modifiers are {', '.join(sorted((*modifier_mapping, *_SAME_MODIFIER)))}"
            raise DetectionError(path, f"there is no modifier {modifier!r}", hint)
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, _SCALARS):
            raise DetectionError(path, f"a value is text, a number, a boolean or null, not {type(each).__name__}")
        if "re" in key.split("|")[1:]:
            _check_expression(each, path)
    try:
        item = SigmaDetectionItem.from_mapping(key, value)
    except SigmaError as error:
        raise DetectionError(path, _reason(error)) from None
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError) as error:
        # Values that pySigma does not expect make it stumble rather than complain.
        raise DetectionError(path, f"the values and modifiers do not go together: {error}") from None
    values = tuple(item.value)
    formula: Formula
    if item.value_linking is ConditionAND and len(values) > 1:
        formula = All(tuple(Ask(item.field, (each,), path, cased) for each in values))
    else:
        formula = Ask(item.field, values, path, cased)
    return Not(formula) if item.negated else formula


def _check_expression(text: Anything, path: Path) -> None:
    """Refuse an expression before pySigma tries it, whose reason is that of an engine, and goes to the terminal."""
    if not isinstance(text, str):
        raise DetectionError(path, f"a regular expression is text, not {text!r}")
    try:
        Regex.compile(to_java(text))
    except ValueError as error:
        raise DetectionError(path, str(error)) from None


_SAME_MODIFIER: Final = {"utf16le": "wide"}  # names of the specification that pySigma does not have
_WRONG_KIND: Final = re.compile(r"Modifier Sigma(\w+)Modifier incompatible to value type of '(.*)'", re.DOTALL)


def _reason(error: Exception) -> str:
    """What pySigma says is wrong, in the words of a rule."""
    said = str(error.args[0]) if error.args else type(error).__name__
    wrong_kind = _WRONG_KIND.match(said)
    return f"a modifier does not take the value {wrong_kind[2]!r}" if wrong_kind else said


def fields_in(formula: Formula) -> Iterator[str]:
    """The names of all fields a formula asks of."""
    stack = [formula]
    while stack:
        match stack.pop():
            case Ask(field, values):
                if field is not None:
                    yield field
                yield from (each.field for each in values if hasattr(each, "field"))
            case All(parts) | Any(parts):
                stack.extend(parts)
            case Not(part):
                stack.append(part)
