"""Filter: a condition on the content of events, in the one normal form that all of Palio works with.

Whatever language a subscriber uses, the condition becomes a `Filter`, and matching, routing, covering, access control
and partitioning use only its operations. Two filters are equal when their canonical trees are, which for conjunctions
of enumerable conditions is when they match the same events.

SQL's NOT is not set complement: `NOT (x > 5)` also needs an `x`. A filter therefore has two trees, where its condition
is TRUE and where it is FALSE; the second is built on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf
from typing import Any, ClassVar, Final, Literal, NoReturn

from palio.errors import InvalidArgument, NoTruthValue
from palio.filters import algebra, relations, tree
from palio.filters.algebra import negation
from palio.filters.explanation import Explanation, explain
from palio.filters.normal_form import covering_conjunction, expand, normal
from palio.filters.predicate_compiler import MultipleValues, Test, compile_tree
from palio.filters.registry import check_options, parser_for
from palio.filters.sql_writer import to_sql
from palio.filters.tree import EVERYTHING, NOTHING, And, Attributes, Node, Or
from palio.garbage_collector import paused_collector

Overlap = Literal["open", "closed", "thesis"]

LONG_CHARACTERS: Final = 10_000
"""Of a text so long that the garbage collector would look through all objects, several times, while it is read."""


class Filter:
    """A condition on the content of events.

    >>> wanted = Filter("price > 100 AND symbol IN ('ACME', 'INIT')")
    >>> wanted.matches({"symbol": "ACME", "price": 120})
    True
    >>> wanted.covers("price > 150 AND symbol = 'ACME'")
    True
    >>> str(~wanted)
    "price <= 100 OR symbol NOT IN ('ACME', 'INIT')"
    """

    nothing: ClassVar[Filter]
    everything: ClassVar[Filter]

    validity: float | None = None
    """Lease of a subscription or advertisement of this filter, in seconds; None is unlimited."""

    _holds: Node
    _fails: Node | Callable[[], Node]
    _written: Node | Callable[[], Node]

    # Not `__init__`: a parser makes the filter, and what it makes is returned.
    def __new__(cls, condition: Any, language: str = "sql", **options: Any) -> Filter:
        """As `Filter.parse`; a filter is returned as it is."""
        return condition if isinstance(condition, Filter) else cls.parse(condition, language, **options)

    @classmethod
    def of_canonical(cls, holds: Node, fails: Node | Callable[[], Node], written: Node | Callable[[], Node]) -> Filter:
        """A filter from a tree that is known to be canonical, without normalising it."""
        made = object.__new__(cls)
        made._holds, made._fails, made._written = holds, fails, written
        return made

    @classmethod
    def of_tree(cls, holds: Node, fails: Node | Callable[[], Node] | None = None) -> Filter:
        """A filter from the tree where it is TRUE, and the tree where it is FALSE; without that, it is derived."""
        return cls.of_canonical(normal(holds), (lambda: negation(holds)) if fails is None else fails, holds)

    @classmethod
    def parse(cls, condition: Any, language: str = "sql", **options: Any) -> Filter:
        """Read a condition. Costs some microseconds; raises `ParseError` with the place and the reason."""
        if not isinstance(language, str):
            raise InvalidArgument(f"a condition language is named by text such as 'sql', not {type(language).__name__}")
        if options.get("timezone") == "UTC":
            del options["timezone"]  # the default; languages without times do not have the option
        parser = parser_for(language)
        if options:
            check_options(language, parser, options)
        if isinstance(condition, str) and len(condition) > LONG_CHARACTERS:
            with paused_collector():
                return parser(condition, **options)
        return parser(condition, **options)

    @property
    def tree(self) -> Node:
        """The canonical tree of conditions, negation already inside them."""
        return self._holds

    @property
    def written(self) -> Node:
        """The tree before normalisation, in the structure of the text, negation inside its conditions."""
        if callable(self._written):
            self._written = self._written()
        return self._written

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes the filter reads."""
        return tree.attributes_in(self._holds)

    @cached_property
    def reads_whole_event(self) -> bool:
        """Whether the filter reads attributes that it does not name."""
        return tree.reads_all(self._holds)

    @property
    def is_plain_sql(self) -> bool:
        """Whether its text means the same in Spark: it uses no function of Palio's own."""
        return tree.is_plain_sql(self._holds) and "typeof(" not in str(self)

    @cached_property
    def timezone(self) -> str:
        """The time zone in which the filter's text must be parsed.

        It is the zone of its computations where they share one. Where filters of several zones were combined, it is
        UTC, and the text names the zone of each computation.
        """
        zones = tree.timezones_in(self._holds)
        return next(iter(zones)) if len(zones) == 1 else "UTC"

    @property
    def is_conjunction(self) -> bool:
        """Whether the filter is one conjunction of conditions, one per attribute."""
        return not isinstance(self._holds, Or) and not any(
            isinstance(child, Or) for child in getattr(self._holds, "children", ())
        )

    def matches(self, event: Any) -> bool:
        """Whether the condition is TRUE for an event; costs time in the number of conditions."""
        return self.matches_attributes(_attributes(event))

    __call__ = matches

    def matches_attributes(self, attributes: Attributes) -> bool:
        """`matches` for checked attributes, as `Event.attributes` has them."""
        test = self._test or self._compiled()
        if test is not None and type(attributes) is dict:
            try:
                return test(attributes)
            # An array: a compiled condition reads one value per attribute.
            except MultipleValues:
                pass
        return tree.holds(self._holds, attributes)

    def matches_every_element(self, attributes: Attributes) -> bool:
        """Whether every choice of one element per attribute matches, where `matches_attributes` asks for some choice.

        This is what a permission means: `account = 'eve'` must not admit an event with the accounts `eve` and `bob`.
        """
        if not self.matches_attributes(attributes):
            return False
        return tuple not in map(type, attributes.values()) or not self._exceptions.matches_attributes(attributes)

    @cached_property
    def _exceptions(self) -> Filter:
        """The filter that matches where some choice of elements does not match this one."""
        return Filter.parse(f"({self}) IS NOT TRUE", timezone=self.timezone)

    _test: Test | None = None
    _was_evaluated = False

    def _compiled(self) -> Test | None:
        """The compiled condition, from the second evaluation on: compiling costs more than one evaluation."""
        if self._was_evaluated:
            self._test = compile_tree(self._holds)
        self._was_evaluated = True
        return self._test

    def explain(self, event: Any) -> Explanation:
        """Which of the written conditions held and which failed, for which values."""
        return explain(self.written, _attributes(event), self.timezone)

    def covers(self, other: Filter | str) -> bool:
        """Whether this filter is known to match every event the other does; the other may be text in SQL.

        Exact for conjunctions of enumerable conditions; otherwise a no means "not known to". Costs time in the
        product of the two filters' sizes.
        """
        return relations.covers(self._holds, _operand(other)._holds)

    def overlaps(self, other: Filter | str, mode: Overlap = "open", *, single_valued: bool = True) -> bool:
        """Whether some event may match both; the other may be text in SQL.

        A no is certain for events that have at most one value for an attribute. Two values of an array may satisfy
        two filters that no single value does, as `x < 3` and `x > 5`: with `single_valued=False` a no is certain for
        those events too, which is what routing by advertisements needs where events may have arrays.

        `open`: filters without a common attribute overlap, because an event may carry both. `closed`: for where
        publishers send only what they advertise, at least one attribute must be common. `thesis`: the rule as
        Jerzak §2.5.6 prints it, one overlapping pair of conditions, which loses events; kept to reproduce it.
        """
        return relations.overlaps(self._holds, _operand(other)._holds, mode, single_valued)

    def merge(self, other: Filter | str, slack: float = 0.0) -> Filter:
        """One conjunction that matches at least what either filter does; exactly that where it can be.

        With `slack`, gaps in an attribute's values of at most that share of their extent are closed.
        """
        if type(slack) not in (int, float) or not 0 <= slack <= 1:
            raise InvalidArgument(f"slack is a share from 0 to 1, not {slack!r}")
        return Filter.of_tree(algebra.merge(self._holds, _operand(other)._holds, slack))

    def merge_perfect(self, other: Filter | str) -> Filter | None:
        """The one filter that matches exactly what either does, or None where no single conjunction can."""
        found = algebra.merge_perfect(self._holds, _operand(other)._holds)
        return None if found is None else Filter.of_tree(found)

    def conjunctions(self, limit: int = 64) -> list[Filter]:
        """Conjunctions whose union is this filter; where there are more than `limit`, one that covers it."""
        alternatives = expand(self._holds, limit)
        if alternatives is None:
            wider = covering_conjunction(self._holds)
            alternatives = [] if wider is None else [wider]
        return [Filter.of_tree(each.node()) for each in alternatives]

    def __and__(self, other: Filter | str) -> Filter:
        if not isinstance(other, Filter | str):
            return NotImplemented
        other = Filter(other)
        both = Filter.of_tree(And((self._holds, other._holds)), lambda: Or(((~self)._holds, (~other)._holds)))
        return _with_shortest_lease(both, self, other)

    def __or__(self, other: Filter | str) -> Filter:
        if not isinstance(other, Filter | str):
            return NotImplemented
        other = Filter(other)
        either = Filter.of_tree(Or((self._holds, other._holds)), lambda: And(((~self)._holds, (~other)._holds)))
        return _with_shortest_lease(either, self, other)

    # Both commute: `"x > 3" & f` is `f & "x > 3"`.
    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Filter:
        if callable(self._fails):
            with paused_collector():  # it may have ten thousand conditions
                self._fails = normal(self._fails())
        return Filter.of_tree(self._fails, self._holds)

    def __bool__(self) -> NoReturn:
        # `f and g` would be g, without a word.
        raise NoTruthValue("a filter is neither true nor false; combine filters with &, | and ~, not with and, or, not")

    def valid_for(self, seconds: float) -> Filter:
        """This filter with a lease, which begins when a broker receives it.

        The lease is no part of the condition: filters that differ only in it are equal. A combination of filters has
        the shortest of their leases.
        """
        if type(seconds) not in (int, float) or not 0 < seconds < inf:
            raise InvalidArgument(f"a filter is valid for a number of seconds above 0, not {seconds!r}")
        made = Filter.of_canonical(self._holds, self._fails, self._written)
        made.validity = float(seconds)
        return made

    def __eq__(self, other: object) -> bool:
        return self._holds == other._holds if isinstance(other, Filter) else NotImplemented

    @cached_property
    def digest(self) -> bytes:
        """A hash of sixteen bytes that is the same in every process; costs some microseconds for each condition."""
        return self._holds.fingerprint

    _hash: int | None = None  # routing looks a filter up hundreds of times for one change

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = int.from_bytes(self.digest[:8], "little", signed=True)
        return self._hash

    @cached_property
    def _text(self) -> str:
        return to_sql(self._holds, self.timezone)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        zone = "" if self.timezone == "UTC" else f", timezone={self.timezone!r}"
        return f"Filter.parse({str(self)!r}{zone})"

    def __reduce__(self) -> tuple[Callable[..., Filter], tuple[Node, Node], dict[str, float] | None]:
        kept = None if self.validity is None else {"validity": self.validity}
        return Filter.of_tree, (self._holds, (~self)._holds), kept


def _with_shortest_lease(made: Filter, *of: Filter) -> Filter:
    """A combination of filters with the shortest of their leases."""
    leases = [each.validity for each in of if each.validity is not None]
    if leases:
        made.validity = min(leases)
    return made


def _operand(given: Any) -> Filter:
    """The other filter of a comparison or combination."""
    if isinstance(given, Filter):
        return given
    if not isinstance(given, str):
        raise InvalidArgument(f"a filter or its text in SQL is needed here, not {type(given).__name__}")
    return Filter.parse(given)


def _attributes(event: Any) -> Attributes:
    from palio.events import Event

    return Event.read(event).attributes


Filter.nothing = Filter.of_tree(NOTHING, EVERYTHING)
Filter.everything = Filter.of_tree(EVERYTHING, NOTHING)
