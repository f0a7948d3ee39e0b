"""LIKE patterns: parsing, normal form and matching, as in Spark.

`LikePattern.parse` compiles a pattern, in which `%` stands for any text and `_` for any one character, to runs of
literal text and gaps. `%%` is `%`, and `%_` is `_%`, so that patterns that accept the same texts for such reasons are
equal. Matching searches the parts between `%` from left to right, each at its first position, which is never wrong and
needs no backtracking: a text is read about once, whatever the pattern. A part with `_` between its runs may be tried at
every position, and costs its length there (`LikePattern.steps`).

The escape character makes `%`, `_` and itself literal, and may come before nothing else. ILIKE lowers the pattern and
the text, except the escape character, as Spark does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from palio.filters.work_limit import MIN_LONG_CHARACTERS, exceeds_limit

Shape: TypeAlias = Literal["exact", "prefix", "suffix", "substring", "general"]


class Gap(NamedTuple):
    """A gap between two literal runs: exactly `size` characters, or, if open, at least `size`."""

    size: int
    is_open: bool


ANY_TEXT = Gap(0, True)  # %
ANY_CHARACTER = Gap(1, False)  # _


class Part(NamedTuple):
    """The part between two open gaps: literal runs at fixed offsets, and its length."""

    runs: tuple[tuple[int, str], ...]
    size: int

    def is_at(self, text: str, start: int) -> bool:
        return all(text.startswith(run, start + offset) for offset, run in self.runs)

    def find(self, text: str, start: int, end: int) -> int:
        """The first position at or after `start` where the part fits before `end`; -1 if there is none."""
        if not self.runs:
            return start if start + self.size <= end else -1
        if len(self.runs) == 1:
            ((offset, run),) = self.runs
            at = text.find(run, start + offset, end - self.size + offset + len(run))
            return at - offset if at >= 0 else -1
        found = _part_search(self)(text, start, end)
        return found.start() if found else -1

    @property
    def steps(self) -> int:
        """Steps that finding it takes for a character at worst."""
        return 1 if len(self.runs) < 2 else self.size


@lru_cache(maxsize=1024)
def _part_search(part: Part) -> Callable[[str, int, int], re.Match[str] | None]:
    """The search for a part with `_` between its runs: tried at each position, at the speed of compiled code.

    A sequence of characters and dots has one way to match at a position, so that nothing is tried twice.
    """
    pieces: list[str] = []
    end = 0
    for offset, run in part.runs:
        pieces += (f".{{{offset - end}}}", re.escape(run))
        end = offset + len(run)
    return re.compile("".join((*pieces, f".{{{part.size - end}}}")), re.DOTALL).search


@dataclass(frozen=True)
class LikePattern:
    """A LIKE pattern in normal form: alternating literal runs and gaps."""

    tokens: tuple[str | Gap, ...]
    ignore_case: bool = False

    @classmethod
    def parse(cls, text: str, escape: str = "\\", ignore_case: bool = False) -> LikePattern:
        """Compile a pattern; a ValueError tells what is wrong with it."""
        if len(escape) != 1:
            raise ValueError(f"the escape of a LIKE pattern is one character, not {escape!r}")
        return cls(_canonical(_tokens(text.lower() if ignore_case else text, escape)), ignore_case)

    @classmethod
    def of(cls, tokens: Iterable[str | Gap], ignore_case: bool = False) -> LikePattern:
        """The pattern of literal runs and gaps in order."""
        canonical = _canonical(tokens)
        if ignore_case:
            # Each run by itself: % and _ neither have a case, nor decide that of a letter beside them.
            canonical = tuple(each.lower() if isinstance(each, str) else each for each in canonical)
        return cls(canonical, ignore_case)

    @classmethod
    def starting(cls, text: str) -> LikePattern:
        """The texts that start with this one."""
        return cls(_canonical([text, ANY_TEXT]))

    @classmethod
    def exactly(cls, text: str) -> LikePattern:
        """Exactly this text."""
        return cls(_canonical([text]))

    @classmethod
    def ending(cls, text: str) -> LikePattern:
        """The texts that end with this one."""
        return cls(_canonical([ANY_TEXT, text]))

    @classmethod
    def containing(cls, text: str) -> LikePattern:
        """The texts that contain this one."""
        return cls(_canonical([ANY_TEXT, text, ANY_TEXT]))

    def matches(self, text: str) -> bool:
        """Whether a text matches the pattern."""
        return self._accepts(text.lower() if self.ignore_case else text)

    @cached_property
    def _accepts(self) -> Callable[[str], bool]:
        """The fastest matching function for the shape."""
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
        return _in_order(self.starts, [part.runs[0][1] for part in self.parts[1:-1]], self.ends)

    def _accepts_parts(self, text: str) -> bool:
        if len(text) > MIN_LONG_CHARACTERS and exceeds_limit(self.steps * len(text), self.sql):
            return False
        first, *others = self.parts
        if not others:
            return len(text) == first.size and first.is_at(text, 0)
        # The first and the last part are anchored; each middle part takes its first position, which leaves the most
        # room for those after it.
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
    def steps(self) -> int:
        """Steps that a match takes for a character at worst."""
        return max(part.steps for part in self.parts[1:-1]) if len(self.parts) > 2 else 1

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts that open gaps lie between, from the start of the text to its end."""
        parts: list[Part] = []
        runs: list[tuple[int, str]] = []
        size = 0
        for token in self.tokens:
            if isinstance(token, str):
                runs.append((size, token))
                size += len(token)
                continue
            size += token.size
            if token.is_open:
                parts.append(Part(tuple(runs), size))
                runs, size = [], 0
        return (*parts, Part(tuple(runs), size))

    @cached_property
    def shape(self) -> Shape:
        """The class of the pattern: exact text, prefix, suffix, substring, or general."""
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

    @property
    def matches_every_string(self) -> bool:
        """Whether the pattern is `%`."""
        return self.tokens == (ANY_TEXT,)

    @cached_property
    def text(self) -> str:
        """The literal text; of a general pattern, all its runs concatenated."""
        return "".join(self.literals)

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """The runs of literal text, in order."""
        return tuple(token for token in self.tokens if isinstance(token, str))

    @property
    def starts(self) -> str:
        """The common prefix of all matching texts."""
        return self.tokens[0] if self.tokens and isinstance(self.tokens[0], str) else ""

    @property
    def ends(self) -> str:
        """The common suffix of all matching texts."""
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
        # Without the cached matching function, which cannot be pickled.
        return {"tokens": self.tokens, "ignore_case": self.ignore_case}


def _in_order(start: str, middle: list[str], end: str) -> Callable[[str], bool]:
    """A test whether a text has these runs in order, the first and the last at its ends."""

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
def _tokeniser(escape: str) -> re.Pattern[str]:
    """The tokeniser of a pattern: literal runs, wildcards, and escapes with the character after them."""
    mark = re.escape(escape)
    return re.compile(rf"{mark}(.)?|([%_])|((?:(?!{mark})[^%_])+)", re.DOTALL)


def _tokens(text: str, escape: str) -> Iterator[str | Gap]:
    """The tokens of a pattern in written order."""
    for found in _tokeniser(escape).finditer(text):
        following, sign, run = found.groups()
        if run is not None:
            yield run
        elif sign is not None:
            yield ANY_TEXT if sign == "%" else ANY_CHARACTER
        elif following is None:
            raise ValueError(f"a LIKE pattern cannot end with its escape character {escape!r}")
        elif following not in ("%", "_", escape):
            raise ValueError(
                f"in a LIKE pattern, the escape character {escape!r} may come before %, _ and itself, "
                f"not before {following!r}"
            )
        else:
            yield following


_KNOWN_ESCAPES: Final = re.compile(r"[^\\]*+(?:\\[%_\\][^\\]*+)*+")


def has_known_escapes(text: str) -> bool:
    r"""Whether every `\` of a pattern comes before what it may escape, so that `LikePattern.parse` takes it."""
    return _KNOWN_ESCAPES.fullmatch(text) is not None


def _canonical(tokens: Iterable[str | Gap]) -> tuple[str | Gap, ...]:
    """The tokens with adjacent runs and adjacent gaps joined."""
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
    return escape_like(token)


def escape_like(text: str) -> str:
    r"""The LIKE pattern of exactly this text, with `\` as its escape.

    >>> escape_like("50%_off")
    '50\\%\\_off'
    """
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
