"""Functions with constant patterns, prepared once per expression: LIKE, RLIKE, regexp_*, and date and time formats.

A pattern is parsed when the expression is compiled: `palio.filters.like` compiles LIKE, `palio.filters.regex` regular
expressions, `datetime_patterns` formats such as `yyyy-MM-dd`. Each entry of `PREPARED` takes the literals after the
first argument and returns a function of the time zone and the first argument; a ValueError tells what is wrong with a
literal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, TypeAlias

from palio.filters.expressions import cast, extension_functions
from palio.filters.expressions.ast import Call
from palio.filters.expressions.coercion import Value, moment_at
from palio.filters.expressions.compiler import (
    Compiled,
    CompiledOperand,
    Compiler,
    Form,
    constant,
    strict_of_one,
    strict_of_two,
)
from palio.filters.expressions.datetime_patterns import for_reading, for_writing
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.text_functions import TEXT_LIMIT
from palio.filters.kinds import timestamp_position
from palio.filters.like import LikePattern
from palio.filters.regex import Match, Regex, RegexMatches

# Cached for patterns that come with events, which are parsed for every event.
_parse_like = lru_cache(maxsize=4096)(LikePattern.parse)


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
    if None in values:
        return constant(None).run
    try:
        compute = partial(PREPARED[call.function](*values), compiler.zone)
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


Computes: TypeAlias = Callable[[str, Value], Value]

_DEFAULT_FORMAT: Final = "yyyy-MM-dd HH:mm:ss"


def _date_format(pattern: Value) -> Computes:
    write = for_writing(_text(pattern)).write
    return lambda zone, moment: write(moment, zone) if isinstance(moment, datetime) else None


def _from_unixtime(pattern: Value = _DEFAULT_FORMAT) -> Computes:
    write = for_writing(_text(pattern)).write

    def compute(zone: str, seconds: Value) -> Value:
        moment = moment_at(seconds * 1_000_000) if isinstance(seconds, int) else None
        return None if moment is None else write(moment, zone)

    return compute


def _to_timestamp(*pattern: Value) -> Computes:
    if not pattern:
        return lambda zone, value: cast.to_moment(value, zone)
    return partial(_moment_in, for_reading(_text(pattern[0])).read)


def _to_date(*pattern: Value) -> Computes:
    if not pattern:
        return lambda zone, value: cast.to_date(value, zone)
    read = for_reading(_text(pattern[0])).read
    return lambda zone, value: cast.to_date(_moment_in(read, zone, value), zone)


def _unix_timestamp(pattern: Value = _DEFAULT_FORMAT) -> Computes:
    read = for_reading(_text(pattern)).read

    def compute(zone: str, value: Value) -> Value:
        moment = _moment_in(read, zone, value)
        if moment is None:
            return None
        micros = timestamp_position(moment)
        return micros // 1_000_000 if micros >= 0 else -(-micros // 1_000_000)  # towards 1970

    return compute


def _moment_in(read: Callable[[str, str], datetime | None], zone: str, value: Value) -> datetime | None:
    """The moment that a text denotes by a pattern; a date or timestamp needs none."""
    if isinstance(value, str):
        return read(value, zone)
    return cast.to_moment(value, zone) if isinstance(value, date) else None


def _regexp_extract(pattern: Value, group: Value = 1) -> Computes:
    matches = RegexMatches.compile(_text(pattern))
    if not isinstance(group, int) or not 0 <= group <= matches.groups:
        raise ValueError(
            f"the regular expression has {matches.groups or 'no'} group{'s' * (matches.groups != 1)}, "
            f"and group {group} is asked for; 0 is all that matches"
        )

    def compute(zone: str, text: Value) -> Value:
        match = next(matches.find(_text(text)), None)
        return "" if match is None else match.group(group)

    return compute


def _regexp_replace(pattern: Value, replacement: Value) -> Computes:
    matches = RegexMatches.compile(_text(pattern))
    pieces = _replacement(_text(replacement), matches)

    def written(match: Match) -> str:
        return "".join(piece if isinstance(piece, str) else match.group(piece) for piece in pieces)

    def compute(zone: str, value: Value) -> Value:
        text = _text(value)
        encoded = text.encode("utf-8", "replace")
        made: list[str] = []
        size = at = 0
        for match in matches.find(text):
            first, last = match.span
            made += (encoded[at:first].decode(), written(match))
            # Checked while it grows: many matches of a long group could fill the memory before the end.
            size += len(made[-1])
            if size > TEXT_LIMIT:
                return None
            at = last
        whole = "".join((*made, encoded[at:].decode()))
        return whole if len(whole) <= TEXT_LIMIT else None

    return compute


def _replacement(text: str, matches: RegexMatches) -> list[str | int]:
    r"""The parts of a replacement: literal text, and group numbers (`$1`); `\` escapes the next character."""
    pieces: list[str | int] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character == "\\":
            if at + 1 == len(text):
                raise ValueError("behind a \\ in the replacement stands a character")
            pieces.append(text[at + 1])
            at += 2
        elif character == "$":
            group, at = _group(text, at + 1, matches)
            pieces.append(group)
        else:
            pieces.append(character)
            at += 1
    return pieces


def _group(text: str, at: int, matches: RegexMatches) -> tuple[int, int]:
    """The group reference after a `$`, and the position after it."""
    if text[at : at + 1] == "{":
        end = text.find("}", at)
        name = text[at + 1 : end]
        if end < 0 or name not in matches.names:
            raise ValueError(f"the regular expression has no group named {name}")
        return matches.names[name], end + 1
    if not ("0" <= text[at : at + 1] <= "9"):
        raise ValueError("behind a $ in the replacement stands the number of a group; the character itself is \\$")
    group, at = int(text[at]), at + 1
    if group > matches.groups:
        raise ValueError(f"the regular expression has no group {group}")
    # Further digits belong to the number as long as there is such a group.
    while "0" <= text[at : at + 1] <= "9" and group * 10 + int(text[at]) <= matches.groups:
        group, at = group * 10 + int(text[at]), at + 1
    return group, at


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError(f"here stands a string, not {value!r}")
    return value


PREPARED: Final[Mapping[str, Callable[..., Computes]]] = MappingProxyType(
    {
        "date_format": _date_format,
        "from_unixtime": _from_unixtime,
        "to_timestamp": _to_timestamp,
        "to_date": _to_date,
        "unix_timestamp": _unix_timestamp,
        "regexp_extract": _regexp_extract,
        "regexp_replace": _regexp_replace,
    }
)

PATTERN_FORMS: Final[dict[str, Form]] = {
    "like": _like,
    "ilike": _like,
    "rlike": _rlike,
    **dict.fromkeys(PREPARED, _prepared),
    **dict.fromkeys(extension_functions.WHOLE_EVENT_FUNCTIONS, _any_value),
}
