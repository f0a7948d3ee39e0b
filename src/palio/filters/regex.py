r"""Regular expressions of Java in linear time, on RE2: RLIKE, regexp_extract and regexp_replace.

Java's own engine backtracks: `(a+)+$` takes it 2^n steps, a denial of service where subscriptions come from strangers.
RE2 reads a text once. `regex_parser` parses Java's notation and rejects what RE2 cannot mean identically; this module
writes the tree in RE2's notation.

**Search** (`Regex`). RE2 has no notation for Java's `$`, which also matches before a line terminator at the very end
(`'a\n' RLIKE '^a$'` is TRUE). A text that ends with a line terminator is therefore searched twice, as it is and without
the terminator, with `$` meaning the end both times. The result is Java's unless something after a `$` could consume the
terminator; such an expression is rejected. `\b` is a boundary between ASCII words, as in Java 19 and later; older ones
also treat other letters as word characters.

**Matches** (`RegexMatches`). Java tries alternatives from left to right and quantifiers as greedily as they are
written, and takes the first success; RE2 finds the same match without backtracking. A part that may be empty must not
be repeated (`(a*)*`): engines disagree on the groups of the last iteration, so that is rejected. For `$` before a final
line terminator, marks are inserted before the terminator, one for each `$` of the expression; each `$` consumes one
mark, and whatever consumes a terminator skips them. The mark is a code point that no text has.

**Bounds.** RE2 is linear in the text, but with a factor that may be the size of the expression: `(a|b)*a(a|b){900}c`
has more sets of states than RE2 keeps, so each character is tested against all of them. The size is counted in
characters with repetitions written out, 1,804 here. An expression of more than MAX_SIZE is rejected. `Regex.steps` is
the factor: 1 where all states fit (`subset_construction`), as for most expressions that people write, else the size.
Long texts are then searched with a set of states (`_SetEngine`): `a.{0,200}z` takes 2 ms for a megabyte that takes the
usual engine 2 s. Any other expression of more than MAX_POSITIONS is taken not to match a text where steps times bytes
exceed MAX_SEARCH_WORK, which would take more than a second. It is not NULL there, because an index knows of a pattern
only whether it holds. A broker, where one condition must not delay all others, sets a lower limit (`work_limit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, Self, TypeAlias

from palio.errors import PalioError
from palio.filters.position_automaton import MAX_POSITIONS
from palio.filters.regex_parser import (
    LAST,
    TERMINATORS,
    Alternation,
    Anchor,
    CapturingGroup,
    Characters,
    Node,
    Ranges,
    Repeat,
    Sequence,
    complement,
    parse,
    parse_groups,
)
from palio.filters.regex_skeleton import RegexSkeleton, split_literals
from palio.filters.subset_construction import has_small_automaton
from palio.filters.work_limit import MIN_LONG_CHARACTERS, exceeds_limit

MEMORY_LIMIT: Final = 2**23  # bytes that RE2 may use for one expression
MAX_SIZE: Final = 10_000  # characters of an expression, repetitions written out
_MAX_KNOWN_SKELETONS: Final = 4_096
MAX_SEARCH_WORK: Final = 500_000_000  # steps of an expression times bytes of a text
MAX_SMALL_STEPS: Final = 8  # of an expression that is so short that its states need not be counted
_MAX_SET_ENGINES: Final = 256

_NEVER: Final = r"[^\x00-\x{10FFFF}]"  # matches no character
MAX_MATCH_WORK: Final = 200_000_000  # bytes read while all matches of one text are found
_WORK_PER_MATCH: Final = 2_000  # bytes that RE2 reads in the time that one match costs
_MARK: Final = chr(LAST)
_MARK_BYTES: Final = _MARK.encode()
_MARK_PATTERN: Final = f"\\x{{{LAST:X}}}"
_ENDS: Final = {ord(character) for character in TERMINATORS}

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Regex:
    """A regular expression in Java's notation; two are equal if they are written alike."""

    text: str

    @classmethod
    def compile(cls, text: str) -> Self:
        """Compile an expression; a ValueError tells what is not supported, and where."""
        regex = cls(text)
        skeleton = _plain_skeleton(regex)
        if skeleton is None or skeleton not in _accepted:
            # Compiled here, so that a bad expression is refused when it is written, not at the first event.
            _ = regex._engines
            if skeleton is not None:
                if len(_accepted) >= _MAX_KNOWN_SKELETONS:
                    _accepted.clear()
                _accepted[skeleton] = None
        return regex

    def search(self, text: str) -> bool:
        """Whether some part of a text matches; False where finding out would exceed the limit of work."""
        whole, shortened, size = self._engines
        encoded = text.encode("utf-8", "replace")
        if size > MAX_SMALL_STEPS and len(encoded) > MIN_LONG_CHARACTERS:
            sets = self._sets
            if sets is None and self._is_too_much(size * len(encoded)):
                return False
            whole, shortened = sets or (whole, shortened)
        if whole.search(encoded) is not None:
            return True
        if shortened is None or not text or text[-1] not in TERMINATORS:
            return False
        ending = 2 if text.endswith("\r\n") else 1
        return shortened.search(text[:-ending].encode("utf-8", "replace")) is not None

    def _is_too_much(self, steps: int) -> bool:
        beyond_all = steps > MAX_SEARCH_WORK and self._engines[2] > MAX_POSITIONS
        return beyond_all or exceeds_limit(steps, self.text)

    @property
    def steps(self) -> int:
        """Steps that a search takes for a character at worst: 1, or the size of an expression of too many states."""
        size = self._engines[2]
        return 1 if size and not is_slow_expression(self.text) else size

    @cached_property
    def _sets(self) -> tuple[_SetEngine, _SetEngine | None] | None:
        return _set_engines_of(self.text)

    @cached_property
    def _engines(self) -> tuple[Any, Any, int]:
        return _engines_of(self.text)

    @cached_property
    def split(self) -> tuple[RegexSkeleton, str]:
        """The skeleton, and the literal characters in it."""
        return split_literals(self.text)

    @cached_property
    def required(self) -> str:
        """The longest literal known to occur in every matching text; '' if none is known."""
        skeleton, literals = self.split
        return _longest_required(skeleton).translate(dict(zip(skeleton.placeholders, literals, strict=True)))

    @property
    def required_length(self) -> int:
        """The length of `required`, which the skeleton knows."""
        return len(_longest_required(self.split[0]))

    def __getstate__(self) -> dict[str, object]:
        # The text alone: engines are compiled again where they are needed.
        return {"text": self.text}


_accepted: dict[RegexSkeleton, None] = {}  # of expressions that were compiled: others with one of these need not be


def _plain_skeleton(regex: Regex) -> RegexSkeleton | None:
    """The skeleton that decides whether an expression is accepted; None where its literals may decide it too.

    Printable ASCII characters are none of the line terminators by which `$` is judged, and take RE2 a byte each.
    """
    if not (regex.text.isascii() and regex.text.isprintable()):
        return None
    skeleton, literals = regex.split
    return skeleton if literals else None


@lru_cache(_MAX_KNOWN_SKELETONS)
def _longest_required(skeleton: RegexSkeleton) -> str:
    return max(_required(parse(skeleton.text)), key=len, default="")


def _required(node: Node) -> list[str]:
    """Literals that must occur: runs of single characters, also within groups repeated at least once."""
    match node:
        case Characters(((first, last),)) if first == last:
            return [chr(first)]
        case Repeat(body, least) if least > 0:
            return _required(body)
        case CapturingGroup(body):
            return _required(body)
        case Sequence(parts):
            pieces: list[str] = []
            run = ""
            for part in parts:
                literals = _required(part)
                if isinstance(_bare(part), Characters) and literals:
                    run += literals[0]
                    continue
                # A repeat or choice ends the run: between its literals and the next any text may occur.
                pieces += [run, *literals]
                run = ""
            return [piece for piece in (*pieces, run) if piece]
    return []


def _bare(node: Node) -> Node:
    """The body of nested groups."""
    while isinstance(node, CapturingGroup):
        node = node.body
    return node


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Node:
    return parse(text)


@lru_cache(maxsize=1024)
def _engines_of(text: str) -> tuple[Any, Any, int]:
    """The engine for a whole text, that for a text without its final terminator if there is a `$`, and the size."""
    node = _parsed(text)
    size = _checked_size(node)
    _check_ends(node, _Extent(consumes=False, may_be_empty=True))
    whole = _engine(_write(node, end=r"\z", very_end=r"\z"))
    if Anchor("$") not in _walk(node):
        return whole, None, size
    # The end of a text without its terminator is not the very end of the text: there \z must not match.
    return whole, _engine(_write(node, end=r"\z", very_end=_NEVER)), size


class _SetEngine:
    """RE2's set of one expression: it tells whether a text has a match, not where, and has fewer states for that.

    The usual engine finds where a match begins, and tells states apart by the order of the ways that lead to them.
    """

    __slots__ = ("_set",)

    def __init__(self, pattern: str) -> None:
        import re2

        self._set = re2.Set.SearchSet(_options())
        self._set.Add(pattern)
        self._set.Compile()

    def search(self, text: bytes) -> object | None:
        found: object | None = self._set.Match(text)
        return found


@lru_cache(_MAX_KNOWN_SKELETONS)
def is_slow_expression(text: str) -> bool:
    """Whether a search may take more than one step for a character, as many as the expression is large."""
    node = _parsed(text)
    return not has_small_automaton(node, _checked_size(node))


@lru_cache(_MAX_SET_ENGINES)
def _set_engines_of(text: str) -> tuple[_SetEngine, _SetEngine | None] | None:
    """Engines for long texts, of an expression whose states all fit; None for any other."""
    import re2

    if is_slow_expression(text):
        return None
    node = _with_optional_copies(_parsed(text))
    try:
        whole = _SetEngine(_write(node, end=r"\z", very_end=r"\z"))
        if Anchor("$") not in _walk(node):
            return whole, None
        return whole, _SetEngine(_write(node, end=r"\z", very_end=_NEVER))
    except re2.error:  # larger than RE2 takes, written so; a set that was not compiled must not be asked
        return None


def _with_optional_copies(node: Node) -> Node:
    """The expression with `x{2,5}` as `x{2}x?x?x?`, as `subset_construction` counts its states."""
    match node:
        case Sequence(parts):
            return Sequence(tuple(map(_with_optional_copies, parts)))
        case Alternation(options):
            return Alternation(tuple(map(_with_optional_copies, options)))
        case CapturingGroup(body, number):
            return CapturingGroup(_with_optional_copies(body), number)
        case Repeat(body, least, most):
            body = _with_optional_copies(body)
            if most is None or most - least < 2:
                return Repeat(body, least, most)
            optional = Repeat(Repeat(body, 0, 1), most - least, most - least)
            return Sequence((Repeat(body, least, least), optional)) if least else optional
    return node


def _checked_size(node: Node) -> int:
    """The characters of an expression with its repetitions written out; an expression of too many is rejected."""
    size = _size(node)
    if size > MAX_SIZE:
        raise ValueError(
            f"the regular expression is too large: {size:,} characters when its repetitions are written out, "
            f"at most {MAX_SIZE:,}"
        )
    return size


def _size(node: Node) -> int:
    match node:
        case Characters():
            return 1
        case Sequence(parts) | Alternation(parts):
            return sum(map(_size, parts))
        case Repeat(body, least, most):
            return _size(body) * max(1, least if most is None else most)
        case CapturingGroup(body):
            return _size(body)
    return 0


def _engine(pattern: str, *, captures: bool = False) -> Any:
    import re2

    try:
        return re2.compile(pattern, _options(captures))
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(f"the regular expression is too large: {_plain(reason)}") from None


def _options(captures: bool = False) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MEMORY_LIMIT
    options.log_errors = False
    options.never_capture = not captures
    return options


def _plain(reason: object) -> str:
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


class _Extent(NamedTuple):
    """Whether a part can consume characters, and whether it can always be empty."""

    consumes: bool
    may_be_empty: bool

    def after(self, other: _Extent) -> _Extent:
        """The extent of this part followed by another."""
        return _Extent(self.consumes or other.consumes, self.may_be_empty and other.may_be_empty)


def _extent(node: Node) -> _Extent:
    match node:
        case Characters():
            return _Extent(consumes=True, may_be_empty=False)
        case Anchor():
            # It takes no character but may fail, so a `$` before it cannot count on an empty rest.
            return _Extent(consumes=False, may_be_empty=False)
        case Sequence(parts):
            extents = [_extent(part) for part in parts]
            return _Extent(any(e.consumes for e in extents), all(e.may_be_empty for e in extents))
        case Alternation(options):
            extents = [_extent(option) for option in options]
            return _Extent(any(e.consumes for e in extents), any(e.may_be_empty for e in extents))
        case Repeat(body, least):
            inside = _extent(body)
            return _Extent(inside.consumes, least == 0 or inside.may_be_empty)
        case CapturingGroup(body):
            return _extent(body)


def _check_ends(node: Node, follow: _Extent) -> None:
    """Reject a `$` after which a line terminator could still be consumed."""
    match node:
        case Anchor("$") if follow.consumes and not follow.may_be_empty:
            raise ValueError("in a regular expression, $ must be at the end of what it ends")
        case Sequence(parts):
            # From the end, so that `follow` is always what comes after the part.
            for part in reversed(parts):
                _check_ends(part, follow)
                follow = _extent(part).after(follow)
        case Alternation(options):
            for option in options:
                _check_ends(option, follow)
        case Repeat(body, least, most) if most != 1:
            # In a repetition the body may be followed by itself.
            inside = _extent(body)
            again = _Extent(inside.consumes, least <= 1 or inside.may_be_empty)
            _check_ends(body, again.after(follow))
        case Repeat(body) | CapturingGroup(body):
            _check_ends(body, follow)


def _write(node: Node, end: str, very_end: str) -> str:
    """The expression in RE2's notation, with these for `$` and for `\\z`."""
    match node:
        case Characters(ranges):
            return _write_characters(ranges)
        case Anchor(name):
            return {"^": r"\A", "$": end, "z": very_end, "b": r"\b", "B": r"\B"}[name]
        case Sequence(parts):
            return "".join(_write_in_group(part, end, very_end) for part in parts)
        case Alternation(options):
            return "|".join(_write(option, end, very_end) for option in options)
        case Repeat(body, least, most):
            return f"(?:{_write(body, end, very_end)}){_write_count(least, most)}"
        case CapturingGroup(body):
            return f"(?:{_write(body, end, very_end)})"


def _write_count(least: int, most: int | None) -> str:
    """A quantifier in RE2's notation."""
    return _COUNTS.get((least, most)) or f"{{{least},{'' if most is None else most}}}"


_COUNTS: Final = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def _write_in_group(node: Node, end: str, very_end: str) -> str:
    written = _write(node, end, very_end)
    return f"(?:{written})" if isinstance(node, Alternation) else written


def _write_characters(ranges: Ranges) -> str:
    if not ranges:
        return _NEVER
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _write_code(ranges[0][0])
    # The shorter of class and negated class: Java's dot is all code points but five.
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


class TooMuchWork(PalioError, ValueError):
    """Finding all matches of a text would exceed the limit of work."""


class RegexMatches:
    """The matches of one expression; `compile` gives one that may be used for many texts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._node, self.groups, self.names = parse_groups(text)
        # A larger expression may cost its size for every byte; MAX_MATCH_WORK is for those that cost about one.
        size = _checked_size(self._node)
        self._cost = max(1, size // MAX_POSITIONS)
        # With groups RE2 takes about twice as long.
        self._steps = 2 * (1 if has_small_automaton(self._node, size) else size)
        _check_ends(self._node, _Extent(consumes=False, may_be_empty=True))
        _check_repeats(self._node)
        _check_after_ends(self._node)
        self._reads_ahead = _reads_ahead(self._node, must_go_on=False)
        self._ends = sum(1 for node in _walk(self._node) if node == Anchor("$"))
        _ = self._engine, self._marked_engine

    @staticmethod
    @lru_cache(maxsize=1024)
    def compile(text: str) -> RegexMatches:
        """Compile an expression; a ValueError tells what is not supported, and where."""
        return RegexMatches(text)

    @cached_property
    def _engine(self) -> Any:
        return _engine(_write_groups(self._node, marks=False), captures=True)

    @cached_property
    def _marked_engine(self) -> Any:
        return _engine(_write_groups(self._node, marks=True), captures=True) if self._ends else None

    def find(self, text: str) -> Iterator[Match]:
        """All matches from left to right as Java finds them, none within another."""
        plain = text.encode("utf-8", "replace")
        if len(plain) > MIN_LONG_CHARACTERS and exceeds_limit(self._steps * len(plain), self._text):
            raise TooMuchWork("finding a match takes too much work")
        searched, cut = plain, len(plain)
        # A text that has the mark itself is searched without marks: `$` then misses the place before its terminator.
        if self._ends and text and ord(text[-1]) in _ENDS and _MARK not in text:
            cut -= len(b"\r\n" if text.endswith("\r\n") else text[-1].encode())
            searched = plain[:cut] + _MARK_BYTES * self._ends + plain[cut:]
        chosen = self._engine if searched is plain else self._marked_engine
        added = len(searched) - len(plain)
        start = work = 0
        while start <= len(plain):
            # Behind the cut, a position of the text lies `added` bytes further on in the marked text.
            match = chosen.search(searched, start if start <= cut else start + added)
            if match is None:
                return
            spans = [_unmarked(match.span(group), cut, added) for group in range(self.groups + 1)]
            first, last = spans[0]
            work += _WORK_PER_MATCH + self._cost * ((len(plain) if self._reads_ahead else last) - start)
            if work > MAX_MATCH_WORK or exceeds_limit(work, self._text):
                raise TooMuchWork("finding all matches takes too much work")
            # RE2 finds empty matches between the bytes of a UTF-8 sequence, where Java has no position.
            if first < len(plain) and plain[first] & 0xC0 == 0x80:
                start = first + 1
                continue
            yield Match(plain, spans)
            # After an empty match the search goes on one character further, or it would find the same match for ever.
            start = last + (last == first)
            while start < len(plain) and plain[start] & 0xC0 == 0x80:
                start += 1


class Match:
    """One match: its position and its groups."""

    def __init__(self, text: bytes, spans: list[Span]) -> None:
        self._text = text
        self._spans = spans

    @property
    def start(self) -> int:
        """The number of characters before it."""
        return len(self._text[: self._spans[0][0]].decode())

    @property
    def span(self) -> Span:
        """Start and end, in bytes."""
        return self._spans[0]

    def group(self, number: int) -> str:
        """The text of a group, empty where it took no part in the match; 0 is the match itself."""
        first, last = self._spans[number]
        return self._text[first:last].decode() if first >= 0 else ""


def _unmarked(span: Span, cut: int, added: int) -> Span:
    """A span of the marked text, translated to the original text."""
    first, last = (place if place <= cut else max(cut, place - added) for place in span)
    return first, last


def _walk(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Sequence(parts) | Alternation(parts):
            for part in parts:
                yield from _walk(part)
        case Repeat(body) | CapturingGroup(body):
            yield from _walk(body)


def _check_repeats(node: Node) -> None:
    for each in _walk(node):
        if isinstance(each, Repeat) and each.most != 1 and _may_be_empty(each.body):
            raise ValueError(
                "a repeated part of the regular expression may be empty, of which engines remember different things; "
                "write (a+)? for (a*)*"
            )


def _check_after_ends(node: Node) -> None:
    """Reject a position assertion after a `$`: with marks it would be tested after the mark."""
    for each in _walk(node):
        parts = each.parts if isinstance(each, Sequence) else ()
        if isinstance(each, Repeat) and each.most != 1:
            parts = (each.body, each.body)
        is_after_end = False
        for part in parts:
            places = {place.name for place in _walk(part) if isinstance(place, Anchor)}
            if is_after_end and places & {"^", "b", "B"}:
                raise ValueError("in a regular expression of which groups are asked, no ^, \\b or \\B may follow a $")
            is_after_end = is_after_end or "$" in places


def _reads_ahead(node: Node, *, must_go_on: bool) -> bool:
    """Whether the engine may read without bound past the end of a match: `a(.*b)?` looks for a b after each a.

    Then each match may cost the rest of the text, which the work limit must count.
    """
    match node:
        case Sequence(parts):
            for part in reversed(parts):
                if _reads_ahead(part, must_go_on=must_go_on):
                    return True
                must_go_on = must_go_on or not _extent(part).may_be_empty
            return False
        case Alternation(options):
            return any(_reads_ahead(option, must_go_on=must_go_on) for option in options)
        case Repeat(body, least, most):
            if most is None and must_go_on:
                return True
            return _reads_ahead(body, must_go_on=must_go_on or (least > 1 and not _extent(body).may_be_empty))
        case CapturingGroup(body):
            return _reads_ahead(body, must_go_on=must_go_on)
    return False


def _may_be_empty(node: Node) -> bool:
    match node:
        case Characters():
            return False
        case Anchor():
            # Unlike `_extent`, which asks what can always be empty: one empty match is enough for engines to disagree.
            return True
        case Sequence(parts):
            return all(map(_may_be_empty, parts))
        case Alternation(options):
            return any(map(_may_be_empty, options))
        case Repeat(body, least):
            return least == 0 or _may_be_empty(body)
        case CapturingGroup(body):
            return _may_be_empty(body)


def _write_groups(node: Node, *, marks: bool) -> str:
    """The expression in RE2's notation with capturing groups; with `marks`, for a marked text."""
    match node:
        case Characters(ranges) if marks:
            # No class takes a mark for a character; one that takes a terminator skips the marks before it.
            kept = _write_characters(complement([*complement(ranges), (LAST, LAST)]))
            takes_end = any(low <= end <= high for low, high in ranges for end in _ENDS)
            return f"(?:{_MARK_PATTERN}*{kept})" if takes_end else kept
        case Characters(ranges):
            return _write_characters(ranges)
        case Anchor("$"):
            return rf"(?:{_MARK_PATTERN}|\z)" if marks else r"\z"
        case Anchor(name):
            return {"^": r"\A", "z": r"\z", "b": r"\b", "B": r"\B"}[name]
        case Sequence(parts):
            written = (_write_groups(part, marks=marks) for part in parts)
            return "".join(
                f"(?:{each})" if isinstance(part, Alternation) else each
                for part, each in zip(parts, written, strict=True)
            )
        case Alternation(options):
            return "|".join(_write_groups(option, marks=marks) for option in options)
        case Repeat(body, least, most, is_reluctant):
            return f"(?:{_write_groups(body, marks=marks)}){_write_count(least, most)}{'?' if is_reluctant else ''}"
        case CapturingGroup(body):
            return f"({_write_groups(body, marks=marks)})"
