"""Reading subscriptions in bulk: the plain ones without making a filter of each.

Most subscriptions are `name op literal` joined by AND. For those the parser, the value sets and the canonical form
say nothing that a small compiled reader cannot, at a hundredth of the cost. It accepts only texts that the parser
accepts, with the same meaning (a property test compares the two); whatever it does not take, every name that may be a
word of SQL, and every string that may read as something else, goes the long way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palio.filters.comparisons import is_only_text
from palio.languages.sql.lexer import LONGEST
from palio.matching.columnar import text_kernels as kernels
from palio.matching.columnar.conditions import ConditionsBuilder, Int64s
from palio.matching.plain import is_only_name, is_whole
from palio.matching.subscription import Subscription

_CHUNK: Final = 100_000
_FEW: Final = 16  # so few are faster read one by one than set up for
_LOOK_AHEAD: Final = 17  # newlines behind the last line, so that the reader may look for any word
_WORDS: Final = np.frombuffer(b" BETWEEN  AND ", np.uint8)


def add_texts(builder: ConditionsBuilder, numbers: Sequence[int], subscriptions: Sequence[Subscription]) -> None:
    """Add subscriptions under these numbers; `InvalidSubscription` names the one at fault."""
    for start in range(0, len(subscriptions), _CHUNK):
        end = start + _CHUNK
        _add_chunk(builder, numbers[start:end], subscriptions[start:end])


def _add_chunk(builder: ConditionsBuilder, numbers: Sequence[int], subscriptions: Sequence[Subscription]) -> None:
    plain = _add_plain(builder, numbers, subscriptions) if len(subscriptions) > _FEW else None
    for at, subscription in enumerate(subscriptions):
        if plain is None or not plain[at]:
            builder.add(numbers[at], subscription.filter.tree)


def _add_plain(
    builder: ConditionsBuilder, numbers: Sequence[int], subscriptions: Sequence[Subscription]
) -> npt.NDArray[np.bool_]:
    """Add those that are plain; answers which."""
    lines = [
        each.where
        if each.language == "sql"
        and isinstance(each.where, str)
        and "\n" not in each.where
        and len(each.where) <= LONGEST
        else ""
        for each in subscriptions
    ]
    raw = "\n".join([*lines, "\n" * _LOOK_AHEAD]).encode("utf-8", "surrogatepass")
    found, plain, names, strings = _read(raw, len(lines))
    axes = np.array([_axis(builder, name) for name in names] or [-1], np.int64)
    points = np.array([_point(builder, axes, *each) for each in strings] or [-1], np.int64)
    is_text = found[:, kernels.KIND] == kernels.STRING
    ranged_text = is_text & (found[:, kernels.OPERATOR] != kernels.EQUAL)
    unknown = (axes[found[:, kernels.NAME]] < 0) | ranged_text
    unknown[is_text] |= points[found[is_text, kernels.FIRST]] < 0
    plain[found[unknown, kernels.LINE]] = False
    found = found[plain[found[:, kernels.LINE]]]
    handles = _handles(builder, found, axes, points)
    which = np.flatnonzero(plain)
    lengths = np.bincount(found[:, kernels.LINE], minlength=len(lines))[which]
    builder.add_plain(np.asarray(numbers, np.int64)[which], lengths, handles)
    return plain


def _handles(builder: ConditionsBuilder, found: Int64s, axes: Int64s, points: Int64s) -> Int64s:
    """The interval of every condition."""
    axis = axes[found[:, kernels.NAME]]
    operator, first = found[:, kernels.OPERATOR], found[:, kernels.FIRST]
    handles = np.empty(len(found), np.int64)
    text = found[:, kernels.KIND] == kernels.STRING
    handles[text] = builder.axes.add_texts(axis[text], points[first[text]])
    number = ~text
    operator, first, second = operator[number], first[number], found[number, kernels.SECOND]
    handles[number] = builder.axes.add_comparisons(
        axis[number],
        first,
        np.where(operator == kernels.BETWEEN, second, first),
        lower_in=_side(operator, kernels.MORE, (kernels.EQUAL, kernels.AT_LEAST, kernels.BETWEEN)),
        upper_in=_side(operator, kernels.LESS, (kernels.EQUAL, kernels.AT_MOST, kernels.BETWEEN)),
    )
    return handles


def _side(operator: Int64s, leaves_out: int, takes_in: tuple[int, ...]) -> npt.NDArray[np.int8]:
    """1 where an operator bounds and takes the literal in, 0 where it leaves it out, -1 where there is no bound."""
    return np.where(operator == leaves_out, 0, np.where(np.isin(operator, takes_in), 1, -1)).astype(np.int8)


def _read(raw: bytes, lines: int) -> tuple[Int64s, npt.NDArray[np.bool_], list[str], list[tuple[str, int]]]:
    """The conditions of all lines, which lines are plain, the names, and the strings with their names' numbers."""
    room = raw.count(b" AND ") + lines + 1
    found = np.empty((room, kernels.FIELDS), np.int64)
    plain = np.zeros(lines, np.bool_)
    names, name_spans = _table(room)
    strings, string_spans = _table(room)
    counts = np.zeros(3, np.int64)
    text = np.frombuffer(raw, np.uint8)
    kernels.read_conditions(text, lines, _WORDS, found, plain, names, name_spans, strings, string_spans, counts)
    total, name_count, string_count = counts.tolist()
    return (
        found[:total],
        plain,
        [piece for piece, _ in _pieces(raw, name_spans, name_count)],
        _pieces(raw, string_spans, string_count),
    )


def _table(room: int) -> tuple[Int64s, Int64s]:
    return np.full(1 << (2 * room).bit_length(), -1, np.int64), np.empty((3, room + 1), np.int64)


def _pieces(raw: bytes, spans: Any, count: int) -> list[tuple[str, int]]:
    starts, ends, salts = (each[:count].tolist() for each in spans)
    return [
        (raw[start:end].decode("utf-8", "surrogatepass"), salt)
        for start, end, salt in zip(starts, ends, salts, strict=True)
    ]


def _axis(builder: ConditionsBuilder, name: str) -> int:
    return builder.axis((name, None)) if is_only_name(name) else -1


def _point(builder: ConditionsBuilder, axes: Int64s, text: str, name: int) -> int:
    axis = int(axes[name])
    return builder.axes.point(axis, text) if axis >= 0 and is_whole(text) and is_only_text(text) else -1
