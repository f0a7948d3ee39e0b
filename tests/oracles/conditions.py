"""Generator of conditions: comparisons, predicates and logic over values that Spark and Palio compare alike."""

from __future__ import annotations

from decimal import Decimal
from random import Random

from tests.oracles import literals, tables
from tests.oracles.signatures import APPROXIMATE
from tests.oracles.sql_types import (
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
    STRING,
    TIMESTAMP,
    TINYINT,
    WIDE,
    Type,
    compares_exactly,
    is_decimal,
    is_integer,
    is_number,
)
from tests.oracles.tables import COLUMNS, VALUES
from tests.oracles.writing import AND, COMPARISON, NOT, OR, PREDICATE, Expr, Writer

# fmt: off
_COMPARISONS = "= == <> != < <= > >= !< !> <=>".split()
_KINDS = {
    TINYINT: 2.0, INT: 4, BIGINT: 4, FLOAT: 3, DOUBLE: 4, MONEY: 3, WIDE: 1.5, BOOLEAN: 1.5, STRING: 5, DATE: 3,
    TIMESTAMP: 3, BINARY: 1, MONTHS: 0.4, MICROS: 0.8,
}
"""What is compared, and how often."""
_APPROXIMATIONS = "1.23457D -7.7777777D 0.0123457D 1234.567891D 1e200 0.98765".split()
_PLAIN_TEXTS = ("a", "A", "abc", "é", "a%c", "T", "yes", "NaN", "inf", "a ", "null")
_TRUTHS = ("true", "FALSE", "t", "F", "yes", "No", "y", "n", "1", "0", " true ", "2")
# fmt: on


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


class Conditions(Writer):
    """Everything that is TRUE, FALSE or NULL."""

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

    def bound(self, value: Expr, depth: int) -> Expr:
        """One end of a BETWEEN."""
        return self.beside(value, depth)

    def _between(self, depth: int) -> Expr:
        value = self.operand(depth)
        low, high = self.bound(value, depth), self.bound(value, depth)
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
            f"{self.within(value, COMPARISON + 1)} {negation}{operator} {regex.text}",
            BOOLEAN,
            PREDICATE,
            value,
            regex,
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
            f"{self.within(inner, COMPARISON + 1)} {self.word('IS')} {negation}{ending}",
            BOOLEAN,
            PREDICATE,
            inner,
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
            f"{self.random.choice([self.word('NOT '), 'NOT ', '! '])}{self.within(inner, NOT)}",
            BOOLEAN,
            NOT,
            inner,
        )

    def _boolean_function(self, depth: int) -> Expr:
        return self.function(BOOLEAN, depth)

    def _approximately(self, depth: int) -> Expr:
        value = self.function(APPROXIMATE, depth - 1)
        other = self.constant(
            self.random.choice(_APPROXIMATIONS),
            DOUBLE,
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
                text = random.choice(_PLAIN_TEXTS)
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
        (kind,) = self.random.choices(list(_KINDS), list(_KINDS.values()))
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
            return random.choice(_TRUTHS)
        return random.choice(tables.TIME_TEXTS)
