"""Implicit casts: conditions on the typed columns of a DataFrame, read as Spark's analyzer reads them.

Events without a schema do not say whether the text '10' was meant as a number, so `qty > 5` is NULL for it. A
DataFrame has a schema, and for a STRING column Spark's analyzer (ANSI mode) makes `CAST(qty AS BIGINT) > 5` of that
condition. So do we: every operand that Spark would cast is replaced by a *cast attribute*, `` `qty AS BIGINT` ``,
which the projection fills with `TRY_CAST(qty AS BIGINT)`. To the index it is an attribute like any other, and the
condition is as fast as one on a number. An operand that is no attribute, as in `substring(code, 1, 3) > 5`, is wrapped
in a CAST.

Where Spark casts, found by reading its analyzed plans: both sides of a comparison, IN and BETWEEN; a string where a
condition should stand (`active AND …`); a value that is no string under LIKE and its relatives. Arithmetic and other
functions convert their arguments themselves, here as in Spark, and need no rewriting. `x IS NULL` of an array column
tests the array, not its elements, and is replaced likewise.

The casts of a condition depend on its skeleton only, not on its literals, so a skeleton is parsed once. Most conditions
have none, which is known of a conjunction as soon as it is known of its conjuncts: of 10,000 conjunctions with 8,000
skeletons a hundred are parsed. Conditions in other languages than SQL keep the meaning that their language gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import EventError, ParseError
from palio.events.names import split_path
from palio.events.values import MAX_DECIMAL_DIGITS
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, Span, bottom_up, walk
from palio.filters.expressions.coercion import ValueType
from palio.filters.expressions.static_analysis import Kinds
from palio.filters.filter import Filter
from palio.filters.sql_writer import expression_to_sql, name_to_sql
from palio.languages.sql.parser import parse_condition
from palio.languages.sql.template_cache import LITERAL, split_conjuncts, split_literals
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription, Subscriptions, Want
from palio.spark.attributes import PRESENCE_TARGET, AttributeResolver, Path, cast_name, is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_COMPARISONS: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>"})
_LOGIC: Final = frozenset({"and", "or", "not", "istrue", "isfalse"})
_TEXT_OR_BINARY: Final = frozenset({"startswith", "endswith", "contains"})
_PATTERNS: Final = _TEXT_OR_BINARY | {"like", "ilike", "rlike"}
_TARGETS: Final[Mapping[ValueType, str]] = {
    bool: "boolean",
    int: "bigint",
    # In a comparison; IN has a rule of its own.
    Decimal: "double",
    float: "double",
    date: "date",
    datetime: "timestamp",
    bytes: "binary",
}
_BIGINT_DIGITS: Final = 20  # of a bigint among decimals
_MAX_SKELETONS: Final = 4_096


@dataclass(frozen=True)
class ImplicitCasts:
    """The casts that Spark would put into conditions on columns of these types. It travels to the workers."""

    columns: Mapping[Path, DataType]
    case_sensitive: bool
    _gaps: dict[str, tuple[str, ...] | None] = field(default_factory=dict, init=False, compare=False, repr=False)
    """By skeleton, the text between the literals after rewriting; None where nothing is to be cast."""
    _uncast: set[str] = field(default_factory=set, init=False, compare=False, repr=False)
    """Skeletons of conjuncts in which nothing is to be cast."""

    @classmethod
    def of(cls, events: DataFrame) -> ImplicitCasts:
        """Those of conditions on the columns of a DataFrame."""
        columns: dict[Path, DataType] = {(each.name,): each.dataType for each in events.schema.fields}
        return cls(columns, is_case_sensitive(events.sparkSession))

    def apply_to(self, subscription: Subscription) -> Subscription:
        """The subscription with its condition rewritten; the same object where it has nothing to cast."""
        where: Any = subscription.where
        zone = subscription.timezone
        if isinstance(where, Filter):
            zone, where = where.timezone, str(where)
        if subscription.language != "sql" or not isinstance(where, str):
            return subscription
        rewritten = self.apply(where, zone)
        return subscription if rewritten is where else replace(subscription, where=rewritten, timezone=zone)

    def apply_to_matcher(self, matcher: Matcher) -> Matcher:
        """A matcher of the rewritten conditions, in the order of the old one; that itself where none has casts.

        Costs some microseconds for each subscription; where some have casts, also building the index anew.
        """
        subscriptions = matcher.subscriptions()
        wants = [self.apply_to_want(want) for want in subscriptions.wants]
        if all(new is old for new, old in zip(wants, subscriptions.wants, strict=True)):
            return matcher
        made = Matcher()
        made.add_subscriptions(Subscriptions(subscriptions.ids, wants))
        return made

    def apply_to_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rewrite the conditions in batches of subscriptions with the columns `where`, `language` and `timezone`."""
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("where", "is_json", "language", "timezone")]
            texts = [
                where if where is None or is_json or language not in (None, "sql") else self.apply(where, zone)
                for where, is_json, language, zone in zip(*columns, strict=True)
            ]
            yield batch.set_column(batch.schema.get_field_index("where"), "where", pa.array(texts, pa.string()))

    def apply_to_want(self, want: Want) -> Want:
        """As `apply_to`, for one of many subscriptions."""
        return self.apply(want) if isinstance(want, str) else self.apply_to(want)

    def apply(self, text: str, timezone: str = "UTC") -> str:
        """The condition with its casts; the same object where it has none, or cannot be parsed."""
        split = split_literals(text)
        if split is None:
            return self._rewrite(text, timezone)[0]
        skeleton, literals = split
        if skeleton not in self._gaps:
            conjuncts = split_conjuncts(skeleton)
            if conjuncts is not None and self._uncast.issuperset(conjuncts):
                return text
            rewritten, is_general = self._rewrite(text, timezone)
            pieces = LITERAL.split(rewritten)
            if not is_general or pieces[1::2] != literals:
                return rewritten
            if len(self._gaps) >= _MAX_SKELETONS:
                self._gaps.clear()
            self._gaps[skeleton] = None if rewritten is text else tuple(pieces[::2])
            if rewritten is text and conjuncts is not None and len(self._uncast) < _MAX_SKELETONS:
                self._uncast.update(conjuncts)
        gaps = self._gaps.get(skeleton)
        if gaps is None:
            return text
        pieces = [""] * (2 * len(literals) + 1)
        pieces[::2] = gaps
        pieces[1::2] = literals
        return "".join(pieces)

    def _rewrite(self, text: str, timezone: str) -> tuple[str, bool]:
        """The condition with its casts, and whether all conditions of its skeleton have the same."""
        try:
            expression = parse_condition(text, timezone=timezone)
        except ParseError:  # reported by the parse that follows
            return text, False
        found = _CastSearch(_ColumnKinds(self._column))
        found.search(expression)
        # A number within a quoted name is no literal: conditions that differ there read other columns.
        in_names = any(LITERAL.search(node.name) for node in walk(expression) if isinstance(node, Attribute))
        is_general = not found.depends_on_literals and not in_names
        if not found.casts and not found.split_betweens:
            return text, is_general
        return _edit(text, expression, found) or expression_to_sql(_rebuild(expression, found)), is_general

    def _column(self, attribute: str) -> _Column | None:
        try:
            found = self._resolver.declared_type(split_path(attribute))
        except EventError:  # an ambiguous name, which the projection reports
            return None
        return None if found is None else _Column.of(*found)

    @cached_property
    def _resolver(self) -> AttributeResolver[Any]:
        given = {path: _Typed(kind) for path, kind in self.columns.items()}
        return AttributeResolver(given, self.case_sensitive, lambda _: "UTC")

    def __getstate__(self) -> dict[str, Any]:
        # Without what is only cached.
        return {"columns": self.columns, "case_sensitive": self.case_sensitive, "_gaps": {}, "_uncast": set()}


@dataclass(frozen=True)
class _Typed:
    """The type of a column, for a resolver that only looks up types."""

    kind: DataType


@dataclass(frozen=True, slots=True)
class _Column:
    """What the analyzer knows of a column, or of the elements of an array."""

    kind: ValueType | None
    target: str | None
    """The type to which a string is cast that is compared with it."""
    is_array: bool
    """Whether `IS NULL` asks for an array as a whole."""
    digits: tuple[int, int] = (0, 0)
    """Precision and scale of a decimal."""

    @classmethod
    def of(cls, declared: DataType, is_within_objects: bool) -> _Column:
        from pyspark.sql import types

        element = declared
        while isinstance(element, types.ArrayType):
            element = element.elementType
        kinds: list[tuple[type[DataType], ValueType]] = [
            (types.StringType, str),
            (types.BooleanType, bool),
            (types.DecimalType, Decimal),
            (types.IntegralType, int),
            (types.FractionalType, float),
            (types.DateType, date),
            (types.TimestampType, datetime),
            (types.TimestampNTZType, datetime),
            (types.BinaryType, bytes),
        ]
        kind = next((kind for type, kind in kinds if isinstance(element, type)), None)
        target = None if kind is None else _TARGETS.get(kind)
        if isinstance(element, types.TimestampNTZType):
            target = "timestamp_ntz"
        digits = (element.precision, element.scale) if isinstance(element, types.DecimalType) else (0, 0)
        return cls(kind, target, isinstance(declared, types.ArrayType) and not is_within_objects, digits)


class _ColumnKinds(Kinds):
    """Kinds of expressions where the types of attributes are known."""

    def __init__(self, column: Callable[[str], _Column | None]) -> None:
        super().__init__()
        self._column = column
        self._columns: dict[str, _Column | None] = {}

    def column(self, attribute: str) -> _Column | None:
        if attribute not in self._columns:
            self._columns[attribute] = self._column(attribute)
        return self._columns[attribute]

    def of(self, expression: Expression) -> ValueType | None:
        if isinstance(expression, Attribute):
            column = self.column(expression.name)
            return None if column is None else column.kind
        return super().of(expression)

    def target_beside(self, expression: Expression) -> str | None:
        """The type to which a string is cast that is compared with an expression."""
        column = self.column(expression.name) if isinstance(expression, Attribute) else None
        return _TARGETS.get(self.of(expression) or NoneType) if column is None else column.target


_Place = tuple[int, int]  # identity of a call, and the number of one of its arguments


class _CastSearch:
    """Finds the operands of a condition that Spark casts."""

    def __init__(self, kinds: _ColumnKinds) -> None:
        self._kinds = kinds
        self.casts: dict[_Place, str] = {}
        self.split_betweens: dict[int, tuple[str | None, str | None]] = {}
        """Of a BETWEEN whose bounds are of two types, the casts of its value for either."""
        self.depends_on_literals = False

    def search(self, expression: Expression) -> None:
        # A string attribute alone is no condition in Spark either, and has no call here.
        for call in bottom_up(expression):
            self._kinds.of(call)  # inner ones first, to bound the recursion
            if call.function in _COMPARISONS:
                self._comparison(call)
            elif call.function == "between":
                self._between(call)
            elif call.function == "in":
                self._in(call)
            elif call.function in _LOGIC:
                self._cast_all(call, str, "boolean")
            elif call.function in _PATTERNS:
                self._pattern(call)
            elif call.function in ("isnull", "isnotnull"):
                self._null_test(call)

    def _cast(self, call: Call, place: int, target: str | None) -> None:
        # A string literal is converted by the comparison itself.
        if target is not None and not isinstance(call.arguments[place], Literal):
            self.casts[id(call), place] = target

    def _cast_all(self, call: Call, kind: ValueType, target: str) -> None:
        for place, argument in enumerate(call.arguments):
            if isinstance(argument, Attribute) and self._kinds.of(argument) is kind:
                self._cast(call, place, target)

    def _comparison(self, call: Call) -> None:
        left, right = call.arguments
        if Literal(None) in (left, right):
            if call.function == "<=>":
                self._null_test(call)
            return
        if self._kinds.of(left) is str:
            self._cast(call, 0, self._target(left, right))
        elif self._kinds.of(right) is str:
            self._cast(call, 1, self._target(right, left))

    def _target(self, string: Expression, other: Expression) -> str | None:
        """The type to which a string expression is cast beside another expression; None where it stays a string."""
        return None if self._kinds.of(other) in (str, None) else self._kinds.target_beside(other)

    def _between(self, call: Call) -> None:
        value, low, high = call.arguments
        if self._kinds.of(value) is not str:
            for place, bound in ((1, low), (2, high)):
                if self._kinds.of(bound) is str:
                    self._cast(call, place, self._target(bound, value))
            return
        targets = self._target(value, low), self._target(value, high)
        if targets[0] == targets[1]:
            self._cast(call, 0, targets[0])
        else:
            self.split_betweens[id(call)] = targets

    def _in(self, call: Call) -> None:
        kinds = [self._kinds.of(argument) for argument in call.arguments]
        if str not in kinds:
            return
        target = self._common_type(call, [kind for kind in kinds if kind not in (str, NoneType)])
        for place, kind in enumerate(kinds):
            if kind is str:
                self._cast(call, place, target)

    def _common_type(self, call: Call, kinds: list[ValueType | None]) -> str | None:
        """Spark's common type of a string and others: found from left to right, strings first."""
        if not kinds or None in kinds:
            return None
        if len(set(kinds)) == 1 or float in kinds or kinds[0] is Decimal:
            return "double" if float in kinds else _TARGETS.get(kinds[0])  # type: ignore[arg-type]
        if set(kinds) == {date, datetime}:
            return "timestamp"
        if set(kinds) != {int, Decimal}:
            return None  # Spark refuses it
        # The string becomes a bigint with the first integer, and that a decimal with the first decimal.
        digits = [self._decimal_digits(argument) for argument in call.arguments]
        scale = max(scale for _, scale in digits)
        whole = max(_BIGINT_DIGITS, *(precision - scale for precision, scale in digits))
        return f"decimal({min(whole + scale, MAX_DECIMAL_DIGITS)},{scale})"

    def _decimal_digits(self, argument: Expression) -> tuple[int, int]:
        if self._kinds.of(argument) is not Decimal:
            return 0, 0
        if isinstance(argument, Attribute) and (column := self._kinds.column(argument.name)) is not None:
            return column.digits
        self.depends_on_literals = True
        digits = self._kinds.digits_of(argument)
        assert digits is not None  # of a decimal
        return digits.precision, digits.scale

    def _pattern(self, call: Call) -> None:
        if call.function in _TEXT_OR_BINARY:
            # Of two binaries they compare bytes; only beside a string is a binary cast.
            kinds = set(map(self._kinds.of, call.arguments))
            if bytes in kinds and str not in kinds:
                return
        for place, argument in enumerate(call.arguments):
            if self._kinds.of(argument) in _TARGETS:
                self._cast(call, place, "string")

    def _null_test(self, call: Call) -> None:
        for place, argument in enumerate(call.arguments):
            column = self._kinds.column(argument.name) if isinstance(argument, Attribute) else None
            if column is not None and column.is_array:
                self._cast(call, place, PRESENCE_TARGET)


def _edit(text: str, expression: Expression, found: _CastSearch) -> str | None:
    """The text with attributes replaced where they stand; None where that cannot express all casts."""
    if found.split_betweens:
        return None
    targets: dict[Span, set[str | None]] = {}
    names: dict[Span, str] = {}
    for call in bottom_up(expression):
        for place, argument in enumerate(call.arguments):
            target = found.casts.get((id(call), place))
            if isinstance(argument, Attribute):
                # The operand of `CASE x WHEN … WHEN …` stands once in the text and several times in the tree.
                targets.setdefault(argument.span, set()).add(target)
                names[argument.span] = argument.name
            elif target is not None:
                return None
    if any(len(each) > 1 for each in targets.values()):
        return None
    for span in sorted(targets, reverse=True):
        (target,) = targets[span]
        if target is not None:
            text = text[: span[0]] + name_to_sql(cast_name(names[span], target)) + text[span[1] :]
    return text


def _rebuild(expression: Expression, found: _CastSearch) -> Expression:
    """The expression with its casts."""
    made: dict[int, Expression] = {}

    def argument_of(call: Call, place: int, target: str | None = None) -> Expression:
        argument = call.arguments[place]
        target = target or found.casts.get((id(call), place))
        if isinstance(argument, Attribute) and target is not None:
            return Attribute(cast_name(argument.name, target))
        inner = made.get(id(argument), argument)
        return inner if target is None else Call("cast", (inner, Literal(target)))

    for call in bottom_up(expression):
        arguments = tuple(argument_of(call, place) for place in range(len(call.arguments)))
        made[id(call)] = Call(call.function, arguments)
        if id(call) in found.split_betweens:
            low, high = found.split_betweens[id(call)]
            made[id(call)] = Call(
                "and",
                (
                    Call(">=", (argument_of(call, 0, low), arguments[1])),
                    Call("<=", (argument_of(call, 0, high), arguments[2])),
                ),
            )
    return made[id(expression)]
