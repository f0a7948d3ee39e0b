"""Which attributes must have a value for a condition to be TRUE, to be FALSE, or to be either.

An index can then ask for their presence before anything is computed. The answer is sound, not complete: an
attribute that is named must be there, one that is not named may have to be there all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from palio.filters.expressions.functions import FUNCTIONS, ONLY_TEXT
from palio.filters.expressions.inference import bottom_up
from palio.filters.expressions.tree import Array, Attribute, Call, Expression, Literal

# What must be there; None where the outcome cannot happen, whatever is there.
_Needs: TypeAlias = frozenset[str] | None
# What is asked for: TRUE, FALSE, or, as None, any value but NULL.
_Outcome: TypeAlias = bool | None

_NOTHING: Final[frozenset[str]] = frozenset()


def is_strict(expression: Expression) -> frozenset[str]:
    """The attributes that must not be NULL for an expression to have a value, be it TRUE or FALSE."""
    return required(expression, None)


def required(expression: Expression, wants: bool | None) -> frozenset[str]:
    """The attributes that must not be NULL for a condition to be as wanted; None wants any value but NULL."""
    needing = _Needing()
    for call in bottom_up(expression):
        for outcome in (True, False, None):
            needing.of(call, outcome)
    return needing.of(expression, wants) or _NOTHING


def asks_text(expression: Expression, wants: bool) -> bool:
    """Whether a condition on one attribute can be as wanted for strings alone, whatever other values there are."""
    if isinstance(expression, Call) and expression.function == "isnull":
        return not wants and _is_null_for_others(expression.arguments[0])
    return _is_null_for_others(expression)


def _is_null_for_others(expression: Expression) -> bool:
    """Whether an expression is NULL unless its attribute is a string; sound, not complete."""
    while isinstance(expression, Call):
        function = FUNCTIONS.get(expression.function)
        if function is None or not (function.strict or expression.function == "in"):
            return False
        if not expression.arguments:
            return False
        if isinstance(expression.arguments[0], Attribute):
            return function.parameter(0) is ONLY_TEXT
        expression = expression.arguments[0]
    return False


def _all(needs: Iterable[_Needs]) -> _Needs:
    """What is needed for several things to happen together."""
    together = list(needs)
    return None if None in together else _NOTHING.union(*(need for need in together if need is not None))


def _one(needs: Iterable[_Needs]) -> _Needs:
    """What is needed for one of several things to happen, whichever."""
    possible = [need for need in needs if need is not None]
    return frozenset.intersection(*possible) if possible else None


class _Needing:
    def __init__(self) -> None:
        self._known: dict[tuple[int, _Outcome], _Needs] = {}

    def of(self, expression: Expression, wants: _Outcome) -> _Needs:
        match expression:
            case Attribute(name) | Array(name):
                return frozenset({name})
            case Literal(value):
                possible = value is not None if wants is None else value is wants or isinstance(value, str)
                return _NOTHING if possible else None
        key = (id(expression), wants)
        if key not in self._known:
            self._known[key] = self._of_call(expression, wants)
        return self._known[key]

    def _of_call(self, call: Call, wants: _Outcome) -> _Needs:
        special = _RULES.get(call.function)
        if special is not None:
            if wants is None and call.function in _LOGIC:
                return _one([self.of(call, True), self.of(call, False)])
            return special(self, call.arguments, wants)
        function = FUNCTIONS.get(call.function)
        if function is None or not function.strict:
            return _NOTHING
        return self._values(call.arguments)

    def _values(self, arguments: Iterable[Expression]) -> _Needs:
        return _all(self.of(argument, None) for argument in arguments)


_Rule: TypeAlias = Callable[[_Needing, tuple[Expression, ...], _Outcome], _Needs]


def _and(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    needs = (needing.of(argument, wants) for argument in arguments)
    return _all(needs) if wants else _one(needs)


def _or(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    needs = (needing.of(argument, wants) for argument in arguments)
    return _one(needs) if wants else _all(needs)


def _not(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return needing.of(arguments[0], not wants)


def _is_true(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return needing.of(arguments[0], True) if wants else _NOTHING


def _is_false(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return needing.of(arguments[0], False) if wants else _NOTHING


def _is_null(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return _NOTHING if wants else needing.of(arguments[0], None)


def _is_not_null(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return needing.of(arguments[0], None) if wants else _NOTHING


def _same(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    """x <=> y is TRUE for two NULLs, but a constant that is not NULL is none."""
    present = any(isinstance(argument, Literal) and argument.value is not None for argument in arguments)
    return needing._values(arguments) if wants and present else _NOTHING


def _in(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    value, *items = (needing.of(argument, None) for argument in arguments)
    return _all([value, _one(items) if wants else _all(items)])


def _between(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    value, *ends = (needing.of(argument, None) for argument in arguments)
    return _all([value, _all(ends) if wants else _one(ends)])


def _case(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    pairs = zip(arguments[0::2], arguments[1::2], strict=False)
    outcomes = [_all([needing.of(when, True), needing.of(then, wants)]) for when, then in pairs]
    if len(arguments) % 2:
        outcomes.append(needing.of(arguments[-1], wants))
    return _one(outcomes)


def _if(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return _case(needing, arguments, wants)


def _nvl2(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    tested, present, absent = arguments
    return _one([_all([needing.of(tested, None), needing.of(present, wants)]), needing.of(absent, wants)])


def _any_of(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return _one(needing.of(argument, wants) for argument in arguments)


def _first(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return needing.of(arguments[0], wants)


def _is_nan(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    return needing.of(arguments[0], None) if wants else _NOTHING


def _locate(needing: _Needing, arguments: tuple[Expression, ...], wants: _Outcome) -> _Needs:
    """A position that is NULL makes it 0, whatever the texts are."""
    if len(arguments) == 3 and not (isinstance(arguments[2], Literal) and arguments[2].value is not None):
        return _NOTHING
    return needing._values(arguments[:2])


_LOGIC: Final = frozenset(
    {"and", "or", "not", "istrue", "isfalse", "isnull", "isnotnull", "<=>", "in", "between", "isnan"}
)
_RULES: Final[dict[str, _Rule]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "istrue": _is_true,
    "isfalse": _is_false,
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    "<=>": _same,
    "in": _in,
    "between": _between,
    "case": _case,
    "if": _if,
    "nvl2": _nvl2,
    "coalesce": _any_of,
    "greatest": _any_of,
    "least": _any_of,
    "nullif": _first,
    "nanvl": _first,
    "concat_ws": _first,
    "isnan": _is_nan,
    "locate": _locate,
}
