"""Functions with constant patterns, prepared once per expression: LIKE, RLIKE, formats, paths, character sets.

A pattern is parsed when the expression is compiled: `palio.filters.like` compiles LIKE, `palio.filters.regex` regular
expressions, `datetime_patterns` formats such as `yyyy-MM-dd`. Each entry of `PREPARED` takes the literals after the
first argument and returns a function of the time zone and the first argument; a ValueError tells what is wrong with a
literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Final

from palio.events.values import MAX_DECIMAL_DIGITS
from palio.filters.expressions import cast, extension_functions
from palio.filters.expressions import encoding_functions as encodings
from palio.filters.expressions import regexp_functions as regexps
from palio.filters.expressions.ast import Call
from palio.filters.expressions.coercion import Value, moment_at, positive_zero
from palio.filters.expressions.compiler import (
    Compiled,
    CompiledOperand,
    Compiler,
    Form,
    constant,
    lenient,
    strict_of_one,
    strict_of_two,
)
from palio.filters.expressions.datetime_patterns import for_reading, for_writing
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.json_functions import json_field, json_path
from palio.filters.expressions.number_formats import NumberFormat
from palio.filters.expressions.printf_format import PrintfFormat
from palio.filters.expressions.regexp_functions import Computes, literal_text
from palio.filters.expressions.url_functions import parse_url
from palio.filters.kinds import timestamp_position
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.text_cache import TextCache
from palio.filters.work_limit import limit_calls
from palio.filters.xml_text import pattern_of, text_matches

# Cached for patterns that come with events, which are parsed for every event.
_parse_like = TextCache(LikePattern.parse)


def _like(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    ignore_case = call.function == "ilike"
    text, pattern, *escapes = parts
    function = FUNCTIONS[call.function]
    inner = compiler.argument(text, function.parameter(0))
    escape = escapes[0].value if escapes else "\\"
    if not isinstance(escape, str):
        return constant(None).run
    if pattern.text is not None:
        try:
            return strict_of_one(_parse_like(pattern.text, escape, ignore_case).matches, inner)
        except ValueError:
            return constant(None).run
    return strict_of_two(
        lambda value, written: _parse_like(written, escape, ignore_case).matches(value),
        inner,
        compiler.argument(pattern, function.parameter(1)),
    )


def _rlike(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    text, pattern = parts
    if pattern.text is None:
        return constant(None).run
    try:
        search = Regex.compile(pattern.text).search
    except ValueError:
        return constant(None).run
    return strict_of_one(search, compiler.argument(text, FUNCTIONS["rlike"].parameter(0)))


def _prepared(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    first, *literals = parts
    values = [part.value for part in literals]
    if None in values and call.function not in TAKES_NULL:
        return constant(None).run
    try:
        compute = limit_calls(call.function, partial(PREPARED[call.function](*values), compiler.zone))
    except ValueError:
        return constant(None).run
    return strict_of_one(compute, compiler.argument(first, FUNCTIONS[call.function].parameter(0)))


def _any_value(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    text = parts[0].text
    if text is None:
        return constant(None).run
    try:
        if call.function == "any_value_rlike":
            return extension_functions.any_value(Regex.compile(text).search, compiler.zone)
        return extension_functions.any_value(
            _parse_like(text, "\\", call.function == "any_value_ilike").matches, compiler.zone
        )
    except ValueError:
        return constant(None).run


_DEFAULT_FORMAT: Final = "yyyy-MM-dd HH:mm:ss"


def _date_format(pattern: Value) -> Computes:
    write = for_writing(literal_text(pattern)).write
    return lambda zone, moment: write(moment, zone) if isinstance(moment, datetime) else None


def _from_unixtime(pattern: Value = _DEFAULT_FORMAT) -> Computes:
    write = for_writing(literal_text(pattern)).write

    def compute(zone: str, seconds: Value) -> Value:
        moment = moment_at(seconds * 1_000_000) if isinstance(seconds, int) else None
        return None if moment is None else write(moment, zone)

    return compute


def _to_timestamp(*pattern: Value) -> Computes:
    if not pattern:
        return lambda zone, value: cast.to_moment(value, zone)
    return partial(_moment_in, _reader(pattern[0]))


def _to_date(*pattern: Value) -> Computes:
    if not pattern:
        return lambda zone, value: cast.to_date(value, zone)
    read = _reader(pattern[0])
    return lambda zone, value: cast.to_date(_moment_in(read, zone, value), zone)


def _unix_timestamp(pattern: Value = _DEFAULT_FORMAT) -> Computes:
    read = _reader(pattern)

    def compute(zone: str, value: Value) -> Value:
        moment = _moment_in(read, zone, value)
        if moment is None:
            return None
        micros = timestamp_position(moment)
        return micros // 1_000_000 if micros >= 0 else -(-micros // 1_000_000)  # towards 1970

    return compute


def _reader(pattern: Value) -> Callable[[str, str], datetime | None]:
    """The function that reads a text by a pattern; by NULL, no text is a moment."""
    return (lambda text, zone: None) if pattern is None else for_reading(literal_text(pattern)).read


def _moment_in(read: Callable[[str, str], datetime | None], zone: str, value: Value) -> datetime | None:
    """The moment that a text denotes by a pattern; a date or timestamp needs none."""
    if isinstance(value, str):
        return read(value, zone)
    return cast.to_moment(value, zone) if isinstance(value, date) else None


def _to_char(pattern: Value) -> Computes:
    """A number by a format of numbers, bytes in a notation, or a moment by a pattern of times."""
    text = literal_text(pattern)
    if _NUMBER_FORMAT.match(text):
        return partial(_number_in, NumberFormat.parse(text))
    if text.lower() in ("hex", "base64", "utf-8"):
        encode = encodings.from_binary(text)
        return lambda zone, value: encode(value) if isinstance(value, bytes) else None
    write = for_writing(text).write

    def compute(zone: str, value: Value) -> Value:
        moment = cast.to_moment(value, zone) if isinstance(value, date) else None
        return None if moment is None else write(moment, zone)

    return compute


_NUMBER_FORMAT: Final = re.compile(r"(?i)(?=.*[09])(?:MI|PR|[SGDB09$.,])*\Z")


def _number_in(format: NumberFormat, zone: str, value: Value) -> Value:
    """A number in a format, with the digits that Spark's cast to a decimal keeps."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    digits, scale = (30, 15) if isinstance(value, float) else (MAX_DECIMAL_DIGITS, 18)
    number = value if isinstance(value, Decimal) else cast.to_decimal(value, zone, digits, scale)
    return None if number is None else format.write(number)


def _to_number(pattern: Value) -> Computes:
    read = NumberFormat.parse(literal_text(pattern)).read

    def compute(zone: str, value: Value) -> Value:
        number = read(value) if isinstance(value, str) else None
        return None if number is None else positive_zero(number)

    return compute


def _of_text(make: Callable[..., Callable[[str], Value]]) -> Callable[..., Computes]:
    """A function of a text and literals."""

    def prepare(*literals: Value) -> Computes:
        compute = make(*literals)
        return lambda zone, value: compute(value) if isinstance(value, str) else None

    return prepare


def _xpath_boolean(xpath: str) -> Callable[[str], bool | None]:
    pattern = pattern_of(xpath)
    return lambda text: text_matches(text, pattern)


def _json_field(path: Value, kind: Value) -> Computes:
    read = json_field(literal_text(path), literal_text(kind))
    return lambda zone, value: read(value, zone) if isinstance(value, str) else None


def _to_binary(format: Value = "hex") -> Computes:
    read = encodings.to_binary(literal_text(format))
    return lambda zone, value: read(value) if isinstance(value, str) else None


def _decode(charset: Value) -> Computes:
    read = encodings.decoder(literal_text(charset))
    return lambda zone, value: read(value) if isinstance(value, bytes) else None


def _mask(upper: Value = "X", lower: Value = "x", digit: Value = "n", other: Value = None) -> Computes:
    compute = encodings.mask(*(None if each is None else literal_text(each) for each in (upper, lower, digit, other)))
    return lambda zone, value: compute(value) if isinstance(value, str) else None


def _format_string(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    pattern, *values = parts
    if pattern.text is None:
        return constant(None).run
    try:
        write = PrintfFormat.parse(pattern.text).write
    except ValueError:
        return constant(None).run
    return lenient(limit_calls("format_string", lambda *given: write(given)), [value.run for value in values])


PREPARED: Final[Mapping[str, Callable[..., Computes]]] = MappingProxyType(
    {
        "date_format": _date_format,
        "from_unixtime": _from_unixtime,
        "to_timestamp": _to_timestamp,
        "to_date": _to_date,
        "unix_timestamp": _unix_timestamp,
        "regexp_extract": regexps.regexp_extract,
        "regexp_replace": regexps.regexp_replace,
        "regexp_count": regexps.regexp_count,
        "regexp_substr": regexps.regexp_substr,
        "regexp_instr": regexps.regexp_instr,
        "split_element": regexps.split_element,
        "split_size": regexps.split_size,
        "split_contains": regexps.split_contains,
        "to_char": _to_char,
        "to_binary": _to_binary,
        "to_number": _to_number,
        "encode": _of_text(encodings.encoder),
        "decode": _decode,
        "mask": _mask,
        "parse_url": _of_text(parse_url),
        "get_json_object": _of_text(json_path),
        "json_field": _json_field,
        "xpath_boolean": _of_text(_xpath_boolean),
    }
)

TAKES_NULL: Final = frozenset({"mask", "to_timestamp", "to_date", "unix_timestamp"})
"""Functions among them to which a NULL among the literals means something, or which need no pattern for times."""

PATTERN_FORMS: Final[dict[str, Form]] = {
    "like": _like,
    "ilike": _like,
    "rlike": _rlike,
    "format_string": _format_string,
    **dict.fromkeys(PREPARED, _prepared),
    **dict.fromkeys(extension_functions.WHOLE_EVENT_FUNCTIONS, _any_value),
}
