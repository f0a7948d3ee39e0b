"""Slow evaluation of Sigma rules: one field, one value, one event at a time.

Written from Sigma's specification and from docs/languages/sigma.md, with nothing of Palio's and nothing of pySigma's in
it: rules are plain dicts, modifiers are applied here once more, conditions are read by Python's own parser. It knows
what the generator makes, and no more.
"""

from __future__ import annotations

import ast
import base64
import itertools
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network
from typing import Any

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
ANY, ONE = object(), object()  # the wildcards * and ?


def fires(rule: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether a rule fires for an event; an event with arrays is as many events as there are choices."""
    return any(holds(rule, chosen) for chosen in choices(event))


def choices(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    several = [
        [(name, each) for each in (value if isinstance(value, list) else [value])] for name, value in event.items()
    ]
    return (dict(chosen) for chosen in itertools.product(*several))


def holds(rule: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    detections = {name: each for name, each in rule["detection"].items() if name != "condition"}
    conditions = rule["detection"]["condition"]
    return any(
        condition_holds(condition, detections, event)
        for condition in (conditions if isinstance(conditions, list) else [conditions])
    )


# Conditions: `1 of x*` becomes a call, the rest is Python already.


def condition_holds(condition: str, detections: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    text = re.sub(r"\b(1|any|all) of ([\w*]+)", r"of('\1', '\2')", condition)
    return evaluate(ast.parse(text.strip(), mode="eval").body, detections, event)


def evaluate(node: ast.expr, detections: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    match node:
        case ast.BoolOp(op, values):
            found = [evaluate(each, detections, event) for each in values]
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.UnaryOp(ast.Not(), operand):
            return not evaluate(operand, detections, event)
        case ast.Name(name):
            return detection_holds(detections[name], event)
        case ast.Call(_, [ast.Constant(quantifier), ast.Constant(pattern)]):
            names = [each for each in detections if pattern == "them" or fnmatchcase(each, pattern)]
            found = [detection_holds(detections[name], event) for name in names if not name.startswith("_")]
            return all(found) if quantifier == "all" else any(found)
    raise AssertionError(ast.dump(node))


def detection_holds(definition: Any, event: Mapping[str, Any]) -> bool:
    if isinstance(definition, dict):
        return all(item_holds(key, value, event) for key, value in definition.items())
    if isinstance(definition, list) and any(isinstance(each, dict | list) for each in definition):
        return any(detection_holds(each, event) for each in definition)
    return item_holds("", definition, event)


def item_holds(key: str, value: Any, event: Mapping[str, Any]) -> bool:
    field, *modifiers = key.split("|")
    values = value if isinstance(value, list) else [value]
    if not values:
        values = [None]
    found = [value_holds(field, modifiers, each, event) for each in values]
    held = all(found) if "all" in modifiers else any(found)
    return not held if "neq" in modifiers else held


def value_holds(field: str, modifiers: list[str], value: Any, event: Mapping[str, Any]) -> bool:
    if "exists" in modifiers:
        return (field in event) is value
    if not field:
        return any(text is not None and accepts(modifiers, value, text, anywhere=True) for text in texts(event))
    own = event.get(field)
    if value is None:
        return own is None
    if own is None:
        return False
    if "fieldref" in modifiers:
        return refers(modifiers, own, event.get(value))
    if "cidr" in modifiers:
        return isinstance(own, str) and within(own, value)
    for name, compare in COMPARISONS.items():
        if name in modifiers:
            number = as_number(own)
            return number is not None and compare(number, Decimal(str(value)))
    if is_number(own) and "re" not in modifiers:
        wanted = plain_text(modifiers, value)
        if wanted is not None and NUMBER.fullmatch(wanted):
            return Decimal(str(own)) == Decimal(wanted)
    text = text_of(own)
    return text is not None and accepts(modifiers, value, text)


COMPARISONS = {
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def as_number(value: Any) -> Decimal | None:
    """A number, also out of a text that is one."""
    if is_number(value):
        return Decimal(str(value))
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return Decimal(value)
    return None


def texts(event: Mapping[str, Any]) -> list[str | None]:
    return [text_of(value) for value in event.values()]


def text_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    return None if value is None or isinstance(value, bytes) else str(value)


def within(text: str, network: str) -> bool:
    try:
        return ip_address(text) in ip_network(network)
    except ValueError:
        return False


def refers(modifiers: list[str], own: Any, other: Any) -> bool:
    mine, theirs = text_of(own), text_of(other)
    if mine is None or theirs is None:
        return False
    if "cased" not in modifiers:
        mine, theirs = mine.lower(), theirs.lower()
    if "contains" in modifiers:
        return theirs in mine
    if "startswith" in modifiers:
        return mine.startswith(theirs)
    if "endswith" in modifiers:
        return mine.endswith(theirs)
    return mine == theirs


# Texts: a list of characters and wildcards.


def accepts(modifiers: list[str], value: Any, text: str, anywhere: bool = False) -> bool:
    if "re" in modifiers:
        flags = re.ASCII
        for name, flag in (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL)):
            flags |= flag if name in modifiers else 0
        return re.search(value, text, flags) is not None
    return any(matches(pattern, text, "cased" in modifiers) for pattern in patterns_of(modifiers, value, anywhere))


def patterns_of(modifiers: list[str], value: Any, anywhere: bool = False) -> list[list[Any]]:
    """The patterns a value stands for: one, or for some modifiers several."""
    if not isinstance(value, str):
        pattern: list[Any] = list("true" if value is True else "false" if value is False else str(value))
        return [[ANY, *pattern, ANY]] if anywhere else [pattern]
    found = [parse(value)]
    for modifier in modifiers:
        if modifier == "windash":
            found = [dashed for each in found for dashed in windash(each)]
        elif modifier == "wide":
            found = [[part for c in each for part in ((c,) if c in (ANY, ONE) else (c, "\0"))] for each in found]
        elif modifier == "base64":
            found = [list(base64.b64encode("".join(each).encode()).decode()) for each in found]
        elif modifier == "base64offset":
            found = [list(shifted) for each in found for shifted in offsets("".join(each).encode())]
        elif modifier == "contains":
            found = [[ANY, *each, ANY] for each in found]
        elif modifier == "startswith":
            found = [[*each, ANY] for each in found]
        elif modifier == "endswith":
            found = [[ANY, *each] for each in found]
    return [[ANY, *each, ANY] for each in found] if anywhere else found


def plain_text(modifiers: list[str], value: Any) -> str | None:
    """The text that a value must be equal to, where it asks for one text."""
    found = patterns_of(modifiers, value)
    return "".join(found[0]) if len(found) == 1 and ANY not in found[0] and ONE not in found[0] else None


def parse(text: str) -> list[Any]:
    r"""The characters of a text: * and ? are wildcards, unless \ is before them."""
    pattern: list[Any] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in ("*", "?", "\\"):
            pattern.append(text[at + 1])
            at += 2
            continue
        pattern.append({"*": ANY, "?": ONE}.get(text[at], text[at]))
        at += 1
    return pattern


def matches(pattern: list[Any], text: str, cased: bool) -> bool:
    written = "".join(
        "(?s:.*)" if c is ANY else "(?s:.)" if c is ONE else re.escape(c if cased else c.lower()) for c in pattern
    )
    return re.fullmatch(written, text if cased else text.lower()) is not None


def windash(pattern: list[Any]) -> list[list[Any]]:
    """Every dash or slash that begins a word, and follows none, as any of five."""
    found: list[list[Any]] = [[]]
    for at, c in enumerate(pattern):
        before, after = pattern[at - 1] if at else " ", pattern[at + 1] if at + 1 < len(pattern) else " "
        is_word = [isinstance(each, str) and (each.isalnum() or each == "_") for each in (before, after)]
        options = "-/–—―" if c in ("-", "/") and not is_word[0] and is_word[1] else [c]
        found = [[*each, option] for each in found for option in options]
    return found


def offsets(data: bytes) -> list[str]:
    """What is sure to be in the Base64 of a text that has these bytes somewhere, by where they begin."""
    found = []
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data)
        first = -(-before * 8 // 6)  # characters that hold bits of what is before
        sure = (before + len(data)) * 8 // 6  # characters all of whose bits are known
        found.append(encoded[first:sure].decode())
    return found
