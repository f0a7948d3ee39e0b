"""Search for implicit casts: the operands of a condition that Spark's analyzer casts on typed columns (ANSI mode).

Found by reading Spark's analyzed plans:

- Both sides of a comparison, IN, BETWEEN and the comparison within `nullif`: a string is cast to the type beside it.
- The values among which `coalesce`, `if`, CASE, `nvl2`, `greatest` and `least` choose: all are cast to one type, found
  from left to right with the strings first. It shows where a value is used as text: `coalesce(i, 2.5)` is '5.0' for 5.
- A string where a condition should stand (`active AND …`); a value that is no string under LIKE and its relatives.
- A 32-bit float that is used as text, whose digits are fewer than those of the same number with 64 bits.

Arithmetic and other functions convert their arguments themselves, here as in Spark. `x IS NULL` of an array column
tests the array, not its elements, and is found likewise, as a pseudo-cast to its presence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Final

from palio.events.values import MAX_DECIMAL_DIGITS
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, bottom_up
from palio.filters.expressions.coercion import KIND_NAMES, NUMBERS, ValueType, widest
from palio.filters.expressions.functions import FUNCTIONS, RUN, TEXT
from palio.filters.expressions.static_analysis import Kinds, branch_places
from palio.spark.attributes import PRESENCE_TARGET

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_COMPARISONS: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>"})
_LOGIC: Final = frozenset({"and", "or", "not", "istrue", "isfalse"})
_TEXT_OR_BINARY: Final = frozenset({"startswith", "endswith", "contains"})
_PATTERNS: Final = _TEXT_OR_BINARY | {"like", "ilike", "rlike"}
_OF_SCALARS: Final = _COMPARISONS | _LOGIC | _PATTERNS | {"between", "in"}
_EXTREMES: Final = frozenset({"greatest", "least"})
_TARGETS: Final[Mapping[ValueType, str]] = {
    bool: "boolean",
    int: "bigint",
    # Beside a string; among numbers there is a rule of its own.
    Decimal: "double",
    float: "double",
    date: "date",
    datetime: "timestamp",
    bytes: "binary",
}
_NULL_TESTS: Final = ("isnull", "isnotnull")
_OPAQUE_HINT: Final = "conditions cannot read this type; add a column of another type to the events"
_OPAQUE_HINTS: Final = {
    "VARIANT": "a VARIANT is read as a type: v:path::int",
    "TIME": "conditions cannot read a TIME; add a column to the events, its text CAST(t AS STRING) say",
    "INTERVAL": "conditions cannot read an INTERVAL; add a column to the events, its seconds say: "
    "extract(DAY FROM i) * 86400 + …",
}
"""What to write instead of a value of a type that events do not have."""
_INTEGER_BITS: Final = {"ByteType": 8, "ShortType": 16, "IntegerType": 32, "LongType": 64}
_BIGINT_DIGITS: Final = 20  # of a bigint among decimals

Place = tuple[int, int]  # identity of a call, and the number of one of its arguments


@dataclass(frozen=True, slots=True)
class Column:
    """What the analyzer knows of a column, or of the elements of an array."""

    kind: ValueType | None
    target: str | None
    """The type to which a string is cast that is compared with it."""
    is_array: bool
    """Whether `IS NULL` asks for an array as a whole."""
    declared: str
    """Its type, for messages."""
    digits: tuple[int, int] = (0, 0)
    """Precision and scale of a decimal."""
    is_single: bool = False
    """Whether it has floats of 32 bits."""
    is_object: bool = False
    """Whether it has structs or maps."""
    bits: int = 0
    """The width of integers; 0 of all others."""
    is_local: bool = False
    """Whether it has times without a zone."""
    is_scalar: bool = False
    """Whether it has one value in every row, and no array or object around it."""

    @property
    def is_opaque(self) -> bool:
        """Whether conditions can only ask whether it is NULL."""
        return self.kind is None and not self.is_object

    @classmethod
    def of(cls, declared: DataType, is_within_objects: bool) -> Column:
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
            (types.NullType, NoneType),
        ]
        kind = next((kind for type, kind in kinds if isinstance(element, type)), None)
        target = None if kind is None else _TARGETS.get(kind)
        if isinstance(element, types.TimestampNTZType):
            target = "timestamp_ntz"
        return cls(
            kind,
            target,
            isinstance(declared, types.ArrayType) and not is_within_objects,
            declared.simpleString().upper(),
            (element.precision, element.scale) if isinstance(element, types.DecimalType) else (0, 0),
            isinstance(element, types.FloatType),
            isinstance(element, types.StructType | types.MapType),
            _INTEGER_BITS.get(type(element).__name__, 0),
            isinstance(element, types.TimestampNTZType),
            kind not in (None, NoneType) and element is declared and not is_within_objects,
        )


class ColumnKinds(Kinds):
    """Kinds of expressions where the types of attributes are known."""

    def __init__(self, column: Callable[[str], Column | None]) -> None:
        super().__init__()
        self._column = column
        self._columns: dict[str, Column | None] = {}

    def column(self, attribute: str) -> Column | None:
        if attribute not in self._columns:
            self._columns[attribute] = self._column(attribute)
        return self._columns[attribute]

    def column_of(self, expression: Expression) -> Column | None:
        """The column that an expression is, or whose elements a variable stands for."""
        match expression:
            case Attribute(name) | Call("variable", (_, Array(name))):
                return self.column(name)
        return None

    def of(self, expression: Expression) -> ValueType | None:
        column = self.column_of(expression)
        if column is not None or isinstance(expression, Attribute):
            return None if column is None else column.kind
        return super().of(expression)

    def target_beside(self, expression: Expression) -> str | None:
        """The type to which a string is cast that is compared with an expression."""
        column = self.column_of(expression)
        return _TARGETS.get(self.of(expression) or NoneType) if column is None else column.target

    def is_single(self, expression: Expression) -> bool:
        """Whether a column has floats of 32 bits."""
        column = self.column_of(expression)
        return column is not None and column.is_single


def find_compared_object(expression: Expression, kinds: ColumnKinds) -> tuple[Expression, str] | None:
    """A part of a condition that uses a value no event has, and the reason why it cannot; None without.

    Those are structs and maps as a whole where they are compared, and all values of types such as TIME.
    """
    for call in bottom_up(expression):
        if call.function in _NULL_TESTS or Literal(None) in call.arguments:
            continue
        for argument in call.arguments:
            column = kinds.column_of(argument)
            if column is not None and column.is_opaque:
                return call, _OPAQUE_HINTS.get(column.declared.partition(" ")[0].partition("(")[0], _OPAQUE_HINT)
            if call.function not in _OF_SCALARS:
                continue
            if column is not None and column.is_object:
                return call, f"{call.function} takes a value, not a whole struct or map"
    return None


def find_misused_value(expression: Expression, kinds: ColumnKinds) -> tuple[Expression, str] | None:
    """A part of a condition whose arguments are of other types than it takes, and the reason; None without.

    Those are columns of single values where an array is taken, values that no array of their type has, and conditions
    of CASE that are neither true nor false.
    """
    for call in bottom_up(expression):
        function = None if call.function == "variable" else FUNCTIONS.get(call.function)  # that of a lambda
        for place, argument in enumerate(call.arguments):
            column = kinds.column(argument.name) if isinstance(argument, Array | Attribute) else None
            if function is not None and function.parameter(place).kind is tuple and column and column.is_scalar:
                return call, f"{call.function}() takes an array"
        if call.function == "array_contains":
            array, value = call.arguments
            listed = kinds.column(array.name) if isinstance(array, Array) else None
            pair = frozenset(() if listed is None else (listed.kind, kinds.of(value))) - {None, NoneType}
            if pair and (widest(pair) is None or (len(pair) == 2 and str in pair)):
                return call, "array_contains() takes a value of the type that the elements have"
        if call.function == "case":
            for place in range(0, len(call.arguments) - 1, 2):
                kind = kinds.of(call.arguments[place])
                if kind not in (None, NoneType, bool, str):
                    return call, f"WHEN takes a boolean, not {KIND_NAMES[kind]}"
    return None


def find_other_than_boolean(expression: Expression, kinds: ColumnKinds) -> tuple[Expression, str] | None:
    """A condition that is a column of another type than boolean, and the reason why it is none; None for others.

    Spark casts a string beside AND, OR and NOT, but not one that is the whole condition.
    """
    column = kinds.column(expression.name) if isinstance(expression, Attribute) else None
    if column is None or (column.kind in (None, NoneType, bool) and not column.is_object):
        return None
    return expression, "a condition is true or false"


class CastSearch:
    """Finds the operands of a condition that Spark casts."""

    def __init__(self, kinds: ColumnKinds) -> None:
        self._kinds = kinds
        self.casts: dict[Place, str] = {}
        self.split_betweens: dict[int, tuple[str | None, str | None]] = {}
        """Of a BETWEEN whose bounds are of two types, the casts of its value for either."""
        self.split_nullifs: dict[int, str] = {}
        """Of a `nullif` that compares a cast of its value and returns the value itself, that cast."""
        self.depends_on_literals = False

    @property
    def has_found(self) -> bool:
        return bool(self.casts or self.split_betweens or self.split_nullifs)

    def search(self, expression: Expression) -> None:
        # A string attribute alone is no condition in Spark either, and has no call here.
        for call in bottom_up(expression):
            self._kinds.of(call)  # inner ones first, to bound the recursion
            if call.function in _COMPARISONS:
                self._comparison(call)
            elif call.function == "nullif":
                self._nullif(call)
            elif call.function == "between":
                self._between(call)
            elif call.function == "in":
                self._in(call)
            elif call.function in _LOGIC:
                self._cast_strings(call, range(len(call.arguments)), "boolean")
            elif call.function in _PATTERNS:
                self._pattern(call)
            elif call.function in ("isnull", "isnotnull"):
                self._null_test(call)
            else:
                self._choice(call)
                self._texts_of_singles(call)

    def _cast(self, call: Call, place: int, target: str | None) -> None:
        # A string literal is converted by the comparison itself, unless to binary.
        if target is not None and (target == "binary" or not isinstance(call.arguments[place], Literal)):
            self.casts[id(call), place] = target

    def _cast_strings(self, call: Call, places: Iterable[int], target: str) -> None:
        for place in places:
            argument = call.arguments[place]
            if isinstance(argument, Attribute) and self._kinds.of(argument) is str:
                self._cast(call, place, target)

    def _comparison(self, call: Call) -> None:
        left, right = call.arguments
        if Literal(None) in (left, right):
            if call.function == "<=>":
                self._null_test(call)
            return
        if self._kinds.of(left) is str:
            self._cast(call, 0, self._target(right))
        elif self._kinds.of(right) is str:
            self._cast(call, 1, self._target(left))

    def _nullif(self, call: Call) -> None:
        value, other = call.arguments
        if self._kinds.of(value) is str:
            target = self._target(other)
            if target is not None:
                self.split_nullifs[id(call)] = target
        elif self._kinds.of(other) is str:
            self._cast(call, 1, self._target(value))

    def _target(self, other: Expression) -> str | None:
        """The type to which a string is cast beside another expression; None where it stays a string."""
        return None if self._kinds.of(other) in (str, None) else self._kinds.target_beside(other)

    def _between(self, call: Call) -> None:
        value, low, high = call.arguments
        if self._kinds.of(value) is not str:
            for place, bound in ((1, low), (2, high)):
                if self._kinds.of(bound) is str:
                    self._cast(call, place, self._target(value))
            return
        targets = self._target(low), self._target(high)
        if targets[0] == targets[1]:
            self._cast(call, 0, targets[0])
        else:
            self.split_betweens[id(call)] = targets

    def _in(self, call: Call) -> None:
        kinds = [self._kinds.of(argument) for argument in call.arguments]
        if str not in kinds:
            return
        target = self._common_type(call.arguments)
        for place, kind in enumerate(kinds):
            if kind is str:
                self._cast(call, place, target)

    def _choice(self, call: Call) -> None:
        if call.function in ("case", "if"):
            self._cast_strings(call, range(0, len(call.arguments) - 1, 2), "boolean")
        places = branch_places(call)
        chosen = [call.arguments[place] for place in places]
        kinds = [self._kinds.of(argument) for argument in chosen]
        target = self._common_type(chosen)
        if target is None or (call.function in _EXTREMES and str in kinds):  # Spark refuses it
            return
        digits = {self._decimal_digits(argument)[1] for argument in chosen if self._kinds.of(argument) is Decimal}
        for place, kind in zip(places, kinds, strict=True):
            is_same = target == _TARGETS.get(kind or NoneType) or (kind is datetime and target.startswith("timestamp"))
            if kind is Decimal:
                is_same = target.startswith("decimal") and len(digits) == 1
            if kind is not NoneType and not is_same:
                self.casts[id(call), place] = target

    def _common_type(self, arguments: Iterable[Expression]) -> str | None:
        """Spark's common type of values: found from left to right, strings first; None where all are strings."""
        kinds = [(argument, self._kinds.of(argument)) for argument in arguments]
        has_text = any(kind is str for _, kind in kinds)
        others = [(argument, kind) for argument, kind in kinds if kind not in (str, NoneType)]
        distinct = {kind for _, kind in others}
        if not others or None in distinct:
            return None
        if distinct <= NUMBERS:
            if float in distinct or (has_text and others[0][1] is Decimal):
                return "double"
            return "bigint" if distinct == {int} else self._common_decimal(argument for argument, _ in others)
        if distinct == {date, datetime} or len(distinct) == 1:
            targets = {self._kinds.target_beside(argument) for argument, _ in others} - {"date"}
            return "date" if not targets else targets.pop() if len(targets) == 1 else "timestamp"
        return None  # Spark refuses it

    def _common_decimal(self, arguments: Iterable[Expression]) -> str:
        # A string becomes a bigint with the first integer, and that a decimal with the first decimal.
        digits = [self._decimal_digits(argument) for argument in arguments]
        has_integer = (0, 0) in digits
        scale = max(scale for _, scale in digits)
        whole = max(_BIGINT_DIGITS if has_integer else 0, *(precision - scale for precision, scale in digits))
        return f"decimal({min(whole + scale, MAX_DECIMAL_DIGITS)},{scale})"

    def _decimal_digits(self, argument: Expression) -> tuple[int, int]:
        """Precision and scale of a decimal; 0 and 0 of an integer."""
        if self._kinds.of(argument) is not Decimal:
            return 0, 0
        if (column := self._kinds.column_of(argument)) is not None:
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

    def _texts_of_singles(self, call: Call) -> None:
        function = FUNCTIONS.get(call.function)
        for place, argument in enumerate(call.arguments):
            is_text = function is not None and function.parameter(place) in (TEXT, RUN)
            if (is_text or call.arguments[1:] == (Literal("string"),)) and self._kinds.is_single(argument):
                self._cast(call, place, "string")

    def _null_test(self, call: Call) -> None:
        for place, argument in enumerate(call.arguments):
            column = self._kinds.column(argument.name) if isinstance(argument, Attribute) else None
            if column is not None and (column.is_array or column.is_opaque):
                self._cast(call, place, PRESENCE_TARGET)
