"""Can an expression tell apart values that are equal: the decimals 1.0 and 1.00, the floats 0.0 and -0.0?

A set of values has one place for both, so a condition may be judged by asking one of them only where it cannot.
Written as text they differ; so do quotients, and choices among decimals (coalesce, CASE), whose digits depend on those
of what they are made of; so do powers of zero.
"""

from __future__ import annotations

from typing import Final

from palio.filters.expressions.tree import Call, Expression, Literal, walk

# What gives equal values for equal arguments, and conditions.
_BLIND: Final = frozenset(
    "and or not = <=> <> < <= > >= in between isnull isnotnull istrue isfalse isnan + - * % pmod div neg abs ceil "
    "floor round bround nullif nanvl year quarter month dayofmonth dayofweek dayofweek_iso weekday "
    "dayofyear weekofyear yearofweek hour minute second second_with_fraction last_day datediff date_add date_sub "
    "add_months months_between trunc date_trunc unix_date unix_seconds unix_millis unix_micros to_date to_timestamp "
    "sqrt cbrt exp ln positive shiftleft shiftright from_unixtime date_format timestampadd timestampdiff".split()
)
_BLIND_CASTS: Final = frozenset("boolean tinyint smallint int bigint float double date timestamp".split())


def is_blind_to_twins(expression: Expression) -> bool:
    """Whether an expression is known to give equal values for equal values of its attributes."""
    return all(_is_blind(node) for node in walk(expression) if isinstance(node, Call))


def _is_blind(call: Call) -> bool:
    match call:
        case Call("cast", (_, Literal(str() as name))):
            return name in _BLIND_CASTS or name.startswith("decimal")
    return call.function in _BLIND
