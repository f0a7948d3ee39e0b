"""Dialects of event patterns: the operators and quotas of EventBridge and SNS.

The limits are those the services document. They are quotas of the services, not of Palio; `strict=False` lifts
them, and takes a bare value for a list of one, which is how people often write patterns in YAML.

EventBridge runs all wildcards of a field as one nondeterministic automaton, and refuses a pattern for which some value
could activate too many of its states at once: one for each beginning of a wildcard that the value, read so far, is a
match of. `*:*:*` read against `::` is at `*`, `*:`, `*:*`, `*:*:` and `*:*:*`. Palio reads a text about once whatever
the wildcard, and counts only to refuse what EventBridge refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

_STRING_OPERATORS: Final = ("prefix", "suffix", "equals-ignore-case", "wildcard")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one service accepts."""

    service: str
    """The name of the service, for error messages."""
    operators: frozenset[str]
    """The names of the operators."""
    excludable: frozenset[str]
    """The operators that may stand inside `anything-but`."""
    ignores_case_in_parts: bool
    """Whether `prefix` and `suffix` may hold an `equals-ignore-case`."""
    excludes_lists: bool
    """Whether an operator inside `anything-but` may have a list of strings."""
    dots_are_steps: bool
    """Whether a dot in a name also stands for a step into an object."""
    max_number: Decimal | None
    """The largest number, either side of zero, that `numeric` and `anything-but` take; None for no limit."""
    max_exact_number: Decimal | None
    """The largest number that may stand for itself; None for no limit."""
    fraction_digits: int | None
    """How many digits behind the point are compared; None for all."""
    max_or_combinations: int | None
    """How many combinations the arrays of `$or` may have; None for no limit."""
    max_wildcard_states: int | None
    """How many states the wildcards of a field may have active at once; None for no limit."""
    bare_values: bool
    """Whether a value may stand where a list of it belongs."""
    flattened: bool = False
    """Whether a step into an object may also be a dot in a name of the event."""

    def unlimited(self) -> Dialect:
        """This dialect without the quotas of the service, and with bare values."""
        return replace(
            self,
            max_number=None,
            max_exact_number=None,
            max_or_combinations=None,
            max_wildcard_states=None,
            bare_values=True,
        )


EVENTBRIDGE: Final = Dialect(
    service="EventBridge",
    operators=frozenset({"exactly", "anything-but", "numeric", "cidr", "exists", *_STRING_OPERATORS}),
    excludable=frozenset(_STRING_OPERATORS),
    ignores_case_in_parts=True,
    excludes_lists=True,
    dots_are_steps=True,
    max_number=Decimal("5e9"),
    max_exact_number=None,
    fraction_digits=None,
    max_or_combinations=1_000,
    max_wildcard_states=10,
    bare_values=False,
)

_ANY: Final = -1  # in a wildcard, a gap of any bytes; as an input, a byte that no wildcard names
_MAX_VISITED_STATES: Final = 5_000  # of the subset construction; beyond it the wildcards are accepted

# For each wildcard, the lengths of those of its prefixes that match the value read so far.
_State = tuple[frozenset[int], ...]


def max_active_states(wildcards: Iterable[str], limit: int) -> int:
    """The most states of the automaton that some value activates at once, counted up to a limit."""
    patterns = [_tokens(text) for text in dict.fromkeys(wildcards)]
    if not patterns:
        return 0
    # All bytes that no wildcard names act alike, so that one of them stands for all.
    alphabet = {token for tokens in patterns for token in tokens} | {_ANY}
    largest = 0
    start: _State = tuple(_with_empty_gaps(frozenset({0}), tokens) for tokens in patterns)
    seen = {start}
    waiting = [start]
    while waiting and len(seen) < _MAX_VISITED_STATES:
        state = waiting.pop()
        for byte in alphabet:
            following = tuple(_step(lengths, byte, tokens) for lengths, tokens in zip(state, patterns, strict=True))
            largest = max(largest, sum(map(len, following)))
            if largest >= limit:
                return limit
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return largest


def _tokens(text: str) -> list[int]:
    """The bytes of a wildcard between quotes, as EventBridge sees a string, and its gaps."""
    tokens: list[int] = [ord('"')]
    escaped = False
    for byte in text.encode():
        if byte == ord("\\") and not escaped:
            escaped = True
            continue
        tokens.append(_ANY if byte == ord("*") and not escaped else byte)
        escaped = False
    return [*tokens, ord('"')]


def _step(lengths: frozenset[int], byte: int, tokens: list[int]) -> frozenset[int]:
    """The prefixes that match once a byte more is read."""
    # A literal consumes its own byte, and a gap consumes any; what is after a gap is reached in `_with_empty_gaps`.
    longer = {length + 1 for length in lengths if length < len(tokens) and tokens[length] == byte != _ANY}
    kept = {length for length in lengths if length and tokens[length - 1] == _ANY}
    return _with_empty_gaps(frozenset(longer | kept), tokens)


def _with_empty_gaps(lengths: frozenset[int], tokens: list[int]) -> frozenset[int]:
    """The prefixes, and those with the gap after them, which may be empty; no two gaps are adjacent."""
    gaps = {length + 1 for length in lengths if length < len(tokens) and tokens[length] == _ANY}
    return lengths | gaps
