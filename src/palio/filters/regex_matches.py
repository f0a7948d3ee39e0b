r"""What in a text matches a regular expression, and what its groups take in: for replacing and extracting.

Java tries alternatives from left to right and quantifiers as greedily as they are written, and takes the first way
that succeeds; RE2 finds the same match without going back. Two things need care here that do not where only *whether*
is asked. A part that may be empty must not be repeated (`(a*)*`): engines disagree on what is remembered of the last
round, so that is refused. And Java's `$` is also before a line terminator at the very end of the text, which RE2 has
no notation for: where a text ends so, marks are written before the terminator, as many as there are `$`, each `$`
takes one, and whatever takes in a terminator passes over them. The marks are a code point that no text has.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

from palio.errors import PalioError
from palio.filters.regex import Follow, check_ends, count_of, engine, extent, write_characters
from palio.filters.regex_syntax import (
    LAST,
    TERMINATORS,
    Characters,
    Choice,
    Group,
    Node,
    Place,
    Repeat,
    Sequence,
    complement,
    read_groups,
)

MOST_WORK: Final = 200_000_000  # bytes that finding all matches may look at
_MATCH_WORK: Final = 2_000  # bytes that could be looked at in the time a match takes
_MARK: Final = chr(LAST)
_MARK_BYTES: Final = _MARK.encode()
_MARK_PATTERN: Final = f"\\x{{{LAST:X}}}"
_ENDS: Final = {ord(character) for character in TERMINATORS}

Span: TypeAlias = tuple[int, int]


class TooMuchWork(PalioError, ValueError):
    """A text in which so much matches that finding it all would take too long."""


class Matches:
    """The matches of one expression; `compile` gives one that may be used for many texts."""

    def __init__(self, text: str) -> None:
        self._node, self.groups, self.names = read_groups(text)
        check_ends(self._node, Follow(consumes=False, may_be_empty=True))
        _check_rounds(self._node)
        _check_behind_ends(self._node)
        self._looks_far = _looks_far(self._node, must_go_on=False)
        self._ends = sum(1 for node in _walk(self._node) if node == Place("$"))
        _ = self._engine, self._marked_engine

    @staticmethod
    @lru_cache(maxsize=1024)
    def compile(text: str) -> Matches:
        """The expression of a text; ValueError says what in it is not supported, and where."""
        return Matches(text)

    @cached_property
    def _engine(self) -> Any:
        return engine(_write(self._node, marks=False), remembers=True)

    @cached_property
    def _marked_engine(self) -> Any:
        return engine(_write(self._node, marks=True), remembers=True) if self._ends else None

    def find(self, text: str) -> Iterator[Match]:
        """All matches from left to right as Java finds them, none within another."""
        plain = text.encode("utf-8", "replace")
        searched, cut = plain, len(plain)
        if self._ends and text and ord(text[-1]) in _ENDS and _MARK not in text:
            cut -= len(b"\r\n" if text.endswith("\r\n") else text[-1].encode())
            searched = plain[:cut] + _MARK_BYTES * self._ends + plain[cut:]
        chosen = self._engine if searched is plain else self._marked_engine
        added = len(searched) - len(plain)
        start = work = 0
        while start <= len(plain):
            found = chosen.search(searched, start if start <= cut else start + added)
            if found is None:
                return
            spans = [_unmarked(found.span(group), cut, added) for group in range(self.groups + 1)]
            first, last = spans[0]
            work += _MATCH_WORK + (len(plain) if self._looks_far else last) - start
            if work > MOST_WORK:
                raise TooMuchWork("too much matches")
            if first < len(plain) and plain[first] & 0xC0 == 0x80:  # within a character, where Java has no place
                start = first + 1
                continue
            yield Match(plain, spans)
            start = last + (last == first)
            while start < len(plain) and plain[start] & 0xC0 == 0x80:
                start += 1


class Match:
    """One match: where it is, and what its groups took in."""

    def __init__(self, text: bytes, spans: list[Span]) -> None:
        self._text = text
        self._spans = spans

    @property
    def start(self) -> int:
        """How many characters are before it."""
        return len(self._text[: self._spans[0][0]].decode())

    @property
    def span(self) -> Span:
        """Where it begins and ends, in bytes."""
        return self._spans[0]

    def group(self, number: int) -> str:
        """What a group took in, nothing where it had no part in the match; 0 is the match itself."""
        first, last = self._spans[number]
        return self._text[first:last].decode() if first >= 0 else ""


def _unmarked(span: Span, cut: int, added: int) -> Span:
    """A span of the marked text in the text itself."""
    first, last = (place if place <= cut else max(cut, place - added) for place in span)
    return first, last


def _walk(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from _walk(part)
        case Repeat(body) | Group(body):
            yield from _walk(body)


def _check_rounds(node: Node) -> None:
    for each in _walk(node):
        if isinstance(each, Repeat) and each.most != 1 and _may_be_empty(each.body):
            raise ValueError(
                "a repeated part of the regular expression may be empty, of which engines remember different things; "
                "write (a+)? for (a*)*"
            )


def _check_behind_ends(node: Node) -> None:
    """Refuse a place behind a `$`, which would be looked for behind a mark, where it is not."""
    for each in _walk(node):
        parts = each.parts if isinstance(each, Sequence) else ()
        if isinstance(each, Repeat) and each.most != 1:
            parts = (each.body, each.body)
        is_behind = False
        for part in parts:
            places = {place.name for place in _walk(part) if isinstance(place, Place)}
            if is_behind and places & {"^", "b", "B"}:
                raise ValueError("in a regular expression of which groups are asked, no ^, \\b or \\B may follow a $")
            is_behind = is_behind or "$" in places


def _looks_far(node: Node, *, must_go_on: bool) -> bool:
    """Whether the engine may read on without bound behind what matches: `a(.*b)?` seeks a b from each a on."""
    match node:
        case Sequence(parts):
            for part in reversed(parts):
                if _looks_far(part, must_go_on=must_go_on):
                    return True
                must_go_on = must_go_on or not extent(part).may_be_empty
            return False
        case Choice(options):
            return any(_looks_far(option, must_go_on=must_go_on) for option in options)
        case Repeat(body, least, most):
            if most is None and must_go_on:
                return True
            return _looks_far(body, must_go_on=must_go_on or (least > 1 and not extent(body).may_be_empty))
        case Group(body):
            return _looks_far(body, must_go_on=must_go_on)
    return False


def _may_be_empty(node: Node) -> bool:
    match node:
        case Characters():
            return False
        case Place():
            return True
        case Sequence(parts):
            return all(map(_may_be_empty, parts))
        case Choice(options):
            return any(map(_may_be_empty, options))
        case Repeat(body, least):
            return least == 0 or _may_be_empty(body)
        case Group(body):
            return _may_be_empty(body)


def _write(node: Node, *, marks: bool) -> str:
    """The expression in RE2's notation, groups remembered; with `marks`, for a text that has them."""
    match node:
        case Characters(ranges) if marks:
            kept = write_characters(complement([*complement(ranges), (LAST, LAST)]))
            takes_end = any(low <= end <= high for low, high in ranges for end in _ENDS)
            return f"(?:{_MARK_PATTERN}*{kept})" if takes_end else kept
        case Characters(ranges):
            return write_characters(ranges)
        case Place("$"):
            return rf"(?:{_MARK_PATTERN}|\z)" if marks else r"\z"
        case Place(name):
            return {"^": r"\A", "z": r"\z", "b": r"\b", "B": r"\B"}[name]
        case Sequence(parts):
            written = (_write(part, marks=marks) for part in parts)
            return "".join(
                f"(?:{each})" if isinstance(part, Choice) else each for part, each in zip(parts, written, strict=True)
            )
        case Choice(options):
            return "|".join(_write(option, marks=marks) for option in options)
        case Repeat(body, least, most, is_reluctant):
            return f"(?:{_write(body, marks=marks)}){count_of(least, most)}{'?' if is_reluctant else ''}"
        case Group(body):
            return f"({_write(body, marks=marks)})"
