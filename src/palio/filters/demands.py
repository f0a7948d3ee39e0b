"""What a computed condition demands of the value that it computes.

`lower(x) LIKE 'ab%'` computes `lower(x)` and demands that it be in a set, the same set that `y LIKE 'ab%'` asks of an
attribute. Two conditions on the same computed value can therefore be compared as two conditions on an attribute are,
which is how `cesql_int(hop) < 10` is known to cover `cesql_int(hop) < 5`.
"""

from __future__ import annotations

from palio.filters.comparisons import OPERATORS, Truth, compare, equal_to_any
from palio.filters.expressions.tree import Call, Expression, Literal, Micros, Months
from palio.filters.like import LikePattern
from palio.filters.patterns import Like, Test
from palio.filters.values import NULLS, PRESENT, STRINGS, ValueSet


def demand(expression: Expression, wants: bool, timezone: str) -> tuple[Expression, ValueSet] | None:
    """The computed value that a condition is about, and the set in which it is as wanted; None if it is no such."""
    match expression:
        case Call("isnull", (Call() as value,)):
            return value, NULLS if wants else PRESENT
        case Call("like", (Call() as value, Literal(str() as text))):
            try:
                pattern = LikePattern.parse(text)
            except ValueError:
                return None
            return value, _like(pattern, wants)
        case Call(function, (Call() as value, Literal() as literal)) if function in OPERATORS:
            if isinstance(literal.value, Months | Micros):
                return None
            return value, _as_wanted(compare(function, literal.value, timezone), wants)
        case Call("in", (Call() as value, *literals)) if all(isinstance(each, Literal) for each in literals):
            constants = [each.value for each in literals if isinstance(each, Literal)]
            if any(isinstance(each, Months | Micros) for each in constants):
                return None
            return value, _as_wanted(equal_to_any(constants, timezone), wants)  # type: ignore[arg-type]
    return None


def _as_wanted(truth: Truth, wants: bool) -> ValueSet:
    return truth.true if wants else truth.false


def _like(pattern: LikePattern, wants: bool) -> ValueSet:
    if pattern.shape not in ("exact", "prefix"):
        return STRINGS.where([Test(Like(pattern), wants)])
    inside = ValueSet.points([pattern.text]) if pattern.shape == "exact" else ValueSet.prefix(pattern.text)
    return inside if wants else STRINGS.intersect(inside.complement())
