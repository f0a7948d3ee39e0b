"""Compiler from expressions to computations on vectors, for columns of known types.

The types of the columns give every part of an expression one kind; a part whose values could differ in kind from row to
row has no vector form, and neither has what is computed from it. Parts are hash-consed: two expressions with `lower(a)`
in them share one part, and a batch computes each part once. A key is a function and the parts that are its operands, so
that no expression is hashed as a whole.

A function has a vector form of its own (`forms`), or it is computed by the scalar evaluator, once per distinct value of
its operand, or per distinct combination of the values of several.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, Micros, bottom_up
from palio.filters.expressions.cast import target_of
from palio.filters.expressions.coercion import Value, ValueType, coerce_text, zone_named
from palio.filters.expressions.extension_functions import WHOLE_EVENT_FUNCTIONS
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.static_analysis import Kinds
from palio.matching.columnar.vectors import (
    ARROW_TYPES,
    Vector,
    combinations,
    distinct,
    kind_of,
    of_constant,
    of_values,
    repeated,
    spread,
)

# Not functions of their arguments' values alone: they read the event, whole arrays, or other clocks.
_UNFIT: Final = WHOLE_EVENT_FUNCTIONS | {
    "condition_in",
    "in_timezone",
    "typeof",
    "array_contains",
    "element_at",
    "exists",
    "forall",
    "get",
    "lambda",
    "size",
    "variable",
}
Operation: TypeAlias = tuple[str, ValueType]
"""A function, and the kind that numbers have in its operands."""
IDENTITY: Final[Operation] = ("", NoneType)
_TEXT_OR_BINARY: Final = frozenset({"concat", "substring", "left", "overlay", "reverse", "lpad", "rpad"})


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A part of an expression: the kind of its values, and how they are computed from those of its operands."""

    kind: ValueType
    """The kind of all its values that are not NULL; NoneType where all are."""
    compute: Callable[..., Vector]
    operands: tuple[Part, ...] = ()
    attribute: str | None = None
    is_constant: bool = False
    value: Value = None
    known: ValueType | None = None
    """The kind that is known from the expression alone, without the types of columns."""
    decimal_type: pa.DataType | None = None
    operation: Operation | None = None
    """What it computes, where a kernel may compute it as well."""

    @property
    def text(self) -> str | None:
        """The text of a string literal."""
        return self.value if self.is_constant and isinstance(self.value, str) else None

    @property
    def has_column(self) -> bool:
        """Whether its values can be a column: intervals and constant decimals are only operands."""
        return self.kind in _MAPPED_KINDS or self.kind is NoneType or (self.kind is Decimal and not self.is_constant)


Form: TypeAlias = Callable[["VectorCompiler", Call, Sequence[Part]], Part | None]


class VectorCompiler:
    """Compiles expressions over columns of some types, with times on the clocks of a time zone."""

    def __init__(self, types: Mapping[str, pa.DataType], timezone: str, forms: Mapping[str, Form]) -> None:
        self.timezone = timezone
        self.zone = zone_named(timezone)
        self._types = dict(types)
        self._forms = forms
        self._kinds = Kinds()
        self._parts: dict[Hashable, Part | None] = {}
        # By identity, because comparing expressions costs a walk; they are kept, so that no other takes their place.
        self._known: dict[int, tuple[Expression, Part | None]] = {}
        self.null = Part(NoneType, lambda: Vector(None))
        """What is NULL in every row though it is no constant: the kinds of columns make it so."""

    def fits(self, types: Mapping[str, pa.DataType], timezone: str) -> bool:
        """Whether it is a compiler for columns of these types."""
        return self.timezone == timezone and self._types == types

    def part(self, expression: Expression) -> Part | None:
        """The computation of an expression; None where it has no vector form."""
        if id(expression) not in self._known:
            for call in bottom_up(expression):
                self._enter(call)
        return self._enter(expression)

    def _enter(self, expression: Expression) -> Part | None:
        found = self._known.get(id(expression))
        if found is None:
            found = self._known[id(expression)] = (expression, self._find(expression))
        return found[1]

    def _find(self, expression: Expression) -> Part | None:
        match expression:
            case Literal(value):
                return self.constant(value) if _has_utf8(value) else None
            case Attribute(name):
                return self._attribute(name)
            case Array():
                return None
        parts: list[Part] = []
        for argument in expression.arguments:
            part = self._enter(argument)
            if part is None:
                return None
            parts.append(part)
        key = (expression.function, *parts)
        if key not in self._parts:
            self._parts[key] = self._call(expression, parts)
        return self._parts[key]

    def constant(self, value: Value, known: ValueType | None = None) -> Part:
        key = ("constant", known or type(value), repr(value))
        part = self._parts.get(key)
        if part is None:
            kind = type(value)
            vector = Vector(None) if value is None else _of_constant(value)
            part = Part(kind, lambda: vector, is_constant=True, value=value, known=known or kind)
            self._parts[key] = part
        return part

    def _attribute(self, name: str) -> Part | None:
        data_type = self._types.get(name)
        if data_type is None:
            kind: ValueType | None = NoneType  # no event has it
        else:
            kind = kind_of(data_type)
        if kind is None:
            return None
        key = ("attribute", name)
        if key not in self._parts:
            decimal_type = data_type if kind is Decimal else None
            if decimal_type is not None and pa.types.is_dictionary(decimal_type):
                decimal_type = decimal_type.value_type
            self._parts[key] = Part(kind, _unloaded, attribute=name, decimal_type=decimal_type)
        return self._parts[key]

    def _call(self, call: Call, parts: Sequence[Part]) -> Part | None:
        if call.function in _UNFIT:
            return None
        known = self._kinds.of(call)
        if all(part.is_constant for part in parts):
            value = compile_expression(call, self.timezone)({}, {})
            return self.constant(value, known) if _has_utf8(value) else None
        form = self._forms.get(call.function)
        made = form(self, call, parts) if form is not None else None
        if made is None:
            made = self._by_distinct_value(call, parts)
        if made is None:
            return None
        # A day plus whole days of an interval is a day where a moment is expected: kinds of such an expression vary.
        if known not in (None, NoneType, made.kind) and made.kind is not NoneType:
            return None
        # Not a constant though it may be one by the types of columns: a string literal is converted to the kind beside
        # it, and a computed string is not.
        if made.known is known and not made.is_constant:
            return made
        return Part(
            made.kind, lambda vector: vector, (made,), known=known, decimal_type=made.decimal_type, operation=IDENTITY
        )

    def derive(
        self,
        name: Hashable,
        kind: ValueType,
        compute: Callable[..., Vector],
        *operands: Part,
        operation: Operation | None = None,
    ) -> Part:
        """A part computed from others, shared by all that ask for it by this name."""
        key = ("derived", name, *operands)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = Part(kind, compute, operands, operation=operation)
        return part

    def strict(
        self,
        name: Hashable,
        kind: ValueType,
        compute: Callable[..., Vector],
        *operands: Part,
        operation: Operation | None = None,
    ) -> Part:
        """A derived part that is NULL where an operand is always NULL."""
        if any(operand.kind is NoneType for operand in operands):
            return self.null
        return self.derive(name, kind, compute, *operands, operation=operation)

    def read_text(self, part: Part, kind: ValueType) -> Part:
        """Strings read as another kind, as `coercion.coerce_text` reads them."""
        if part.text is not None:
            return self.constant(coerce_text(part.text, kind, self.timezone))
        zone = self.timezone

        def read(text: str) -> Value:
            return coerce_text(text, kind, zone)

        simple = _SIMPLE_NUMBERS.get(kind)
        if simple is None:
            return self.mapped(("read", kind), kind, read, part)
        return self.strict(("read", kind), kind, _number_reader(kind, simple, read), part)

    def mapped(
        self,
        name: Hashable,
        kind: ValueType,
        function: Callable[[Any], Value],
        operand: Part,
        data_type: pa.DataType | None = None,
    ) -> Part:
        """A function of one operand, computed once per distinct value; NULL for NULL."""
        return self.strict(
            name,
            kind,
            by_distinct_value(lambda value: None if value is None else function(value), operand.kind, kind, data_type),
            operand,
        )

    def _by_distinct_value(self, call: Call, parts: Sequence[Part]) -> Part | None:
        """A call computed by the scalar evaluator, once per distinct value or combination of values."""
        varying = dict.fromkeys(part for part in parts if not part.is_constant and part.kind is not NoneType)
        result = self._result_of(call, parts)
        if result is None:
            return None
        kind, data_type = result
        names = {part: str(number) for number, part in enumerate(varying)}
        arguments = tuple(Attribute(names[part]) if part in varying else _literal(part) for part in parts)
        run = compile_expression(Call(call.function, arguments), self.timezone)
        if not varying:
            value = run({}, {})
            return self.null if value is None else self.constant(value)
        if len(varying) == 1:
            ((operand, name),) = names.items()
            compute = by_distinct_value(lambda value: run({name: value}, {}), operand.kind, kind, data_type)
        else:
            kinds = [part.kind for part in names]
            compute = by_combination(lambda row: run(row, {}), list(names.values()), kinds, kind, data_type)
        return Part(kind, compute, tuple(names), decimal_type=data_type)

    def _result_of(self, call: Call, parts: Sequence[Part]) -> tuple[ValueType, pa.DataType | None] | None:
        """The kind of a call's values where it is the same for all, and the Arrow type of decimals."""
        kinds = [part.kind for part in parts]
        kind = FUNCTIONS[call.function].result
        match call.function:
            case "cast":
                kind = target_of(str(parts[1].value)).kind
                if kind is Decimal:
                    digits = self._kinds.declared(call)
                    return None if digits is None else (kind, pa.decimal128(digits.precision, digits.scale))
            case "round" | "bround" if kinds[0] in (float, str):
                kind = float
            case function if function in _TEXT_OR_BINARY and bytes not in kinds:
                kind = str
        return (kind, None) if kind is not None and kind in _MAPPED_KINDS else None


def _has_utf8(value: Value) -> bool:
    """Whether Arrow can hold a value: not a string with a lone surrogate."""
    try:
        return not isinstance(value, str) or value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _literal(part: Part) -> Literal:
    assert not isinstance(part.value, tuple)  # an array has no vector form
    return Literal(part.value)


_MAPPED_KINDS: Final[frozenset[ValueType | None]] = frozenset({bool, int, float, str, date, datetime, bytes})


def _of_constant(value: Value) -> Vector:
    """The vector of a constant; one of a decimal or of months is never asked for its values."""
    kind = type(value)
    return of_constant(value, kind) if kind in _MAPPED_KINDS or kind is Micros else Vector(None)


# Numbers that Arrow reads as `text_cast` does: not too long, without blanks, exponents and words.
_SIMPLE_NUMBERS: Final[dict[ValueType, str]] = {int: "^-?[0-9]{1,18}$", float: r"^-?[0-9]{1,17}(\.[0-9]{1,17})?$"}


def _number_reader(kind: ValueType, simple: str, read: Callable[[str], Value]) -> Callable[[Vector], Vector]:
    """Strings as numbers, most of them read by Arrow."""

    def compute(vector: Vector) -> Vector:
        dictionary = vector.dictionary()
        texts = dictionary.dictionary
        is_simple = pc.match_substring_regex(texts, simple)
        numbers = pc.if_else(is_simple, texts, pa.scalar("0", texts.type)).cast(ARROW_TYPES[kind])
        others = np.flatnonzero(~np.asarray(is_simple))
        values, valid = np.array(numbers), np.ones(len(texts) + 1, np.bool_)
        for place in others.tolist():
            value: Any = read(texts[place].as_py())
            valid[place] = value is not None
            values[place] = 0 if value is None else value
        places = np.asarray(dictionary.indices.fill_null(len(texts)))
        valid[-1] = False
        return spread(
            Vector(np.append(values, 0).astype(values.dtype), None if valid[places].all() else valid), places, kind
        )

    return compute


def _unloaded() -> Vector:
    raise AssertionError("a column is loaded by the batch")


def by_distinct_value(
    function: Callable[[Any], Value], kind: ValueType, result: ValueType, data_type: pa.DataType | None = None
) -> Callable[[Vector], Vector]:
    """A function of Python values, NULL among them, as one of vectors."""

    def compute(vector: Vector) -> Vector:
        values, places = distinct(vector, kind)
        return spread(of_values([function(value) for value in values], result, data_type), places, result)

    return compute


def by_combination(
    function: Callable[[dict[str, Any]], Value],
    names: Sequence[str],
    kinds: Sequence[ValueType],
    result: ValueType,
    data_type: pa.DataType | None,
) -> Callable[..., Vector]:
    """A function of several Python values by name, NULL among them, as one of vectors."""

    def compute(*vectors: Vector) -> Vector:
        columns = [distinct(vector, kind) for vector, kind in zip(vectors, kinds, strict=True)]
        found, places = combinations(columns, len(columns[0][1]))
        values = [function(dict(zip(names, row, strict=True))) for row in found]
        return spread(of_values(values, result, data_type), places, result)

    return compute


class Batch:
    """The columns of a batch, and the vectors computed from them, each once."""

    def __init__(self, load: Callable[[str], Vector], count: int) -> None:
        self._load = load
        self._count = count
        self._known: dict[Part, Vector] = {}

    def vector(self, part: Part) -> Vector:
        """The values of a part; with a stack, because expressions may nest deeply."""
        known = self._known
        stack = [part]
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            missing = [operand for operand in top.operands if operand not in known]
            if missing:
                stack += missing
                continue
            with np.errstate(all="ignore"):  # what lies under a NULL may be anything
                if top.attribute is not None:
                    known[top] = self._load(top.attribute)
                else:
                    made = top.compute(*map(known.__getitem__, top.operands))
                    # The types of columns may make a constant of what is none; Arrow's functions take arrays only.
                    known[top] = made if top.is_constant else repeated(made, self._count)
        return known[part]
