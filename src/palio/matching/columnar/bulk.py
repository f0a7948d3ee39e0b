"""Reading subscriptions in bulk: those of one shape together, without making a filter of each.

Of a million subscriptions most differ from thousands of others only in their literals. Their texts are cut by a
compiled reader, the template of each shape says which intervals its literals make, and those of a whole column of
literals are made at once: integers as arrays, others once per distinct text. What a filter would say that no interval
can, a shape without a template, a literal that has no value, goes the long way, one by one; so do shapes of which there
are only a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from palio.filters.expressions.casting import zone_of
from palio.languages.sql.cutting import LONGEST
from palio.languages.sql.shapes import LONGEST_SHAPE, SHAPES
from palio.languages.sql.templates import Template
from palio.matching.columnar import text_kernels as kernels
from palio.matching.columnar.conditions import ConditionsBuilder, Int64s
from palio.matching.columnar.conjuncts import Conjuncts
from palio.matching.columnar.filling import Alone, Literals, alone, fill, fill_alone, fill_together
from palio.matching.columnar.groups import Common
from palio.matching.subscription import Subscriptions, Want

_CHUNK: Final = 100_000
_FEW: Final = 8  # so few are faster read one by one than set up for
_LOOK_AHEAD: Final = 4  # zero bytes behind the last line, so that the reader may look for any sign

Flags = npt.NDArray[np.bool_]


def add_texts(builder: ConditionsBuilder, numbers: Sequence[int], subscriptions: Subscriptions) -> None:
    """Add subscriptions under these numbers; `InvalidSubscription` names the one at fault."""
    for start in range(0, len(subscriptions), _CHUNK):
        end = start + _CHUNK
        _add_chunk(builder, numbers[start:end], subscriptions.between(start, end))


def _add_chunk(builder: ConditionsBuilder, numbers: Sequence[int], subscriptions: Subscriptions) -> None:
    done = np.zeros(len(subscriptions), np.bool_)
    if len(subscriptions) > _FEW:
        for zone, which in _sql_texts(subscriptions).items():
            if len(which) > _FEW and (zone == "UTC" or zone_of(zone) is not None):
                texts = [_text(subscriptions.wants[at]) for at in which]
                rows = np.array(which)
                done[rows] = _add_shapes(builder, np.asarray(numbers, np.int64)[rows], texts, zone)
    for at in np.flatnonzero(~done).tolist():
        builder.add(numbers[at], subscriptions[at].filter.tree)


def _sql_texts(subscriptions: Subscriptions) -> dict[str, Sequence[int]]:
    """Which subscriptions are SQL texts, by the time zone that they are read in."""
    if set(map(type, subscriptions.wants)) == {str}:
        return {"UTC": range(len(subscriptions))}
    zones: dict[str, list[int]] = {}
    for at, want in enumerate(subscriptions.wants):
        if isinstance(want, str):
            zones.setdefault("UTC", []).append(at)
        elif want.language == "sql" and type(want.where) is str:
            zones.setdefault(want.timezone, []).append(at)
    return dict(zones)


def _text(want: Want) -> str:
    return want if isinstance(want, str) else want.where


def _add_shapes(builder: ConditionsBuilder, numbers: Int64s, texts: list[str], zone: str) -> Flags:
    """Add the texts whose shapes, or those of their conjuncts, have templates and are many; answers which."""
    done = np.zeros(len(texts), np.bool_)
    cut = _Cut(texts)
    for shape, lines in cut.shapes(_FEW):
        template = SHAPES.template(shape, texts[lines[0]])
        if template is not None:
            done[lines] = fill(builder, numbers[lines], template, cut.literals(lines, template), zone)
    left = np.flatnonzero(~done)
    if len(left) > _FEW:
        done[left] = _add_conjuncts(builder, numbers[left], [texts[at] for at in left.tolist()], zone)
    return done


def _add_conjuncts(builder: ConditionsBuilder, numbers: Int64s, texts: list[str], zone: str) -> Flags:
    """Add the texts whose conjuncts have templates, one attribute each; answers which."""
    conjuncts = Conjuncts(texts)
    cut = _Cut(conjuncts.texts)
    alike: dict[Common | None, list[tuple[Template, Alone, Int64s]]] = {}
    for shape, which in cut.shapes(0):
        template = SHAPES.template(shape, conjuncts.texts[which[0]])
        asked = None if template is None else alone(template)
        if template is not None and asked is not None:
            alike.setdefault(asked.common, []).append((template, asked, which))
    for common, shapes in alike.items():
        if common is None or not _fill_together(builder, common, shapes, conjuncts, cut, zone):
            for template, asked, which in shapes:
                handles = fill_alone(builder, len(which), asked, cut.literals(which, template), zone)
                conjuncts.fill(which, [(asked.name, len(which))], handles)
    return conjuncts.add(builder, numbers)


def _fill_together(
    builder: ConditionsBuilder,
    common: Common,
    shapes: Sequence[tuple[Template, Alone, Int64s]],
    conjuncts: Conjuncts,
    cut: _Cut,
    zone: str,
) -> bool:
    """Fill the conjuncts of shapes that ask the same of different attributes; answers whether that could be done."""
    lines = np.concatenate([which for _, _, which in shapes])
    names = [(asked.name, len(which)) for _, asked, which in shapes]
    axis = np.repeat([builder.axis((name, None)) for name, _ in names], [count for _, count in names])
    handles = fill_together(builder, axis, common, cut.literals(lines, shapes[0][0]), zone)
    if handles is not None:
        conjuncts.fill(lines, names, handles)
    return handles is not None


class _Cut:
    """The shapes and literals of many texts."""

    def __init__(self, texts: list[str]) -> None:
        raw = _joined(texts)
        text = np.frombuffer(raw, np.uint8)
        count = len(texts)
        self._raw, self._text = raw, text
        self._shape_text = np.empty(len(raw), np.uint8)
        self._spans = np.empty((count, 3), np.int64)
        self._shape_of = np.empty(count, np.int32)
        self._literals = np.empty((len(raw) // 2 + 1, 2), np.int32)
        self._starts = np.empty(count + 1, np.int64)
        counts = np.zeros(2, np.int64)
        kernels.cut_lines(
            text,
            count,
            LONGEST,
            LONGEST_SHAPE,
            self._shape_text,
            kernels.table_for(count),
            self._spans,
            self._shape_of,
            self._literals,
            self._starts,
            counts,
        )
        self._count = int(counts[0])

    def shapes(self, few: int) -> list[tuple[str, Int64s]]:
        """The shapes that more than a few lines have, with these lines."""
        order = np.argsort(self._shape_of, kind="stable")
        starts = np.searchsorted(self._shape_of[order], np.arange(self._count + 1))
        found = []
        for number in np.flatnonzero(np.diff(starts) > few).tolist():
            begin, end, _ = self._spans[number].tolist()
            shape = self._shape_text[begin:end].tobytes().decode("ascii")
            found.append((shape, order[starts[number] : starts[number + 1]]))
        return found

    def literals(self, lines: Int64s, template: Template) -> Literals:
        """The literals of lines of one shape."""
        which = self._starts[lines][:, None] + np.arange(len(template.slots))
        return Literals(self._raw, self._text, self._literals[which])


def _joined(texts: list[str]) -> bytes:
    """The texts, each with a zero byte behind it; those that cannot be written so are left empty."""
    joined = "\0".join([*texts, "\0" * _LOOK_AHEAD])
    if joined.count("\0") == len(texts) + _LOOK_AHEAD:
        try:
            return joined.encode()
        except UnicodeEncodeError:
            pass
    return "\0".join([*(text if _is_clean(text) else "" for text in texts), "\0" * _LOOK_AHEAD]).encode()


def _is_clean(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
