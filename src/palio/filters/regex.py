r"""What RLIKE means: whether a part of a text matches a regular expression of Java, in linear time.

Java's own engine backtracks: `(a+)+$` takes it 2^n steps, and with subscriptions from strangers that is an
open door. RE2 reads a text once. `regex_syntax` reads Java's notation and refuses what RE2 cannot mean
identically; here the tree is written in RE2's notation.

One thing RE2 has no notation for: Java's `$` is also before a line terminator at the very end (`'a\n' RLIKE
'^a$'` is TRUE). A text is therefore searched twice if it ends with a line terminator, as it is and without
that, with `$` meaning the end both times. That is the same as long as nothing that follows a `$` could take
in the terminator; an expression where something could is refused.

`\b` is a boundary between ASCII words, as in Java 19 and later; older ones also take other letters as word
characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, Self

from palio.filters.regex_syntax import (
    TERMINATORS,
    Characters,
    Choice,
    Group,
    Node,
    Place,
    Ranges,
    Repeat,
    Sequence,
    complement,
    read,
)

MEMORY_LIMIT: Final = 2**23  # of RE2, for one expression

NEVER: Final = r"[^\x00-\x{10FFFF}]"


@dataclass(frozen=True)
class Regex:
    """A regular expression in Java's notation; two are equal if they are written alike."""

    text: str

    @classmethod
    def compile(cls, text: str) -> Self:
        """The expression of a text; ValueError says what in it is not supported, and where."""
        regex = cls(text)
        _ = regex._engines
        return regex

    def search(self, text: str) -> bool:
        """Whether some part of a text matches; the cost is linear in the text."""
        whole, shortened = self._engines
        encoded = text.encode("utf-8", "replace")
        if whole.search(encoded) is not None:
            return True
        if shortened is None or not text or text[-1] not in TERMINATORS:
            return False
        ending = 2 if text.endswith("\r\n") else 1
        return shortened.search(text[:-ending].encode("utf-8", "replace")) is not None

    @cached_property
    def _engines(self) -> tuple[Any, Any]:
        return _engines_of(self.text)

    @cached_property
    def required(self) -> str:
        """A piece of text that is in every text that matches, as long as can be told; '' where none is sure."""
        return max(_required(read(self.text)), key=len, default="")

    def __getstate__(self) -> dict[str, object]:
        return {"text": self.text}


def _required(node: Node) -> list[str]:
    """Pieces that must occur: runs of single characters, also inside what is there at least once."""
    match node:
        case Characters(((first, last),)) if first == last:
            return [chr(first)]
        case Repeat(body, least) if least > 0:
            return _required(body)
        case Group(body):
            return _required(body)
        case Sequence(parts):
            pieces: list[str] = []
            run = ""
            for part in parts:
                own = _required(part)
                if isinstance(_bare(part), Characters) and own:
                    run += own[0]
                    continue
                pieces += [run, *own]
                run = ""
            return [piece for piece in (*pieces, run) if piece]
    return []


def _bare(node: Node) -> Node:
    """What is in a group, whether it is remembered or not."""
    while isinstance(node, Group):
        node = node.body
    return node


@lru_cache(maxsize=1024)
def _engines_of(text: str) -> tuple[Any, Any]:
    """The engine for a whole text, and, if there is a `$`, the one for it without its last terminator."""
    node = read(text)
    check_ends(node, Follow(consumes=False, may_be_empty=True))
    whole = engine(_write(node, end=r"\z", very_end=r"\z"))
    if not has_end(node):
        return whole, None
    return whole, engine(_write(node, end=r"\z", very_end=NEVER))


def engine(pattern: str, *, remembers: bool = False) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MEMORY_LIMIT
    options.log_errors = False
    options.never_capture = not remembers
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(f"the regular expression is too large: {_plain(reason)}") from None


def _plain(reason: object) -> str:
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


class Follow(NamedTuple):
    """What comes after a place: whether it can take in characters, and whether it can always be nothing."""

    consumes: bool
    may_be_empty: bool

    def after(self, other: Follow) -> Follow:
        return Follow(self.consumes or other.consumes, self.may_be_empty and other.may_be_empty)


def extent(node: Node) -> Follow:
    match node:
        case Characters():
            return Follow(consumes=True, may_be_empty=False)
        case Place():
            return Follow(consumes=False, may_be_empty=False)
        case Sequence(parts):
            extents = [extent(part) for part in parts]
            return Follow(any(e.consumes for e in extents), all(e.may_be_empty for e in extents))
        case Choice(options):
            extents = [extent(option) for option in options]
            return Follow(any(e.consumes for e in extents), any(e.may_be_empty for e in extents))
        case Repeat(body, least):
            inside = extent(body)
            return Follow(inside.consumes, least == 0 or inside.may_be_empty)
        case Group(body):
            return extent(body)


def check_ends(node: Node, follow: Follow) -> None:
    """Refuse a `$` after which a line terminator could still be taken in."""
    match node:
        case Place("$") if follow.consumes and not follow.may_be_empty:
            raise ValueError("in a regular expression, $ must be at the end of what it ends")
        case Sequence(parts):
            for part in reversed(parts):
                check_ends(part, follow)
                follow = extent(part).after(follow)
        case Choice(options):
            for option in options:
                check_ends(option, follow)
        case Repeat(body, least, most) if most != 1:
            inside = extent(body)
            again = Follow(inside.consumes, least <= 1 or inside.may_be_empty)
            check_ends(body, again.after(follow))
        case Repeat(body) | Group(body):
            check_ends(body, follow)


def has_end(node: Node) -> bool:
    match node:
        case Place(name):
            return name == "$"
        case Sequence(parts):
            return any(map(has_end, parts))
        case Choice(options):
            return any(map(has_end, options))
        case Repeat(body) | Group(body):
            return has_end(body)
    return False


def _write(node: Node, end: str, very_end: str) -> str:
    """The expression in RE2's notation, with these for `$` and for `\\z`."""
    match node:
        case Characters(ranges):
            return write_characters(ranges)
        case Place(name):
            return {"^": r"\A", "$": end, "z": very_end, "b": r"\b", "B": r"\B"}[name]
        case Sequence(parts):
            return "".join(_write_in_group(part, end, very_end) for part in parts)
        case Choice(options):
            return "|".join(_write(option, end, very_end) for option in options)
        case Repeat(body, least, most):
            return f"(?:{_write(body, end, very_end)}){count_of(least, most)}"
        case Group(body):
            return f"(?:{_write(body, end, very_end)})"


def count_of(least: int, most: int | None) -> str:
    """How often, in RE2's notation."""
    return _COUNTS.get((least, most)) or f"{{{least},{'' if most is None else most}}}"


_COUNTS: Final = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def _write_in_group(node: Node, end: str, very_end: str) -> str:
    written = _write(node, end, very_end)
    return f"(?:{written})" if isinstance(node, Choice) else written


def write_characters(ranges: Ranges) -> str:
    if not ranges:
        return NEVER
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _write_code(ranges[0][0])
    # Whichever is shorter: Java's dot is all code points but five.
    outside = complement(ranges)
    if outside and len(outside) < len(ranges):
        return f"[^{_write_ranges(outside)}]"
    return f"[{_write_ranges(ranges)}]"


def _write_ranges(ranges: Ranges) -> str:
    return "".join(
        _write_code(low) if low == high else f"{_write_code(low)}-{_write_code(high)}" for low, high in ranges
    )


def _write_code(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code:X}}}"
