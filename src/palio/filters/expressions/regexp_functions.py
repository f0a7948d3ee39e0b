"""Functions of regular expressions beside RLIKE: what matches, how often, where, and what replaces it.

Each takes the literals after the text and returns a function of the time zone and the text, as `pattern_functions`
wants it; a ValueError tells what is wrong with a literal. `palio.filters.regex` finds the matches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from palio.filters.expressions.coercion import Value
from palio.filters.expressions.text_functions import TEXT_LIMIT
from palio.filters.regex import Match, RegexMatches

Computes: TypeAlias = Callable[[str, Value], Value]


def regexp_extract(pattern: Value, group: Value = 1) -> Computes:
    matches = RegexMatches.compile(literal_text(pattern))
    if not isinstance(group, int) or not 0 <= group <= matches.groups:
        raise ValueError(
            f"the regular expression has {matches.groups or 'no'} group{'s' * (matches.groups != 1)}, "
            f"and group {group} is asked for; 0 is all that matches"
        )

    def compute(zone: str, text: Value) -> Value:
        match = next(matches.find(literal_text(text)), None)
        return "" if match is None else match.group(group)

    return compute


def regexp_count(pattern: Value) -> Computes:
    matches = RegexMatches.compile(literal_text(pattern))
    return lambda zone, text: sum(1 for _ in matches.find(literal_text(text)))


def regexp_substr(pattern: Value) -> Computes:
    """What matches first; NULL where nothing does, or nothing but an empty text."""
    matches = RegexMatches.compile(literal_text(pattern))

    def compute(zone: str, text: Value) -> Value:
        match = next(matches.find(literal_text(text)), None)
        return None if match is None else match.group(0) or None

    return compute


def regexp_instr(pattern: Value, group: Value = 0) -> Computes:
    """Where the first match begins, from 1; Spark has a parameter for a group, and does not heed it."""
    matches = RegexMatches.compile(literal_text(pattern))

    def compute(zone: str, value: Value) -> Value:
        text = literal_text(value)
        match = next(matches.find(text), None)
        return 0 if match is None else len(text.encode("utf-8", "replace")[: match.span[0]].decode()) + 1

    return compute


def regexp_replace(pattern: Value, replacement: Value, position: Value = 1) -> Computes:
    matches = RegexMatches.compile(literal_text(pattern))
    pieces = _replacement(literal_text(replacement), matches)
    if not isinstance(position, int) or position < 1:
        raise ValueError(f"regexp_replace() begins at a position from 1 on, not at {position}")
    before = position - 1

    def written(match: Match) -> str:
        return "".join(piece if isinstance(piece, str) else match.group(piece) for piece in pieces)

    def compute(zone: str, value: Value) -> Value:
        whole = literal_text(value)
        if before and before >= len(whole):
            return whole
        # To Java, the text begins at the position: ^ matches there.
        kept, text = whole[:before], whole[before:]
        encoded = text.encode("utf-8", "replace")
        made: list[str] = [kept]
        size, at = len(kept), 0
        for match in matches.find(text):
            first, last = match.span
            made += (encoded[at:first].decode(), written(match))
            # Checked while it grows: many matches of a long group could fill the memory before the end.
            size += len(made[-1])
            if size > TEXT_LIMIT:
                return None
            at = last
        replaced = "".join((*made, encoded[at:].decode()))
        return replaced if len(replaced) <= TEXT_LIMIT else None

    return compute


def split_element(pattern: Value, limit: Value, place: Value) -> Computes:
    """The part at a place from 1, or from the end; NULL where there is none."""
    parts_of = _splitter(pattern, limit)

    def compute(zone: str, text: Value) -> Value:
        parts = parts_of(literal_text(text))
        if not isinstance(place, int) or not 1 <= abs(place) <= len(parts):
            return None
        return parts[place - 1 if place > 0 else place]

    return compute


def split_size(pattern: Value, limit: Value) -> Computes:
    parts_of = _splitter(pattern, limit)
    return lambda zone, text: len(parts_of(literal_text(text)))


def split_contains(pattern: Value, limit: Value, part: Value) -> Computes:
    parts_of = _splitter(pattern, limit)
    return lambda zone, text: part in parts_of(literal_text(text))


def _splitter(pattern: Value, limit: Value) -> Callable[[str], list[str]]:
    """The function that splits a text as Spark does: Java's `split`, but an empty pattern splits into characters."""
    written = literal_text(pattern)
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise ValueError("the limit of split() is a whole number")
    most = limit if limit > 0 else None
    if not written:
        return lambda text: [*text[: (most or len(text)) - 1], text[(most or len(text)) - 1 :]] if text else [""]
    matches = RegexMatches.compile(written)

    def parts_of(text: str) -> list[str]:
        encoded = text.encode("utf-8", "replace")
        parts: list[str] = []
        at = 0
        for match in matches.find(text):
            first, last = match.span
            if most is not None and len(parts) >= most - 1:
                break
            if last == 0:  # an empty match at the beginning separates nothing
                continue
            parts.append(encoded[at:first].decode())
            at = last
        return [*parts, encoded[at:].decode()]

    return parts_of


def _replacement(text: str, matches: RegexMatches) -> list[str | int]:
    r"""The parts of a replacement: literal text, and group numbers (`$1`); `\` escapes the next character."""
    pieces: list[str | int] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character == "\\":
            if at + 1 == len(text):
                raise ValueError("behind a \\ in the replacement stands a character")
            pieces.append(text[at + 1])
            at += 2
        elif character == "$":
            group, at = _group(text, at + 1, matches)
            pieces.append(group)
        else:
            pieces.append(character)
            at += 1
    return pieces


def _group(text: str, at: int, matches: RegexMatches) -> tuple[int, int]:
    """The group reference after a `$`, and the position after it."""
    if text[at : at + 1] == "{":
        end = text.find("}", at)
        name = text[at + 1 : end]
        if end < 0 or name not in matches.names:
            raise ValueError(f"the regular expression has no group named {name}")
        return matches.names[name], end + 1
    if not ("0" <= text[at : at + 1] <= "9"):
        raise ValueError("behind a $ in the replacement stands the number of a group; the character itself is \\$")
    group, at = int(text[at]), at + 1
    if group > matches.groups:
        raise ValueError(f"the regular expression has no group {group}")
    # Further digits belong to the number as long as there is such a group.
    while "0" <= text[at : at + 1] <= "9" and group * 10 + int(text[at]) <= matches.groups:
        group, at = group * 10 + int(text[at]), at + 1
    return group, at


def literal_text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError(f"here stands a string, not {value!r}")
    return value
