"""Conditions of the index: filters lowered to intervals of slots on axes, ANDed, ORed, or as a small program.

An attribute is an axis; a test that must be evaluated on a value (LIKE with a wildcard in the middle, a regular
expression, a computed condition) is a *virtual* axis of its own, on which an event stands at 1 where its value
passes. A search through all values of an event is such an axis too, of no attribute. A conjunction becomes rows, a
disjunction of few conjunctions several sets of rows under one number, and any larger tree a program of jumps with the
set of conditions of which every match satisfies one. Nothing is expanded blindly: a rule whose disjunctive form
has 10^10 terms takes one row per condition it was written with.

Under which conditions a program is filed is decided last, when it is known how many subscriptions share each: people
tend to ask for what happens, so what many ask for is taken to be common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from palio.filters.comparisons import Term, comparison_terms, number_terms
from palio.filters.expressions.ast import Call, Literal
from palio.filters.expressions.extension_functions import WHOLE_EVENT_FUNCTIONS
from palio.filters.kinds import KINDS, NUMBERS, Kind
from palio.filters.like import LikePattern
from palio.filters.normal_form import Conjunction, expand
from palio.filters.regex import Regex
from palio.filters.tree import And, Leaf, Node, Or, Residual, domain_of
from palio.filters.value_predicates import Like, Pattern, Rlike, Test, XPath
from palio.filters.value_sets import EMPTY, PRESENT, ValueSet
from palio.matching.columnar.array_members import ArrayMember, membership_in
from palio.matching.columnar.array_types import Floats, Int64s
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.axes_builder import FIRST_VIRTUAL_AXIS, AxesBuilder
from palio.matching.columnar.computed_attributes import (
    MAX_CONJUNCTIONS,
    MIN_SHARING_CONDITIONS,
    ExpressionUses,
    has_computed_conditions,
    kind_within,
    lift_tree,
)
from palio.matching.columnar.layout import FAIL, MATCH
from palio.matching.columnar.pattern_costs import pattern_cost
from palio.matching.columnar.postings import Conjunctions
from palio.matching.columnar.slot_order import Region


@dataclass(frozen=True, slots=True)
class SetMembership:
    """Whether a value is in a set that no run of slots can hold, because its kinds of number disagree."""

    values: ValueSet


@dataclass(frozen=True, slots=True)
class WholeEventSearch:
    """Whether some value of the event, of whatever attribute, has a form: a function of the whole event, and its
    pattern."""

    function: str
    pattern: str


ValueTest: TypeAlias = Test | SetMembership | WholeEventSearch | ArrayMember
AxisKey: TypeAlias = tuple[str, ValueTest | None]  # an attribute, or a test of its value; a search has no attribute
_REGIONS: Final = {
    Kind.STRING: Region.STRING,
    Kind.DATE: Region.DATE,
    Kind.TIMESTAMP: Region.TIMESTAMP,
    Kind.BYTES: Region.BYTES,
}
_MISSING, _NULL, _FALSE, _TRUE = 0, 1, 2, 3
# What share of all events is taken to meet a condition at least, however few ask for it.
_PRESENT_SHARE: Final = 1.0
_RANGE_SHARE: Final = 0.1
_BOOLEAN_SHARE: Final = 0.25
_PREFIX_SHARE: Final = 1 / 64  # paths begin alike
_UNKNOWN_SHARE: Final = 1 / 4  # of what must be computed
_SHARES: Final = (1.0, 1 / 4, 1 / 16, 1 / 64, 1 / 128, 1 / 256)  # of a pattern, by the length of its longest piece
_RAREST_SHARE: Final = 1 / 1024
_SHORT_ENDING: Final = 5  # characters up to which an ending is a common one, such as that of a program's name


@dataclass(slots=True)
class _Encoded:
    """One leaf: a value in any of `handles` or `either`, and all of `tests`."""

    handles: list[int] = field(default_factory=list)  # on the attribute's own axis
    either: list[int] = field(default_factory=list)  # on virtual axes, as alternatives
    tests: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Rows:
    """One set of ANDed rows: handles of intervals, those on one axis adjacent, and a tree of what is left."""

    number: int
    handles: list[int]
    tree: Node | None = None
    program: list[tuple[int, int, int]] = field(default_factory=list)  # (handle, on true, on false)
    access: list[int] = field(default_factory=list)


class ConditionsBuilder:
    """Collects filters; `finish` gives the engine's flat arrays."""

    def __init__(self) -> None:
        self.axes = AxesBuilder()
        self._axis_of: dict[AxisKey, int] = {}
        self._tests: list[AxisKey] = []
        self.residual_numbers: set[int] = set()  # numbers of subscriptions with residuals
        self.computed_numbers: set[int] = set()  # numbers of those with conditions on computed attributes
        self.unshared_numbers: set[int] = set()  # numbers of those with an expression that few others share
        self._few: list[tuple[str, list[int]]] = []  # computed attributes with numbers that have them, few at a time
        self._slow_handles: set[int] = set()  # on axes of patterns that cost more than some equalities
        self._computed: list[tuple[int, Node]] = []
        self._computed_uses: Counter[str] = Counter()  # of computed attributes, by conditions that have no tree
        self._rows: list[_Rows] = []
        self._plain: list[tuple[Int64s, Int64s, Int64s]] = []
        self._encoded: dict[tuple[str, ValueSet], _Encoded] = {}
        self._residuals: dict[Residual, int] = {}
        self._shares: dict[int, float] = {}  # by handle: what share of events meets it at least; inf: unfit to file by
        self._uses: dict[int, int] = {}  # by handle: the rows and programs that have it
        self._hits: set[int] = set()

    def add(self, number: int, node: Node) -> None:
        """Take in the canonical tree of one subscription."""
        if has_computed_conditions(node):
            self._computed.append((number, node))  # until it is known how many share their expressions
        else:
            self._add(number, node, None)

    def _add_computed(self) -> None:
        uses = ExpressionUses((node for _, node in self._computed), self._computed_uses)
        for number, node in self._computed:
            self._add(number, node, uses)
        self._computed.clear()

    def _add(self, number: int, node: Node, uses: ExpressionUses | None) -> None:
        alternatives = expand(node, MAX_CONJUNCTIONS)
        if alternatives is not None:
            for conjunction in alternatives:
                self._add_alternative(number, conjunction, uses)
            return
        if uses is not None:
            node = lift_tree(node)
            self.computed_numbers.add(number)
        # Too many conjunctions: the tree is kept as a program of jumps, which tests slots only.
        certain, sure = _without_residuals(node)
        if not sure:
            self.residual_numbers.add(number)
        # A few alternatives are each filed under what is rarest in them.
        is_few = isinstance(certain, Or) and len(certain.children) <= MAX_CONJUNCTIONS
        for each in certain.children if isinstance(certain, Or) and is_few else (certain,):
            self._add_tree(number, each)

    def _add_alternative(self, number: int, conjunction: Conjunction, uses: ExpressionUses | None) -> None:
        if uses is None:
            leaves = [Leaf(name, values) for name, values in conjunction.leaves.items()]
            self._add_conjunction(number, [*leaves, *self._certain(number, conjunction.residuals)], ())
            return
        lifted = uses.lift(conjunction)
        held = self._certain(number, lifted.residuals)
        if lifted.is_wider:
            self.residual_numbers.add(number)
        if lifted.is_computed:
            self.computed_numbers.add(number)
        if lifted.is_unshared:
            self.unshared_numbers.add(number)
        for leaves in lifted.alternatives:
            if not any(leaf.values.is_empty for leaf in leaves):
                self._add_conjunction(number, [*leaves, *held], ())

    def _certain(self, number: int, residuals: Sequence[Residual]) -> list[Residual]:
        """The residuals that the index can hold; others are left to be checked on candidates."""
        held = [each for each in residuals if _test_of(each) is not None]
        if len(held) < len(residuals):
            self.residual_numbers.add(number)
        return held

    def axis(self, key: AxisKey) -> int:
        """The axis of an attribute, or of a test."""
        known = self._axis_of.get(key)
        if known is None:
            if key[1] is None:
                known = len(self._axis_of) - len(self._tests)
                self.axes.declare(known)
                if kind_within(key[0]) is Kind.DECIMAL:
                    self.axes.decimal_axes.add(known)
            else:
                # Counted apart: in the finished segment the axes of tests follow all those of attributes.
                known = FIRST_VIRTUAL_AXIS + len(self._tests)
                self._tests.append(key)
                self.axes.virtual(known)
            self._axis_of[key] = known
        return known

    @property
    def keys(self) -> tuple[list[str], list[AxisKey]]:
        """What the axes are of, in their order: the attributes, then the tests."""
        return [name for name, test in self._axis_of if test is None], self._tests

    def add_intervals(self, numbers: Int64s, lengths: Int64s, handles: Int64s) -> None:
        """Take in many conjunctions whose intervals are made already: their numbers, sizes and handles in order."""
        self._plain.append((numbers, lengths, handles))

    def intervals_of(self, leaf: Leaf) -> list[int] | None:
        """The handles of the intervals that a leaf is; None where it is no list of them."""
        encoded = self._encode(leaf)
        return None if encoded.either else encoded.handles + encoded.tests

    def interval_of(self, residual: Residual) -> int:
        """The handle of the interval of a residual that a test holds."""
        return self._test(residual)

    def interval_of_pattern(self, attribute: str, pattern: Pattern, wanted: bool = True) -> int:
        """The handle of the interval of events whose value of an attribute matches a pattern, or does not."""
        test = Test(pattern)
        return self._tested(self._hit(self.axis((attribute, test)), wanted, selectivity_of(test)), pattern)

    def count_computed(self, numbers: Int64s, names: Iterable[str]) -> None:
        """Count conditions on computed attributes whose intervals are made already."""
        self.computed_numbers.update(numbers.tolist())
        for name in names:
            self._computed_uses[name] += len(numbers)
            if len(numbers) < MIN_SHARING_CONDITIONS:
                self._few.append((name, numbers.tolist()))

    def _add_conjunction(self, number: int, conditions: Iterable[Leaf | Residual], rest: Iterable[Node]) -> None:
        rows = _Rows(number, [])
        left: list[Node] = list(rest)
        for condition in conditions:
            encoded = self._encode(condition)
            if encoded.either:
                left.append(condition)
            else:
                rows.handles += encoded.handles
                rows.handles += encoded.tests
        for handle in rows.handles:
            self._uses[handle] = self._uses.get(handle, 0) + 1
        if left:
            rows.tree = And(tuple(left))
            rows.program = self._compile(rows.tree)
            for handle in {handle for handle, _, _ in rows.program}:
                self._uses[handle] = self._uses.get(handle, 0) + 1
        self._rows.append(rows)

    def _add_tree(self, number: int, node: Node) -> None:
        children = node.children if isinstance(node, And) else (node,)
        conditions = [child for child in children if isinstance(child, Leaf | Residual)]
        self._add_conjunction(number, conditions, [child for child in children if isinstance(child, And | Or)])

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
            case Leaf() | Residual():
                return self._emit_leaf(self._encode(node), yes, no, code)

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
        """Conditions of which every match satisfies one, and the share of events that are expected to."""
        match node:
            case Leaf() | Residual():
                encoded = self._encode(node)
                options = [[handle] for handle in encoded.tests if handle in self._hits]
                by_values = encoded.handles + encoded.either
                if by_values:
                    options.append(by_values)
                return min(
                    ((self._share(each), each) for each in options), key=lambda pair: pair[0], default=(np.inf, [])
                )
            case And(children):
                return min(map(self._access, children), key=lambda pair: pair[0], default=(np.inf, []))
            case Or(children):
                parts = [self._access(child) for child in children]
                # An event that matches meets a condition of some child: filed under those of all.
                return sum(share for share, _ in parts), [handle for _, handles in parts for handle in handles]

    def _share(self, handles: list[int]) -> float:
        """The share of events that are expected to meet one of some conditions."""
        rows = max(1, len(self._rows))
        return sum(max(self._uses.get(each, 0) / rows, self._shares.get(each, 0.0)) for each in handles)

    def _encode(self, condition: Leaf | Residual) -> _Encoded:
        if isinstance(condition, Residual):
            return _Encoded(tests=[self._test(condition)])
        key = (condition.attribute, condition.values)
        known = self._encoded.get(key)
        if known is None:
            known = self._encoded[key] = self._make(condition.attribute, condition.values)
        return known

    def _test(self, residual: Residual) -> int:
        known = self._residuals.get(residual)
        if known is None:
            key = _test_of(residual)
            assert key is not None  # other residuals are taken out before
            assert key[1] is not None
            hit = self._hit(self.axis(key), residual.wants, selectivity_of(key[1]))
            known = self._residuals[residual] = hit
        return known

    def _make(self, attribute: str, values: ValueSet) -> _Encoded:
        encoded = _Encoded()
        plain = ValueSet(values.parts)
        for test in sorted(values.tests, key=lambda test: (not test.wanted, test.key)):
            # A test that fails is the absence of its code. An XPath may be neither TRUE nor FALSE, and has two codes.
            asked = test if isinstance(test.pattern, XPath) else Test(test.pattern)
            hit = self._hit(self.axis((attribute, asked)), asked.wanted is test.wanted, selectivity_of(test))
            encoded.tests.append(self._tested(hit, test.pattern))
        if any((test.wanted or isinstance(test.pattern, XPath)) and plain == domain_of(test) for test in values.tests):
            return encoded  # a hit already says that the value is in the interval part
        self._intervals(attribute, plain, encoded)
        return encoded

    def _hit(self, axis: int, wanted: bool, share: float) -> int:
        """The interval on the axis of a test where the event stands if the test holds, or does not, as wanted."""
        handle = self._fixed(axis, int(wanted), int(wanted), share if wanted else np.inf)
        if wanted:
            self._hits.add(handle)
        return handle

    def _tested(self, handle: int, pattern: Pattern) -> int:
        if pattern_cost(pattern).is_slow:
            self._slow_handles.add(handle)
        return handle

    def _intervals(self, attribute: str, values: ValueSet, encoded: _Encoded) -> None:
        axis = self.axis((attribute, None))
        if values == PRESENT:
            encoded.handles.append(self.axes.present(axis))
            self._shares[encoded.handles[-1]] = _PRESENT_SHARE
            return
        low, high = _flags(values, Kind.MISSING), _flags(values, Kind.NULL)
        if low or high:
            encoded.handles.append(self._fixed(axis, _MISSING if low else _NULL, _NULL if high else _MISSING, np.inf))
        for truth, slot in ((False, _FALSE), (True, _TRUE)):
            if values.parts[Kind.BOOLEAN].contains(int(truth)):
                encoded.handles.append(self._fixed(axis, slot, slot, _BOOLEAN_SHARE))
        self._numbers(attribute, axis, values, encoded)
        for kind, region in _REGIONS.items():
            part = values.parts[kind]
            if part.is_full:
                encoded.handles.append(self._between(axis, region, None, None))
            elif not part.is_empty:
                encoded.handles += [self._term(axis, region, term) for term in comparison_terms(kind, part)]

    def _numbers(self, attribute: str, axis: int, values: ValueSet, encoded: _Encoded) -> None:
        parts = [values.parts[kind] for kind in NUMBERS]
        if all(part.is_empty for part in parts):
            return
        if all(part.is_full for part in parts):
            encoded.handles.append(self._between(axis, Region.NUMBER, None, None))
            return
        kind = kind_within(attribute)
        found = number_terms(values) if kind is None else list(comparison_terms(kind, values.parts[kind]))
        if found is not None:
            encoded.handles += [self._term(axis, Region.NUMBER, term) for term in found]
            return
        if _has_integers_alone(values):
            # Their own slots, and one test that all such conditions on the attribute share.
            part = values.parts[Kind.INTEGER]
            found = [[]] if part.is_full else list(comparison_terms(Kind.INTEGER, part))
            encoded.handles += [self._term(axis, Region.NUMBER, term) for term in found]
            encoded.tests.append(self._fixed(self.axis((attribute, SetMembership(_NO_FRACTIONS))), 1, 1, np.inf))
            return
        only = ValueSet(
            tuple(part if kind in NUMBERS else EMPTY for kind, part in zip(KINDS, values.parts, strict=True))
        )
        virtual = self.axis((attribute, SetMembership(only)))
        encoded.either.append(self._hit(virtual, True, _RANGE_SHARE))

    def _fixed(self, axis: int, low: int, high: int, share: float) -> int:
        handle = self.axes.fixed(axis, low, high)
        self._shares[handle] = share
        return handle

    def _between(self, axis: int, region: Region, low: object, high: object) -> int:
        handle = self.axes.between(axis, region, low, high)  # type: ignore[arg-type]
        self._shares[handle] = _PRESENT_SHARE if low is None and high is None else _RANGE_SHARE
        return handle

    def _term(self, axis: int, region: Region, term: Term) -> int:
        if term and term[0][0] == "=":
            return self.axes.equal(axis, region, term[0][1])
        low = next(((literal, operator == ">") for operator, literal in term if operator in (">", ">=")), None)
        high = next(((literal, operator == "<=") for operator, literal in term if operator in ("<", "<=")), None)
        return self._between(axis, region, low, high)

    def finish(self) -> tuple[Axes, Conjunctions]:
        """The axes, and the flat arrays from which postings are built."""
        self._add_computed()
        axes, intervals = self.axes.finish()
        for rows in self._rows:
            if rows.tree is not None:
                share, chosen = self._access(rows.tree)
                alone = min((self._share([handle]) for handle in rows.handles), default=np.inf)
                rows.access = chosen if share < alone else []
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
            shares=self._axis_shares(),
        )

    def slow_numbers(self) -> set[int]:
        """The numbers of subscriptions that cost an event more than ten equalities do, though the index decides them.

        They have a slow pattern, an expression that few share, or exclude so little that nearly every event matches.
        To be asked once all are added, and computed conditions too: after `finish`.
        """
        found = set(self.unshared_numbers)
        for name, few in self._few:
            if self._computed_uses[name] < MIN_SHARING_CONDITIONS:
                found.update(few)
        for rows in self._rows:
            if not self._slow_handles.isdisjoint([*rows.handles, *(handle for handle, _, _ in rows.program)]):
                found.add(rows.number)
        numbers = np.concatenate([*(each[0] for each in self._plain), [rows.number for rows in self._rows]])
        lengths = np.concatenate([*(each[1] for each in self._plain), _lengths(self._rows, "handles")])
        handles = np.concatenate([*(each[2] for each in self._plain), _flat([rows.handles for rows in self._rows])])
        owners = np.repeat(np.arange(len(numbers)), lengths)
        slow = np.isin(handles, np.fromiter(self._slow_handles, np.int64)) if self._slow_handles else np.zeros(0, bool)
        if len(slow):
            found.update(numbers[owners[slow]].tolist())
        has_program = np.zeros(len(numbers), np.bool_)
        has_program[len(numbers) - len(self._rows) :] = [bool(rows.program) for rows in self._rows]
        excluding = self.axes.excluding_rows(handles, owners, len(numbers)) & ~has_program
        found.update(numbers[excluding].tolist())
        return found

    def _axis_shares(self) -> Floats:
        """Per axis: what share of events hits it at least, where it is the axis of a test."""
        attributes, tests = self.keys
        return np.array([*(0.0 for _ in attributes), *(selectivity_of(test) for _, test in tests if test)])


def _flat(lists: list[list[int]]) -> Int64s:
    return np.fromiter((each for items in lists for each in items), np.int64)


def _lengths(rows: list[_Rows], field: str) -> Int64s:
    return np.array([len(getattr(each, field)) for each in rows], np.int64)


def _starts(lengths: Int64s, before: int = 0) -> Int64s:
    """Where each run begins, and where the last one ends; with `before` empty runs in front."""
    starts = np.zeros(before + len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[before + 1 :])
    return starts


_NO_FRACTIONS: Final = ValueSet.kinds(*(kind for kind in KINDS if kind not in (Kind.DECIMAL, Kind.FLOAT)))


def _has_integers_alone(values: ValueSet) -> bool:
    """Whether a set has integers and no other number, and neither null nor missing."""
    others = (Kind.DECIMAL, Kind.FLOAT, Kind.MISSING, Kind.NULL)
    return all(values.parts[kind].is_empty for kind in others)


def _flags(values: ValueSet, kind: Kind) -> bool:
    return values.parts[kind].is_full


def _test_of(residual: Residual) -> AxisKey | None:
    """The test that holds a residual: a search through all values of an event, or a membership in an array."""
    match residual.expression:
        case Call(function, (Literal(str(pattern)),)) if (
            function in WHOLE_EVENT_FUNCTIONS and residual.timezone == "UTC"
        ):
            return "", WholeEventSearch(function, pattern)
    return membership_in(residual)


def _without_residuals(node: Node) -> tuple[Node, bool]:
    """The tree with every residual taken to hold, which is wider, but for searches; and whether there was none."""
    match node:
        case Residual():
            return (node, True) if _test_of(node) is not None else (And(()), False)
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


def selectivity_of(test: ValueTest) -> float:
    """What share of events is taken to pass a test at least; more, the more subscriptions have it."""
    match test:
        case Test(Like(pattern)):
            return _share_of_pattern(pattern)
        case Test(Rlike(regex)):
            return _share_of_length(regex.required_length)
        case WholeEventSearch("any_value_rlike", pattern):
            return _share_of_length(Regex.compile(pattern).required_length)
        case ArrayMember():
            return 0.0  # a value like any other
        case WholeEventSearch(_, pattern):
            return _share_of_text(max(LikePattern.parse(pattern).literals, key=len, default=""))
    return _UNKNOWN_SHARE


def _share_of_pattern(pattern: LikePattern) -> float:
    if pattern.shape == "exact":
        return 0.0  # a value like any other
    if pattern.shape == "prefix" or (pattern.shape == "suffix" and len(pattern.text) <= _SHORT_ENDING):
        return max(_PREFIX_SHARE, _share_of_text(pattern.text))
    return _share_of_text(max(pattern.literals, key=len, default=""))


def _share_of_text(piece: str) -> float:
    return _share_of_length(len(piece))


def _share_of_length(characters: int) -> float:
    return _SHARES[characters] if characters < len(_SHARES) else _RAREST_SHARE
