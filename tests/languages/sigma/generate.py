"""Random rules, and random events that come close to what they ask."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

FIELDS = ["Image", "CommandLine", "Port", "User.Name"]
TEXTS = [
    "abc", "ABC", "abcd", "xabc", "a", "b", "", "a.c", "a*c", "5", "05", "-3", "1.5", "10", "true", "False", "null",
    "10.0.0.1", "192.168.7.9", "::1", "C:\\Windows\\cmd.exe", "c:\\windows\\CMD.EXE", "-enc abc", "/enc", "–enc",
    "100%", "a_b", "a\nb", "ünïcode", "ÜNÏCODE", "Kelvin", "\u212aelvin", "YWJj", "eGFiYw==", "a\0b\0c\0",
]  # fmt: skip
PATTERNS = [
    "abc", "ABC", "*abc", "abc*", "*b*", "a?c", "*", "?", "??", "a\\*c", "a\\?c", "a\\\\c", "", "5", "-3", "1.5", "1*",
    "*5", "*.*", "true", "FALSE", "t*", "C:\\\\Windows\\\\*", "*\\cmd.exe", "100%", "a_b", "a*b", "ünïcode", "*ÏCODE",
    "kelvin", "*elv*", "-enc", "/enc *", "2*", "*e*",
]  # fmt: skip
EXPRESSIONS = ["^a.c$", "b+", "^[0-9]+$", "(?i)ABC", "a.b", "^$", "c$", "\\.exe$", "tr", "[[:alpha:]]b", "a{2}|x", "{"]
NETWORKS = ["10.0.0.0/8", "192.168.0.0/16", "::/64", "10.0.0.1/32"]


@st.composite
def items(draw: st.DrawFn) -> tuple[str, Any]:
    """A field with modifiers, and values that go with them."""
    field = draw(st.sampled_from(FIELDS))
    kind = draw(st.sampled_from(["plain", "text", "re", "cidr", "compare", "exists", "fieldref", "encoded"]))
    every = draw(st.sampled_from(["", "", "|all", "|neq"]))
    if kind == "plain":
        plain = st.one_of(
            st.sampled_from(PATTERNS), st.integers(-3, 10), st.sampled_from([1.5, 5.0]), st.booleans(), st.none()
        )
        return field + every, draw(st.one_of(plain, st.lists(plain, max_size=3)))
    if kind == "text":
        modifiers = draw(
            st.sampled_from(
                ["|contains", "|startswith", "|endswith", "|cased", "|contains|cased", "|contains|windash", "|windash"]
            )
        )
        texts = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4)
        return field + modifiers + every, draw(texts)
    if kind == "re":
        flags = draw(st.sampled_from(["", "|i", "|s"]))
        texts = [each.replace("[[:alpha:]]", "[a-zA-Z]").replace("(?i)ABC", "[aA][bB][cC]") for each in EXPRESSIONS]
        return f"{field}|re{flags}{every}", draw(st.lists(st.sampled_from(texts[:-1]), min_size=1, max_size=3))
    if kind == "cidr":
        return f"{field}|cidr{every}", draw(st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=2))
    if kind == "compare":
        operator = draw(st.sampled_from(["lt", "lte", "gt", "gte"]))
        return f"{field}|{operator}{every}", draw(st.sampled_from([-3, 0, 5, 10, 1.5]))
    if kind == "exists":
        return f"{field}|exists", draw(st.booleans())
    if kind == "fieldref":
        how = draw(st.sampled_from(["", "|contains", "|startswith", "|endswith"]))
        cased = draw(st.sampled_from(["", "|cased"]))
        return f"{field}{cased}|fieldref{how}{every}", draw(st.sampled_from(FIELDS))
    how = draw(
        st.sampled_from(["base64", "base64offset|contains", "wide|base64offset|contains", "wide", "base64|contains"])
    )
    return f"{field}|{how}", draw(st.sampled_from(["abc", "a", "xabc", "bc"]))


@st.composite
def detections(draw: st.DrawFn) -> Any:
    mapping = st.lists(items(), min_size=1, max_size=3).map(dict)
    words = st.lists(st.sampled_from([*(each for each in PATTERNS if each), 5]), min_size=1, max_size=3)
    several = st.dictionaries(st.sampled_from(["|all", "|re", "|cased"]), words, min_size=1, max_size=1)
    several = several.map(lambda each: {key: list(map(str, value)) for key, value in each.items()})
    several = several.map(lambda each: {"|re": ["b+", "^a"]} if "|re" in each else each)
    return draw(st.one_of(mapping, st.lists(mapping, min_size=1, max_size=3), words, several))


NAMES = ["selection", "sel_a", "sel_b", "filter_main", "_hidden"]


@st.composite
def conditions(draw: st.DrawFn, names: list[str], depth: int = 3) -> str:
    kind = draw(st.sampled_from(["name", "of", "not", "and", "or"] if depth else ["name"]))
    if kind == "name":
        return draw(st.sampled_from(names))
    if kind == "of":
        quantifier = draw(st.sampled_from(["1", "any", "all"]))
        shown = [name for name in names if not name.startswith("_")]
        patterns = ["them", *(f"{name[:4]}*" for name in shown), *shown] if shown else []
        return f"{quantifier} of {draw(st.sampled_from(patterns))}" if patterns else names[0]
    if kind == "not":
        return f"not ({draw(conditions(names, depth - 1))})"
    parts = draw(st.lists(conditions(names, depth - 1), min_size=2, max_size=3))
    return "(" + f" {kind} ".join(parts) + ")"


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    """A rule of no log source, as the dict that its YAML would be."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    detection = {name: draw(detections()) for name in names}
    condition = draw(conditions(names))
    return {"title": "A rule", "detection": {**detection, "condition": condition}}


def values() -> st.SearchStrategy[Any]:
    numbers = st.one_of(
        st.integers(-3, 12), st.sampled_from([1.5, 5.0, -3.0, 2.25]), st.sampled_from([Decimal("1.5"), Decimal("10")])
    )
    return st.one_of(st.sampled_from(TEXTS), numbers, st.booleans(), st.none())


def events(*, arrays: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """Flat events by the names of attributes; `User.Name` is one within another."""
    value = values()
    if arrays:
        value = st.one_of(value, st.lists(values(), min_size=1, max_size=3))
    return st.dictionaries(st.sampled_from([*FIELDS, "Other"]), value, max_size=5)


def nested(event: dict[str, Any], dotted: bool = False) -> dict[str, Any]:
    """The event as JSON has it: a dot in a name leads into an object, or stays where it is."""
    made: dict[str, Any] = {}
    for name, value in event.items():
        *way, last = [name] if dotted else name.split(".")
        inner = made
        for step in way:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return made


def tables() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Events of which each attribute has values of one kind, as a table's columns have."""
    kinds = {
        "Image": st.one_of(st.sampled_from(TEXTS), st.none()),
        "CommandLine": st.one_of(st.sampled_from(TEXTS), st.none()),
        "Port": st.one_of(st.integers(-3, 12), st.none()),
        "Other": st.one_of(st.sampled_from(TEXTS), st.none()),
    }
    return st.lists(st.fixed_dictionaries(kinds), min_size=1, max_size=40)
