"""Generator of dates, timestamps, intervals and bytes, and arithmetic with them."""

from __future__ import annotations

from tests.oracles.sql_types import (
    BINARY,
    DATE,
    INT,
    MICROS,
    MONEY,
    MONTHS,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    is_integer,
)
from tests.oracles.writing import PRIMARY, PRODUCT, SIGN, SUM, Expr, Writer


class Times(Writer):
    """Dates, moments, intervals; and bytes, of which there is little to say."""

    def _date_function(self, depth: int) -> Expr:
        return self.function(DATE, depth)

    def _date_arithmetic(self, depth: int) -> Expr:
        value = self.argument("safe_day", depth - 1)
        chance = self.random.random()
        if chance < 0.5:
            days = self.small(-3, 6)
        elif chance < 0.75:
            days = self.literal(MONTHS)
        else:
            days = self.constant(f"INTERVAL '{self.random.randint(-3, 40)}' DAY", MICROS)
        if is_integer(days.type):
            days = self.small(0, 400)
        operator = self.random.choice("+-")
        if operator == "+" and not is_integer(days.type) and self.chance(0.3):
            return self.infix("+", SUM, DATE, days, value)
        return self.infix(operator, SUM, DATE, value, days)

    def _date_cast(self, depth: int) -> Expr:
        return self.cast(
            self.time_text() if self.chance(0.4) else self.value(self.random.choice((TIMESTAMP, DATE)), depth - 1),
            DATE,
        )

    def _timestamp_function(self, depth: int) -> Expr:
        return self.function(TIMESTAMP, depth)

    def _timestamp_arithmetic(self, depth: int) -> Expr:
        value = self.argument("safe_moment", depth - 1)
        if value.type != TIMESTAMP:
            value = self.column(TIMESTAMP, "moderate timestamp") or value
        interval = self.value(self.random.choice((MONTHS, MICROS, MICROS)), 0)
        operator = self.random.choice("+-")
        if operator == "+" and self.chance(0.3):
            return self.infix("+", SUM, TIMESTAMP, interval, value)
        return self.infix(operator, SUM, TIMESTAMP, value, interval)

    def _timestamp_cast(self, depth: int) -> Expr:
        chance = self.random.random()
        if chance < 0.4:
            value = self.time_text()
        elif chance < 0.7:
            value = self.value(DATE, depth - 1)
        else:
            value = self.column(self.random.choice((TINYINT, INT, MONEY))) or self.small(0, 9)
        return self.cast(value, TIMESTAMP, "timestamp_ltz" if self.chance(0.1) else None)

    def _binary_function(self, depth: int) -> Expr:
        return self.function(BINARY, depth)

    def _binary_cast(self, depth: int) -> Expr:
        return self.cast(self.value(STRING, depth - 1), BINARY)

    def _time_difference(self, depth: int) -> Expr:
        left = self.value(self.random.choice((DATE, TIMESTAMP)), depth - 1)
        right = self.value(left.type if self.chance(0.7) else self.random.choice((DATE, TIMESTAMP)), depth - 1)
        return self.infix("-", SUM, MICROS, left, right)

    def _interval_arithmetic_months(self, depth: int) -> Expr:
        return self.interval_arithmetic(MONTHS)

    def _interval_arithmetic_micros(self, depth: int) -> Expr:
        return self.interval_arithmetic(MICROS)

    def interval_arithmetic(self, kind: Type) -> Expr:
        left = self.literal(kind)
        chance = self.random.random()
        if chance < 0.3:
            return self.infix(self.random.choice("+-"), SUM, kind, left, self.literal(kind))
        if chance < 0.4:
            return self.made(f"-{self.within(left, PRIMARY)}", kind, SIGN, left)
        number = (
            self.column(self.random.choice((TINYINT, INT, MONEY))) if self.chance(0.7) else self.constant("1.5", MONEY)
        )
        assert number is not None
        return self.infix(self.random.choice(["*", "/"]), PRODUCT, kind, left, number)
