"""Times without a zone: predicates on TIMESTAMP_NTZ columns are computed on local times, without any clock change.

An event has moments only. A predicate whose times are all without a zone is computed as if they were moments of UTC,
where no hour is skipped and a day has 24 hours: its columns become attributes `` `n AS LOCAL` ``, which the projection
fills with the local times as they are, its TIMESTAMP_NTZ literals are read in UTC, and the predicate is put into
`in_timezone('UTC', …)`. So are dates and texts beside such columns.

A predicate that also has moments (`n > t`, `n < TIMESTAMP'…'`) compares moments in Spark, too: there the local times
are read in the zone of the condition, as the attribute `n` itself is everywhere.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, bottom_up, walk
from palio.languages.sql.parser import parse_condition
from palio.spark.attributes import LOCAL_TARGET, cast_name
from palio.spark.cast_search import ColumnKinds

_CONNECTIVES: Final = frozenset({"and", "or", "not", "istrue", "isfalse"})
_KEEPS_LOCAL: Final = frozenset(
    {"+", "-", "timestampadd", "coalesce", "case", "if", "nvl2", "nullif", "greatest", "least", "variable"}
)
"""Functions whose value is a time without a zone where their arguments are."""
_OF_MOMENTS: Final = frozenset({"date_format", "months_between", "timestampdiff", "to_char"})
"""Functions that take moments, though their value is none; all others of times read local times as they are."""


class LocalTimes:
    """The rewriting of one condition."""

    def __init__(self, kinds: ColumnKinds, text: str) -> None:
        self._kinds = kinds
        self._text = text

    def rewrite(self, expression: Expression, timezone: str) -> Expression:
        """The condition with its local predicates rewritten; the same object where it has none."""
        match expression:
            case Call("in_timezone", (Literal(str() as zone) as literal, inner)):
                made = self.rewrite(inner, zone)
                return expression if made is inner else Call("in_timezone", (literal, made), expression.span)
            case Call(function, arguments) if function in _CONNECTIVES:
                parts = tuple(self.rewrite(each, timezone) for each in arguments)
                is_same = all(new is old for new, old in zip(parts, arguments, strict=True))
                return expression if is_same else Call(function, parts, expression.span)
        if not self._is_local(expression):
            return expression
        made = self._replace(expression)
        return made if timezone == "UTC" else Call("in_timezone", (Literal("UTC"), made), expression.span)

    def _is_local(self, predicate: Expression) -> bool:
        """Whether a predicate reads times without a zone, and no moments."""
        if not isinstance(predicate, Call):
            return False
        found = False
        for node in walk(predicate):
            if self._is_local_value(node):
                found = found or not isinstance(node, Literal)
            elif not isinstance(node, Call) and self._kind(node) is datetime:
                return False
        return found and not any(self._is_moment(call) for call in bottom_up(predicate))

    def _kind(self, node: Expression) -> type | None:
        """The kind of a value, or of the elements of an array."""
        column = self._kinds.column(node.name) if isinstance(node, Array) else None
        return self._kinds.of(node) if column is None else column.kind

    def _is_moment(self, call: Call) -> bool:
        """Whether a call computes with moments, to which Spark casts local times then."""
        makes_moment = self._kinds.of(call) is datetime and call.function not in _KEEPS_LOCAL
        return makes_moment or call.function in _OF_MOMENTS

    def _is_local_value(self, node: Expression) -> bool:
        match node:
            case Literal(datetime(), span):
                return self._text[slice(*span)].lower().startswith("timestamp_ntz")
            case Attribute(name) | Array(name):
                column = self._kinds.column(name)
                return column is not None and column.is_local
        return False

    def _replace(self, predicate: Expression) -> Expression:
        made: dict[int, Expression] = {}
        for call in bottom_up(predicate):
            arguments = tuple(made[id(each)] if id(each) in made else self._local(each) for each in call.arguments)
            made[id(call)] = Call(call.function, arguments, call.span)
        return made[id(predicate)]

    def _local(self, node: Expression) -> Expression:
        if not self._is_local_value(node):
            return node
        if isinstance(node, Attribute | Array):
            return type(node)(cast_name(node.name, LOCAL_TARGET), node.span)
        return parse_condition(self._text[slice(*node.span)], timezone="UTC")
