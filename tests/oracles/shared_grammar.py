"""Generator of conditions that DuckDB and Spark both accept and mean alike, testable without a JVM.

Integers, doubles, strings, booleans and dates; no decimals beside integers, no backslash in LIKE, no text that is
cast to a number, no letters whose other case is a matter of opinion, no division by what may be zero (DuckDB has
infinities where Spark raises).
"""

from __future__ import annotations

from random import Random

import pyarrow as pa

from tests.oracles import tables
from tests.oracles.generate import Expr, Generator
from tests.oracles.sql_types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, Type
from tests.oracles.tables import VALUES
from tests.oracles.writing import (
    COMPARISON,
    NOT,
    PREDICATE,
    PRIMARY,
    PRODUCT,
    SUM,
)

_COLUMNS = {
    INT: ("num", "num2"),
    BIGINT: ("big", "big2"),
    DOUBLE: ("dbl", "dbl2"),
    BOOLEAN: ("flag", "flag2"),
    STRING: ("str", "str2"),
    DATE: ("day", "day2"),
}
_SORTS = {INT: "int", BIGINT: "bigint", DOUBLE: "double", BOOLEAN: "boolean", DATE: "moderate date"}
_ARROW = {
    INT: pa.int32(),
    BIGINT: pa.int64(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    STRING: pa.string(),
    DATE: pa.date32(),
}
_COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_ODD = frozenset("ßẞΑΣαςİıǆŉﬁ\\\x00\xa0\u2028")
_TEXTS = [text for text in tables.STRINGS if not _ODD & set(text)]


def _text(random: Random) -> str:
    if random.random() < 0.7:
        return random.choice(_TEXTS)
    return "".join(random.choice("aAbB c%_é😀1") for _ in range(random.randint(0, 6)))


def shared_table(random: Random, rows: int) -> pa.Table:
    """A table of the types that both engines have, NULLs in its first row."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int32())}
    for kind, names in _COLUMNS.items():
        make = VALUES[_SORTS[kind]] if kind in _SORTS else _text
        for name in names:
            values = [None, *(None if random.random() < 0.12 else make(random) for _ in range(rows - 1))]
            columns[name] = pa.array(values, _ARROW[kind])
    return pa.table(columns)


class SharedGenerator(Generator):
    """Writes conditions that mean the same in both engines."""

    def condition(self, depth: int = 3) -> Expr:
        if depth <= 0:
            return self.pick((5, self._compared), (1, self._boolean_column), (1, self._in_list), depth=1)
        return self.pick(
            (8, self._compared),
            (3, self._between),
            (3, self._in_list),
            (3, self._like),
            (2, self._is_null),
            (2, self._is_distinct),
            (2, self._is_truth),
            (2, self._boolean_column),
            (0.5, self._truth_constant),
            (5, self._and),
            (5, self._or),
            (3, self._not),
            (1, self._chosen_condition),
            (1, self._contains),
            depth=depth,
        )

    def column(self, kind: Type, sort: str | None = None) -> Expr | None:
        return Expr(self.random.choice(_COLUMNS[kind]), kind)

    def literal(self, kind: Type) -> Expr:
        random = self.random
        if kind == STRING:
            return self.constant("'" + _text(random).replace("'", "''") + "'", kind)
        if kind == DATE:
            return self.constant(f"DATE '{VALUES['moderate date'](random).isoformat()}'", kind)
        if kind == BOOLEAN:
            return super().literal(kind)
        if kind == DOUBLE:
            value = VALUES["double"](random)
            if value != value or value in (float("inf"), float("-inf")):
                return self.constant(f"CAST('{value}' AS DOUBLE)", kind)
            return self.constant(f"{value!r}e0" if "e" not in repr(value) else repr(value), kind)
        return self.constant(str(VALUES["int" if kind == INT else "bigint"](random)), kind)

    def null(self) -> Expr:
        return self.constant("NULL", BOOLEAN)

    def operand(self, depth: int) -> Expr:
        kind = self.random.choices((INT, BIGINT, DOUBLE, BOOLEAN, STRING, DATE), (3, 3, 4, 1, 4, 3))[0]
        return self.value(kind, depth - 1)

    def beside(self, value: Expr, depth: int) -> Expr:
        kind = value.type
        if self.chance(0.03):
            return self.null()
        if kind in (INT, BIGINT, DOUBLE):
            if self.chance(0.03) and kind != DOUBLE:
                return self.constant(f"'{VALUES['int'](self.random)}'", STRING)
            kind = self.random.choice((kind, kind, INT, BIGINT, DOUBLE))
        if kind == DATE and self.chance(0.1):
            return self.constant(f"'{VALUES['moderate date'](self.random).isoformat()}'", STRING)
        return self.value(kind, depth - 1) if self.chance(0.35) else self.literal(kind)

    def bound(self, value: Expr, depth: int) -> Expr:
        # Of the value's own type: DuckDB brings all three to one, Spark compares each pair in its own.
        return self.value(value.type, depth - 1) if self.chance(0.35) else self.literal(value.type)

    def listed(self, value: Expr, depth: int) -> Expr:
        # All of one type: DuckDB has its own way to bring a list to one.
        return self.null() if self.chance(0.03) else self.literal(value.type)

    def _compared(self, depth: int) -> Expr:
        left, right = self.comparable(depth)
        return self.infix(self.random.choice(_COMPARISONS), COMPARISON, BOOLEAN, left, right)

    def _like(self, depth: int) -> Expr:
        value = self.value(STRING, depth - 1)
        pieces = [
            self.random.choice(["%", "%", "_", "a", "A", "b", "ab", "é", "😀", " ", "1"])
            for _ in range(self.random.randint(0, 4))
        ]
        operator = self.random.choice(["LIKE", "LIKE", "ILIKE"])
        negation = "NOT " if self.chance(0.3) else ""
        ending = ""
        if self.chance(0.15):
            pieces.append(self.random.choice(["/%", "/_", "//"]))
            ending = " ESCAPE '/'"
        return self.made(
            f"{self.within(value, SUM)} {negation}{operator} '{''.join(pieces)}'{ending}",
            BOOLEAN,
            PREDICATE,
            value,
        )

    def _is_null(self, depth: int) -> Expr:
        value = self.operand(depth)
        ending = self.random.choice(["IS NULL", "IS NOT NULL"])
        return self.made(f"{self.within(value, SUM)} {ending}", BOOLEAN, PREDICATE, value)

    def _not(self, depth: int) -> Expr:
        inner = self.condition(depth - 1)
        return self.made(f"NOT {self.within(inner, NOT)}", BOOLEAN, NOT, inner)

    def _contains(self, depth: int) -> Expr:
        return self.call("contains", BOOLEAN, self.value(STRING, depth - 1), self.literal(STRING))

    def value(self, kind: Type, depth: int) -> Expr:
        if depth <= 0 or self.chance(0.5):
            column = self.column(kind)
            assert column is not None
            return column if self.chance(0.9) else self.literal(kind)
        if kind == BOOLEAN:
            return self.condition(depth - 1)
        if self.chance(0.2):
            return self.choice(kind, depth - 1)
        return {
            INT: self._whole,
            BIGINT: self._whole,
            DOUBLE: self._real,
            STRING: self._words,
            DATE: self._dates,
        }[kind](depth - 1)

    def _whole(self, depth: int) -> Expr:
        chance = self.random.random()
        if chance < 0.5:
            operator = self.random.choice("+-*%")
            left, right = self.value(BIGINT, depth), self.value(BIGINT, depth)
            return self.infix(operator, SUM if operator in "+-" else PRODUCT, BIGINT, left, right)
        if chance < 0.7:
            value = self.value(STRING, depth)
            return (
                self.call("length", BIGINT, value)
                if chance < 0.6
                else self.call("instr", BIGINT, value, self.literal(STRING))
            )
        if chance < 0.9:
            return self.call(
                self.random.choice(["year", "month", "day", "quarter", "dayofyear", "weekofyear"]),
                BIGINT,
                self.value(DATE, depth),
            )
        return self.made(f"CAST({self.value(BOOLEAN, 0).text} AS INT)", BIGINT, PRIMARY)

    def _real(self, depth: int) -> Expr:
        chance = self.random.random()
        if chance < 0.5:
            operator = self.random.choice("+-*")
            left, right = (
                self.value(DOUBLE, depth),
                self.value(self.random.choice((DOUBLE, INT, BIGINT)), depth),
            )
            return self.infix(operator, SUM if operator in "+-" else PRODUCT, DOUBLE, left, right)
        if chance < 0.7:
            divisor = self.constant(self.random.choice(["2", "3e0", "7", "-0.5e0"]), DOUBLE)
            return self.infix(
                "/", PRODUCT, DOUBLE, self.value(self.random.choice((DOUBLE, INT, BIGINT)), depth), divisor
            )
        if chance < 0.85:
            return self.call("abs", DOUBLE, self.value(DOUBLE, depth))
        inner = self.value(BIGINT, depth)
        return self.made(f"CAST({inner.text} AS DOUBLE)", DOUBLE, PRIMARY, inner)

    def _words(self, depth: int) -> Expr:
        value = self.value(STRING, depth)
        chance = self.random.random()
        if chance < 0.3:
            return self.infix("||", SUM, STRING, value, self.value(STRING, depth))
        if chance < 0.6:
            return self.call(self.random.choice(["upper", "lower", "trim", "ltrim", "rtrim"]), STRING, value)
        if chance < 0.75:
            return self.call(
                "substring",
                STRING,
                value,
                self.constant(str(self.random.randint(1, 4)), INT),
                self.constant(str(self.random.randint(0, 5)), INT),
            )
        if chance < 0.85:
            return self.call(
                self.random.choice(["left", "right", "repeat"]),
                STRING,
                value,
                self.constant(str(self.random.randint(0, 4)), INT),
            )
        if chance < 0.93:
            return self.call("replace", STRING, value, self.constant("'a'", STRING), self.literal(STRING))
        inner = self.value(self.random.choice((INT, BIGINT, DATE)), 0)
        return self.made(f"CAST({inner.text} AS STRING)", STRING, PRIMARY, inner)

    def _dates(self, depth: int) -> Expr:
        value = self.value(DATE, 0)
        if self.chance(0.6):
            return self.infix(
                self.random.choice("+-"),
                SUM,
                DATE,
                value,
                self.constant(str(self.random.randint(0, 400)), INT),
            )
        return self.call("last_day", DATE, value)

    def choice(self, kind: Type, depth: int) -> Expr:
        chance = self.random.random()
        parts = [self.value(kind, depth) for _ in range(2)]
        if chance < 0.4:
            names = ["coalesce", "ifnull", "nullif", *([] if kind == BOOLEAN else ["greatest", "least"])]
            return self.call(self.random.choice(names), kind, *parts)
        when = self.condition(depth - 1)
        if chance < 0.5:
            return self.call("if", kind, when, *parts)
        return self.made(
            f"CASE WHEN {when.text} THEN {parts[0].text} ELSE {parts[1].text} END",
            kind,
            PRIMARY,
            when,
            *parts,
        )
