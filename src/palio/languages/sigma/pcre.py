r"""Translation of PCRE regular expressions to the Java notation of Palio's engine.

Sigma does not specify their notation; the tools that run rules read PCRE's or Python's, which agree on all that is
accepted here. Palio's engine reads Java's, which differs: Java's dot excludes five line terminators instead of one, its
`$` matches before any of the five, `[` in a class opens another class, and `{` that repeats nothing is an error. So
every expression is rewritten with the same meaning: `.` as `[^\n]`, `$` as an optional newline and the end.

With the flag `m`, `^` and `$` match at the ends of lines, and are written as the newline there. The newline is then
part of the match, which makes no difference: a rule only asks whether some part of a text matches. Where something
comes before `^` or after `$` it would, and the expression is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from palio.filters.regex import Regex

_REPETITION: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_NAMED: Final = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>")
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_POSIX: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_POSIX_NAMES: Final = {
    "alpha": "Alpha",
    "digit": "Digit",
    "alnum": "Alnum",
    "upper": "Upper",
    "lower": "Lower",
    "space": "Space",
    "punct": "Punct",
    "print": "Print",
    "graph": "Graph",
    "cntrl": "Cntrl",
    "xdigit": "XDigit",
    "blank": "Blank",
    "ascii": "ASCII",
}
_LINE_START: Final = r"(?:\A|\n)"
_LINE_END: Final = r"(?:\n|\z)"
_TEXT_END: Final = r"(?:\n?\z)"


def to_java(text: str, flags: frozenset[str] = frozenset()) -> str:
    """The expression in Java's notation; ValueError says what in it cannot be meant here, and where."""
    # First with a plain `$`, for the check of `Regex` on what follows a `$`; to that check, _TEXT_END is no anchor.
    Regex.compile(_JavaWriter(text, flags, end_of_text="$", end_of_line="$").write())
    return Regex.compile(_JavaWriter(text, flags, end_of_text=_TEXT_END, end_of_line=_LINE_END).write()).text


@dataclass(slots=True)
class _OpenGroup:
    """State of an open group: the flags to restore when it closes, and whether something came before it."""

    dot_is_all: bool
    by_lines: bool
    starts: bool


class _JavaWriter:
    """Rewrites one expression from left to right.

    `is_place` marks pieces that match a position and no character: what follows them may still be at the start.
    """

    def __init__(self, text: str, flags: frozenset[str], end_of_text: str, end_of_line: str) -> None:
        self._text = text
        self._at = 0
        self._written: list[str] = ["(?i)"] if "i" in flags else []
        self._dot_is_all = "s" in flags
        self._by_lines = "m" in flags
        self._starts = True  # whether no character can be matched before this place
        self._open: list[_OpenGroup] = []
        self._first = _OpenGroup(self._dot_is_all, self._by_lines, True)
        self._ends = (end_of_text, end_of_line)  # indexed by `_by_lines`

    def write(self) -> str:
        while self._at < len(self._text):
            self._piece(self._text[self._at])
        return "".join(self._written)

    def _put(self, piece: str, taken: int = 1, is_place: bool = False) -> None:
        self._written.append(piece)
        self._at += taken
        self._starts = self._starts and is_place

    def _piece(self, character: str) -> None:
        match character:
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(":
                self._group()
            case ")":
                self._put(")")
                if self._open:
                    group = self._open.pop()
                    self._dot_is_all, self._by_lines = group.dot_is_all, group.by_lines
            case "|":
                self._put("|", is_place=True)
                # Each alternative begins where its group began.
                self._starts = (self._open[-1] if self._open else self._first).starts
            case ".":
                self._put("(?s:.)" if self._dot_is_all else r"[^\n]")
            case "^":
                self._start()
            case "$":
                self._put(self._ends[self._by_lines], is_place=True)
            case "{" if not _REPETITION.match(self._text, self._at):
                self._put(r"\{")
            case _:
                self._put(character)

    def _start(self) -> None:
        if self._by_lines and not self._starts:
            self._refuse("with the flag m, ^ is supported only where nothing comes before it")
        self._put(_LINE_START if self._by_lines else r"\A", is_place=True)

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "Z":
            self._put(self._ends[0], 2, is_place=True)
        elif following == "Q":
            end = self._text.find("\\E", self._at + 2)
            quoted = self._text[self._at + 2 : end if end >= 0 else len(self._text)]
            self._put("".join(map(_literal, quoted)), len(quoted) + (4 if end >= 0 else 2))
        elif following == "K":
            self._refuse(r"\K is not supported")
        else:
            self._put("\\" + following, 2, is_place=following in tuple("AbBz"))

    def _group(self) -> None:
        named = _NAMED.match(self._text, self._at)
        flags = _FLAGS.match(self._text, self._at)
        if flags is not None and flags[3] == ")":
            self._set(flags)
            self._put(_written_flags(flags, ")"), len(flags[0]), is_place=True)
            return
        self._open.append(_OpenGroup(self._dot_is_all, self._by_lines, self._starts))
        if named is not None:
            self._put("(?:", len(named[0]), is_place=True)
        elif flags is not None:
            self._set(flags)
            self._put(_written_flags(flags, ":"), len(flags[0]), is_place=True)
        elif self._text.startswith("(?#", self._at):
            self._refuse("comments are not supported")
        else:
            self._put("(", is_place=True)

    def _set(self, flags: re.Match[str]) -> None:
        for wanted, names in ((True, flags[1]), (False, flags[2] or "")):
            for name in names:
                if name not in "ims":
                    self._refuse(f"the flag {name} is not supported")
                if name == "s":
                    self._dot_is_all = wanted
                elif name == "m":
                    self._by_lines = wanted

    def _class(self) -> None:
        """A class, with what Java would take for more than itself escaped."""
        at = self._at + 1
        written = "["
        if self._text.startswith("^", at):
            written += "^"
            at += 1
        first = at
        while at < len(self._text) and (self._text[at] != "]" or at == first):
            posix = _POSIX.match(self._text, at)
            character = self._text[at]
            if posix is not None:
                written += self._posix(posix)
                at += len(posix[0])
            elif character == "\\":
                written += self._text[at : at + 2]
                at += 2
            else:
                written += "\\" + character if character in "[]&^" else character
                at += 1
        if at >= len(self._text):
            self._refuse("a [ is never closed")
        self._put(written + "]", at + 1 - self._at)

    def _posix(self, found: re.Match[str]) -> str:
        if found[2] == "word":
            return r"\W" if found[1] else r"\w"
        if found[2] not in _POSIX_NAMES:
            self._refuse(f"there is no class [:{found[2]}:]")
        return f"\\{'P' if found[1] else 'p'}{{{_POSIX_NAMES[found[2]]}}}"

    def _refuse(self, reason: str) -> NoReturn:
        raise ValueError(f"{reason} (at character {self._at + 1} of the regular expression)")


def _written_flags(flags: re.Match[str], end: str) -> str:
    """Flags in Java's notation: only `i` is left to the engine, `m` and `s` are resolved here."""
    on, off = "i" in flags[1], "i" in (flags[2] or "")
    sign = "i" if on else "-i" if off else ""
    return f"(?{sign}{end}" if sign or end == ":" else ""


def _literal(character: str) -> str:
    return character if character.isalnum() or not character.isascii() else "\\" + character
