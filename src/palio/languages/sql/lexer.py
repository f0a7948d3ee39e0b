"""Lexer of SQL conditions: tokens, and the values of literals.

One regular expression cuts the text into tokens exactly where Spark's lexer does, also in the corners: a name
may begin with a digit (`1a`), `1e5` is a number and `1e5x` a name, `!>` is `<=`, a backslash at the end of a
`--` comment continues it, and bracketed comments nest. Every repetition in it is possessive, so that no text
makes it backtrack; time is linear in the length.

The `parse_…` functions take the characters of one literal as they stand in a condition and give the Python value whose
type is the literal's SQL type, as Spark 4 decides it: `1` is an integer, `1.0` a decimal, `1e0` a double. What Spark
refuses raises `InvalidLiteral` with the reason.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isinf
from struct import pack, unpack
from typing import Final

from palio.errors import ParseError
from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64, MIN_INT64
from palio.filters.expressions.text_cast import to_date, to_local_timestamp, to_timestamp, zone_of
from palio.languages.grammar import (
    END,
    SIGN,
    WORD,
    InvalidLiteral,
    Token,
    check_text,
    refuse_character,
    typographic_quotes,
)

_BLANK = r"[ \t\n\f\r\v\xA0\u1680\u2000-\u200A\u2028\u202F\u205F\u3000]"
# A group is nowhere repeated possessively: Python 3.11 before 3.11.5 gets that wrong. Where a doubled quote could be
# given back as the end of a text, a lookahead prevents it.
_TEXT = r"""
    '[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*'(?!') | "[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*"(?!") | [rR]'[^']*+' | [rR]"[^"]*+"
    """
_LINE_COMMENT = r"--[^\r\n\\]*+(?:\\\n?[^\r\n\\]*+)*"
_TOKEN = re.compile(
    rf"""{_BLANK}*+(?:
      ( (?![rR]['"]) [^\W\d]\w*+ )
    | ( (?: [0-9]++\.[0-9]*+ | \.[0-9]++ ) (?:[eE][+-]?[0-9]++)? (?:[bB][dD]|[dDfF])? (?![A-Za-z0-9_])
      | [0-9]++[eE][+-][0-9]++ (?:[bB][dD]|[dDfF])?
      | [0-9]++ (?:[eE][0-9]++)? (?:[bB][dD]|[dDfF])? (?!\w)
      | [0-9]++ [lLsSyY] (?!\w) )
    | ( <=> | <> | <= | << | >= | >>> | >> | == | => | != | !> | !< | \|\| | \|> | :: | ->
      | [-=<>!+*/%~&|^(),.;:?\[\]] ) (?<! -(?=-) ) (?<! /(?=\*) )
    | ( {_TEXT} )
    | ( `[^`]*+(?:``[^`]*+)*`(?!`) )
    | ( \w++ )
    | ( {_LINE_COMMENT} )
    | ( . )
    )?""",
    re.VERBOSE | re.DOTALL,
)
_NUMBERED_NAME: Final = 6
_COMMENT: Final = 7


def tokenize(text: str) -> list[Token]:
    """All tokens of a condition, an END last."""
    check_text(text)
    source = _without_bracketed_comments(text) if "/*" in text else text
    tokens: list[Token] = []
    append = tokens.append
    for found in _TOKEN.finditer(source):
        kind = found.lastindex
        if kind == WORD:
            word = found[1]
            start, end = found.span(1)
            if not word.isascii():
                _refuse_name(text, start, word)
            append((WORD, word.lower(), start, end))
        elif kind == SIGN:
            start, end = found.span(3)
            append((SIGN, found[3], start, end))
        # Only blanks are left.
        elif kind is None:
            break
        elif kind < _NUMBERED_NAME:
            start, end = found.span(kind)
            append((kind, _KEYS[kind], start, end))
        elif kind == _NUMBERED_NAME:
            word = found[6]
            start, end = found.span(6)
            if not word.isascii():
                _refuse_name(text, start, word)
            append((WORD, word.lower(), start, end))
        elif kind != _COMMENT:
            refuse_character(text, found.start(kind), _STRAY, "a name that has it needs back-quotes")
    append((END, "", len(text), len(text)))
    return tokens


_KEYS: Final = ["", "", "0", "", "'", "`"]

_COMMENTED = re.compile(
    rf"{_TEXT} | `[^`]*+` | \w++ | {_LINE_COMMENT} | (/\*(?!\+)) | (['\"`])", re.VERBOSE | re.DOTALL
)
_BRACKET = re.compile(r"/\*(?!\+)|\*/")


def _without_bracketed_comments(text: str) -> str:
    """The text with blanks in place of bracketed comments, so that every position stays what it was.

    They nest, which no regular expression can follow; conditions without any do not pay for it.
    """
    pieces = []
    done = at = 0
    while found := _COMMENTED.search(text, at):
        at = found.end()
        # Group 1 is the beginning of a comment, group 2 a quote that nothing closes.
        if found.lastindex == 2:
            break  # the tokenizer refuses it with its position
        if found.lastindex == 1:
            start = found.start()
            at = _end_of_comment(text, start)
            pieces += [text[done:start], " " * (at - start)]
            done = at
    return "".join([*pieces, text[done:]])


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket[0] == "/*" else -1
        if not depth:
            return bracket.end()
    raise ParseError(text, start, "this comment is never closed", "comments nest: every /* needs its own */")


def _refuse_name(text: str, start: int, word: str) -> None:
    reason = f"the name {word} needs back-quotes: without them a name has only the letters a to z, digits and _"
    raise ParseError(text, start, reason, f"write `{word}`")


_STRAY = {
    "'": ("this text is never closed", "end it with ', and write a ' inside it as ''"),
    '"': ("this text is never closed", 'end it with ", and write a " inside it as ""'),
    "`": ("this name is never closed", "end it with `, and write a ` inside it as ``"),
    "/": ("hints are not part of a condition", "leave out everything from /*+ to */"),
    "$": ("there are no parameters in a condition", "write the value itself"),
    "@": ("there are no variables in a condition", "write the value itself, or a name in back-quotes"),
    "≥": ("there is no sign ≥", "'at least' is written >="),
    "≤": ("there is no sign ≤", "'at most' is written <="),
    "≠": ("there is no sign ≠", "'differs from' is written <>"),
    **typographic_quotes("texts stand in ' or \""),
}


# --- numbers -----------------------------------------------------------------------------------------------

_WIDTHS: Final = {"l": ("bigint", MAX_INT64 + 1), "s": ("smallint", 2**15), "y": ("tinyint", 2**7)}
# As Spark writes them: what is above is refused, even where it would round to them.
_MAX_FLOAT: Final = Decimal("3.4028234663852886E38")
_MAX_DOUBLE: Final = Decimal("1.7976931348623157E308")


def parse_number(text: str) -> int | Decimal | float:
    """The value of a number with an optional minus before it, of the type its notation says."""
    kind = text[-1].lower()
    if kind in _WIDTHS:
        return _sized_integer(text, *_WIDTHS[kind])
    if kind == "f":
        return _float(text[:-1])
    if kind == "d":
        return _decimal(text[:-2]) if text[-2] in "bB" else _double(text[:-1])
    if "e" in text or "E" in text:
        return _double(text)
    return _decimal(text) if "." in text else _integer(text)


def _integer(text: str) -> int | Decimal:
    if len(text) > MAX_DECIMAL_DIGITS:
        _bound_digits(text.lstrip("-").lstrip("0"))
    value = int(Decimal(text))
    return value if MIN_INT64 <= value <= MAX_INT64 else Decimal(value)


def _sized_integer(text: str, name: str, bound: int) -> int:
    value = Decimal(text[:-1])
    if not -bound <= value < bound:
        raise InvalidLiteral(f"{text} is no {name}: those go from {-bound} to {bound - 1}")
    return int(value)


def _double(text: str) -> float:
    value = float(text)
    if abs(value) >= _MAX_DOUBLE and (isinf(value) or abs(Decimal(text)) > _MAX_DOUBLE):
        raise InvalidLiteral(f"{text} is beyond the largest double, {_MAX_DOUBLE}")
    return value


def _float(text: str) -> float:
    value = _double(text)
    if abs(value) >= _MAX_FLOAT and abs(Decimal(text)) > _MAX_FLOAT:
        raise InvalidLiteral(f"{text}F is beyond the largest float, {_MAX_FLOAT}")
    # A float of Spark has 32 bits, and keeps what they hold when it is widened.
    rounded: float = unpack("f", pack("f", value))[0]
    return rounded


def _decimal(text: str) -> Decimal:
    _, _, exponent = text.lower().partition("e")
    # Ten thousand places are beyond any decimal, and within what Decimal can count.
    if len(exponent.lstrip("+-").lstrip("0")) > 4:
        raise InvalidLiteral(
            f"{text}BD has more than {MAX_DECIMAL_DIGITS} digits, the most a decimal has", "write it as a double"
        )
    value = Decimal(text)
    if not value:
        value = abs(value)  # no decimal zero is negative
    _, digits, scale = value.as_tuple()
    assert isinstance(scale, int)
    if len(digits) + max(scale, 0) > MAX_DECIMAL_DIGITS or -scale > MAX_DECIMAL_DIGITS:
        raise InvalidLiteral(
            f"{text} has more than {MAX_DECIMAL_DIGITS} digits, the most a decimal has", "write it as a double"
        )
    return value if scale <= 0 else Decimal(int(value))


def _bound_digits(digits: str) -> None:
    if len(digits) > MAX_DECIMAL_DIGITS:
        raise InvalidLiteral(
            f"a number of {len(digits)} digits; no type has more than {MAX_DECIMAL_DIGITS}", "write it as a double"
        )


# --- texts -------------------------------------------------------------------------------------------------

_ESCAPES: Final = {
    quote: re.compile(
        rf"\\u([0-9a-fA-F]{{4}})|\\U([0-9a-fA-F]{{8}})|\\([01][0-7]{{2}})|\\(.)|({quote}{quote})", re.DOTALL
    )
    for quote in "'\""
}
# A pattern's own escapes of % and _ stay as they are, for LIKE to read.
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def parse_strings(literals: list[str]) -> str:
    """The characters that text literals side by side stand for, quotes taken off and escapes resolved."""
    value = "".join(map(_characters, literals))
    if not value.isascii():
        try:
            # Two escapes may be the halves of one character, even from two literals.
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise InvalidLiteral("an escape in this text is half a character", "write both halves, or \\U") from None
    return value


def _characters(literal: str) -> str:
    quote = literal[0]
    if quote in "rR":
        return literal[2:-1]
    inside = literal[1:-1]
    if "\\" in inside:
        return _ESCAPES[quote].sub(_resolve, inside)
    return inside.replace(quote * 2, quote) if quote in inside else inside


def _resolve(found: re.Match[str]) -> str:
    which = found.lastindex
    if which == 4:
        return _ESCAPED.get(found[4], found[4])
    if which == 5:
        return found[5][0]
    if which == 3:
        return chr(int(found[3], 8))
    code = int(found[which or 0], 16)
    if code > 0x10FFFF:
        raise InvalidLiteral(f"there is no character U+{code:X}", "the last is \\U0010FFFF")
    return chr(code)


def parse_hexadecimal(digits: str) -> bytes:
    """The bytes of X'…'."""
    if not re.fullmatch("[0-9a-fA-F]*", digits):
        raise InvalidLiteral(f"X'{digits}' has something else than hexadecimal digits")
    return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")


# --- dates and moments -------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"\s*([A-Za-z]+)[ \t]*(.*)", re.DOTALL)
_CLOCK: Final = frozenset({"now", "today", "tomorrow", "yesterday"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_date(written: str) -> date:
    """The value of DATE'…'."""
    if _is_epoch(written):
        return _EPOCH.date()
    value = to_date(written)
    if value is None:
        raise InvalidLiteral(f"{written!r} is no date", "write it as DATE'2024-01-31'; years go from 0001 to 9999")
    return value


def parse_timestamp(written: str, zone: str) -> datetime:
    """The value of TIMESTAMP'…' in UTC; without a zone of its own it is read in `zone`."""
    if _is_epoch(written):
        return _EPOCH
    return _moment(to_timestamp(written, zone), written)


def parse_local_timestamp(written: str, zone: str) -> datetime:
    """The value of TIMESTAMP_NTZ'…': read in `zone` even if it names another, as Spark compares it."""
    place = zone_of(zone) or UTC
    local = _EPOCH if _is_epoch(written) else _moment(to_local_timestamp(written), written)
    return local.replace(tzinfo=place).astimezone(UTC)


def _moment(value: datetime | None, written: str) -> datetime:
    if value is None:
        hint = "write it as TIMESTAMP'2024-01-31 23:59:59'; a zone may follow, years go from 0001 to 9999"
        raise InvalidLiteral(f"{written!r} is no timestamp", hint)
    return value


def _is_epoch(written: str) -> bool:
    """Whether a special word is meant, and the one among them that does not read the clock."""
    found = _SPECIAL.fullmatch(written.strip())
    if not found or (found[2] and zone_of(found[2]) is None):
        return False
    word = found[1].lower()
    if word in _CLOCK:
        reason = f"{word!r} changes with the clock, and a subscription must mean the same at any time"
        raise InvalidLiteral(reason, "write the date itself")
    return word == "epoch"
