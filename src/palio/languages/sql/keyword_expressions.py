"""Readers of SQL expressions that a keyword begins: CASE, CAST, EXTRACT, SUBSTRING, TRIM, DATE'…', INTERVAL.

Every reader gets the token of its keyword, which is not consumed yet. Where what follows cannot be its expression it
gives None, and the word is a name, as in Spark, where no word is reserved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from palio.filters.expressions.ast import Attribute, Expression, Literal
from palio.filters.expressions.date_functions import UNITS
from palio.filters.expressions.text_cast import zone_of
from palio.languages.grammar import END, NUMBER, QUOTED, TEXT, WORD, Token
from palio.languages.sql.array_functions import higher_order_call, named_array
from palio.languages.sql.functions import CONTINUES_NAME, VALUE, extract_call
from palio.languages.sql.intervals import (
    INTERVAL_UNITS,
    IntervalPart,
    parse_interval_parts,
    parse_interval_range,
    parse_interval_text,
)
from palio.languages.sql.lexer import (
    parse_date,
    parse_hexadecimal,
    parse_local_timestamp,
    parse_strings,
    parse_timestamp,
)
from palio.languages.sql.type_names import type_name
from palio.languages.sql.unsupported import REFUSED_FUNCTIONS

if TYPE_CHECKING:
    from palio.languages.sql.parser import SqlParser


Reader: TypeAlias = Callable[["SqlParser", Token], Expression | None]

_CONSTANTS: Final = {"null": None, "true": True, "false": False}
_TRIMS: Final = {"both": "trim", "leading": "ltrim", "trailing": "rtrim"}
_CASE_HINT: Final = "write CASE WHEN x > 1 THEN 'a' ELSE 'b' END"


def _constant(parser: SqlParser, token: Token) -> Expression:
    parser.at += 1
    return Literal(_CONSTANTS[token[1]], token[2:])


def _case(parser: SqlParser, token: Token) -> Expression | None:
    """CASE WHEN a THEN b … END, or CASE x WHEN a THEN b … END, where x is compared with every a."""
    kind, following, _, _ = parser.tokens[parser.at + 1]
    if kind == END or following in CONTINUES_NAME:
        return None
    parser.at += 1
    value = None if following == "when" else parser.expression()
    parts: list[Expression] = []
    while parser.peek() == "when":
        parser.at += 1
        start = parser.tokens[parser.at][2]
        when = parser.expression()
        if value is not None:
            parser.copy(value, 1)
            when = parser.call("=", (value, when), start)
        parser.expect("then", "behind WHEN and its condition stands THEN", _CASE_HINT)
        parts += [when, parser.expression()]
    if not parts:
        parser.expect("when", "CASE has a WHEN", _CASE_HINT)
    if parser.peek() == "else":
        parser.at += 1
        parts.append(parser.expression())
    parser.expect("end", "CASE ends with END", _CASE_HINT)
    return parser.call("case", tuple(parts), token[2])


def _cast(parser: SqlParser, token: Token) -> Expression | None:
    """CAST(x AS type), and TRY_CAST, which does not differ: a cast that fails is NULL here anyway."""
    if parser.peek(1) != "(":
        return None
    parser.at += 2
    value = parser.expression()
    parser.expect("as", "CAST names a type", "write CAST(x AS INT)")
    found = read_type(parser)
    parser.close("CAST")
    return parser.call("cast", (value, found), token[2])


def read_type(parser: SqlParser) -> Literal:
    """The name of a type that stands next, in its one spelling."""
    kind, word, first, last = parser.tokens[parser.at]
    if kind != WORD:
        parser.fail_here("here stands the name of a type", "such as INT, DOUBLE, STRING, DATE, DECIMAL(10,2)")
    parser.at += 1
    sizes: list[str] = []
    if parser.peek() == "(":
        while not sizes or parser.peek() == ",":
            _, _, start, end = parser.tokens[parser.at + 1]
            size = parser.text[start:end]
            if not size.isdigit():
                parser.fail(start, "the size of a type is a whole number", "such as DECIMAL(10,2)")
            sizes.append(size)
            parser.at += 2
        parser.close("the size")
    return Literal(parser.read(first, type_name, word, sizes), (first, last))


def _extract(parser: SqlParser, token: Token) -> Expression | None:
    """EXTRACT(part FROM x); with a comma it is a function like any other."""
    if parser.peek(1) != "(":
        return None
    kind, _, first, last = parser.tokens[parser.at + 2]
    if kind not in (WORD, QUOTED) or parser.peek(3) != "from":
        return None
    parser.at += 4
    value = parser.expression(VALUE)
    parser.close("EXTRACT")
    return parser.read(first, extract_call, parser.text[first:last].strip("`"), value, parser.span(token[2]))


def _substring(parser: SqlParser, token: Token) -> Expression | None:
    """SUBSTRING(x FROM a FOR b), or with commas in place of the words."""
    if parser.peek(1) != "(":
        return None
    parser.at += 2
    arguments = [parser.expression(VALUE)]
    for word in ("from", "for"):
        if parser.peek() in (word, ","):
            parser.at += 1
            arguments.append(parser.expression(VALUE))
    parser.close(f"the arguments of {token[1]}")
    if len(arguments) < 2:
        parser.fail(token[2], f"{token[1]} takes 2 to 3 arguments, not 1", "write substring(x, 1, 3)")
    return parser.call("substring", tuple(arguments), token[2])


def _trim(parser: SqlParser, token: Token) -> Expression | None:
    """TRIM([BOTH | LEADING | TRAILING] [characters] FROM x), or trim(x), trim(characters, x)."""
    if parser.peek(1) != "(":
        return None
    parser.at += 2
    side = parser.peek()
    named = side in _TRIMS and parser.peek(1) not in CONTINUES_NAME
    if named:
        parser.at += 1
    arguments: list[Expression] = []
    if parser.peek() != "from" or parser.peek(1) in CONTINUES_NAME:
        arguments.append(parser.expression(VALUE))
    if named or not arguments or parser.peek() == "from":
        parser.expect("from", "TRIM names behind FROM what it trims", "write TRIM(BOTH 'x' FROM y)")
        arguments.append(parser.expression(VALUE))
    elif parser.peek() == ",":
        parser.at += 1
        arguments.append(parser.expression(VALUE))
    parser.close("the arguments of trim")
    return parser.call(_TRIMS[side] if named else "trim", tuple(arguments), token[2])


def _overlay(parser: SqlParser, token: Token) -> Expression | None:
    """OVERLAY(x PLACING part FROM a FOR b), or with commas in place of the words."""
    if parser.peek(1) != "(":
        return None
    parser.at += 2
    arguments = [parser.expression(VALUE)]
    for word in ("placing", "from", "for"):
        if parser.peek() in (word, ","):
            parser.at += 1
            arguments.append(parser.expression(VALUE))
    parser.close("the arguments of overlay")
    if len(arguments) < 3:
        reason = f"overlay takes 3 to 4 arguments, not {len(arguments)}"
        parser.fail(token[2], reason, "write OVERLAY(x PLACING 'new' FROM 2)")
    return parser.call("overlay", tuple(arguments), token[2])


def _with_unit(function: str, of_days: str) -> Reader:
    """dateadd(DAY, 1, x), datediff(DAY, x, y): a unit and two values; of two arguments, the first is no unit."""

    def read(parser: SqlParser, token: Token) -> Expression | None:
        if parser.peek(1) != "(":
            return None
        kind, unit, first, last = parser.tokens[parser.at + 2]
        if kind != WORD or unit not in UNITS or parser.peek(3) != ",":
            if token[1] in ("timestampadd", "timestampdiff", "timediff"):
                parser.fail(first, f"{token[1]} takes a unit first", f"the units are {', '.join(UNITS).upper()}")
            return None
        parser.at += 4
        arguments = [parser.expression(VALUE)]
        if parser.peek() == ")" and token[1] not in ("timestampadd", "timestampdiff", "timediff"):
            # dateadd(day, 1): the word is an attribute named like a unit, and the call the one without units.
            name, arguments = of_days, [Attribute(parser.text[first:last], (first, last)), *arguments]
        else:
            parser.expect(",", f"{token[1]} takes a unit and two values", f"write {token[1]}({unit.upper()}, x, y)")
            name, arguments = function, [Literal(unit, (first, last)), *arguments, parser.expression(VALUE)]
        parser.close(f"the arguments of {token[1]}")
        return parser.call(name, tuple(arguments), token[2])

    return read


def _position(parser: SqlParser, token: Token) -> Expression | None:
    """POSITION(part IN x), or position(part, x[, start])."""
    if parser.peek(1) != "(":
        return None
    parser.at += 2
    arguments = [parser.expression(VALUE)]
    if parser.peek() == "in":
        parser.at += 1
        arguments.append(parser.expression(VALUE))
    while parser.peek() == ",":
        parser.at += 1
        arguments.append(parser.expression(VALUE))
    parser.close("the arguments of position")
    if not 2 <= len(arguments) <= 3:
        reason = f"position takes 2 to 3 arguments, not {len(arguments)}"
        parser.fail(token[2], reason, "write position('a' IN x)")
    return parser.call("locate", tuple(arguments), token[2])


def _in_timezone(parser: SqlParser, token: Token) -> Expression | None:
    """in_timezone('Asia/Tokyo', condition): the condition is read, and computed, on the clocks of that zone."""
    kind, _, first, last = parser.tokens[parser.at + 2] if parser.peek(1) == "(" else token
    if kind != TEXT:
        if parser.peek(1) == "(":
            parser.fail(first, "in_timezone names a time zone, as a literal", "write in_timezone('Asia/Tokyo', x > 1)")
        return None
    zone = parser.read(first, parse_strings, [parser.text[first:last]])
    if zone_of(zone) is None:
        hint = "write a region such as Europe/Paris, or an offset such as +02:00"
        parser.fail(first, f"there is no time zone {zone!r}", hint)
    parser.at += 3
    parser.expect(",", "behind the time zone stands a condition", "write in_timezone('Asia/Tokyo', x > 1)")
    # Literals inside are read in this zone while they are parsed; the call keeps it for evaluation.
    outside, parser.timezone = parser.timezone, zone
    condition = parser.expression()
    parser.timezone = outside
    parser.close("the arguments of in_timezone")
    return parser.call("in_timezone", (Literal(zone, (first, last)), condition), token[2])


def _typed_literal(parser: SqlParser, token: Token) -> Expression | None:
    """DATE'…', TIMESTAMP'…', X'…': a text with its type before it."""
    kind, _, first, last = parser.tokens[parser.at + 1]
    if kind != TEXT:
        return None
    if token[1] == "time":
        hint = "compare a whole TIMESTAMP, hour(x) and minute(x), or a text: x > '12:30:00'"
        parser.fail(token[2], "there is no time of day without its date here", hint)
    parser.at += 2
    written = parser.read(first, parse_strings, [parser.text[first:last]])
    span = (token[2], last)
    if token[1] == "date":
        return Literal(parser.read(first, parse_date, written), span)
    if token[1] == "x":
        return Literal(parser.read(first, parse_hexadecimal, written), span)
    moment = parse_local_timestamp if token[1] == "timestamp_ntz" else parse_timestamp
    return Literal(parser.read(first, moment, written, parser.timezone), span)


def _interval(parser: SqlParser, token: Token) -> Expression | None:
    """INTERVAL with values and units, with one text of them, or with a text and a range of units."""
    kind, _, first, last = parser.tokens[parser.at + 1]
    if kind == TEXT and parser.peek(2) not in INTERVAL_UNITS:
        parser.at += 2
        written = parser.read(first, parse_strings, [parser.text[first:last]])
        return Literal(parser.read(first, parse_interval_text, written), (token[2], last))
    parser.at += 1
    part = _interval_part(parser)
    if part is None:
        parser.at -= 1
        return None
    if parser.peek() == "to":
        until = parser.peek(1)
        parser.at += 2
        found = parser.read(first, parse_interval_range, part, until)
        return Literal(found, parser.span(token[2]))
    parts = []
    while part is not None:
        parts.append(part)
        part = _interval_part(parser)
    return Literal(parser.read(first, parse_interval_parts, parts), parser.span(token[2]))


def _interval_part(parser: SqlParser) -> IntervalPart | None:
    """A value with its unit, if one stands next."""
    at = parser.at
    sign = parser.peek() if parser.peek() in ("+", "-") else ""
    at += len(sign)
    kind, _, first, last = parser.tokens[at]
    if kind not in (NUMBER, TEXT) or parser.tokens[at + 1][1] not in INTERVAL_UNITS:
        return None
    value = parser.text[first:last]
    if kind == TEXT:
        value = parser.read(first, parse_strings, [value])
    elif not value.replace(".", "").isdigit():
        parser.fail(first, "the number of an interval has no suffix and no exponent", "write INTERVAL 1 DAY")
    parser.at = at + 2
    return IntervalPart(sign, value, kind == TEXT, parser.tokens[at + 1][1])


def _of_elements(parser: SqlParser, token: Token) -> Expression | None:
    """exists(array, x -> condition) and forall(…): a condition on the elements, with a name for them."""
    if parser.peek(1) != "(":
        return None
    hint = f"write {token[1]}(x, each -> each > 2)"
    parser.at += 2
    parser.refuse_query("a condition looks at one event: compare its attributes")
    first = parser.tokens[parser.at][2]
    array = parser.read(first, named_array, token[1], parser.expression(VALUE))
    parser.expect(",", f"{token[1]} takes an array and a condition on its elements", hint)
    is_bracketed = parser.peek() == "("
    parser.at += is_bracketed
    kind, _, start, end = parser.tokens[parser.at]
    if kind not in (WORD, QUOTED):
        parser.fail_here("here stands a name for the elements", hint)
    variable = parser.text[start:end].strip("`").lower()
    parser.at += 1
    if is_bracketed:
        parser.close("the bracket")
    parser.expect("->", "behind the name of the elements stands ->", hint)
    # One function within another would look at every pair of elements, and so take minutes for one event.
    if parser.variables:
        parser.fail(token[2], f"{token[1]} cannot stand within exists() or forall()", "write two conditions")
    parser.variables = {variable: array}
    condition = parser.expression()
    parser.variables = {}
    parser.close(f"the arguments of {token[1]}")
    return higher_order_call(token[1], array, variable, condition, parser.span(token[2]))


def _without_brackets(parser: SqlParser, token: Token) -> Expression | None:
    """CURRENT_DATE and its like, which are functions that are called without brackets."""
    if parser.peek(1) in ("(", "."):
        return None
    reason, hint = REFUSED_FUNCTIONS[token[1]]
    hint = f"{hint}; an attribute of that name is written `{token[1]}`"
    return parser.fail(token[2], reason.format(name=token[1].upper()), hint)


def _infix_word(parser: SqlParser, token: Token) -> Expression | None:
    """A word that stands between operands where an operand should be: a name only if an operator follows."""
    following = parser.peek(1)
    called = following == "(" and token[1] in ("like", "ilike", "rlike", "regexp", "div")
    if called or (following in CONTINUES_NAME and following not in (")", ",")):
        return None
    hint = f"an attribute of that name is written `{token[1]}`"
    return parser.fail(token[2], f"a value is missing before {token[1].upper()}", hint)


KEYWORD_READERS: Final[dict[str, Reader]] = {
    "case": _case,
    "cast": _cast,
    "exists": _of_elements,
    "extract": _extract,
    "forall": _of_elements,
    "in_timezone": _in_timezone,
    "interval": _interval,
    "overlay": _overlay,
    "position": _position,
    "substr": _substring,
    "substring": _substring,
    "trim": _trim,
    "try_cast": _cast,
    **dict.fromkeys(_CONSTANTS, _constant),
    **dict.fromkeys(("timestampadd", "dateadd", "date_add"), _with_unit("timestampadd", "date_add")),
    **dict.fromkeys(("timestampdiff", "datediff", "date_diff", "timediff"), _with_unit("timestampdiff", "datediff")),
    **dict.fromkeys(("date", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "x"), _typed_literal),
    **dict.fromkeys(("current_date", "current_time", "current_timestamp", "localtimestamp"), _without_brackets),
    **dict.fromkeys(("current_user", "session_user"), _without_brackets),
    **dict.fromkeys(("and", "or", "in", "is", "like", "ilike", "rlike"), _infix_word),
    **dict.fromkeys(("regexp", "between", "div"), _infix_word),
}
"""What reads an operand that a word begins; any other word is a name."""
