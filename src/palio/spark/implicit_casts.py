"""Implicit casts: conditions on the typed columns of a DataFrame, read as Spark's analyzer reads them.

Events without a schema do not say whether the text '10' was meant as a number, so `qty > 5` is NULL for it. A
DataFrame has a schema, and for a STRING column Spark's analyzer (ANSI mode) makes `CAST(qty AS BIGINT) > 5` of that
condition. So do we: every operand that Spark would cast is replaced by a *cast attribute*, `` `qty AS BIGINT` ``,
which the projection fills with `TRY_CAST(qty AS BIGINT)`. To the index it is an attribute like any other, and the
condition is as fast as one on a number. An operand that is no attribute, as in `substring(code, 1, 3) > 5`, is wrapped
in a CAST.

`cast_search` finds the operands that Spark casts; `x IS NULL` of an array column is replaced likewise.

The casts of a condition depend on its skeleton only, not on its literals, so a skeleton is parsed once. Most conditions
have none, which is known of a conjunction as soon as it is known of its conjuncts: of 10,000 conjunctions with 8,000
skeletons a hundred are parsed. Conditions in other languages than SQL keep the meaning that their language gives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import EventError, ParseError
from palio.events.names import join_path, list_first, split_path
from palio.filters.expressions.ast import (
    Array,
    Attribute,
    Call,
    Expression,
    Literal,
    Span,
    attributes_of,
    bottom_up,
    walk,
)
from palio.filters.expressions.validation import refusal
from palio.filters.filter import Filter
from palio.filters.sql_writer import expression_to_sql, name_to_sql
from palio.languages.sql.parser import parse_condition
from palio.languages.sql.skeletons import LITERAL, split_conjuncts, split_literals
from palio.matching.columnar.split_texts import SplitTexts, chunks
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription, Subscriptions, Want
from palio.spark.argument_checks import warn_caller
from palio.spark.attributes import (
    LOCAL_TARGET,
    MAX_NAMED,
    PRESENCE_TARGET,
    AttributeResolver,
    Path,
    cast_name,
    is_case_sensitive,
    split_cast,
    type_of_target,
)
from palio.spark.cast_search import (
    CastSearch,
    Column,
    ColumnKinds,
    find_compared_object,
    find_misused_value,
    find_other_than_boolean,
)
from palio.spark.element_attributes import ElementAttributes
from palio.spark.integer_widths import narrowed
from palio.spark.local_times import LocalTimes
from palio.spark.qualified_names import qualified_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

TYPE_CONFLICT_WARNING: Final = "Spark refuses by the types of columns"
"""Beginning of the warning, for filters."""
_MAX_INT_DIGITS: Final = 9  # of an integer that is certain to be an INT
_MAX_SKELETONS: Final = 4_096
_MAX_CONFLICTS: Final = 100
_CAST_ATTRIBUTE: Final = re.compile(r"`([^`]+) AS [A-Z0-9_]+`")  # in a condition that was rewritten before
_MAX_SHOWN_CHARACTERS: Final = 200  # of a condition


@dataclass(frozen=True)
class ImplicitCasts:
    """The casts that Spark would put into conditions on columns of these types. It travels to the workers."""

    columns: Mapping[Path, DataType]
    case_sensitive: bool
    _gaps: dict[str, tuple[str, ...] | None] = field(default_factory=dict, init=False, compare=False, repr=False)
    """By skeleton, the text between the literals after rewriting; None where nothing is to be cast."""
    _uncast: set[str] = field(default_factory=set, init=False, compare=False, repr=False)
    """Skeletons of conjuncts in which nothing is to be cast."""
    _checked: set[str] = field(default_factory=set, init=False, compare=False, repr=False)
    """Skeletons of conjuncts whose conflicts are noted."""
    conflicts: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Conditions seen so far that Spark refuses by the types of columns, one of each skeleton, with the reason."""

    @classmethod
    def of(cls, events: DataFrame) -> ImplicitCasts:
        """Those of conditions on the columns of a DataFrame."""
        columns = {path: kind for path, (_, kind) in qualified_columns(events).items()}
        columns |= {(each.name,): each.dataType for each in events.schema.fields}
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

        Costs a microsecond for each subscription; where some have casts, also building the index anew.
        """
        subscriptions = matcher.subscriptions()
        wants = self.apply_to_wants(subscriptions.wants)
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

    def apply_to_wants(self, wants: Sequence[Want]) -> list[Want]:
        """As `apply_to`, for many subscriptions: texts that have nothing to cast cost work by skeleton alone."""
        found = list(wants)
        for start, end in chunks(wants):
            plain = [at for at in range(start, end) if isinstance(wants[at], str)]
            for at in range(start, end) if len(plain) < end - start else ():
                if isinstance(want := wants[at], Subscription):
                    found[at] = self.apply_to(want)
            if plain:
                texts: list[str] = [wants[at] for at in plain]  # type: ignore[misc]
                for place in self._perhaps_cast(SplitTexts(texts, "UTC"), texts):
                    found[plain[place]] = self.apply(texts[place])
        return found

    def _perhaps_cast(self, split: SplitTexts, texts: Sequence[str]) -> Iterator[int]:
        """The places of texts that may have casts: of a skeleton of which that is not known, the first at least."""
        yield from split.unsplit().tolist()
        is_long = split.has_long_number(_MAX_INT_DIGITS)
        for skeleton, lines in split.skeletons(0):
            yield from lines[is_long[lines]].tolist()
            first, *others = lines[~is_long[lines]].tolist() or [None]
            if first is not None and not self._is_uncast(skeleton):
                self.apply(texts[first])  # which remembers what it found out
                if not self._is_uncast(skeleton):
                    yield from (first, *others)

    def _is_uncast(self, skeleton: str) -> bool:
        """Whether conditions of a skeleton are known to have nothing to cast, but for those with a long number."""
        if skeleton in self._gaps:
            return self._gaps[skeleton] is None
        conjuncts = split_conjuncts(skeleton)
        return conjuncts is not None and self._uncast.issuperset(conjuncts)

    def apply(self, text: str, timezone: str = "UTC") -> str:
        """The condition with its casts; the same object where it has none, or cannot be parsed."""
        split = split_literals(text)
        # An integer of many digits may be a BIGINT where others of the skeleton are INTs.
        if split is None or any(len(each) > _MAX_INT_DIGITS and each.isdigit() for each in split[1]):
            return self._rewrite(text, timezone)[0]
        skeleton, literals = split
        if skeleton not in self._gaps:
            if self._is_uncast(skeleton):
                return text
            conjuncts = split_conjuncts(skeleton)
            is_checked = conjuncts is not None and self._checked.issuperset(conjuncts)
            rewritten, is_general = self._rewrite(text, timezone, is_checked)
            pieces = LITERAL.split(rewritten)
            if not is_general or pieces[1::2] != literals:
                return rewritten
            if len(self._gaps) >= _MAX_SKELETONS:
                self._gaps.clear()
            self._gaps[skeleton] = None if rewritten is text else tuple(pieces[::2])
            if conjuncts is not None and len(self._checked) < _MAX_SKELETONS:
                self._checked.update(conjuncts)
            if rewritten is text and conjuncts is not None and len(self._uncast) < _MAX_SKELETONS:
                self._uncast.update(conjuncts)
        gaps = self._gaps.get(skeleton)
        if gaps is None:
            return text
        pieces = [""] * (2 * len(literals) + 1)
        pieces[::2] = gaps
        pieces[1::2] = literals
        return "".join(pieces)

    def _rewrite(self, text: str, timezone: str, is_checked: bool = False) -> tuple[str, bool]:
        """The condition with its casts, and whether all conditions of its skeleton have the same."""
        try:
            expression = parse_condition(text, timezone=timezone)
        except ParseError:  # reported by the parse that follows
            return text, False
        written = expression
        expression = self._elements.replace_in(expression)
        kinds = ColumnKinds(self._column)
        found = CastSearch(kinds)
        found.search(expression)
        if not is_checked:
            self._note_conflict(text, expression, kinds, found)
        # A number within a quoted name is no literal: conditions that differ there read other columns.
        in_names = any(LITERAL.search(node.name) for node in walk(expression) if isinstance(node, Attribute))
        # Nor is a key in brackets, or as an argument: it is a part of a name.
        in_names = in_names or "[" in text or any("'" in each or '"' in each for each in _written_names(text, written))
        is_general = not found.depends_on_literals and not in_names and expression is written
        made = _rebuild(expression, found)
        kinds = ColumnKinds(self._column)
        narrow = narrowed(made, kinds, text)
        made, is_plain = LocalTimes(ColumnKinds(self._column), text).rewrite(narrow, timezone), narrow is made
        is_plain = is_plain and made is narrow
        if not found.has_found and expression is written and is_plain:
            return text, is_general
        edited = _edit(text, expression, found) if expression is written and is_plain else None
        return edited or expression_to_sql(made), is_general

    def _note_conflict(self, text: str, expression: Expression, kinds: ColumnKinds, found: CastSearch) -> None:
        """Note that Spark refuses a condition by the types of its columns, if it does."""
        if len(self.conflicts) >= _MAX_CONFLICTS:
            return
        conflict = refusal(expression, kinds)
        if conflict is not None and found.has_found:  # with its casts it may be fine, a number under LIKE say
            conflict = refusal(_rebuild(expression, found), ColumnKinds(self._column))
        found_conflicts = (
            conflict,
            find_compared_object(expression, kinds),
            self._elements.conflict_in(expression),
            find_misused_value(expression, kinds),
            find_other_than_boolean(expression, kinds),
        )
        conflict = next((each for each in found_conflicts if each is not None), None)
        if conflict is None or refusal(expression) is not None:  # refused without a schema, and reported as that
            return
        part, reason = conflict
        columns = ((name, self._column(name)) for name in sorted(attributes_of(part)))
        types = [f"{name} is {column.declared}" for name, column in columns if column is not None]
        text = _CAST_ATTRIBUTE.sub(r"\1", text)
        shown = text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "…"
        self.conflicts[shown] = "; ".join([", ".join(types), reason])

    def _column(self, attribute: str) -> Column | None:
        *outer, name = split_path(attribute)
        base, target = split_cast(name)
        if target == PRESENCE_TARGET and (*outer, name) not in self.columns:
            return self._column(join_path([*outer, base]))
        try:
            found = self._resolver.declared_type(split_path(attribute))
        except EventError:  # an ambiguous name, which the projection reports
            return None
        return None if found is None else Column.of(*found)

    @cached_property
    def _resolver(self) -> AttributeResolver[Any]:
        given = {path: TypeValues(kind) for path, kind in self.columns.items()}
        return AttributeResolver(given, self.case_sensitive, lambda _: "UTC")

    @cached_property
    def _elements(self) -> ElementAttributes:
        return ElementAttributes(self._resolver)

    def __getstate__(self) -> dict[str, Any]:
        # Without what is only cached.
        return {
            "columns": self.columns,
            "case_sensitive": self.case_sensitive,
            "_gaps": {},
            "_uncast": set(),
            "_checked": set(),
            "conflicts": {},
        }


def warn_about_type_conflicts(casts: ImplicitCasts) -> None:
    """Warn of conditions that Spark refuses by the types of columns; here they are NULL where the types meet."""
    if casts.conflicts:
        warn_caller(type_conflict_message(casts.conflicts))


def type_conflict_message(conflicts: Mapping[str, str]) -> str:
    shown = [f"{condition} ({reason})" for condition, reason in conflicts.items()]
    return f"{TYPE_CONFLICT_WARNING} {list_first(shown, MAX_NAMED)}: NULL here; write CAST(… AS …) to say what is meant"


@dataclass(frozen=True)
class TypeValues:
    """`attributes.Values` that are types alone, for a resolver that only looks up types."""

    kind: DataType

    def field(self, name: str) -> TypeValues:
        return TypeValues(self.kind[name].dataType)  # type: ignore[index]

    def entry(self, key: str) -> TypeValues:
        return TypeValues(self.kind.valueType)  # type: ignore[attr-defined]

    def keys(self) -> TypeValues:
        from pyspark.sql.types import ArrayType

        return TypeValues(ArrayType(self.kind.keyType))  # type: ignore[attr-defined]

    def variant(self, path: str, target: str, zone: str) -> TypeValues:
        return TypeValues(type_of_target(target))

    def element(self, place: int) -> TypeValues:
        return TypeValues(self.kind.elementType)  # type: ignore[attr-defined]

    def map_elements(self, change: Callable[[TypeValues], TypeValues]) -> TypeValues:
        from pyspark.sql.types import ArrayType

        return TypeValues(ArrayType(change(self.element(1)).kind))

    def as_moments(self) -> TypeValues:
        from pyspark.sql.types import ArrayType

        if isinstance(self.kind, ArrayType):
            return self.map_elements(TypeValues.as_moments)
        return TypeValues(type_of_target(LOCAL_TARGET))

    def presence(self) -> TypeValues:
        from pyspark.sql.types import BooleanType

        return TypeValues(BooleanType())

    def try_cast(self, target: str, zone: str) -> TypeValues:
        return TypeValues(type_of_target(target))


def _written_names(text: str, expression: Expression) -> Iterator[str]:
    """The text of every attribute."""
    for node in walk(expression):
        if isinstance(node, Attribute | Array):
            yield text[slice(*node.span)]


def _edit(text: str, expression: Expression, found: CastSearch) -> str | None:
    """The text with attributes replaced where they stand; None where that cannot express all casts."""
    if found.split_betweens or found.split_nullifs:
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


def _rebuild(expression: Expression, found: CastSearch) -> Expression:
    """The expression with its casts."""
    made: dict[int, Expression] = {}

    def argument_of(call: Call, place: int, target: str | None = None) -> Expression:
        argument = call.arguments[place]
        target = target or found.casts.get((id(call), place))
        if isinstance(argument, Attribute) and target is not None:
            return Attribute(cast_name(argument.name, target))
        inner = made.get(id(argument), argument)
        if target is None:
            return inner
        # An expression has no times without a zone: they are moments in the zone of the condition.
        return Call("cast", (inner, Literal("timestamp" if target == "timestamp_ntz" else target)))

    if not found.has_found:
        return expression
    for call in bottom_up(expression):
        arguments = tuple(argument_of(call, place) for place in range(len(call.arguments)))
        made[id(call)] = Call(call.function, arguments, call.span)
        if id(call) in found.split_betweens:
            low, high = found.split_betweens[id(call)]
            made[id(call)] = Call(
                "and",
                (
                    Call(">=", (argument_of(call, 0, low), arguments[1])),
                    Call("<=", (argument_of(call, 0, high), arguments[2])),
                ),
            )
        if id(call) in found.split_nullifs:
            compared = Call("=", (argument_of(call, 0, found.split_nullifs[id(call)]), arguments[1]))
            made[id(call)] = Call("case", (compared, Literal(None), arguments[0]))
    return made.get(id(expression), expression)
