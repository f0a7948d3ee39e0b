"""How hard EventBridge finds the wildcards of a field.

EventBridge runs all wildcards of a field as one automaton, and refuses a pattern for which some value could keep it
busy in too many places at once: at each beginning of a wildcard that the value, read so far, is a match of. `*:*:*`
read against `::` is at `*`, `*:`, `*:*`, `*:*:` and `*:*:*`. Palio reads a text about once whatever the wildcard,
and counts only to refuse what EventBridge refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_ANY: Final = -1  # in a wildcard, any bytes; as a byte, one that no wildcard names
_MOST_STATES: Final = 5_000  # looked at before the wildcards are taken for simple

# For each wildcard, the lengths of its beginnings that the value read so far is a match of.
_State = tuple[frozenset[int], ...]


def busiest(wildcards: Iterable[str], limit: int) -> int:
    """In how many places some value is at once, counted up to a limit."""
    patterns = [_tokens(text) for text in dict.fromkeys(wildcards)]
    if not patterns:
        return 0
    alphabet = {token for tokens in patterns for token in tokens} | {_ANY}
    most = 0
    start: _State = tuple(_with_empty_gaps(frozenset({0}), tokens) for tokens in patterns)
    seen = {start}
    waiting = [start]
    while waiting and len(seen) < _MOST_STATES:
        state = waiting.pop()
        for byte in alphabet:
            following = tuple(_step(each, byte, tokens) for each, tokens in zip(state, patterns, strict=True))
            most = max(most, sum(map(len, following)))
            if most >= limit:
                return limit
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return most


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
    """The beginnings that match one byte more."""
    longer = {each + 1 for each in lengths if each < len(tokens) and tokens[each] == byte != _ANY}
    kept = {each for each in lengths if each and tokens[each - 1] == _ANY}
    return _with_empty_gaps(frozenset(longer | kept), tokens)


def _with_empty_gaps(lengths: frozenset[int], tokens: list[int]) -> frozenset[int]:
    gaps = {each + 1 for each in lengths if each < len(tokens) and tokens[each] == _ANY}
    return lengths | gaps
