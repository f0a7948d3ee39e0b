"""What a LIKE pattern means: text with `%` for anything and `_` for any one character, as Spark reads it.

A pattern is kept as runs of literal text and gaps. `%%` is `%`, and `%_` is `_%`, so that patterns that
accept the same texts for such reasons are equal. Matching looks for the parts between `%` from left to
right, each at its first place, which is never wrong and needs no backtracking: a text is read about once,
whatever the pattern; a part with `_` inside may be tried at every place.

The escape character makes `%`, `_` and itself literal, and may come before nothing else. ILIKE lowers the
pattern and the text, the escape character excepted, as Spark does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, TypeAlias

Shape: TypeAlias = Literal["exact", "prefix", "suffix", "substring", "general"]


class Gap(NamedTuple):
    """What stands between two literal runs: so many characters, or, if open, at least so many."""

    size: int
    is_open: bool


class _Part(NamedTuple):
    """What lies between two open gaps: literal runs at fixed distances from its start, and its length."""

    runs: tuple[tuple[int, str], ...]
    size: int

    def is_at(self, text: str, start: int) -> bool:
        return all(text.startswith(run, start + offset) for offset, run in self.runs)

    def find(self, text: str, start: int, end: int) -> int:
        """The first place at or after `start` where the part fits before `end`; -1 if there is none."""
        if not self.runs:
            return start if start + self.size <= end else -1
        offset, longest = max(self.runs, key=lambda run: len(run[1]))
        last = end - self.size
        at = text.find(longest, start + offset, last + offset + len(longest))
        while at >= 0:
            if len(self.runs) == 1 or self.is_at(text, at - offset):
                return at - offset
            at = text.find(longest, at + 1, last + offset + len(longest))
        return -1


@dataclass(frozen=True)
class LikePattern:
    """A LIKE pattern in canonical form: literal runs and gaps, no two of a sort side by side."""

    tokens: tuple[str | Gap, ...]
    ignore_case: bool = False

    @classmethod
    def parse(cls, text: str, escape: str = "\\", ignore_case: bool = False) -> LikePattern:
        """The pattern of a text; ValueError says what is wrong with it."""
        if len(escape) != 1:
            raise ValueError(f"the escape of a LIKE pattern is one character, not {escape!r}")
        return cls(_canonical(_read(text.lower() if ignore_case else text, escape)), ignore_case)

    @classmethod
    def starting(cls, text: str) -> LikePattern:
        """The texts that start with this one."""
        return cls(_canonical([text, Gap(0, True)]))

    @classmethod
    def exactly(cls, text: str) -> LikePattern:
        """This text alone."""
        return cls(_canonical([text]))

    @classmethod
    def ending(cls, text: str) -> LikePattern:
        """The texts that end with this one."""
        return cls(_canonical([Gap(0, True), text]))

    @classmethod
    def containing(cls, text: str) -> LikePattern:
        """The texts that have this one in them."""
        return cls(_canonical([Gap(0, True), text, Gap(0, True)]))

    def matches(self, text: str) -> bool:
        """Whether a text has the form of the pattern."""
        return self._accepts(text.lower() if self.ignore_case else text)

    @cached_property
    def _accepts(self) -> Callable[[str], bool]:
        """The quickest test there is for the shape."""
        wanted = self.text
        match self.shape:
            case "exact":
                return lambda text: text == wanted
            case "prefix":
                return lambda text: text.startswith(wanted)
            case "suffix":
                return lambda text: text.endswith(wanted)
            case "substring":
                return lambda text: wanted in text
        if any(isinstance(token, Gap) and token.size for token in self.tokens):
            return self._accepts_parts
        return _in_order(self.starts, [part.runs[0][1] for part in self._parts[1:-1]], self.ends)

    def _accepts_parts(self, text: str) -> bool:
        first, *others = self._parts
        if not others:
            return len(text) == first.size and first.is_at(text, 0)
        *middle, last = others
        if not first.is_at(text, 0):
            return False
        start, end = first.size, len(text) - last.size
        for part in middle:
            found = part.find(text, start, end)
            if found < 0:
                return False
            start = found + part.size
        return start <= end and last.is_at(text, end)

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        """The parts that open gaps lie between, from the start of the text to its end."""
        parts: list[_Part] = []
        runs: list[tuple[int, str]] = []
        size = 0
        for token in self.tokens:
            if isinstance(token, str):
                runs.append((size, token))
                size += len(token)
                continue
            size += token.size
            if token.is_open:
                parts.append(_Part(tuple(runs), size))
                runs, size = [], 0
        return (*parts, _Part(tuple(runs), size))

    @cached_property
    def shape(self) -> Shape:
        """Whether the pattern asks for one text, or for a start, an end or a part, or for something else."""
        match self.tokens:
            case () | (str(),):
                return "exact"
            case (str(), Gap(0, True)) | (Gap(0, True),):
                return "prefix"
            case (Gap(0, True), str()):
                return "suffix"
            case (Gap(0, True), str(), Gap(0, True)):
                return "substring"
        return "general"

    @cached_property
    def text(self) -> str:
        """The literal text of a pattern of any shape but the general; of that, all runs together."""
        return "".join(self.literals)

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """The runs of literal text, in order."""
        return tuple(token for token in self.tokens if isinstance(token, str))

    @property
    def starts(self) -> str:
        """What every text of this form starts with."""
        return self.tokens[0] if self.tokens and isinstance(self.tokens[0], str) else ""

    @property
    def ends(self) -> str:
        """What every text of this form ends with."""
        return self.tokens[-1] if self.tokens and isinstance(self.tokens[-1], str) else ""

    @cached_property
    def is_ascii(self) -> bool:
        """Whether all literal text is ASCII."""
        return all(run.isascii() for run in self.literals)

    @cached_property
    def sql(self) -> str:
        r"""The pattern as text, with `\` as its escape."""
        return "".join(map(_write, self.tokens))

    def __getstate__(self) -> dict[str, object]:
        return {"tokens": self.tokens, "ignore_case": self.ignore_case}


def _in_order(start: str, middle: list[str], end: str) -> Callable[[str], bool]:
    """Whether a text has these runs one after the other, the first and the last at its ends."""

    def accepts(text: str) -> bool:
        if not text.startswith(start):
            return False
        at, last = len(start), len(text) - len(end)
        for run in middle:
            found = text.find(run, at, last)
            if found < 0:
                return False
            at = found + len(run)
        return at <= last and text.endswith(end)

    return accepts


@lru_cache(maxsize=64)
def _pieces(escape: str) -> re.Pattern[str]:
    """Cuts a pattern into runs without a sign of its own, and signs; an escape goes with what follows it."""
    mark = re.escape(escape)
    return re.compile(rf"{mark}(.)?|([%_])|((?:(?!{mark})[^%_])+)", re.DOTALL)


def _read(text: str, escape: str) -> Iterator[str | Gap]:
    """The tokens of a pattern as they are written."""
    for found in _pieces(escape).finditer(text):
        following, sign, run = found.groups()
        if run is not None:
            yield run
        elif sign is not None:
            yield Gap(0, True) if sign == "%" else Gap(1, False)
        elif following is None:
            raise ValueError(f"a LIKE pattern cannot end with its escape character {escape!r}")
        elif following not in ("%", "_", escape):
            raise ValueError(
                f"in a LIKE pattern, the escape character {escape!r} may come before %, _ and itself, "
                f"not before {following!r}"
            )
        else:
            yield following


def _canonical(tokens: Iterator[str | Gap] | list[str | Gap]) -> tuple[str | Gap, ...]:
    """The tokens with neighbours of a sort made one."""
    made: list[list[str] | Gap] = []
    for token in tokens:
        last = made[-1] if made else None
        if isinstance(token, Gap):
            if isinstance(last, Gap):
                made[-1] = Gap(last.size + token.size, last.is_open or token.is_open)
            else:
                made.append(token)
        elif isinstance(last, list):
            last.append(token)
        elif token:
            made.append([token])
    return tuple(run if isinstance(run, Gap) else "".join(run) for run in made)


def _write(token: str | Gap) -> str:
    if isinstance(token, Gap):
        return "_" * token.size + "%" * token.is_open
    return token.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
