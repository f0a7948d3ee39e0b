r"""Tests of strings: prefixes, suffixes and wildcards, and the same without regard to case.

Case is ignored as `ILIKE` ignores it where the text of the pattern is ASCII. Other letters have upper and lower
forms that depend on their place (σ and ς) or have another length (ß and SS); EventBridge takes each letter of the
pattern for itself, in its lower and in its upper form, and that is written as a regular expression.
"""

from __future__ import annotations

import re
from typing import Final

from palio.filters.like import LikePattern
from palio.languages.eventbridge.conditions import Condition, like, matching

_WILDCARD: Final = re.compile(r"\\(.?)|\*|[^\\*]+", re.DOTALL)


def prefix(text: str) -> Condition:
    return like(LikePattern.starting(text))


def suffix(text: str) -> Condition:
    return like(LikePattern.ending(text))


def wildcard(text: str) -> Condition:
    """`*` stands for any characters; ValueError says what is wrong with the text."""
    written: list[str] = []
    for found in _WILDCARD.finditer(text):
        piece = found.group()
        if piece == "*":
            if written and written[-1] == "%":
                raise ValueError("two wildcards * side by side")
            written.append("%")
        elif piece[0] == "\\":
            if found.group(1) not in ("*", "\\"):
                raise ValueError("a backslash that is not followed by * or by another backslash")
            written.append(_literal(found.group(1)))
        else:
            written.append(_literal(piece))
    return like(LikePattern.parse("".join(written)))


def equal_in_any_case(text: str) -> Condition:
    return _in_any_case(text, "", "")


def prefix_in_any_case(text: str) -> Condition:
    return _in_any_case(text, "", "%")


def suffix_in_any_case(text: str) -> Condition:
    return _in_any_case(text, "%", "")


def _in_any_case(text: str, before: str, after: str) -> Condition:
    if not any(letter.lower() != letter.upper() for letter in text):
        return like(LikePattern.parse(f"{before}{_literal(text)}{after}"))
    if text.isascii():
        return like(LikePattern.parse(f"{before}{_literal(text)}{after}", ignore_case=True))
    start, end = "" if before else r"\A", "" if after else r"\z"
    return matching(f"{start}{''.join(map(_either_case, text))}{end}")


def _either_case(letter: str) -> str:
    forms = dict.fromkeys((letter.lower(), letter.upper()))
    # Beyond the basic plane EventBridge sees halves of letters, which have no case.
    if len(forms) == 1 or ord(letter) > 0xFFFF:
        return _quoted(letter)
    return f"(?:{'|'.join(map(_quoted, forms))})"


def _quoted(text: str) -> str:
    return "".join(f"\\{each}" if each.isascii() and not each.isalnum() else each for each in text)


def _literal(text: str) -> str:
    return re.sub(r"[\\%_]", r"\\\g<0>", text)
