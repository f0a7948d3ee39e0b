"""Overflow of narrow integers: arithmetic of TINYINT, SMALLINT and INT columns has the width that Spark gives it.

Integers of events have 64 bits. Of typed columns Spark computes in the wider of the two operands, and raises where the
result does not fit: NULL here. So a sum, difference, product or change of sign that is narrower than 64 bits is cast to
its type, which is NULL where it does not fit. A literal is an INT unless it is too large or has a suffix (`5L`). Bits
are shifted in 64 bits, as everywhere.
"""

from __future__ import annotations

from typing import Final

from palio.filters.expressions.ast import Call, Expression, Literal, bottom_up
from palio.filters.expressions.static_analysis import branch_places
from palio.spark.cast_search import ColumnKinds

_OVERFLOWING: Final = frozenset({"+", "-", "*", "neg", "abs"})
_WIDEST_OPERAND: Final = _OVERFLOWING | {"%", "pmod", "&", "|", "^", "~", "positive", "round", "bround", "nullif"}
_TYPES: Final = {8: "tinyint", 16: "smallint", 32: "int"}
_BITS: Final = {name: bits for bits, name in _TYPES.items()}
_SUFFIXES: Final = {"l": 64, "s": 16, "y": 8}
_INTS: Final = frozenset(
    "ascii bit_count bit_length datediff dayofmonth dayofweek dayofweek_iso dayofyear hour instr length levenshtein "
    "locate minute month octet_length quarter regexp_count regexp_instr second size split_size unix_date weekday "
    "weekofyear year yearofweek".split()
)
"""Functions whose values are INTs in Spark; all others of integers are BIGINTs."""


def narrowed(expression: Expression, kinds: ColumnKinds, text: str) -> Expression:
    """The expression with a cast around arithmetic of narrow integers; the same object where it has none."""
    made: dict[int, Expression] = {}
    # What a condition that was rewritten before has already.
    casts = {
        (id(call.arguments[0]), str(call.arguments[1].value))
        for call in bottom_up(expression)
        if call.function == "cast" and isinstance(call.arguments[1], Literal)
    }
    widths: dict[int, int] = {}

    def width(node: Expression) -> int:
        """The bits of an integer; 0 of what is none."""
        if isinstance(node, Literal):
            return _literal_width(node, text)
        column = kinds.column_of(node)
        if column is not None:
            return column.bits
        return widths.get(id(node), 64) if kinds.of(node) is int else 0

    for call in bottom_up(expression):
        arguments = tuple(made.get(id(each), each) for each in call.arguments)
        is_same = all(new is old for new, old in zip(arguments, call.arguments, strict=True))
        found: Expression = call if is_same else Call(call.function, arguments, call.span)
        bits = widths[id(call)] = _call_width(call, [width(each) for each in call.arguments])
        if call.function in _OVERFLOWING and bits in _TYPES and (id(call), _TYPES[bits]) not in casts:
            found = Call("cast", (found, Literal(_TYPES[bits])), call.span)
        made[id(call)] = found
    return made.get(id(expression), expression)


def _call_width(call: Call, operands: list[int]) -> int:
    if call.function in _WIDEST_OPERAND:
        relevant = operands[:1] if call.function in ("round", "bround", "nullif") else operands
        return max(relevant) if all(relevant) else 64
    if call.function in _INTS:
        return 32
    match call:
        case Call("cast", (_, Literal(str() as target))):
            return _BITS.get(target, 64)
    chosen = [operands[place] for place in branch_places(call)]
    return max(chosen) if chosen and all(chosen) else 64


def _literal_width(literal: Literal, text: str) -> int:
    value = literal.value
    if type(value) is not int:
        return 0
    suffix = text[slice(*literal.span)][-1:].lower()
    return _SUFFIXES.get(suffix, 32 if -(2**31) <= value < 2**31 else 64)
