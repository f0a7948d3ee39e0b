"""Split texts: many conditions at once cut into skeletons and literals, by a compiled kernel.

The kernel splits as `palio.languages.sql.skeletons` does; see there why that is right without parsing. What is done
with the texts of one skeleton is then work for a skeleton, and not for each of a million conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from palio.languages.sql.skeletons import MAX_SKELETON_CHARACTERS, MAX_TEMPLATE_CHARACTERS
from palio.languages.sql.template_cache import TEMPLATES
from palio.languages.sql.templates import Template
from palio.matching.columnar import bulk_kernels as kernels
from palio.matching.columnar.array_types import Flags, Int64s
from palio.matching.columnar.literal_columns import TextLiterals
from palio.matching.subscription import Want

_CHUNK_ROWS: Final = 100_000
_CHUNK_CHARACTERS: Final = 1 << 26  # lists of thousands of values: places in a chunk's text have 32 bits
_LOOK_AHEAD_BYTES: Final = 4  # zero bytes behind the last text, so that the kernel may look ahead for any token


def chunks(wants: Sequence[Want]) -> Iterator[tuple[int, int]]:
    """Begin and end of parts of at most `_CHUNK_ROWS`, and of about `_CHUNK_CHARACTERS`."""
    start = characters = 0
    for at, want in enumerate(wants):
        if characters >= _CHUNK_CHARACTERS or at - start == _CHUNK_ROWS:
            yield start, at
            start, characters = at, 0
        where = want if isinstance(want, str) else want.where
        characters += len(where) if isinstance(where, str) else 0
    if start < len(wants):
        yield start, len(wants)


def text_of(want: Want) -> str:
    """The condition of a subscription that is SQL text."""
    return want if isinstance(want, str) else want.where


class SplitTexts:
    """Many texts split into skeletons and literals by the kernel."""

    def __init__(self, texts: list[str], timezone: str) -> None:
        raw = _zero_terminated(texts)
        count = len(texts)
        self._texts = texts
        self._raw, self._text, self._timezone = raw, np.frombuffer(raw, np.uint8), timezone
        self._skeleton_text = np.empty(len(raw), np.uint8)
        self._spans = np.empty((count, 2), np.int64)
        self._skeleton_of = np.empty(count, np.int32)
        self._literals = np.empty((len(raw) // 2 + 1, 2), np.int32)
        self._starts = np.empty(count + 1, np.int64)
        skeletons = kernels.SkeletonTable(self._skeleton_text, kernels.hash_table_for(count), self._spans)
        lines = kernels.SplitLines(self._skeleton_of, self._literals, self._starts)
        self._count = int(
            kernels.split_literals(
                self._text, count, MAX_TEMPLATE_CHARACTERS, MAX_SKELETON_CHARACTERS, skeletons, lines
            )
        )

    def skeletons(self, more_than: int) -> list[tuple[str, Int64s]]:
        """The skeletons of more than a number of lines, with these lines."""
        order = np.argsort(self._skeleton_of, kind="stable")
        starts = np.searchsorted(self._skeleton_of[order], np.arange(self._count + 1))
        found = []
        for number in np.flatnonzero(np.diff(starts) > more_than).tolist():
            begin, end = self._spans[number].tolist()
            skeleton = self._skeleton_text[begin:end].tobytes().decode()
            found.append((skeleton, order[starts[number] : starts[number + 1]]))
        return found

    def unsplit(self) -> Int64s:
        """The lines without a skeleton, which are for the parser."""
        return np.flatnonzero(self._skeleton_of < 0)

    def has_long_number(self, characters: int) -> Flags:
        """Whether a line has a number of more characters."""
        literals = self._literals[: self._starts[-1]]
        first = self._text[literals[:, 0]]
        is_long = (literals[:, 1] - literals[:, 0] > characters) & (first >= ord("0")) & (first <= ord("9"))
        before = np.concatenate([[0], np.cumsum(is_long)])
        flags: Flags = before[self._starts[1:]] > before[self._starts[:-1]]
        return flags

    def by_template(self, skeleton: str, lines: Int64s) -> Iterator[tuple[Template, Int64s]]:
        """The templates of lines of one skeleton: one, or where literals are fixed one for each choice of them."""
        while len(lines):
            template = TEMPLATES.template(skeleton, self._texts[lines[0]])
            if template is None:
                return
            if not template.fixed:
                yield template, lines
                return
            literals = self.literals(lines, template)
            alike = np.logical_and.reduce([literals.same_as_first(each) for each in template.fixed])
            yield template, lines[alike]
            lines = lines[~alike]

    def literals(self, lines: Int64s, template: Template) -> TextLiterals:
        """The literals of lines of one skeleton."""
        first, end = self._starts[lines], self._starts[lines + 1]
        return TextLiterals(self._raw, self._text, self._literals, first, end, template, self._timezone)


def _zero_terminated(texts: list[str]) -> bytes:
    """The texts in UTF-8, each with a zero byte behind it; a text with a zero or a lone surrogate is left empty."""
    joined = "\0".join([*texts, "\0" * _LOOK_AHEAD_BYTES])
    if joined.count("\0") == len(texts) + _LOOK_AHEAD_BYTES:
        try:
            return joined.encode()
        except UnicodeEncodeError:
            pass
    return "\0".join([*(text if _is_clean(text) else "" for text in texts), "\0" * _LOOK_AHEAD_BYTES]).encode()


def _is_clean(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
