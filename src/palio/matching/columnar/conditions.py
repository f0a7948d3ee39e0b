"""From filters to what the engine stores: intervals of slots on axes, ANDed, ORed, or as a small program.

An attribute is an axis; a test that must be asked of a value (LIKE with a wildcard in the middle, a regular
expression, a computed condition) is a *virtual* axis of its own, on which an event stands at 1 where its value
passes. A conjunction becomes rows, a disjunction of few conjunctions several sets of rows under one number, and
any larger tree a program of jumps with the set of conditions of which every match satisfies one. Nothing is
expanded blindly: a rule whose disjunctive form has 10^10 terms takes one row per condition it was written with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.filters.intervals import EMPTY
from palio.filters.kinds import KINDS, Kind
from palio.filters.normal_form import expand
from palio.filters.patterns import Test
from palio.filters.printing import domain_of
from palio.filters.terms import NUMBERS, Term, number_terms, terms
from palio.filters.tree import And, Leaf, Node, Or, Residual
from palio.filters.values import PRESENT, ValueSet
from palio.matching.columnar.encoding import Axes, AxesBuilder, Region
from palio.matching.columnar.postings import Conjunctions

MOST_CONJUNCTIONS: Final = 16
MATCH: Final = -1
FAIL: Final = -2


@dataclass(frozen=True, slots=True)
class Member:
    """Whether a value is in a set that no run of slots can hold, because its kinds of number disagree."""

    values: ValueSet


Int64s: TypeAlias = npt.NDArray[np.int64]
Question: TypeAlias = Test | Member
AxisKey: TypeAlias = tuple[str, Question | None]  # an attribute, or a question about it
_REGIONS: Final = {
    Kind.STRING: Region.STRING,
    Kind.DATE: Region.DATE,
    Kind.TIMESTAMP: Region.TIMESTAMP,
    Kind.BYTES: Region.BYTES,
}
_MISSING, _NULL, _FALSE, _TRUE = 0, 1, 2, 3
_HIT: Final = 2.0  # a pattern that is wanted to hit is nearly as good to file under as a value


@dataclass(slots=True)
class _Encoded:
    """One leaf: a value in any of `handles` or `either`, and all of `tests`."""

    handles: list[int] = field(default_factory=list)  # on the attribute's own axis
    either: list[int] = field(default_factory=list)  # on virtual axes, as alternatives
    tests: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Rows:
    """One set of ANDed rows: handles of intervals, those on one axis adjacent."""

    number: int
    handles: list[int]
    program: list[tuple[int, int, int]] = field(default_factory=list)  # (handle, on true, on false)
    access: list[int] = field(default_factory=list)


class ConditionsBuilder:
    """Collects filters; `finish` gives the engine's flat arrays."""

    def __init__(self) -> None:
        self.axes = AxesBuilder()
        self.axis_of: dict[AxisKey, int] = {}
        self.unsure: set[int] = set()  # numbers whose candidates must be asked again: they have residuals
        self._rows: list[_Rows] = []
        self._plain: list[tuple[Int64s, Int64s, Int64s]] = []
        self._encoded: dict[tuple[str, ValueSet], _Encoded] = {}
        self._costs: dict[int, float] = {}  # of intervals that are not points: how common they are beside a point
        self._hits: set[int] = set()

    def add(self, number: int, node: Node) -> None:
        """Take in the canonical tree of one subscription."""
        alternatives = expand(node, MOST_CONJUNCTIONS)
        if alternatives is None:
            self._add_tree(number, node)
            return
        for each in alternatives:
            if each.residuals:
                self.unsure.add(number)
            self._add_conjunction(number, [Leaf(name, values) for name, values in each.leaves.items()], ())

    def axis(self, key: AxisKey) -> int:
        """The axis of an attribute or of a question about one."""
        known = self.axis_of.get(key)
        if known is None:
            known = self.axis_of[key] = len(self.axis_of)
            if key[1] is None:
                self.axes.declare(known)
            else:
                self.axes.virtual(known)
        return known

    def add_plain(self, numbers: Int64s, lengths: Int64s, handles: Int64s) -> None:
        """Take in many conjunctions whose intervals are made already: their numbers, sizes and handles in order."""
        self._plain.append((numbers, lengths, handles))

    def intervals_of(self, leaf: Leaf) -> list[int] | None:
        """The handles of the intervals that a leaf is; None where it is no list of them."""
        encoded = self._encode(leaf)
        return None if encoded.either else encoded.handles + encoded.tests

    def _add_conjunction(self, number: int, leaves: Iterable[Leaf], rest: Iterable[Node]) -> None:
        rows = _Rows(number, [])
        program: list[Node] = list(rest)
        for leaf in leaves:
            encoded = self._encode(leaf)
            if encoded.either:
                program.append(leaf)
            else:
                rows.handles += encoded.handles
                rows.handles += encoded.tests
        if program:
            code = self._compile(And(tuple(program)))
            rows.program = code
            rows.access = self._access(And(tuple(program)))[1]
            if rows.handles and min(map(self._cost_of, rows.handles)) <= self._cost(rows.access):
                rows.access = []
        self._rows.append(rows)

    def _add_tree(self, number: int, node: Node) -> None:
        certain, sure = _without_residuals(node)
        if not sure:
            self.unsure.add(number)
        children = certain.children if isinstance(certain, And) else (certain,)
        leaves = [child for child in children if isinstance(child, Leaf)]
        self._add_conjunction(number, leaves, [child for child in children if not isinstance(child, Leaf)])

    # Programs: a list of jumps, written from the last row to the first, so that every target is known.
    def _compile(self, node: Node) -> list[tuple[int, int, int]]:
        code: list[tuple[int, int, int]] = []
        entry = self._emit(node, MATCH, FAIL, code)
        last = len(code) - 1
        assert entry == last
        return [
            (handle, last - yes if yes >= 0 else yes, last - no if no >= 0 else no)
            for handle, yes, no in reversed(code)
        ]

    def _emit(self, node: Node, yes: int, no: int, code: list[tuple[int, int, int]]) -> int:
        match node:
            case And(children):
                for child in reversed(children):
                    yes = self._emit(child, yes, no, code)
                return yes
            case Or(children):
                for child in reversed(children):
                    no = self._emit(child, yes, no, code)
                return no
            case Leaf():
                encoded = self._encode(node)
                return self._emit_leaf(encoded, yes, no, code)
        raise TypeError("residuals are taken out before a program is made")

    def _emit_leaf(self, encoded: _Encoded, yes: int, no: int, code: list[tuple[int, int, int]]) -> int:
        def row(handle: int, on_true: int, on_false: int) -> int:
            code.append((handle, on_true, on_false))
            return len(code) - 1

        for handle in reversed(encoded.tests):
            yes = row(handle, yes, no)
        entry = no
        for handle in reversed(encoded.handles + encoded.either):
            entry = row(handle, yes, entry)
        return entry if encoded.handles or encoded.either else yes

    def _access(self, node: Node) -> tuple[float, list[int]]:
        """Conditions of which every match satisfies one, and how many events that may be, relative to a value."""
        match node:
            case Leaf():
                encoded = self._encode(node)
                hits = [handle for handle in encoded.tests if handle in self._hits]
                by_values = encoded.handles + encoded.either
                options = [[handle] for handle in hits] + ([by_values] if by_values else [])
                return min(
                    ((self._cost(each), each) for each in options),
                    key=lambda pair: pair[0],
                    default=(np.inf, []),
                )
            case And(children):
                return min(
                    (self._access(child) for child in children),
                    key=lambda pair: pair[0],
                    default=(np.inf, []),
                )
            case Or(children):
                parts = [self._access(child) for child in children]
                return sum(cost for cost, _ in parts), [handle for _, handles in parts for handle in handles]
        raise TypeError("residuals are taken out before an access set is made")

    def _cost(self, handles: list[int]) -> float:
        return sum(self._cost_of(handle) for handle in handles)

    def _cost_of(self, handle: int) -> float:
        return self._costs.get(handle, 1.0)

    def _encode(self, leaf: Leaf) -> _Encoded:
        key = (leaf.attribute, leaf.values)
        known = self._encoded.get(key)
        if known is None:
            known = self._encoded[key] = self._make(leaf.attribute, leaf.values)
        return known

    def _make(self, attribute: str, values: ValueSet) -> _Encoded:
        encoded = _Encoded()
        for test in sorted(values.tests, key=lambda test: (not test.wanted, repr(test.pattern))):
            axis = self.axis((attribute, Test(test.pattern)))
            encoded.tests.append(self._fixed(axis, int(test.wanted), int(test.wanted), _HIT if test.wanted else np.inf))
        plain = ValueSet(values.parts)
        if any(test.wanted and plain == domain_of(test) for test in values.tests):
            return encoded  # a hit already says that the value is in the interval part
        self._intervals(attribute, plain, encoded)
        return encoded

    def _intervals(self, attribute: str, values: ValueSet, encoded: _Encoded) -> None:
        axis = self.axis((attribute, None))
        if values == PRESENT:
            encoded.handles.append(self.axes.present(axis))
            self._costs[encoded.handles[-1]] = 1000.0
            return
        low, high = _flags(values, Kind.MISSING), _flags(values, Kind.NULL)
        if low or high:
            encoded.handles.append(self._fixed(axis, _MISSING if low else _NULL, _NULL if high else _MISSING, np.inf))
        for truth, slot in ((False, _FALSE), (True, _TRUE)):
            if values.parts[Kind.BOOLEAN].contains(int(truth)):
                encoded.handles.append(self._fixed(axis, slot, slot, 10.0))
        self._numbers(attribute, axis, values, encoded)
        for kind, region in _REGIONS.items():
            part = values.parts[kind]
            if part.is_full:
                encoded.handles.append(self._between(axis, region, None, None))
            elif not part.is_empty:
                encoded.handles += [self._term(axis, region, term) for term in terms(kind, part)]

    def _numbers(self, attribute: str, axis: int, values: ValueSet, encoded: _Encoded) -> None:
        parts = [values.parts[kind] for kind in NUMBERS]
        if all(part.is_empty for part in parts):
            return
        if all(part.is_full for part in parts):
            encoded.handles.append(self._between(axis, Region.NUMBER, None, None))
            return
        found = number_terms(values)
        if found is not None:
            encoded.handles += [self._term(axis, Region.NUMBER, term) for term in found]
            return
        only = ValueSet(
            tuple(part if kind in NUMBERS else EMPTY for kind, part in zip(KINDS, values.parts, strict=True))
        )
        virtual = self.axis((attribute, Member(only)))
        encoded.either.append(self._fixed(virtual, 1, 1, _HIT))

    def _fixed(self, axis: int, low: int, high: int, cost: float) -> int:
        handle = self.axes.fixed(axis, low, high)
        self._costs[handle] = cost
        if low == high == 1 and cost == _HIT:
            self._hits.add(handle)
        return handle

    def _between(self, axis: int, region: Region, low: object, high: object) -> int:
        handle = self.axes.between(axis, region, low, high)  # type: ignore[arg-type]
        self._costs[handle] = 1000.0 if low is None and high is None else 100.0
        return handle

    def _term(self, axis: int, region: Region, term: Term) -> int:
        if term[0][0] == "=":
            return self.axes.equal(axis, region, term[0][1])
        low = next(((literal, operator == ">") for operator, literal in term if operator in (">", ">=")), None)
        high = next(((literal, operator == "<=") for operator, literal in term if operator in ("<", "<=")), None)
        return self._between(axis, region, low, high)

    def finish(self) -> tuple[Axes, Conjunctions]:
        """The axes, and the flat arrays from which postings are built."""
        axes, intervals = self.axes.finish()
        handles = np.concatenate([*(each[2] for each in self._plain), _flat([rows.handles for rows in self._rows])])
        lengths = np.concatenate([*(each[1] for each in self._plain), _lengths(self._rows, "handles")])
        before = sum(len(each[0]) for each in self._plain)  # these have no program, and need no access set
        access = _flat([rows.access for rows in self._rows])
        code = [row for rows in self._rows for row in rows.program]
        program = np.empty((len(code), 5), np.int32)
        if code:
            jumps = np.array(code, np.int32)
            program[:, 0] = intervals.axis[jumps[:, 0]]
            program[:, 1] = intervals.lo[jumps[:, 0]]
            program[:, 2] = intervals.hi[jumps[:, 0]]
            program[:, 3:] = jumps[:, 1:]
        numbers = np.array([rows.number for rows in self._rows], np.int64)
        return axes, Conjunctions(
            np.concatenate([*(each[0] for each in self._plain), numbers]).astype(np.int32),
            _starts(lengths),
            intervals.axis[handles],
            intervals.lo[handles],
            intervals.hi[handles],
            access_start=_starts(_lengths(self._rows, "access"), before),
            access_axis=intervals.axis[access],
            access_lo=intervals.lo[access],
            access_hi=intervals.hi[access],
            program_start=_starts(_lengths(self._rows, "program"), before),
            program=program,
        )


def _flat(lists: list[list[int]]) -> Int64s:
    return np.fromiter((each for items in lists for each in items), np.int64)


def _lengths(rows: list[_Rows], field: str) -> Int64s:
    return np.array([len(getattr(each, field)) for each in rows], np.int64)


def _starts(lengths: Int64s, before: int = 0) -> Int64s:
    """Where each run begins, and where the last one ends, after so many empty ones."""
    starts = np.zeros(before + len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[before + 1 :])
    return starts


def _flags(values: ValueSet, kind: Kind) -> bool:
    return values.parts[kind].is_full


def _without_residuals(node: Node) -> tuple[Node, bool]:
    """The tree with every residual taken to hold, which is wider; and whether there was none."""
    match node:
        case Residual():
            return And(()), False
        case Leaf():
            return node, True
        case And(children):
            parts = [_without_residuals(child) for child in children]
            kept = tuple(part for part, _ in parts if part != And(()))
            return (kept[0] if len(kept) == 1 else And(kept)), all(sure for _, sure in parts)
        case Or(children):
            parts = [_without_residuals(child) for child in children]
            if any(part == And(()) for part, _ in parts):
                return And(()), False
            return Or(tuple(part for part, _ in parts)), all(sure for _, sure in parts)
