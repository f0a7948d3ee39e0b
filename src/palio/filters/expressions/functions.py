"""The catalogue of functions and operators: names, parameters, result kinds and implementations.

`FUNCTIONS` has every function and operator under its canonical name; the parser resolves Spark's aliases. Arguments
stand in the order of Spark's function calls. A function that needs more than the values of its arguments (AND stops
early, LIKE compiles its pattern) has no implementation here but a special form (`special_forms`, `pattern_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType, NoneType
from typing import Final

from palio.filters.expressions import arithmetic as maths
from palio.filters.expressions import cast, text_cast
from palio.filters.expressions import date_functions as dates
from palio.filters.expressions import encoding_functions as encodings
from palio.filters.expressions import extension_functions as extensions
from palio.filters.expressions import number_functions as numbers
from palio.filters.expressions import text_functions as texts
from palio.filters.expressions.ast import Micros, Months
from palio.filters.expressions.coercion import KIND_NAMES, NUMBERS, Value, ValueType, day_at, moment_at
from palio.filters.kinds import timestamp_position


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """Type of a parameter: its kind, the kinds that are coerced to it, and the conversion."""

    name: str
    kind: ValueType | None
    accepts: frozenset[ValueType]
    convert: Callable[[Value, str], Value]


@dataclass(frozen=True, slots=True)
class Function:
    """A function or operator: arity, parameters and implementation.

    A strict function is NULL where any argument is. `parameters` are in the order of arguments; the last one applies to
    all further arguments. A zoned implementation takes the name of the time zone first. `result` is the kind of its
    values, where that is always the same.
    """

    name: str
    minimum: int
    maximum: int | None
    strict: bool
    implementation: Callable[..., Value] | None
    summary: str
    parameters: tuple[FunctionParameter, ...] = ()
    result: ValueType | None = None
    zoned: bool = False

    def parameter(self, position: int) -> FunctionParameter:
        """The parameter at a position, counted from 0."""
        return self.parameters[min(position, len(self.parameters) - 1)] if self.parameters else ANY


def _as_number(value: Value, zone: str) -> Value:
    return text_cast.to_double(value) if isinstance(value, str) else value


def _as_run(value: Value, zone: str) -> Value:
    return value if isinstance(value, bytes) else cast.to_text(value, zone)


def _as_digits(value: Value, zone: str) -> Value:
    return cast.to_whole(value, zone) if type(value) in NUMBERS else cast.to_text(value, zone)


def _as_it_is(value: Value, zone: str) -> Value:
    return value


_SCALARS: Final[frozenset[ValueType]] = frozenset({bool, int, Decimal, float, str, date, datetime, bytes})
_NUMBERS_AND_TEXT: Final[frozenset[ValueType]] = NUMBERS | {str}
_TIMES: Final[frozenset[ValueType]] = frozenset({date, datetime, str})

ANY: Final = FunctionParameter("any value", None, frozenset(KIND_NAMES), _as_it_is)
TEXT: Final = FunctionParameter("string", str, _SCALARS, cast.to_text)
RUN: Final = FunctionParameter("string or binary", str, _SCALARS, _as_run)
WHOLE: Final = FunctionParameter("int", None, _NUMBERS_AND_TEXT, partial(cast.to_whole, bound=2**31))
LONG: Final = FunctionParameter("bigint", int, _NUMBERS_AND_TEXT, cast.to_whole)
COUNT: Final = FunctionParameter("int", None, frozenset({int, str}), partial(cast.to_whole, bound=2**31))
INTEGER: Final = FunctionParameter("bigint", int, frozenset({int}), _as_it_is)
REAL: Final = FunctionParameter("number", float, _NUMBERS_AND_TEXT, cast.to_double)
NUMBER: Final = FunctionParameter("number", float, _NUMBERS_AND_TEXT, _as_number)
AS_WRITTEN: Final = FunctionParameter("number", float, _NUMBERS_AND_TEXT, _as_it_is)
NUMERIC: Final = FunctionParameter("number", float, NUMBERS, _as_it_is)
MAGNITUDE: Final = replace(NUMBER, accepts=_NUMBERS_AND_TEXT | {Months, Micros})
BITS: Final = FunctionParameter("integer", int, frozenset({int, str}), _as_it_is)
EXACT: Final = FunctionParameter("exact number", int, frozenset({int, Decimal, str, Months, Micros}), _as_it_is)
DAY: Final = FunctionParameter("date", date, _TIMES, cast.to_date)
MOMENT: Final = FunctionParameter("timestamp", None, _TIMES, cast.to_moment)
TIME: Final = FunctionParameter("date or timestamp", None, _TIMES, _as_it_is)
# Patterns apply to strings only, here as in the index: a stream has no schema from which a cast could be inferred.
ONLY_TEXT: Final = FunctionParameter("string", str, frozenset({str}), _as_it_is)
ONLY_RUN: Final = FunctionParameter("string or binary", str, frozenset({str, bytes}), _as_it_is)
ONLY_DAY: Final = FunctionParameter("date", date, frozenset({date}), _as_it_is)
ONLY_MOMENT: Final = FunctionParameter("timestamp", datetime, frozenset({datetime}), _as_it_is)
TRUTH: Final = FunctionParameter("boolean", bool, frozenset({bool, str}), cast.to_boolean)
ONLY_TRUTH: Final = FunctionParameter("boolean", bool, frozenset({bool}), _as_it_is)
DIGITS: Final = FunctionParameter("number, string or binary", bytes, _SCALARS, _as_digits)
SECONDS: Final = FunctionParameter("number", None, _NUMBERS_AND_TEXT, partial(cast.to_decimal, digits=16, scale=6))
BIT_STRING: Final = FunctionParameter("integer or boolean", int, frozenset({int, bool}), _as_it_is)
OCTETS: Final = FunctionParameter("binary", bytes, frozenset({bytes, str}), cast.to_bytes)
ARRAY: Final = FunctionParameter("array", tuple, frozenset({tuple}), _as_it_is)


_TYPE_NAMES: Final = {
    bool: "boolean",
    int: "bigint",
    Decimal: "decimal",
    float: "double",
    str: "string",
    date: "date",
    datetime: "timestamp",
    bytes: "binary",
    NoneType: "void",
}


def _absolute(value: Value) -> Value:
    if isinstance(value, Months):
        return Months(abs(value.months))
    if isinstance(value, Micros):
        return Micros(abs(value.micros), value.is_days)
    return numbers.absolute(value) if isinstance(value, int | Decimal | float) else None


def _typeof(value: Value) -> Value:
    return _TYPE_NAMES.get(type(value))


# Filled by the calls below, then published read-only as FUNCTIONS.
_catalogue: dict[str, Function] = {}


def _operator(
    name: str,
    count: tuple[int, int | None],
    summary: str,
    *,
    strict: bool = True,
    result: ValueType | None = None,
    implementation: Callable[..., Value] | None = None,
    zoned: bool = False,
    parameters: tuple[FunctionParameter, ...] = (),
) -> None:
    minimum, maximum = count
    _catalogue[name] = Function(name, minimum, maximum, strict, implementation, summary, parameters, result, zoned)


def _function(
    name: str,
    implementation: Callable[..., Value] | None,
    parameters: tuple[FunctionParameter, ...],
    result: ValueType | None,
    summary: str,
    *,
    optional: int = 0,
    more: bool = False,
    strict: bool = True,
    zoned: bool = False,
) -> None:
    """Register a function whose last `optional` parameters may be left out, or with `more`, the last one repeated."""
    least, most = len(parameters) - optional, None if more else len(parameters)
    _catalogue[name] = Function(name, least, most, strict, implementation, summary, parameters, result, zoned)


_operator("and", (2, None), "TRUE if all are, FALSE if one is", strict=False, result=bool, parameters=(TRUTH,))
_operator("or", (2, None), "TRUE if one is, FALSE if all are", strict=False, result=bool, parameters=(TRUTH,))
_operator("not", (1, 1), "TRUE for FALSE, FALSE for TRUE", result=bool, parameters=(TRUTH,))
_operator("=", (2, 2), "whether two values are equal", result=bool)
_operator("<=>", (2, 2), "as =, but TRUE for two NULLs and FALSE for one", strict=False, result=bool)
_operator("<>", (2, 2), "whether two values differ", result=bool)
_operator("<", (2, 2), "whether the left is less", result=bool)
_operator("<=", (2, 2), "whether the left is less or equal", result=bool)
_operator(">", (2, 2), "whether the left is greater", result=bool)
_operator(">=", (2, 2), "whether the left is greater or equal", result=bool)
_operator("in", (2, None), "whether the first equals one of the others", strict=False, result=bool)
_operator(
    "between",
    (3, 3),
    "whether the first is not less than the second nor greater than the third",
    strict=False,
    result=bool,
)
_operator("isnull", (1, 1), "whether the value is NULL", strict=False, result=bool)
_operator("isnotnull", (1, 1), "whether the value is not NULL", strict=False, result=bool)
_operator(
    "istrue",
    (1, 1),
    "whether a condition is TRUE, not FALSE or NULL",
    strict=False,
    result=bool,
    parameters=(TRUTH,),
)
_operator(
    "isfalse",
    (1, 1),
    "whether a condition is FALSE, not TRUE or NULL",
    strict=False,
    result=bool,
    parameters=(TRUTH,),
)
_operator("+", (2, 2), "the sum; a day and days; a time and an interval", implementation=maths.add, zoned=True)
_operator("-", (2, 2), "the difference; of two times, an interval", implementation=maths.subtract, zoned=True)
_operator("*", (2, 2), "the product; a multiple of an interval", implementation=maths.multiply)
_operator("/", (2, 2), "the quotient: a decimal of decimals, else a double", implementation=maths.divide)
_operator("%", (2, 2), "the remainder, with the sign of the left", implementation=maths.remainder)
_operator(
    "div",
    (2, 2),
    "the quotient without its fraction",
    implementation=maths.whole_quotient,
    result=int,
    parameters=(EXACT,),
)
_operator("neg", (1, 1), "the number with the other sign", implementation=maths.negate, parameters=(MAGNITUDE,))
_operator("positive", (1, 1), "the number as it is", implementation=maths.unary_plus, parameters=(MAGNITUDE,))
_operator("&", (2, 2), "bitwise and", implementation=maths.bit_and, result=int, parameters=(BITS,))
_operator("|", (2, 2), "bitwise or", implementation=maths.bit_or, result=int, parameters=(BITS,))
_operator("^", (2, 2), "bitwise exclusive or", implementation=maths.bit_xor, result=int, parameters=(BITS,))
_operator("~", (1, 1), "bitwise not", implementation=maths.bit_not, result=int, parameters=(INTEGER,))
_function("shiftleft", maths.shift_left, (LONG, WHOLE), int, "the bits shifted n places to the left")
_function(
    "shiftright",
    maths.shift_right,
    (LONG, WHOLE),
    int,
    "the bits shifted n places to the right, the sign kept",
)
_operator("cast", (2, 2), "the value as another type; NULL where it cannot be one")
_operator("case", (2, None), "the value after the first condition that is TRUE, else the last", strict=False)

_function("like", None, (ONLY_TEXT, ONLY_TEXT, ONLY_TEXT), bool, "whether a text has the form of a pattern", optional=1)
_function("ilike", None, (ONLY_TEXT, ONLY_TEXT, ONLY_TEXT), bool, "as like, without regard to case", optional=1)
_function("rlike", None, (ONLY_TEXT, ONLY_TEXT), bool, "whether a part of a text matches a regular expression")
_function("coalesce", None, (ANY,), None, "the first value that is not NULL", more=True, strict=False)
_function(
    "if",
    None,
    (ONLY_TRUTH, ANY, ANY),
    None,
    "the second value if the first is TRUE, else the third",
    strict=False,
)
_function("nullif", None, (ANY, ANY), None, "the first value, or NULL if it equals the second", strict=False)
_function(
    "nvl2",
    None,
    (ANY, ANY, ANY),
    None,
    "the second value if the first is not NULL, else the third",
    strict=False,
)
_function("greatest", None, (ANY, ANY), None, "the greatest value, NULLs passed over", more=True, strict=False)
_function("least", None, (ANY, ANY), None, "the least value, NULLs passed over", more=True, strict=False)
_function("typeof", _typeof, (ANY,), str, "the name of the value's type; never NULL", strict=False)

_function("upper", texts.upper, (TEXT,), str, "in capital letters")
_function("lower", texts.lower, (TEXT,), str, "in small letters")
_function("initcap", texts.initcap, (TEXT,), str, "each word with a capital letter first")
_function("length", texts.length, (RUN,), int, "how many characters, or bytes")
_function("octet_length", texts.octet_length, (RUN,), int, "how many bytes in UTF-8")
_function("bit_length", texts.bit_length, (RUN,), int, "how many bits in UTF-8")
_function(
    "trim",
    texts.trim,
    (TEXT, TEXT),
    str,
    "without blanks, or any of the characters given first, at both ends",
    optional=1,
)
_function("ltrim", texts.ltrim, (TEXT, TEXT), str, "as trim, at the start only", optional=1)
_function("rtrim", texts.rtrim, (TEXT, TEXT), str, "as trim, at the end only", optional=1)
_function("btrim", texts.btrim, (TEXT, TEXT), str, "as trim, the characters given second", optional=1)
_function("substring", texts.substring, (RUN, WHOLE, WHOLE), None, "from a position, n characters", optional=1)
_function("left", texts.left, (RUN, WHOLE), None, "the first characters")
_function("right", texts.right, (TEXT, WHOLE), str, "the last characters")
_function("concat", texts.concat, (RUN,), None, "all in a row", optional=1, more=True)
_function(
    "concat_ws",
    texts.concat_ws,
    (TEXT, TEXT),
    str,
    "all that are not NULL, the first between them",
    optional=1,
    more=True,
    strict=False,
)
_function("replace", texts.replace, (TEXT, TEXT, TEXT), str, "every occurrence replaced, or dropped", optional=1)
_function("translate", texts.translate, (TEXT, TEXT, TEXT), str, "each character replaced by its counterpart")
_function("reverse", texts.reverse, (RUN,), None, "back to front")
_function("startswith", texts.startswith, (ONLY_RUN, ONLY_RUN), bool, "whether it starts with a part")
_function("endswith", texts.endswith, (ONLY_RUN, ONLY_RUN), bool, "whether it ends with a part")
_function("contains", texts.contains, (ONLY_RUN, ONLY_RUN), bool, "whether it contains a part")
_function(
    "instr",
    texts.instr,
    (TEXT, TEXT, WHOLE, WHOLE),
    int,
    "where a part occurs from a position on, for the nth time; 0 if it does not",
    optional=2,
)
_function(
    "locate",
    texts.locate,
    (TEXT, TEXT, WHOLE),
    int,
    "where the first occurs in the second, at or after a position",
    optional=1,
    strict=False,
)
_function("lpad", texts.lpad, (RUN, WHOLE, RUN), None, "filled at the start, or cut, to a length", optional=1)
_function("rpad", texts.rpad, (RUN, WHOLE, RUN), None, "filled at the end, or cut, to a length", optional=1)
_function("repeat", texts.repeat, (TEXT, WHOLE), str, "repeated n times")
_function("space", texts.space, (WHOLE,), str, "n blanks")
_function("split_part", texts.split_part, (TEXT, TEXT, WHOLE), str, "one of the parts between separators")
_function("split_element", None, (TEXT, ONLY_TEXT, COUNT, COUNT), str, "a part between separators, from 1")
_function("split_size", None, (TEXT, ONLY_TEXT, COUNT), int, "how many parts are between separators")
_function("split_contains", None, (TEXT, ONLY_TEXT, COUNT, ONLY_TEXT), bool, "whether a part is between separators")
_function(
    "substring_index",
    texts.substring_index,
    (TEXT, TEXT, WHOLE),
    str,
    "what is before n separators, or after, from the end",
)
_function(
    "overlay",
    texts.overlay,
    (RUN, RUN, WHOLE, WHOLE),
    None,
    "from a position, as many characters as the second has, or the given number, replaced by it",
    optional=1,
)
_function("regexp_extract", None, (TEXT, ONLY_TEXT, INTEGER), str, "what a group of the first match is", optional=1)
_function(
    "regexp_replace",
    None,
    (TEXT, ONLY_TEXT, ONLY_TEXT, INTEGER),
    str,
    "every match replaced, from a position on",
    optional=1,
)
_function("regexp_count", None, (TEXT, ONLY_TEXT), int, "how many matches there are")
_function("regexp_substr", None, (TEXT, ONLY_TEXT), str, "what matches first; NULL where nothing does")
_function("regexp_instr", None, (TEXT, ONLY_TEXT, INTEGER), int, "where the first match begins; 0 if none", optional=1)
_function(
    "levenshtein", texts.levenshtein, (TEXT, TEXT, WHOLE), int, "how many characters two texts differ by", optional=1
)
_function("hex", texts.hexadecimal, (DIGITS,), str, "the bytes, or a whole number, in hexadecimal digits")
_function("unhex", encodings.unhex, (TEXT,), bytes, "the bytes that hexadecimal digits denote")
_function("to_binary", None, (TEXT, ONLY_TEXT), bytes, "the bytes that a text denotes in a notation", optional=1)
_function("encode", None, (TEXT, ONLY_TEXT), bytes, "the bytes of a text in a character set")
_function("decode", None, (OCTETS, ONLY_TEXT), str, "the text that bytes mean in a character set")
_function("to_char", None, (ANY, ONLY_TEXT), str, "a moment or a number written by a pattern, or bytes in a notation")
_function("to_number", None, (TEXT, ONLY_TEXT), Decimal, "the number that a text denotes by a format")
_function("format_string", None, (ONLY_TEXT, ANY), str, "values in a format", optional=1, more=True, strict=False)
_function(
    "mask",
    None,
    (ONLY_TEXT, ONLY_TEXT, ONLY_TEXT, ONLY_TEXT, ONLY_TEXT),
    str,
    "letters and digits replaced by one of their class",
    optional=4,
)
_function("luhn_check", encodings.luhn_check, (TEXT,), bool, "whether the last of some digits checks the others")
_function("parse_url", None, (TEXT, ONLY_TEXT, ONLY_TEXT), str, "a part of a URL", optional=1)
_function("get_json_object", None, (TEXT, ONLY_TEXT), str, "what a path leads to in a JSON text")
_function("xpath_boolean", None, (ONLY_TEXT, ONLY_TEXT), bool, "whether an XPath selects something in an XML document")
_function("json_field", None, (ONLY_TEXT, ONLY_TEXT, ONLY_TEXT), None, "a field of a JSON text, as a type")
_function("md5", texts.md5, (ONLY_RUN,), str, "the MD5 digest in hexadecimal digits")
_function("sha1", texts.sha1, (ONLY_RUN,), str, "the SHA-1 digest in hexadecimal digits")
_function(
    "sha2", texts.sha2, (ONLY_RUN, WHOLE), str, "the SHA-2 digest of the given length in bits in hexadecimal digits"
)
_function("conv", texts.conv, (TEXT, WHOLE, WHOLE), str, "a whole number written in another base")
_function("ascii", texts.ascii_code, (TEXT,), int, "the code of the first character")
_function("chr", texts.chr_of, (LONG,), str, "the character of a code modulo 256")

_function("abs", _absolute, (MAGNITUDE,), None, "without its sign")
_function("signum", numbers.signum, (REAL,), float, "-1, 0 or 1, as a double")
_function("ceil", numbers.ceil, (AS_WRITTEN, WHOLE), None, "the next number up, whole or to n digits", optional=1)
_function("floor", numbers.floor, (AS_WRITTEN, WHOLE), None, "the next number down, whole or to n digits", optional=1)
_function("bit_count", numbers.bit_count, (BIT_STRING,), int, "how many bits are set")
_function("getbit", numbers.getbit, (INTEGER, WHOLE), int, "the bit at a position, from 0")
_function("width_bucket", numbers.width_bucket, (REAL, REAL, REAL, LONG), int, "the bucket of a histogram")
_function(
    "round",
    numbers.round_half_up,
    (NUMBER, WHOLE),
    None,
    "to n digits, halves away from zero",
    optional=1,
)
_function("bround", numbers.round_half_even, (NUMBER, WHOLE), None, "to n digits, halves to even", optional=1)
_function("sqrt", numbers.sqrt, (REAL,), float, "the square root")
_function("cbrt", numbers.cbrt, (REAL,), float, "the cube root")
_function("power", numbers.power, (REAL, REAL), float, "the first to the power of the second")
_function("exp", numbers.exp, (REAL,), float, "e to the power of a number")
_function("expm1", numbers.expm1, (REAL,), float, "exp(x) - 1")
_function("ln", numbers.ln, (REAL,), float, "the natural logarithm")
_function("log", numbers.log, (REAL, REAL), float, "the natural logarithm, or to the base given first", optional=1)
_function("log10", numbers.log10, (REAL,), float, "the logarithm to base 10")
_function("log2", numbers.log2, (REAL,), float, "the logarithm to base 2")
_function("log1p", numbers.log1p, (REAL,), float, "ln(1 + x)")
_function("pmod", maths.positive_remainder, (NUMBER, NUMBER), None, "the remainder, not negative")
_function("isnan", numbers.isnan, (REAL,), bool, "whether a number is NaN; FALSE for NULL", strict=False)
_function("nanvl", numbers.nanvl, (REAL, REAL), float, "the second number where the first is NaN", strict=False)

_function("year", dates.year, (DAY,), int, "the year")
_function("quarter", dates.quarter, (DAY,), int, "the quarter of the year, 1 to 4")
_function("month", dates.month, (DAY,), int, "the month, 1 to 12")
_function("dayofmonth", dates.dayofmonth, (DAY,), int, "the day of the month")
_function("dayofweek", dates.dayofweek, (DAY,), int, "1 for Sunday to 7 for Saturday")
_function("weekday", dates.weekday, (DAY,), int, "0 for Monday to 6 for Sunday")
_function("dayofyear", dates.dayofyear, (DAY,), int, "the day of the year, from 1")
_function("weekofyear", dates.weekofyear, (DAY,), int, "the ISO week of the year")
_function("dayname", dates.dayname, (DAY,), str, "the day of the week in three letters")
_function("monthname", dates.monthname, (DAY,), str, "the month in three letters")
_function("hour", dates.hour, (MOMENT,), int, "the hour on the clock", zoned=True)
_function("minute", dates.minute, (MOMENT,), int, "the minute on the clock", zoned=True)
_function("second", dates.second, (MOMENT,), int, "the second on the clock", zoned=True)
_function("yearofweek", dates.yearofweek, (DAY,), int, "the year that the ISO week belongs to")
_function("dayofweek_iso", dates.dayofweek_iso, (DAY,), int, "1 for Monday to 7 for Sunday")
_function(
    "second_with_fraction",
    dates.second_with_fraction,
    (MOMENT,),
    Decimal,
    "the second, a decimal",
    zoned=True,
)
_function("date_add", dates.date_add, (DAY, COUNT), date, "n days later")
_function("date_sub", dates.date_sub, (DAY, COUNT), date, "n days earlier")
_function("datediff", dates.datediff, (DAY, DAY), int, "days from the second to the first")
_function(
    "timestampadd",
    dates.timestampadd,
    (ONLY_TEXT, LONG, MOMENT),
    datetime,
    "n units of time later",
    zoned=True,
)
_function(
    "timestampdiff",
    dates.timestampdiff,
    (ONLY_TEXT, MOMENT, MOMENT),
    int,
    "whole units of time from the first to the second",
    zoned=True,
)
_function("add_months", maths.add_months, (DAY, WHOLE), date, "n months later")
_function(
    "months_between",
    dates.months_between,
    (MOMENT, MOMENT, ONLY_TRUTH),
    float,
    "months from the second to the first, rounded to 8 digits unless told FALSE",
    optional=1,
    zoned=True,
)
_function("last_day", dates.last_day, (DAY,), date, "the last day of the month")
_function("next_day", dates.next_day, (DAY, TEXT), date, "the next day of that name")
_function("trunc", dates.trunc, (DAY, TEXT), date, "the first day of the year, quarter, month or week")
_function("date_trunc", dates.date_trunc, (TEXT, MOMENT), datetime, "the first moment of a unit of time", zoned=True)
_function("make_date", date, (WHOLE, WHOLE, WHOLE), date, "the date of a year, a month and a day")
_function(
    "make_timestamp",
    dates.make_timestamp,
    (WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, SECONDS, TEXT),
    datetime,
    "the moment of a year, a month, a day, an hour, a minute and seconds",
    optional=1,
    zoned=True,
)
_function("from_utc_timestamp", dates.from_utc_timestamp, (MOMENT, TEXT), datetime, "what clocks show, as if in UTC")
_function("to_utc_timestamp", dates.to_utc_timestamp, (MOMENT, TEXT), datetime, "a moment of clocks taken for UTC")
_function("to_date", None, (ANY, ONLY_TEXT), date, "the date a text means", optional=1)
_function("to_timestamp", None, (ANY, ONLY_TEXT), datetime, "the moment a text means", optional=1)
_function("date_format", None, (MOMENT, ONLY_TEXT), str, "a moment written by a pattern")
_function("from_unixtime", None, (LONG, ONLY_TEXT), str, "n seconds after 1970, written by a pattern", optional=1)
_function("unix_date", dates.unix_date, (ONLY_DAY,), int, "days since 1 January 1970")
_function("date_from_unix_date", day_at, (WHOLE,), date, "n days after 1 January 1970")
_function("unix_seconds", dates.unix_seconds, (ONLY_MOMENT,), int, "seconds since 1970, down")
_function("unix_millis", dates.unix_millis, (ONLY_MOMENT,), int, "milliseconds since 1970, down")
_function("unix_micros", timestamp_position, (ONLY_MOMENT,), int, "microseconds since 1970")
_function("unix_timestamp", None, (TIME, ONLY_TEXT), int, "seconds since 1970, towards it", optional=1)
_function("timestamp_seconds", dates.timestamp_seconds, (NUMERIC,), datetime, "n seconds after 1970")
_function("timestamp_millis", dates.timestamp_millis, (INTEGER,), datetime, "n milliseconds after 1970")
_function("timestamp_micros", moment_at, (INTEGER,), datetime, "n microseconds after 1970")

_function("array_contains", None, (ARRAY, ANY), bool, "whether an array has an element that equals a value")
_function(
    "element_at", None, (ARRAY, INTEGER, INTEGER), None, "an element of an array, from 1, or from the end", optional=1
)
_function("get", None, (ARRAY, INTEGER, INTEGER), None, "an element of an array, from 0", optional=1)
_function("size", None, (ARRAY,), int, "how many elements an array has")
_function("exists", None, (ARRAY, ANY), bool, "whether a condition holds for some element of an array", strict=False)
_function("forall", None, (ARRAY, ANY), bool, "whether a condition holds for all elements of an array", strict=False)
_function("lambda", None, (ONLY_TEXT, TRUTH), bool, "a condition with a name for the elements", strict=False)
_function("variable", None, (ONLY_TEXT, ARRAY), None, "the element that a condition is tested on", strict=False)

_function(
    "ip_in_network",
    extensions.ip_in_network,
    (ONLY_TEXT, ONLY_TEXT),
    bool,
    "whether an IP address is within a network",
)
_function("any_value_like", None, (ONLY_TEXT,), bool, "whether some value of the event has the form of a pattern")
_function("any_value_ilike", None, (ONLY_TEXT,), bool, "as any_value_like, without regard to case")
_function("any_value_rlike", None, (ONLY_TEXT,), bool, "whether some value of the event matches a regular expression")
_function("cesql_int", extensions.cesql_integer, (ONLY_TEXT,), int, "the 32-bit integer that a text says to CESQL")
_function("cesql_string", extensions.cloudevents_text, (ANY,), str, "a value as CloudEvents writes it; NULL for bytes")
_function("in_timezone", None, (ONLY_TEXT, TRUTH), bool, "a condition on the clocks of a time zone")
_function(
    "condition_in",
    None,
    (ONLY_TEXT, ONLY_TEXT, ANY),
    bool,
    "what a condition in another language says of the event",
    optional=1,
    more=True,
    strict=False,
)

FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(_catalogue)
