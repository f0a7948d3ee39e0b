r"""Skeletons of regular expressions: what expressions have in common that differ in literal characters alone.

`^ab[a-m]+c` and `^xy[a-m]+z` have one skeleton, in which placeholders stand for the literal characters. Whatever is
computed from a parsed expression (its outline, its automaton) is computed once for a skeleton; placeholders in the
result are then filled with the characters of each expression. Splitting an expression takes two microseconds, parsing
one a hundred.

The split must agree with `regex_parser` on what is a literal, so it is left alone where that depends on context: an
expression with flags, names, quotes (`\Q`), properties or codes of characters is its own skeleton.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

FIRST_PLACEHOLDER: Final = 0x100000  # code points for private use, 65,534 of them, in the last plane of Unicode
_MAX_CHARACTERS: Final = 1_000  # of an expression that is split: where no `]` follows, each `[` is looked at to the end

_ESCAPE: Final = r"\\(?:[^0-9A-Za-z]|[bBdDsSwWfnrtAzZ])"
_KEPT: Final = re.compile(
    rf"((?:\[(?:[^\]\\]|{_ESCAPE})*\]|{_ESCAPE}|\{{[0-9]+(?:,[0-9]*)?\}}|\((?!\?)|\(\?:|[)|*+?.^$])+)", re.DOTALL
)
_OUTSIDE_LITERALS: Final = re.compile(r"[\\\[\](){}]")


class RegexSkeleton(NamedTuple):
    """The parts of an expression that are no literals, and the lengths of the literals before, between and after."""

    kept: tuple[str, ...]
    lengths: tuple[int, ...]

    @property
    def placeholders(self) -> range:
        """The code points that stand for literal characters."""
        return range(FIRST_PLACEHOLDER, FIRST_PLACEHOLDER + sum(self.lengths))

    @property
    def text(self) -> str:
        """An expression with a placeholder for each literal character."""
        written: list[str] = []
        first = FIRST_PLACEHOLDER
        for length, kept in zip(self.lengths, (*self.kept, ""), strict=True):
            written += [*map(chr, range(first, first + length)), kept]
            first += length
        return "".join(written)


def split_literals(text: str) -> tuple[RegexSkeleton, str]:
    """The skeleton of an expression that can be parsed, and its literal characters, in order."""
    if len(text) > _MAX_CHARACTERS:
        return RegexSkeleton((text,), (0, 0)), ""
    parts = _KEPT.split(text)
    literals = "".join(parts[::2])
    if _OUTSIDE_LITERALS.search(literals) or not (text.isascii() or ord(max(text)) < FIRST_PLACEHOLDER):
        return RegexSkeleton((text,), (0, 0)), ""
    return RegexSkeleton(tuple(parts[1::2]), tuple(map(len, parts[::2]))), literals
