"""Generated SQL: its text, type, binding and constituents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.oracles import literals, tables
from tests.oracles.literals import word
from tests.oracles.sql_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MICROS,
    MONTHS,
    STRING,
    TIMESTAMP,
    TINYINT,
    WIDE,
    Type,
    is_decimal,
)
from tests.oracles.tables import COLUMNS, VALUES

# How tightly Spark's operators bind.
OR, AND, NOT, PREDICATE, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SUM, PRODUCT, SIGN, PRIMARY = range(1, 13)


@dataclass(frozen=True, slots=True)
class Expr:
    """A piece of SQL, its type, how tightly it binds, and the pieces it is made of."""

    text: str
    type: Type
    power: int = PRIMARY
    parts: tuple[Expr, ...] = ()
    is_constant: bool = False

    def conditions(self) -> list[Expr]:
        """All conditions in it, the smallest first: what a failure is narrowed down to."""
        found = [inner for part in self.parts for inner in part.conditions()]
        if self.type == BOOLEAN and not self.is_constant:
            found.append(self)
        return sorted(set(found), key=lambda each: len(each.text))


class Writer:
    """Writes pieces of SQL; `used` counts what it wrote, by the name of the production or function."""

    def __init__(self, seed: int | str, zone: str = "UTC") -> None:
        self.random = Random(seed)
        self.zone = zone
        self.used: Counter[str] = Counter()

    # --- choosing ------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *weighted: tuple[float, Callable[[int], Expr | None]], depth: int) -> Expr:
        """What one of several productions makes; one that finds nothing to make says None."""
        weights = [weight for weight, _ in weighted]
        while True:
            (_, produce), *_ = self.random.choices(weighted, weights)
            if (found := produce(depth)) is not None:
                self.used[produce.__name__.strip("_")] += 1
                return found

    def word(self, text: str) -> str:
        return word(self.random, text)

    def within(self, part: Expr, power: int) -> str:
        """The text of an operand where something that binds so tightly is expected."""
        if part.power < power or (part.power < PRIMARY and self.chance(0.3)) or self.chance(0.02):
            return f"({part.text})"
        return part.text

    def infix(self, operator: str, power: int, kind: Type, *parts: Expr) -> Expr:
        """A chain of one operator; what stands to its right must bind more tightly, except for AND and OR."""
        inner = power if power in (OR, AND) else power + 1
        # Spark's comparisons do not chain.
        first = power + 1 if power == COMPARISON else power
        texts = [self.within(part, inner if place else first) for place, part in enumerate(parts)]
        return self.made(f"{self.gap()}{operator}{self.gap()}".join(texts), kind, power, *parts)

    def gap(self) -> str:
        """What stands between two words: nearly always a blank."""
        return " " if self.chance(0.97) else self.random.choice(["\n", "\t ", " /* it's */ ", " -- ' )\n", "  "])

    def call(self, name: str, kind: Type, *parts: Expr) -> Expr:
        self.used[name] += 1
        gap = ", " if self.chance(0.9) else ","
        return self.made(
            f"{self.word(name) if self.chance(0.1) else name}({gap.join(part.text for part in parts)})",
            kind,
            PRIMARY,
            *parts,
        )

    def made(self, text: str, kind: Type, power: int, *parts: Expr) -> Expr:
        return Expr(text, kind, power, parts, bool(parts) and all(part.is_constant for part in parts))

    # --- columns and constants ---------------------------------------------------------------------------

    def column(self, kind: Type, sort: str | None = None) -> Expr | None:
        found = [each for each in COLUMNS if each.type == kind and (sort is None or each.sort == sort)]
        if not found:
            return None
        name = self.random.choice(found).name
        if "`" not in name and self.chance(0.05):
            name = ".".join(f"`{part}`" for part in name.split("."))
        return Expr(name, kind)

    def constant(self, text: str, kind: Type) -> Expr:
        return Expr(text, kind, SIGN if text.startswith(("-", "+")) else PRIMARY, (), True)

    def literal(self, kind: Type) -> Expr:
        """A constant of a type, mostly a value that the tables have too."""
        random = self.random
        if kind == BOOLEAN:
            return self.constant(self.word(random.choice(["TRUE", "FALSE"])), kind)
        if kind == STRING:
            return self.text(VALUES["string"](random))
        if kind == DATE:
            return self.constant(literals.day(random, random.choice(tables.DATES)), kind)
        if kind == TIMESTAMP:
            return self.constant(literals.moment(random, random.choice(tables.TIMESTAMPS), self.zone), kind)
        if kind == BINARY:
            return self.constant(literals.binary(random, random.choice(tables.BINARIES)), kind)
        if kind == MONTHS:
            return self.constant(literals.months(random), kind)
        if kind == MICROS:
            return self.constant(literals.micros(random), kind)
        return self.constant(*self.number(kind))

    def number(self, kind: Type) -> tuple[str, Type]:
        random = self.random
        if kind == DOUBLE:
            return literals.real(random, VALUES["double"](random))
        if kind == FLOAT:
            return literals.single(random, VALUES["float"](random))
        if kind == WIDE:
            return f"{int(VALUES['wide'](random))}BD", WIDE
        if is_decimal(kind):
            return literals.exact(random, VALUES["money"](random))
        return literals.integer(
            random, VALUES["tinyint" if kind == TINYINT else "int" if kind == INT else "bigint"](random)
        )

    def text(self, value: str) -> Expr:
        return self.constant(literals.text(self.random, value), STRING)

    def null(self) -> Expr:
        return self.constant(self.word("NULL"), BOOLEAN)
