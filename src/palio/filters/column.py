"""Columns: filters built from Python operators, as `col("price") > 100`.

A comparison is written as SQL and read by its parser, so that it means exactly what the text would: `col("x") > 3` is
`Filter("x > 3")`. Values become literals, and names are quoted, by the writer that prints filters; a value is never
part of the text as it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from palio.errors import EventError, InvalidArgument, NoTruthValue
from palio.events.values import to_scalar, type_name
from palio.filters.filter import Filter
from palio.filters.sql_writer import literal_to_sql, name_to_sql


def col(name: str) -> Column:
    """An attribute, by its name (`quote.price` is a path), whose comparisons are filters.

    >>> from palio import col
    >>> wanted = (col("price") > 100) & col("symbol").isin("ACME", "O'Neil") & ~col("venue").is_null()
    >>> wanted({"price": 120, "symbol": "O'Neil", "venue": "Siena"})
    True
    """
    return Column(name)


class Column:
    """An attribute whose comparisons with values and other columns are filters; see `col`."""

    __slots__ = ("_sql", "name")

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise InvalidArgument(f"a column is named by text, not {type_name(name)}")
        try:
            self._sql = name_to_sql(name)
        except EventError as error:
            raise InvalidArgument(f"{name!r} is no name of an attribute: {error.reason}") from None
        self.name = name

    def __eq__(self, other: object) -> Filter:  # type: ignore[override]  # the condition, not an answer
        return self._compared("=", other)

    def __ne__(self, other: object) -> Filter:  # type: ignore[override]  # the condition, not an answer
        return self._compared("<>", other)

    def __lt__(self, other: Any) -> Filter:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Filter:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Filter:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Filter:
        return self._compared(">=", other)

    def isin(self, *values: Any) -> Filter:
        """One of the values, which are given one by one or as one list or set; of none, nothing is."""
        if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], str | bytes | bytearray):
            values = tuple(values[0])
        if not values:
            return Filter.nothing
        return Filter(f"{self._sql} IN ({', '.join(_operand(value) for value in values)})")

    def between(self, first: Any, last: Any) -> Filter:
        """From the first value to the last, both included."""
        return Filter(f"{self._sql} BETWEEN {_operand(first)} AND {_operand(last)}")

    def like(self, pattern: str) -> Filter:
        r"""Text that a LIKE pattern matches: `%` is any text, `_` any character, `\` escapes them."""
        return Filter(f"{self._sql} LIKE {_pattern(pattern)}")

    def rlike(self, pattern: str) -> Filter:
        """Text in which a regular expression finds something."""
        return Filter(f"{self._sql} RLIKE {_pattern(pattern)}")

    def is_null(self) -> Filter:
        """Null or missing."""
        return Filter(f"{self._sql} IS NULL")

    def is_not_null(self) -> Filter:
        """Present, and not null."""
        return Filter(f"{self._sql} IS NOT NULL")

    def _compared(self, operator: str, other: object) -> Filter:
        return Filter(f"{self._sql} {operator} {_operand(other)}")

    # What compares by building a condition cannot be looked up by equality.
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> NoReturn:
        raise NoTruthValue(f"a column is neither true nor false; write col({self.name!r}) == True, and &, | and ~")

    def __repr__(self) -> str:
        return f"col({self.name!r})"


def _operand(value: Any) -> str:
    """A value as a literal, or the name of another column."""
    if isinstance(value, Column):
        return value._sql
    if value is None:
        raise InvalidArgument("no comparison with None is ever true; use is_null() or is_not_null()")
    if isinstance(value, list | tuple | set | frozenset):
        raise InvalidArgument(f"a column is compared with one value, not a {type(value).__name__}; use isin()")
    try:
        scalar = to_scalar(value, "")
    except EventError as error:
        raise InvalidArgument(f"a column is not compared with {type_name(value)}: {error.reason}") from None
    if scalar is None:
        raise InvalidArgument(f"{value!r} is a null; use is_null() or is_not_null()")
    return literal_to_sql(scalar)


def _pattern(pattern: Any) -> str:
    if not isinstance(pattern, str):
        raise InvalidArgument(f"a pattern is text, not {type_name(pattern)}")
    return literal_to_sql(str.__str__(pattern))
