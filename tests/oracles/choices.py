"""Generator of choices among values of one type."""

from __future__ import annotations

from tests.oracles.sql_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    MONEY,
    STRING,
    TIMESTAMP,
    Type,
    is_integer,
)
from tests.oracles.writing import PRIMARY, SIGN, Expr, Writer

_CHOICES = "coalesce nvl ifnull if nvl2 nullif case case case_of decode".split()


class Choices(Writer):
    """COALESCE, IF, CASE and their like."""

    def _chosen_integer(self, depth: int) -> Expr:
        return self.choice(BIGINT, depth)

    def _chosen_double(self, depth: int) -> Expr:
        return self.choice(DOUBLE, depth)

    def _chosen_float(self, depth: int) -> Expr:
        return self.choice(FLOAT, 0)

    def _chosen_money(self, depth: int) -> Expr:
        return self.choice(MONEY, 0)

    def _chosen_string(self, depth: int) -> Expr:
        return self.choice(STRING, depth)

    def _chosen_date(self, depth: int) -> Expr:
        return self.choice(DATE, depth)

    def _chosen_timestamp(self, depth: int) -> Expr:
        return self.choice(TIMESTAMP, depth)

    def _chosen_binary(self, depth: int) -> Expr:
        return self.choice(BINARY, 0)

    def branch(self, kind: Type, depth: int) -> Expr:
        """One of the values that are chosen among: all of one type, or one family of integers."""
        if self.chance(0.06):
            return self.null()
        if kind == MONEY:
            return self.column(MONEY) or self.literal(MONEY)
        found = self.value(kind, depth - 1)
        while found.type != kind and not (is_integer(found.type) and is_integer(kind)):
            found = self.value(kind, 0)
        return found

    def choice(self, kind: Type, depth: int) -> Expr:
        """COALESCE, IF, CASE and the like among values of one type."""
        orderable = [] if kind in (BOOLEAN, BINARY) else ["greatest", "least"]
        name = self.random.choice([*_CHOICES, *orderable])
        self.used[name] += 1
        if name in ("coalesce", "greatest", "least"):
            return self.call(name, kind, *(self.branch(kind, depth) for _ in range(self.random.randint(2, 3))))
        if name in ("nvl", "ifnull", "nullif"):
            first = self.branch(kind, depth)
            return self.call(name, kind, first, self.branch(kind, depth))
        if name == "if":
            return self.call(name, kind, self.condition(depth - 1), self.branch(kind, depth), self.branch(kind, depth))
        if name == "nvl2":
            return self.call(name, kind, self.operand(depth - 1), self.branch(kind, depth), self.branch(kind, depth))
        if name == "decode":
            value = self.operand(depth - 1)
            pairs = [
                part
                for _ in range(self.random.randint(1, 2))
                for part in (self.beside(value, 0), self.branch(kind, depth))
            ]
            last = [self.branch(kind, depth)] if self.chance(0.6) else []
            return self.call(name, kind, value, *pairs, *last)
        return self.case(kind, depth, with_value=name == "case_of")

    def case(self, kind: Type, depth: int, *, with_value: bool) -> Expr:
        value = self.operand(depth - 1) if with_value else None
        parts: list[Expr] = [] if value is None else [value]
        # With a sign behind it, Palio takes CASE for a name.
        text = [self.word("CASE"), *([] if value is None else [self.within(value, SIGN + 1)])]
        for _ in range(self.random.randint(1, 2)):
            when = self.condition(depth - 1) if value is None else self.beside(value, 0)
            then = self.branch(kind, depth)
            parts += [when, then]
            text += [self.word("WHEN"), when.text, self.word("THEN"), then.text]
        if self.chance(0.6):
            last = self.branch(kind, depth)
            parts.append(last)
            text += [self.word("ELSE"), last.text]
        return self.made(" ".join([*text, self.word("END")]), kind, PRIMARY, *parts)
