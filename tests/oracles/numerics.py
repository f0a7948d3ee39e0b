"""Generator of numeric expressions: arithmetic, casts, bits, parts of dates."""

from __future__ import annotations

from tests.oracles import sql_types
from tests.oracles.signatures import SIGNATURES
from tests.oracles.sql_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MONEY,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    WIDE,
    decimal_result,
    is_decimal,
    is_exact,
    is_integer,
    wider_integer,
)
from tests.oracles.writing import BIT_AND, BIT_OR, BIT_XOR, PRIMARY, PRODUCT, SIGN, SUM, Expr, Writer

_INTEGER_CASTS = (TINYINT, SMALLINT, INT, BIGINT)
# fmt: off
_FIELDS = {
    DATE: "YEAR YEARS Y QUARTER QTR MONTH MON WEEK W DAY D DAYOFWEEK DOW DAYOFWEEK_ISO DOW_ISO DOY YEAROFWEEK".split(),
    TIMESTAMP: "YEAR MONTH DAY HOUR H MINUTE MINS SECOND S SEC SECONDS WEEK DOY".split(),
}
# fmt: on


class Numbers(Writer):
    """Integers, doubles, floats and decimals."""

    def _integer_arithmetic(self, depth: int) -> Expr:
        left, right = (self.value(self.random.choice((TINYINT, INT, BIGINT)), depth - 1) for _ in range(2))
        if not (is_integer(left.type) and is_integer(right.type)):
            right = self.small(1, 9)
            left = self.value(BIGINT, 0)
        if self.chance(0.12):
            return self.negative(left)
        if self.chance(0.05):
            # A text beside an integer is read as one.
            right = (
                Expr("digits", BIGINT)
                if self.chance(0.5)
                else Expr(f"'{self.random.choice(['1', ' 2 ', 'x', '2.5'])}'", BIGINT, is_constant=True)
            )
        operator = self.random.choice(["+", "+", "-", "*", "%", "DIV"])
        power = SUM if operator in "+-" else PRODUCT
        kind = BIGINT if operator == "DIV" else wider_integer(left.type, right.type)
        return self.infix(self.word(operator), power, kind, left, right)

    def negative(self, value: Expr) -> Expr:
        # "--" begins a comment, and the minus of a number is part of it.
        inner = self.within(value, PRIMARY)
        return self.made(f"-{inner}" if not inner.startswith(("-", "+")) else f"-({inner})", value.type, SIGN, value)

    def _integer_function(self, depth: int) -> Expr:
        return self.function(self.random.choice((INT, INT, BIGINT)), depth)

    def _integer_cast(self, depth: int) -> Expr:
        if self.chance(0.6):
            value = self.value(
                self.random.choice((TINYINT, INT, BIGINT, DOUBLE, MONEY, BOOLEAN, WIDE, FLOAT)), depth - 1
            )
        else:
            value = (
                Expr("digits", STRING)
                if self.chance(0.6)
                else self.value(self.random.choice((STRING, TIMESTAMP)), depth - 1)
            )
        kind = self.random.choice(_INTEGER_CASTS)
        name = {INT: "integer", BIGINT: "long", SMALLINT: "short", TINYINT: "byte"}[kind] if self.chance(0.2) else None
        return self.cast(value, kind, name)

    def _bits(self, depth: int) -> Expr:
        left, right = (self.value(self.random.choice((TINYINT, INT, BIGINT)), depth - 1) for _ in range(2))
        if self.chance(0.2):
            return self.made(f"~{self.within(left, PRIMARY)}", left.type, SIGN, left)
        operator, power = self.random.choice([("&", BIT_AND), ("|", BIT_OR), ("^", BIT_XOR)])
        return self.infix(operator, power, BIGINT, left, right)

    def _extracted(self, depth: int) -> Expr:
        kind = self.random.choice((DATE, TIMESTAMP))
        value = self.value(kind, depth - 1)
        field = self.random.choice(_FIELDS[kind])
        result = sql_types.decimal(8, 6) if field in ("SECOND", "S", "SEC", "SECONDS") else INT
        self.used["extract"] += 1
        if self.chance(0.3):
            return self.made(
                f"{self.random.choice(['date_part', 'datepart', 'extract'])}('{field.lower()}', {value.text})",
                result,
                PRIMARY,
                value,
            )
        return self.made(
            f"{self.word('EXTRACT')}({self.word(field)} {self.word('FROM')} {value.text})",
            result,
            PRIMARY,
            value,
        )

    def _double_arithmetic(self, depth: int) -> Expr:
        left = self.value(DOUBLE, depth - 1)
        right = self.value(self.random.choice((DOUBLE, DOUBLE, INT, BIGINT, MONEY)), depth - 1)
        if self.chance(0.1):
            return self.negative(left)
        if self.chance(0.04):
            right = Expr(f"'{self.random.choice(['1', '2.5', 'x'])}'", DOUBLE, is_constant=True)
        pair = (left, right) if self.chance(0.6) else (right, left)
        operator = self.random.choice(["+", "+", "-", "*", "/", "%"])
        return self.infix(operator, SUM if operator in "+-" else PRODUCT, DOUBLE, *pair)

    def _divided(self, depth: int) -> Expr:
        left, right = (self.value(self.random.choice((TINYINT, INT, BIGINT)), depth - 1) for _ in range(2))
        if not (is_integer(left.type) and is_integer(right.type)):
            return self.infix("/", PRODUCT, DOUBLE, self.value(INT, 0), self.small(0, 9))
        return self.infix("/", PRODUCT, DOUBLE, left, right)

    def _double_function(self, depth: int) -> Expr:
        return self.function(DOUBLE, depth)

    def _double_cast(self, depth: int) -> Expr:
        value = (
            Expr("digits", STRING)
            if self.chance(0.3)
            else self.value(self.random.choice((INT, BIGINT, FLOAT, MONEY, WIDE, BOOLEAN, TIMESTAMP)), depth - 1)
        )
        return self.cast(value, DOUBLE)

    def _float_cast(self, depth: int) -> Expr:
        value = (
            Expr("digits", STRING)
            if self.chance(0.3)
            else self.value(self.random.choice((INT, BIGINT, DOUBLE, MONEY, WIDE)), depth - 1)
        )
        return self.cast(value, FLOAT, "real" if self.chance(0.2) else None)

    def _float_sign(self, depth: int) -> Expr:
        value = self.column(FLOAT)
        assert value is not None
        return self.negative(value) if self.chance(0.5) else self.call("abs", FLOAT, value)

    def _decimal_arithmetic(self, depth: int) -> Expr:
        while True:
            left = self.value(self.random.choice((MONEY, MONEY, WIDE)), depth - 1)
            right = self.value(self.random.choice((MONEY, MONEY, WIDE, TINYINT, INT, BIGINT)), depth - 1)
            if self.chance(0.1):
                return self.negative(left)
            operator = self.random.choice(["+", "+", "-", "*", "%"])
            if not (is_exact(left.type) and is_exact(right.type)) or not (
                is_decimal(left.type) or is_decimal(right.type)
            ):
                continue
            kind = decimal_result(operator, left.type, right.type)
            if kind is not None:
                pair = (left, right) if self.chance(0.7) else (right, left)
                return self.infix(operator, SUM if operator in "+-" else PRODUCT, kind, *pair)

    def _decimal_quotient(self, depth: int) -> Expr:
        """By what has a declared type; elsewhere Palio keeps more digits than Spark, see `test_against_spark.py`."""
        digits = self.random.choice(
            [("3", 1, 0), ("0.7", 1, 1), ("12.5", 3, 1), ("0", 1, 0), ("-9.09", 3, 2), ("640", 3, 0)]
        )
        right = Expr(digits[0], sql_types.decimal(*digits[1:]), is_constant=True)
        if self.chance(0.4):
            right = self.cast(self.value(self.random.choice((INT, MONEY)), depth - 1), sql_types.decimal(8, 3))
        left = self.column(MONEY) if self.chance(0.6) else self.cast(self.value(INT, depth - 1), MONEY)
        assert left is not None
        kind = decimal_result("/", left.type, right.type)
        assert kind is not None
        return self.infix("/", PRODUCT, kind, left, right)

    def _decimal_cast(self, depth: int) -> Expr:
        precision, scale = self.random.choice([(10, 2), (10, 0), (38, 0), (38, 10), (5, 5), (20, 3), (1, 0), (38, 38)])
        value = (
            Expr("digits", STRING)
            if self.chance(0.3)
            else self.value(self.random.choice((INT, BIGINT, DOUBLE, MONEY, WIDE, BOOLEAN)), depth - 1)
        )
        kind = sql_types.decimal(precision, scale)
        name = (
            {(10, 0): "decimal", (10, 2): "dec(10, 2)", (38, 0): "numeric(38)"}.get((precision, scale))
            if self.chance(0.3)
            else None
        )
        return self.cast(value, kind, name)

    def _decimal_function(self, depth: int) -> Expr:
        return self.calling(self.random.choice([each for each in SIGNATURES if is_decimal(each.result)]), depth)
