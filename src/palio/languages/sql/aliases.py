"""By which other names is a function known?

Spark has several names for many functions; a condition keeps one of them, so that equal conditions look
equal.
"""

from __future__ import annotations

from typing import Final

ALIASES: Final[dict[str, str]] = {
    "array_size": "size",
    "cardinality": "size",
    "ceiling": "ceil",
    "char": "chr",
    "char_length": "length",
    "character_length": "length",
    "charindex": "locate",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "day": "dayofmonth",
    "equal_null": "<=>",
    "ifnull": "coalesce",
    "lcase": "lower",
    "len": "length",
    "mod": "%",
    "negative": "neg",
    "nvl": "coalesce",
    "position": "locate",
    "pow": "power",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "sha": "sha1",
    "sign": "signum",
    "substr": "substring",
    "to_unix_timestamp": "unix_timestamp",
    "try_add": "+",
    "try_divide": "/",
    "try_element_at": "element_at",
    "try_mod": "%",
    "try_multiply": "*",
    "try_subtract": "-",
    "try_to_date": "to_date",
    "try_to_timestamp": "to_timestamp",
    "ucase": "upper",
}
"""A name in Spark, and the function it calls; try_add is +, because what cannot be computed is NULL."""

ARGUMENTS: Final[dict[str, tuple[int, int]]] = {"ifnull": (2, 2), "nvl": (2, 2)}
"""How many arguments a name takes, where that is less than the function it calls does."""

OPERATORS: Final = frozenset(
    {"and", "between", "case", "cast", "div", "in", "isfalse", "istrue", "neg", "not", "or"}
    | {"timestampadd", "timestampdiff"}
)
"""Words among the functions that are written between or around operands, or take a unit, never called."""

CASTS: Final[dict[str, str]] = {
    **{name: name for name in ("bigint", "binary", "boolean", "date", "double", "float", "int", "smallint")},
    **{name: name for name in ("string", "timestamp", "tinyint")},
    "decimal": "decimal(10,0)",
}
"""Types that can be called, and what they cast to: `int(x)` is CAST(x AS INT)."""

_PARTS: Final = {
    "year": ("year", "y", "years", "yr", "yrs"),
    "yearofweek": ("yearofweek",),
    "quarter": ("quarter", "qtr"),
    "month": ("month", "mon", "mons", "months"),
    "weekofyear": ("week", "w", "weeks"),
    "dayofmonth": ("day", "d", "days"),
    "dayofweek": ("dayofweek", "dow"),
    "dayofweek_iso": ("dayofweek_iso", "dow_iso"),
    "dayofyear": ("doy",),
    "hour": ("hour", "h", "hours", "hr", "hrs"),
    "minute": ("minute", "m", "min", "mins", "minutes"),
    "second_with_fraction": ("second", "s", "sec", "seconds", "secs"),
}
PARTS: Final = tuple(names[0] for names in _PARTS.values())
"""The parts of a date or time that EXTRACT knows, by the first of their names."""

FIELDS: Final = {name: function for function, names in _PARTS.items() for name in names}
"""Every name of a part, and the function that gives it."""
