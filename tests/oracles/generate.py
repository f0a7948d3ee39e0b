"""Random conditions over the whole grammar of docs/language.md, with the type of every part known.

`Generator(seed).condition()` gives the same condition for the same seed, always. Brackets are left out at random
where precedence makes them superfluous, keywords come in any case, constants in every notation.

Never generated, because docs/language.md means it differently from Spark or leaves it open:

- a string *value* compared with, or chosen beside, anything but a string, and LIKE on what is no string;
- `/` on a decimal, and decimals that Spark would round to declared types (`types.decimal_result`,
  `types.compares_exactly`);
- 32-bit floats in anything but comparisons, signs and casts to wider types;
- choices (CASE, COALESCE, …) among values of unlike types;
- bytes that are no UTF-8, cast to a string; texts and decimals in one list that an integer is looked for in;
- dates and moments moved beyond the years 1 and 9999; a time without a date; empty arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from tests.oracles import literals, tables, types
from tests.oracles.literals import word
from tests.oracles.signatures import APPROXIMATE, SIGNATURES, Signature
from tests.oracles.tables import COLUMNS, VALUES, as_single
from tests.oracles.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MICROS,
    MONEY,
    MONTHS,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    WIDE,
    Type,
    compares_exactly,
    decimal_result,
    is_decimal,
    is_exact,
    is_integer,
    is_number,
    wider_integer,
)

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


_COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "!<", "!>", "<=>")
_INTEGER_CASTS = (TINYINT, SMALLINT, INT, BIGINT)
_WORDS = ("a", "A", "ab", "abc", "b", "é", "😀", "10", " ", "%", "_", "\\", "", "World")
_FIELDS = {
    DATE: [
        "YEAR",
        "YEARS",
        "Y",
        "QUARTER",
        "QTR",
        "MONTH",
        "MON",
        "WEEK",
        "W",
        "DAY",
        "D",
        "DAYOFWEEK",
        "DOW",
        "DAYOFWEEK_ISO",
        "DOW_ISO",
        "DOY",
        "YEAROFWEEK",
    ],
    TIMESTAMP: ["YEAR", "MONTH", "DAY", "HOUR", "H", "MINUTE", "MINS", "SECOND", "S", "SEC", "SECONDS", "WEEK", "DOY"],
}


def _is_beyond_long(number: Expr) -> bool:
    """Whether this is a decimal literal outside 64 bits.

    Spark decides by its range alone that an integer is less or greater, and says so of NULL too. That is an error
    of Spark (the rule of DecimalPrecision for integers and decimal literals), which Palio does not copy.
    """
    if not (number.is_constant and is_decimal(number.type) and not number.parts):
        return False
    return not -(2**63) <= Decimal(number.text.rstrip("BbDd")) < 2**63


def _family(kind: Type) -> str:
    if is_integer(kind):
        return "integer"
    return "float" if kind in (FLOAT, DOUBLE) else kind.name


class Generator:
    """Writes random conditions; `used` counts what it wrote, by the name of the production or function."""

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
        return self.made(f" {operator} ".join(texts), kind, power, *parts)

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

    # --- conditions --------------------------------------------------------------------------------------

    def condition(self, depth: int = 3) -> Expr:
        if depth <= 0:
            return self.pick(
                (6, self._compared),
                (1, self._boolean_column),
                (1, self._is_null),
                (2, self._in_list),
                (1, self._like),
                depth=1,
            )
        return self.pick(
            (10, self._compared),
            (3, self._between),
            (4, self._in_list),
            (4, self._like),
            (1.5, self._like_many),
            (2, self._matches),
            (2, self._is_null),
            (2, self._is_distinct),
            (2, self._is_truth),
            (2, self._boolean_column),
            (0.5, self._truth_constant),
            (1, self._cast_to_boolean),
            (5, self._and),
            (5, self._or),
            (3, self._not),
            (3, self._boolean_function),
            (2, self._approximately),
            (1.5, self._chosen_condition),
            (1, self._equal_null),
            (2, self._plain),
            depth=depth,
        )

    def _compared(self, depth: int) -> Expr:
        left, right = self.comparable(depth)
        operator = self.random.choice(_COMPARISONS)
        return self.infix(operator, COMPARISON, BOOLEAN, left, right)

    def _equal_null(self, depth: int) -> Expr:
        return self.call("equal_null", BOOLEAN, *self.comparable(depth - 1))

    def _between(self, depth: int) -> Expr:
        value = self.operand(depth)
        low, high = self.beside(value, depth), self.beside(value, depth)
        text = " ".join(
            [
                self.within(value, COMPARISON + 1),
                *([self.word("NOT")] if self.chance(0.3) else []),
                self.word("BETWEEN"),
                self.within(low, COMPARISON + 1),
                self.word("AND"),
                self.within(high, COMPARISON + 1),
            ]
        )
        return self.made(text, BOOLEAN, PREDICATE, value, low, high)

    def _in_list(self, depth: int) -> Expr:
        value = self.operand(depth)
        items: list[Expr] = []
        for _ in range(self.random.choice([1, 2, 2, 3, 5, 9])):
            item = self.listed(value, min(depth - 1, 1))
            kinds = [value.type, item.type, *(each.type for each in items)]
            # All of a list are brought to one type, which for texts among decimals hangs on their order.
            mixed = is_integer(value.type) and STRING in kinds and any(map(is_decimal, kinds))
            if compares_exactly(*kinds) and not mixed:
                items.append(item)
        items = items or [self.null()]
        if self.chance(0.15):
            items.insert(self.random.randint(0, len(items)), self.null())
        negation = self.word("NOT ") if self.chance(0.3) else ""
        listed = ", ".join(item.text for item in items)
        return self.made(
            f"{self.within(value, COMPARISON + 1)} {negation}{self.word('IN')} ({listed})",
            BOOLEAN,
            PREDICATE,
            value,
            *items,
        )

    def _like(self, depth: int) -> Expr:
        value = self.value(STRING, depth - 1)
        operator = self.word(self.random.choice(["LIKE", "LIKE", "ILIKE"]))
        negation = self.word("NOT ") if self.chance(0.25) else ""
        head = f"{self.within(value, COMPARISON + 1)} {negation}{operator}"
        if self.chance(0.1):
            pattern = self.column(STRING)
            assert pattern is not None
        elif self.chance(0.15):
            escape = self.random.choice(["/", "#", "a", "%", "_"])
            pattern = self.pattern(escape)
            ending = f"{self.word('ESCAPE')} {literals.text(Random(0), escape)}"
            return self.made(f"{head} {pattern.text} {ending}", BOOLEAN, PREDICATE, value, pattern)
        else:
            pattern = self.pattern()
        return self.made(f"{head} {self.within(pattern, COMPARISON + 1)}", BOOLEAN, PREDICATE, value, pattern)

    def _like_many(self, depth: int) -> Expr:
        value = self.value(STRING, depth - 1)
        operator = self.word(self.random.choice(["LIKE", "LIKE", "ILIKE"]))
        quantifier = self.word(self.random.choice(["ANY", "SOME", "ALL"]))
        patterns = [self.pattern() for _ in range(self.random.randint(1, 3))]
        if self.chance(0.08):
            patterns.append(self.null())
        listed = ", ".join(pattern.text for pattern in patterns)
        negation = self.word("NOT ") if self.chance(0.25) else ""
        text = f"{self.within(value, COMPARISON + 1)} {negation}{operator} {quantifier} ({listed})"
        return self.made(text, BOOLEAN, PREDICATE, value, *patterns)

    def _matches(self, depth: int) -> Expr:
        value, regex = self.value(STRING, depth - 1), self.text(self.regex())
        operator = self.word(self.random.choice(["RLIKE", "RLIKE", "REGEXP"]))
        negation = self.word("NOT ") if self.chance(0.25) else ""
        return self.made(
            f"{self.within(value, COMPARISON + 1)} {negation}{operator} {regex.text}", BOOLEAN, PREDICATE, value, regex
        )

    def _is_null(self, depth: int) -> Expr:
        value = self.condition(depth - 1) if self.chance(0.2) else self.operand(depth)
        negation = self.word("NOT ") if self.chance(0.5) else ""
        ending = "UNKNOWN" if value.type == BOOLEAN and self.chance(0.3) else "NULL"
        if self.chance(0.2):
            return self.call(self.random.choice(["isnull", "isnotnull"]), BOOLEAN, value)
        return self.made(
            f"{self.within(value, COMPARISON + 1)} {self.word('IS')} {negation}{self.word(ending)}",
            BOOLEAN,
            PREDICATE,
            value,
        )

    def _is_distinct(self, depth: int) -> Expr:
        left, right = self.comparable(depth)
        negation = self.word("NOT ") if self.chance(0.5) else ""
        words = f"{self.word('IS')} {negation}{self.word('DISTINCT FROM')}"
        text = f"{self.within(left, COMPARISON + 1)} {words} {self.within(right, COMPARISON + 1)}"
        return self.made(text, BOOLEAN, PREDICATE, left, right)

    def _is_truth(self, depth: int) -> Expr:
        inner = self.condition(depth - 1)
        negation = self.word("NOT ") if self.chance(0.5) else ""
        ending = self.word(self.random.choice(["TRUE", "FALSE"]))
        return self.made(
            f"{self.within(inner, COMPARISON + 1)} {self.word('IS')} {negation}{ending}", BOOLEAN, PREDICATE, inner
        )

    def _boolean_column(self, depth: int) -> Expr | None:
        return self.column(BOOLEAN)

    def _truth_constant(self, depth: int) -> Expr:
        return self.null() if self.chance(0.3) else self.literal(BOOLEAN)

    def _cast_to_boolean(self, depth: int) -> Expr:
        return self.cast(self.argument("flagish", depth - 1), BOOLEAN)

    def _and(self, depth: int) -> Expr:
        parts = [self.condition(depth - 1) for _ in range(self.random.choice([2, 2, 3]))]
        return self.infix(self.word("AND"), AND, BOOLEAN, *parts)

    def _or(self, depth: int) -> Expr:
        parts = [self.condition(depth - 1) for _ in range(self.random.choice([2, 2, 3]))]
        return self.infix(self.word("OR"), OR, BOOLEAN, *parts)

    def _not(self, depth: int) -> Expr:
        inner = self.condition(depth - 1)
        # Spark's `!` binds as tightly as NOT, but needs brackets to be read at a glance.
        return self.made(
            f"{self.random.choice([self.word('NOT '), 'NOT ', '! '])}{self.within(inner, NOT)}", BOOLEAN, NOT, inner
        )

    def _boolean_function(self, depth: int) -> Expr:
        return self.function(BOOLEAN, depth)

    def _approximately(self, depth: int) -> Expr:
        value = self.function(APPROXIMATE, depth - 1)
        other = self.constant(
            self.random.choice(["1.23457D", "-7.7777777D", "0.0123457D", "1234.567891D", "1e200", "0.98765"]), DOUBLE
        )
        pair = (value, other) if self.chance(0.7) else (other, value)
        return self.infix(self.random.choice(["<", "<=", ">", ">="]), COMPARISON, BOOLEAN, *pair)

    def _chosen_condition(self, depth: int) -> Expr:
        return self.choice(BOOLEAN, depth)

    def _plain(self, depth: int) -> Expr:
        """The commonest sort of condition in the commonest spelling, for which there are short cuts."""
        random = self.random
        names = [each for each in COLUMNS if "`" not in each.name and (is_number(each.type) or each.type == STRING)]
        parts = []
        for column in random.sample(names, random.choice([1, 1, 2, 3])):
            value = VALUES["int"](random)
            if column.type == STRING or self.chance(0.05):
                text = random.choice(["a", "A", "abc", "é", "a%c", "T", "yes", "NaN", "inf", "a ", "null"])
                part = f"{column.name} = '{text}'"
            elif self.chance(0.25):
                part = f"{column.name} BETWEEN {value} AND {VALUES['int'](random)}"
            else:
                part = f"{column.name} {random.choice(['=', '<', '<=', '>', '>='])} {value}"
            parts.append(self.made(part, BOOLEAN, AND))
        return (
            parts[0] if len(parts) == 1 else self.made(" AND ".join(part.text for part in parts), BOOLEAN, AND, *parts)
        )

    # --- pairs that Spark and Palio compare alike --------------------------------------------------------

    def operand(self, depth: int) -> Expr:
        """Something to compare: of any type, and seldom a constant."""
        kind = self.random.choices(
            (
                TINYINT,
                INT,
                BIGINT,
                FLOAT,
                DOUBLE,
                MONEY,
                WIDE,
                BOOLEAN,
                STRING,
                DATE,
                TIMESTAMP,
                BINARY,
                MONTHS,
                MICROS,
            ),
            (2, 4, 4, 3, 4, 3, 1.5, 1.5, 5, 3, 3, 1, 0.4, 0.8),
        )[0]
        return self.value(kind, depth - 1)

    def comparable(self, depth: int) -> tuple[Expr, Expr]:
        left = self.operand(depth)
        right = self.beside(left, depth)
        return (right, left) if self.chance(0.25) else (left, right)

    def beside(self, value: Expr, depth: int) -> Expr:
        """Something that `value` may be compared with."""
        kind = value.type
        if self.chance(0.03):
            return self.null()
        if kind != STRING and kind not in (BINARY, MONTHS, MICROS) and self.chance(0.12):
            return self.text(self.meeting(kind))
        if is_number(kind):
            return self.number_beside(value, depth)
        if kind in (DATE, TIMESTAMP):
            kind = self.random.choice((kind, kind, DATE, TIMESTAMP))
        return self.value(kind, depth - 1) if self.chance(0.35) else self.literal(kind)

    def listed(self, value: Expr, depth: int) -> Expr:
        """An item of a list: a constant, or something of the same family.

        Spark brings all items to one type by their declared types, and of an item that is NULL Palio knows none.
        """
        while True:
            found = self.beside(value, depth)
            if found.is_constant or _family(found.type) == _family(value.type):
                return found

    def number_beside(self, value: Expr, depth: int) -> Expr:
        kind = value.type
        while True:
            other = self.random.choice((kind, kind, TINYINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, WIDE))
            found = self.value(other, depth - 1) if self.chance(0.35) else self.literal(other)
            if not compares_exactly(kind, found.type):
                continue
            if not (is_integer(kind) and _is_beyond_long(found)) and not (
                is_integer(found.type) and _is_beyond_long(value)
            ):
                return found

    def meeting(self, kind: Type) -> str:
        """A text for a constant that meets a value of another type: often one that reads as such a value."""
        random = self.random
        if self.chance(0.1):
            return random.choice(["", "abc", " ", "1e400", "2024-02-30"])
        if is_number(kind):
            return random.choice([*tables.NUMBER_TEXTS, "9007199254740993", "0.1", "1.5"])
        if kind == BOOLEAN:
            return random.choice(["true", "FALSE", "t", "F", "yes", "No", "y", "n", "1", "0", " true ", "2"])
        return random.choice(tables.TIME_TEXTS)

    # --- values ------------------------------------------------------------------------------------------

    def value(self, kind: Type, depth: int) -> Expr:
        """An expression of a type (of one of its family, where that is computed)."""
        if depth <= 0 or self.chance(0.35):
            column = self.column(kind)
            return column if column is not None and self.chance(0.85) else self.literal(kind)
        if kind == BOOLEAN:
            return self.condition(depth - 1)
        makers: list[tuple[float, Callable[[int], Expr | None]]] = []
        if is_integer(kind):
            makers = [
                (5, self._integer_arithmetic),
                (3, self._integer_function),
                (2, self._integer_cast),
                (1, self._bits),
                (1, self._extracted),
                (2, self._chosen_integer),
            ]
        elif kind == DOUBLE:
            makers = [
                (5, self._double_arithmetic),
                (3, self._double_function),
                (2, self._double_cast),
                (2, self._chosen_double),
                (1, self._divided),
            ]
        elif kind == FLOAT:
            makers = [(1, self._float_cast), (1, self._float_sign), (1, self._chosen_float)]
        elif is_decimal(kind):
            makers = [
                (4, self._decimal_arithmetic),
                (2, self._decimal_cast),
                (2, self._decimal_function),
                (1, self._chosen_money),
            ]
        elif kind == STRING:
            makers = [
                (6, self._string_function),
                (2, self._string_cast),
                (2, self._joined),
                (1.5, self._chosen_string),
                (1.5, self._string_construct),
            ]
        elif kind == DATE:
            makers = [
                (3, self._date_function),
                (2, self._date_arithmetic),
                (2, self._date_cast),
                (1, self._chosen_date),
            ]
        elif kind == TIMESTAMP:
            makers = [
                (3, self._timestamp_function),
                (3, self._timestamp_arithmetic),
                (2, self._timestamp_cast),
                (1, self._chosen_timestamp),
            ]
        elif kind == BINARY:
            makers = [(2, self._binary_function), (1, self._binary_cast), (1, self._chosen_binary)]
        elif kind == MONTHS:
            makers = [(1, self._interval_arithmetic_months)]
        else:
            makers = [(2, self._time_difference), (1, self._interval_arithmetic_micros)]
        return self.pick(*makers, depth=depth)

    def function(self, result: Type, depth: int) -> Expr:
        """The call of a function that gives this type, sooner of one that was called less often."""
        known = [each for each in SIGNATURES if each.result == result]
        some = self.random.sample(known, min(3, len(known)))
        return self.calling(min(some, key=lambda each: self.used[each.name]), depth)

    def calling(self, signature: Signature, depth: int) -> Expr:
        arguments = [self.argument(sort, depth - 1) for sort in signature.arguments]
        return self.call(signature.name, signature.result, *arguments)

    def argument(self, sort: str, depth: int) -> Expr:
        """An argument of a sort that `signatures.py` names."""
        random = self.random
        if sort not in ("nums", "names", "string") and self.chance(0.02):
            return self.null()
        makers: dict[str, Callable[[], Expr]] = {
            "text": lambda: self.value(STRING, depth) if self.chance(0.93) else self.argument("printable", depth),
            "part": lambda: self.text(random.choice(_WORDS)) if self.chance(0.8) else self.value(STRING, 0),
            "string": lambda: self.value(STRING, depth),
            "ascii": lambda: Expr("clock", STRING),
            "bytes": lambda: self.value(BINARY, depth),
            "place": lambda: (
                self.small(-4, 7)
                if self.chance(0.95)
                else self.constant(random.choice(["2147483647", "-2147483648"]), INT)
            ),
            "count": lambda: self.small(-1, 9),
            "short": lambda: self.small(-3, 6),
            "digits": lambda: self.constant(str(random.randint(-3, 4)), INT),
            "code": lambda: self.small(-2, 300) if self.chance(0.6) else self.value(BIGINT, 0),
            "integer": lambda: self.value(random.choice((TINYINT, INT, BIGINT)), depth),
            "int": lambda: self.column(random.choice((TINYINT, INT))) or self.small(-9, 9),
            "bigint": lambda: (
                self.column(BIGINT) if self.chance(0.7) else self.constant(f"{VALUES['bigint'](random)}L", BIGINT)
            ),
            "real": lambda: self.value(DOUBLE, depth),
            "money": lambda: self.column(MONEY) if self.chance(0.8) else self.constant("1.50", MONEY),
            "number": lambda: self.value(random.choice((TINYINT, INT, BIGINT, DOUBLE, MONEY)), depth),
            "date": lambda: self.value(DATE, depth),
            "timestamp": lambda: self.value(TIMESTAMP, depth),
            "day": lambda: (
                self.value(random.choice((DATE, DATE, TIMESTAMP)), depth) if self.chance(0.85) else self.time_text()
            ),
            "moment": lambda: (
                self.value(random.choice((DATE, TIMESTAMP, TIMESTAMP)), depth)
                if self.chance(0.85)
                else self.time_text()
            ),
            "safe_day": lambda: (
                self.column(DATE, "moderate date") if self.chance(0.8) else self.constant("DATE'2024-01-31'", DATE)
            ),
            "safe_moment": lambda: (
                self.column(TIMESTAMP, "moderate timestamp") if self.chance(0.8) else self.column(DATE, "moderate date")
            ),
            "weekday": lambda: self.text(random.choice(["MO", "tue", "Wednesday", "TH", "sunday", "x", "Sa"])),
            "unit": lambda: self.text(
                random.choice(["year", "YY", "yyyy", "quarter", "MONTH", "mon", "mm", "week", "day", "x"])
            ),
            "clock_unit": lambda: self.text(
                random.choice(
                    [
                        "YEAR",
                        "month",
                        "DD",
                        "day",
                        "HOUR",
                        "minute",
                        "second",
                        "week",
                        "quarter",
                        "MILLISECOND",
                        "microsecond",
                        "x",
                    ]
                )
            ),
            "year_number": lambda: (
                self.constant(random.choice(["2024", "1999", "1", "9999", "2023"]), INT)
                if self.chance(0.7)
                else Expr("year(day2)", INT)
            ),
            "month_number": lambda: self.small(0, 13),
            "day_number": lambda: self.small(0, 32),
            "truth": lambda: self.literal(BOOLEAN),
            "nums": lambda: Expr("nums", Type("array")),
            "names": lambda: Expr("names", Type("array")),
            "pattern": self.pattern,
            "regex": lambda: self.text(self.regex()),
            # Up to Java 18, \b knows letters outside ASCII, which \w does not.
            "word_regex": lambda: self.text(random.choice([r"\b", r"\B", r"2\b", r"\b0\w+\b", r"\B1"])),
            "printable": lambda: self.printable(depth),
            "flagish": lambda: self.value(random.choice((BOOLEAN, TINYINT, INT, BIGINT, DOUBLE, MONEY, STRING)), depth),
        }
        return makers[sort]()

    def small(self, low: int, high: int) -> Expr:
        """A small integer, mostly a constant."""
        if self.chance(0.75):
            return self.constant(str(self.random.randint(low, high)), INT)
        return Expr(f"(num % {high + 1})", INT) if self.chance(0.5) else Expr("(tiny % 5)", INT)

    def time_text(self) -> Expr:
        return Expr("clock", STRING) if self.chance(0.6) else self.text(self.random.choice(tables.TIME_TEXTS))

    def printable(self, depth: int) -> Expr:
        """A value that Palio and every Java write alike: not bytes, unless they are a text's."""
        kind = self.random.choice((TINYINT, INT, BIGINT, MONEY, WIDE, BOOLEAN, DATE, TIMESTAMP, DOUBLE, BINARY))
        if kind == DOUBLE:
            return Expr("tame", DOUBLE)
        if kind == BINARY:
            return self.cast(self.value(STRING, depth - 1), BINARY)
        if is_decimal(kind) or kind == BOOLEAN:
            return self.column(kind) or self.literal(kind)
        return self.value(kind, depth)

    def cast(self, value: Expr, kind: Type, name: str | None = None) -> Expr:
        target = self.word((name or kind.sql).upper())
        if self.chance(0.2):
            return self.made(f"{self.within(value, PRIMARY)}::{target}", kind, PRIMARY, value)
        function = self.word(self.random.choice(["CAST", "CAST", "CAST", "TRY_CAST"]))
        return self.made(f"{function}({value.text} {self.word('AS')} {target})", kind, PRIMARY, value)

    # --- numbers -----------------------------------------------------------------------------------------

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
        result = types.decimal(8, 6) if field in ("SECOND", "S", "SEC", "SECONDS") else INT
        self.used["extract"] += 1
        if self.chance(0.3):
            return self.made(
                f"{self.random.choice(['date_part', 'datepart', 'extract'])}('{field.lower()}', {value.text})",
                result,
                PRIMARY,
                value,
            )
        return self.made(
            f"{self.word('EXTRACT')}({self.word(field)} {self.word('FROM')} {value.text})", result, PRIMARY, value
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

    def _decimal_cast(self, depth: int) -> Expr:
        precision, scale = self.random.choice([(10, 2), (10, 0), (38, 0), (38, 10), (5, 5), (20, 3), (1, 0), (38, 38)])
        value = (
            Expr("digits", STRING)
            if self.chance(0.3)
            else self.value(self.random.choice((INT, BIGINT, DOUBLE, MONEY, WIDE, BOOLEAN)), depth - 1)
        )
        kind = types.decimal(precision, scale)
        name = (
            {(10, 0): "decimal", (10, 2): "dec(10, 2)", (38, 0): "numeric(38)"}.get((precision, scale))
            if self.chance(0.3)
            else None
        )
        return self.cast(value, kind, name)

    def _decimal_function(self, depth: int) -> Expr:
        return self.calling(self.random.choice([each for each in SIGNATURES if is_decimal(each.result)]), depth)

    # --- texts -------------------------------------------------------------------------------------------

    def _string_function(self, depth: int) -> Expr:
        return self.function(STRING, depth)

    def _string_cast(self, depth: int) -> Expr:
        return self.cast(self.printable(depth - 1), STRING, "varchar(30)" if self.chance(0.1) else None)

    def _joined(self, depth: int) -> Expr:
        parts = [
            self.value(STRING, depth - 1) if self.chance(0.85) else self.printable(0)
            for _ in range(self.random.randint(2, 3))
        ]
        self.used["||"] += 1
        if all(part.type == BINARY for part in parts):
            parts.append(self.literal(STRING))
        return self.infix("||", SUM, STRING, *parts)

    def _string_construct(self, depth: int) -> Expr:
        value = self.value(STRING, depth - 1)
        place = self.random.choice(["TRIM", "SUBSTRING", "trim"])
        if place == "SUBSTRING":
            start, count = self.small(-3, 4), self.small(-1, 5)
            ending = f" {self.word('FOR')} {count.text}" if self.chance(0.6) else ""
            return self.made(
                f"{self.word(place)}({self.within(value, COMPARISON + 1)} {self.word('FROM')} {start.text}{ending})",
                STRING,
                PRIMARY,
                value,
                start,
            )
        side = self.word(self.random.choice(["BOTH ", "LEADING ", "TRAILING ", ""]))
        part = self.text(self.random.choice(_WORDS)) if self.chance(0.7) or not side else None
        characters = f"{part.text} " if part else ""
        return self.made(
            f"{self.word(place)}({side}{characters}{self.word('FROM')} {self.within(value, COMPARISON + 1)})",
            STRING,
            PRIMARY,
            value,
        )

    def pattern(self, escape: str = "\\") -> Expr:
        """A LIKE pattern: pieces of the tables' strings, with wildcards and escapes."""
        random = self.random
        pieces = []
        for _ in range(random.choice([0, 1, 1, 2, 2, 3, 4])):
            chance = random.random()
            if chance < 0.3:
                pieces.append("%")
            elif chance < 0.45:
                pieces.append("_")
            elif chance < 0.6:
                pieces.append(escape + random.choice(["%", "_", escape]))
            elif chance < 0.61:
                pieces.append(escape)
            else:
                piece = random.choice(
                    ["a", "A", "b", "ab", "aB", "c", "é", "É", "😀", "10", " ", "\n", "ß", "Σ", "İ", "-", "World"]
                )
                pieces.append(piece if escape not in piece else "")
        return self.text("".join(pieces))

    def regex(self, depth: int = 2) -> str:
        """A Java regular expression, now and then one that no linear engine can do."""
        random = self.random
        atoms = [
            "a",
            "b",
            "A",
            "ab",
            ".",
            "\\d",
            "\\w",
            "\\s",
            "\\S",
            "\\W",
            "\\D",
            "[a-c]",
            "[^a]",
            "[a-zA-Z0-9]",
            "\\.",
            "é",
            "😀",
            "[é-ü]",
            " ",
            "\\n",
            "1",
            "[\\w.]",
            "\\x41",
            "\\u0061",
            "\\t",
            "\\p{L}",
            "\\p{Lu}",
            "\\Qa.b\\E",
            "[[a-c]&&[b-z]]",
            "\\p{Alpha}",
            "%",
        ]
        pieces = []
        for _ in range(random.choice([1, 1, 2, 2, 3])):
            chance = random.random()
            if chance < 0.15 and depth:
                pieces.append(f"{random.choice(['(', '(?:', '(?i:'])}{self.regex(depth - 1)})")
            elif chance < 0.25:
                pieces.append(random.choice(["^", "$", "\\A", "\\z", "\\Z"]))
                continue
            else:
                pieces.append(random.choice(atoms))
            if self.chance(0.3):
                pieces.append(random.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?", "??"]))
        whole = "".join(pieces)
        if self.chance(0.15):
            whole = f"{whole}|{self.regex(0)}"
        if depth == 2 and self.chance(0.12):
            whole = random.choice(["(?i)", "(?s)", "(?m)", "(?i)", "(?=a)", "(a)\\1", "a++", "(?<!b)"]) + whole
        return whole

    # --- dates, moments, bytes, intervals ----------------------------------------------------------------

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
            self.time_text() if self.chance(0.4) else self.value(self.random.choice((TIMESTAMP, DATE)), depth - 1), DATE
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

    # --- choices -----------------------------------------------------------------------------------------

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
        name = self.random.choice(
            [
                "coalesce",
                "nvl",
                "ifnull",
                "if",
                "nvl2",
                "nullif",
                "case",
                "case",
                "case value",
                "decode",
                *([] if kind in (BOOLEAN, BINARY) else ["greatest", "least"]),
            ]
        )
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
        return self.case(kind, depth, with_value=name == "case value")

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


__all__ = ["Expr", "Generator", "as_single"]
