"""What to write where a condition fails only because a value is of another kind: `x > 5` where x is '10'.

Values of unlike kinds do not compare, where Spark would cast one of them: events have no schema that says which was
meant. A failure for that reason looks like no failure at all, so it is said in words, with the cast that would help.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from palio.errors import ParseError
from palio.filters.expressions import casting
from palio.filters.kinds import KIND_OF_TYPE, MISSING, Kind, kind_of
from palio.filters.names import to_sql as name_to_sql
from palio.filters.patterns import Computed
from palio.filters.printing import values_to_sql
from palio.filters.registry import parser_for
from palio.filters.terms import NUMBERS
from palio.filters.tree import Leaf, Residual
from palio.filters.values import ValueSet

_NAMES: Final = {
    Kind.BOOLEAN: "a boolean",
    Kind.INTEGER: "an integer",
    Kind.DECIMAL: "a decimal",
    Kind.FLOAT: "a float",
    Kind.STRING: "a string",
    Kind.DATE: "a date",
    Kind.TIMESTAMP: "a timestamp",
    Kind.BYTES: "binary",
}
_CASTS: Final = {Kind.STRING: "STRING", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP", Kind.BOOLEAN: "BOOLEAN"}
_LONGEST: Final = 80


def advice(condition: Leaf | Residual, values: Mapping[str, Any], timezone: str) -> str | None:
    """Why values cannot satisfy a condition whatever they are worth, and what to write instead; None if they can."""
    if isinstance(condition, Residual):
        return _of_two(condition, values)
    value = _single(values[condition.attribute])
    if value is None or any(isinstance(test.pattern, Computed) for test in condition.values.tests):
        return None
    kind, wanted = kind_of(value), _kinds_in(condition.values)
    if kind in wanted or not wanted:
        return None
    said = f"{condition.attribute} is {_NAMES[kind]}, and the condition asks about {_listed(wanted)}"
    target = _cast(value, wanted)
    if target is None:
        return said
    written = values_to_sql(f"CAST({name_to_sql(condition.attribute)} AS {target})", condition.values, timezone)[0]
    if "typeof(" in written or len(written) > _LONGEST or not _can_be_read(written, timezone):
        return said
    return f"{said}; write {written}"


def never_a_text(values: ValueSet) -> str | None:
    """What a condition asks about where no text can satisfy it, whatever it says: `numbers`; None where one may."""
    wanted = [] if values.tests else _kinds_in(values)
    return None if not wanted or Kind.STRING in wanted else _listed(wanted)


def _can_be_read(condition: str, timezone: str) -> bool:
    """Not where it asks about several kinds, of which what is cast is only one."""
    try:
        parser_for("sql")(condition, timezone=timezone)
    except ParseError:
        return False
    return True


def _of_two(condition: Residual, values: Mapping[str, Any]) -> str | None:
    """The same for two attributes that are compared."""
    if condition.compared is None:
        return None
    _, left, right = condition.compared
    first, second = _single(values[left]), _single(values[right])
    if first is None or second is None:
        return None
    kinds = {kind_of(first), kind_of(second)}
    if len(kinds) == 1 or kinds <= set(NUMBERS) or kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return None
    return f"{left} is {_NAMES[kind_of(first)]} and {right} is {_NAMES[kind_of(second)]}; CAST brings one to the other"


def _single(value: Any) -> Any:
    """A value, or one of several of one kind; None where there is none."""
    several = value if isinstance(value, tuple) else (value,)
    kinds = {type(each) for each in several}
    if len(kinds) != 1 or several[0] is MISSING or type(several[0]) not in KIND_OF_TYPE:
        return None
    return several[0]


def _kinds_in(values: ValueSet) -> list[Kind]:
    """The kinds of which a set has values; none where it speaks of what is not there."""
    if not (values.parts[Kind.NULL].is_empty and values.parts[Kind.MISSING].is_empty):
        return []
    return [kind for kind in _NAMES if not values.parts[kind].is_empty]


def _listed(kinds: list[Kind]) -> str:
    names = ["numbers"] if set(NUMBERS) & set(kinds) else []
    names += [f"{_NAMES[kind].removeprefix('a ')}s" for kind in kinds if kind not in NUMBERS and kind is not Kind.BYTES]
    names += ["binary values"] if Kind.BYTES in kinds else []
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _cast(value: Any, wanted: list[Kind]) -> str | None:
    """The type that makes of a value one of the kinds that are wanted."""
    if set(NUMBERS) & set(wanted):
        if isinstance(value, bool):
            return "INT"
        if not isinstance(value, str):
            return None
        whole = casting.to_integer(value)
        if whole is not None and casting.to_double(value) == whole:
            return "INT" if -(2**31) <= whole < 2**31 else "BIGINT"
        return "DOUBLE" if casting.to_double(value) is not None else None
    if isinstance(value, str):
        readings = {
            Kind.DATE: casting.to_date(value),
            Kind.TIMESTAMP: casting.to_timestamp(value, "UTC"),
            Kind.BOOLEAN: casting.to_boolean(value),
        }
        return next((_CASTS[kind] for kind in wanted if readings.get(kind) is not None), None)
    return "STRING" if Kind.STRING in wanted and not isinstance(value, bytes) else None
