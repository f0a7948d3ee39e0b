"""Splitter of JSON files into the texts of their values.

Two forms are read, neither by loading the file: one value per line (`.jsonl`, `.ndjson`), split at line breaks, and a
JSON document (`.json`), an array of values or values one after the other, split where brackets close. Only the ends of
values are found here; the caller parses them, so a malformed value costs that value alone. Both give lists of (line
number, text) in the order of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import Any, TypeAlias

from palio.errors import InputError

Texts: TypeAlias = list[tuple[int, bytes]]
Report: TypeAlias = Callable[[int, str], None]
_CHUNK_BYTES = 1 << 20
# No event may nest this deep, so to find the end of such a value would only cost time.
_MAX_NESTING_LEVELS = 1_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(stream: BufferedReader[Any], name: str, longest: int, report: Report) -> Iterator[Texts]:
    """The lines of a stream that are not blank, in one list for each chunk that is read."""
    rest = b""
    line = 1
    skipping = False
    for chunk in _chunks(stream, name):
        *complete, rest = (rest + chunk).split(b"\n")
        texts: Texts = []
        for text in complete:
            if skipping:
                skipping = False
            elif len(text) > longest:
                report(line, _too_long("a line", longest))
            elif text and not text.isspace():
                texts.append((line, text))
            line += 1
        if len(rest) > longest and not skipping:
            # Reported once and dropped as it comes, up to its end; it may be larger than memory.
            report(line, _too_long("a line", longest))
            skipping = True
        if skipping:
            rest = b""
        yield texts
    if rest and not rest.isspace() and not skipping:
        yield [(line, rest)]


def read_values(stream: BufferedReader[Any], name: str, longest: int, report: Report) -> Iterator[Texts]:
    """The elements of a JSON array, or the values of a document that has several or one.

    An error between two values is raised: nothing tells where the next value begins.
    """
    return _Document(stream, name, longest).values()


_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*"', re.DOTALL)
_BARE = re.compile(rb'[^\s,\[\]{}"]++')
# Up to the next bracket that matters: over strings, and over objects and arrays that hold no others, at once.
# Runs of characters are possessive, so that what has no end is not tried in pieces; groups are not, because Python
# 3.11 before 3.11.5 gets those wrong, and need not be: no two alternatives begin alike.
_TO_BRACKET = re.compile(
    rb"""(?: [^"\[\]{}]++
           | "(?:[^"\\]++|\\.)*"
           | [\[{] (?: [^"\[\]{}]++ | "(?:[^"\\]++|\\.)*" )* [\]}]
         )*""",
    re.DOTALL | re.VERBOSE,
)


class _Document:
    """A JSON document in a window that moves along the stream."""

    def __init__(self, stream: BufferedReader[Any], name: str, longest: int) -> None:
        self._chunks = _chunks(stream, name)
        self._name = name
        self._longest = longest
        self._window = b""
        self._at = 0  # the first byte of the window that is not consumed
        self._line = 1  # the line of that byte

    def values(self) -> Iterator[Texts]:
        if not self._skip_space():
            return
        if self._window[self._at] == ord("["):
            yield from self._elements()
            if self._skip_space():
                raise self._fault("there is more after the end of the array")
        else:
            while self._skip_space():
                yield [(self._line, self._take_value())]

    def _elements(self) -> Iterator[Texts]:
        self._at += 1
        if self._next_in_array() == ord("]"):
            self._at += 1
            return
        while True:
            self._next_in_array()
            yield [(self._line, self._take_value())]
            separator = self._next_in_array()
            if separator not in b",]":
                raise self._fault("expected a comma or ] after an element of the array")
            self._at += 1
            if separator == ord("]"):
                return

    def _next_in_array(self) -> int:
        if not self._skip_space():
            raise self._fault("the file ends inside its array")
        return self._window[self._at]

    def _take_value(self) -> bytes:
        """The text of the value that begins here."""
        opening = self._window[self._at]
        if opening in b"[{":
            end = self._end_of_container()
        elif opening == ord('"'):
            end = self._end_of(_STRING)
        elif _BARE.match(self._window, self._at):
            end = self._end_of(_BARE)
        else:
            raise self._fault("expected a value here")
        text = self._window[self._at : end]
        self._line += text.count(b"\n")
        self._at = end
        return text

    def _end_of_container(self) -> int:
        # Counted from where the value begins, because the window moves under it.
        offset = depth = 1
        while depth > 0:
            match = _TO_BRACKET.match(self._window, self._at + offset)
            assert match is not None  # it matches the empty string
            offset = match.end() - self._at
            # The match also ends before a string that has no end in the window.
            if match.end() == len(self._window) or self._window[match.end()] == ord('"'):
                if not self._more():
                    raise self._fault("the file ends inside a value that begins here")
                continue
            depth += 1 if self._window[match.end()] in b"[{" else -1
            offset += 1
            if depth > _MAX_NESTING_LEVELS:
                raise self._fault(f"a value nested deeper than {_MAX_NESTING_LEVELS:,} levels")
        return self._at + offset

    def _end_of(self, pattern: re.Pattern[bytes]) -> int:
        while True:
            match = pattern.match(self._window, self._at)
            # At the end of the window, a number may go on in the next chunk.
            if match is not None and match.end() < len(self._window):
                return match.end()
            if not self._more():
                if match is None:
                    raise self._fault("the file ends inside a value that begins here")
                return match.end()

    def _skip_space(self) -> bool:
        """Go to the next byte that is not white space; False at the end of the file."""
        while True:
            match = _SPACE.match(self._window, self._at)
            assert match is not None  # it matches the empty string
            self._line += self._window.count(b"\n", self._at, match.end())
            self._at = match.end()
            if self._at < len(self._window):
                return True
            if not self._more():
                return False

    def _more(self) -> bool:
        """Read more of the file into the window; False at the end of the file."""
        kept = self._window[self._at :]
        if len(kept) > self._longest:
            raise self._fault(_too_long("a value", self._longest))
        pieces = [kept]
        # A long value is scanned again after each read. Reads that double the window keep the total linear.
        wanted = len(kept) if len(kept) >= _CHUNK_BYTES else 1
        for chunk in self._chunks:
            pieces.append(chunk)
            wanted -= len(chunk)
            if wanted <= 0:
                break
        self._window = b"".join(pieces)
        self._at = 0
        return len(pieces) > 1

    def _fault(self, reason: str) -> InputError:
        return InputError(self._name, reason, self._line)


def _chunks(stream: BufferedReader[Any], name: str) -> Iterator[bytes]:
    """The bytes of a stream as they come, without a byte order mark."""
    chunk = stream.read1(_CHUNK_BYTES)
    # A pipe may give a byte at a time; the mark must be whole to be recognised.
    while 0 < len(chunk) < len(_BYTE_ORDER_MARK) and (more := stream.read1(_CHUNK_BYTES)):
        chunk += more
    if chunk.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(name, "this is UTF-16; convert it with: iconv -f UTF-16 -t UTF-8")
    if chunk != _BYTE_ORDER_MARK:
        yield chunk.removeprefix(_BYTE_ORDER_MARK)
    while chunk := stream.read1(_CHUNK_BYTES):
        yield chunk


def _too_long(what: str, longest: int) -> str:
    return f"{what} of more than {longest:,} bytes"
