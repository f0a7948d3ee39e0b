"""Lexer of JMS selectors: tokens, Java identifiers and Java numerals.

The key of a reserved word is the word in small letters; the key of a name is empty.

A name is a Java identifier: `Character.isJavaIdentifierStart` and `isJavaIdentifierPart` say which characters it
has, and both depend on the character's Unicode category alone. Eleven words, in any mixture of capital and small
letters, are never names. Between double quotes any text is one, as in SQL-92.

Exact numerals are 64-bit integers, in decimal, hexadecimal (`0xFF`), octal (`017`) or binary (`0b101`), with or without
an `L` behind them; approximate ones have a point, an exponent, an `F` or a `D` (`7.`, `.5`, `7E3`, `95.7F`, `0x1p-3`).
Digits may be parted by `_`. As in Java, the sixty-four bits of a numeral that is not decimal may be those of a negative
number, and with an `F` a number is rounded to 32 bits.

The specification knows no comments; ActiveMQ and what came of it skip `/* … */`, and `--` with the rest of its line
where a line end follows. Where none does, `--` is two minus signs, here only directly before a number: `--1.0 = 1.0`.
What one reader would take for a comment and another for arithmetic is refused.
"""

from __future__ import annotations

import re
import struct
from math import isinf
from typing import Final, NoReturn
from unicodedata import category

from palio.errors import ParseError
from palio.events.names import split_path
from palio.events.values import MAX_INT64
from palio.filters.expressions.coercion import low_64_bits
from palio.languages.grammar import (
    END,
    NUMBER,
    QUOTED,
    SIGN,
    TEXT,
    WORD,
    InvalidLiteral,
    Token,
    check_text,
    refuse_character,
    shorten,
    typographic_quotes,
)

RESERVED: Final = frozenset("null true false not and or between like in is escape".split())

_START: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PART: Final = _START | {"Nd", "Mn", "Mc", "Cf"}


def first_foreign_character(name: str) -> int | None:
    """The place of the first character that a Java identifier cannot have there; None where it is one."""
    for place, character in enumerate(name):
        if category(character) not in (_PART if place else _START):
            return place
    return None


def is_identifier(name: str) -> bool:
    """Whether a name may stand in a selector without quotes."""
    return bool(name) and name.lower() not in RESERVED and first_foreign_character(name) is None


def write_name(path: str) -> str:
    """An attribute as a selector writes it, each part of its path in quotes where it must be."""
    return ".".join(each if is_identifier(each) else _quoted(each) for each in split_path(path))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_DIGITS: Final = r"[0-9](?:[0-9_]*[0-9])?"
_HEX: Final = r"[0-9a-fA-F](?:[0-9a-fA-F_]*[0-9a-fA-F])?"
_EXPONENT: Final = rf"(?:[eE][+-]?{_DIGITS})"

NUMERAL: Final = rf"""
    0[xX](?:{_HEX}\.?|(?:{_HEX})?\.{_HEX})[pP][+-]?{_DIGITS}[fFdD]?
  | 0[xX]{_HEX}[lL]? | 0[bB][01](?:[01_]*[01])?[lL]?
  | (?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS}){_EXPONENT}?[fFdD]?
  | {_DIGITS}(?:{_EXPONENT}[fFdD]?|[fFdD])
  | {_DIGITS}[lL]?
"""
"""The form of all numerals, as a verbose regular expression."""


def parse_number(numeral: str, negative: bool = False) -> int | float:
    """The number a numeral stands for, behind a minus where `negative`; InvalidLiteral where Java has none."""
    digits = numeral.replace("_", "").lower()
    if digits.startswith("0x"):
        return _approximate_hex(digits, negative) if "p" in digits else _bits(digits, 16, negative)
    if digits.startswith("0b"):
        return _bits(digits, 2, negative)
    if digits[-1] in "fd" or "." in digits or "e" in digits:
        return _approximate(digits, negative)
    digits = digits.removesuffix("l")
    if digits[0] == "0" and len(digits) > 1:
        return _octal(digits, negative)
    # To convert a long text takes quadratic time, and no number of twenty digits is in range. The stand-in is out of
    # range behind a minus too, which allows one more.
    exact = int(digits) if len(digits) < 20 else MAX_INT64 + 2
    if exact > MAX_INT64 + negative:
        raise InvalidLiteral(f"{shorten(digits)} is more than a 64-bit integer holds", "write a number with a point")
    return -exact if negative else exact


def _octal(digits: str, negative: bool) -> int:
    if digits.strip("01234567"):
        raise InvalidLiteral(
            f"{shorten(digits)} begins with a 0, so it is octal, and 8 and 9 are no octal digits",
            f"write {shorten(digits.lstrip('0'))} for the decimal number",
        )
    return _bits(digits, 8, negative)


def _bits(digits: str, base: int, negative: bool) -> int:
    body = digits.removesuffix("l")
    # 64 bits have at most 64 digits, in base 2; a text this long is out of range unless it is padded with zeros.
    value = int(body, base) if len(body) < 100 else 1 << 64
    if value >= 1 << 64:
        raise InvalidLiteral(f"{shorten(digits)} has more than 64 bits", "write a number with a point")
    # As in Java, the digits are the bits of a long: 0xFFFFFFFFFFFFFFFF is -1.
    value = value - (1 << 64) if value > MAX_INT64 else value
    return low_64_bits(-value) if negative else value


def _approximate(digits: str, negative: bool) -> float:
    mantissa = digits.rstrip("fd").partition("e")[0]
    value = float(digits.rstrip("fd"))
    return _check_range(value, digits, mantissa.strip("0.") == "", negative)


def _approximate_hex(digits: str, negative: bool) -> float:
    mantissa, _, exponent = digits.partition("p")
    power = exponent.rstrip("fd")
    try:
        value = float.fromhex(f"{mantissa}p{power}")
    except OverflowError:
        value = float("inf")
    is_float = exponent[-1] == "f"
    return _check_range(value, f"{mantissa}p{power}{'f' if is_float else ''}", mantissa[2:].strip("0.") == "", negative)


def _check_range(value: float, digits: str, is_zero: bool, negative: bool) -> float:
    """A number, rounded to 32 bits where its numeral ends in F; refused where it overflows, or underflows to 0."""
    if digits[-1] == "f":
        value = _to_float(value)
    if isinf(value) or (value == 0 and not is_zero):
        size = "large" if value else "small"
        raise InvalidLiteral(
            f"{shorten(digits)} is too {size} for a Java {'float' if digits[-1] == 'f' else 'double'}",
            "write a number in its range",
        )
    return -value if negative else value


def _to_float(value: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf")
    return rounded


HYPHENATED: Final = "hyphenated_props:"
"""The prefix by which Artemis allows hyphens in the names of a selector."""

_PREFIXES: Final = (HYPHENATED, "no_hyphenated_props:", "no_convert_string_expressions:")
_CONVERTING: Final = "convert_string_expressions:"

_LINE_COMMENT: Final = 6
_BLOCK_COMMENT: Final = 7
_NO_NUMERAL: Final = 8
# The numbers of the groups are the kinds of tokens: WORD to QUOTED of `grammar`, then the three above, then any other
# character, which is refused. Blanks, words and texts are possessive, so that none is tried a second time.
# A quote that is not doubled ends a text; the lookahead keeps a doubled one from being taken for the end.
# Behind a number a word may stand without a blank, but only one that continues the condition: `a = 1AND b = 2`.
# A dot before a digit begins a number, never a path. `_word_key` checks letters beyond ASCII.
_FORM: Final = r"""[ \t\n\r\f]*+(?:
      ( [A-Za-z_$\x80-\U0010ffff] [A-Za-z0-9_$\x80-\U0010ffff%s]*+ )
    | ( NUMERAL ) (?: (?![\w$.]) | (?=(?i:and|or|not|between|like|in|is|escape)(?![\w$])) )
    | (?!--|/\*) ( <> | <= | >= | [-=<>+*/%%(),.] ) (?<!\.(?=[0-9]))
    | ( '[^']*+(?:''[^']*+)*'(?!') )
    | ( "[^"]*+(?:""[^"]*+)*"(?!") )
    | ( -- )
    | ( /\* )
    | ( \.?[0-9][\w$.]*+ )
    | ( . )
    )?"""
_TOKEN: Final = re.compile((_FORM % "").replace("NUMERAL", NUMERAL), re.VERBOSE | re.DOTALL)
_HYPHENATED_TOKEN: Final = re.compile((_FORM % "-").replace("NUMERAL", NUMERAL), re.VERBOSE | re.DOTALL)
_KEYS: Final = {NUMBER: "0", TEXT: "'", QUOTED: '"'}
_LINE_END: Final = re.compile(r"[\r\n]")


def tokenize(text: str) -> list[Token]:
    """All tokens of a selector, an END last."""
    check_text(text)
    at, hyphenated = _skip_prefixes(text)
    match_token = (_HYPHENATED_TOKEN if hyphenated else _TOKEN).match
    last_line_end = max(text.rfind("\n"), text.rfind("\r"))
    tokens: list[Token] = []
    while True:
        match = match_token(text, at)
        assert match is not None  # it may be empty
        kind = match.lastindex
        if kind is None:
            tokens.append((END, "", len(text), len(text)))
            return tokens
        start, at = match.span(kind)
        if kind == WORD:
            tokens.append((WORD, _word_key(text, start, match[1]), start, at))
        elif kind == SIGN:
            tokens.append((SIGN, match[3], start, at))
        elif kind <= QUOTED:
            tokens.append((kind, _KEYS[kind], start, at))
        elif kind == _LINE_COMMENT and _is_comment(text, at, start < last_line_end):
            line_end = _LINE_END.search(text, at)
            assert line_end is not None  # there is one further on
            at = line_end.end()
        elif kind == _LINE_COMMENT:
            tokens += [(SIGN, "-", start, start + 1), (SIGN, "-", start + 1, at)]
        elif kind == _BLOCK_COMMENT:
            at = _end_of_comment(text, start)
        elif kind == _NO_NUMERAL:
            _refuse_numeral(text, start, match[kind])
        else:
            _refuse_character(text, start)


def _skip_prefixes(text: str) -> tuple[int, bool]:
    """The position behind the prefixes of Artemis, and whether they allow hyphens in names."""
    at = 0
    hyphenated = False
    while True:
        if text.startswith(_CONVERTING, at):
            reason = "texts are not read as numbers here: a text and a number are never equal"
            raise ParseError(text, at, reason, "leave out convert_string_expressions: and send numbers as numbers")
        prefix = next((each for each in _PREFIXES if text.startswith(each, at)), None)
        if prefix is None:
            return at, hyphenated
        hyphenated = prefix == HYPHENATED if "hyphenated" in prefix else hyphenated
        at += len(prefix)


def _word_key(text: str, start: int, word: str) -> str:
    if word.isascii():
        small = word.lower()
        return small if small in RESERVED else ""
    foreign = first_foreign_character(word)
    if foreign is not None:
        _refuse_character(text, start + foreign)
    return ""


def _is_comment(text: str, at: int, line_ends: bool) -> bool:
    """Whether -- begins a comment, and not a number with two signs.

    A comment needs a line end and no number behind --, two signs need a number and no line end. With both or neither,
    brokers read the text differently or not at all, and it is refused.
    """
    is_number = text[at : at + 1].isdigit() or text[at : at + 1] == "."
    if is_number is line_ends:
        reason = "-- may begin a comment here or be two minus signs" if is_number else "this comment never ends"
        hint = "write - - for two signs; a comment that begins with -- has a blank behind it and a line end"
        raise ParseError(text, at - 2, reason, hint)
    return line_ends


def _end_of_comment(text: str, start: int) -> int:
    end = text.find("*/", start + 2)
    if end < 0:
        raise ParseError(text, start, "this comment is never closed", "end it with */")
    return end + 2


def _refuse_numeral(text: str, start: int, found: str) -> None:
    hint = "a name begins with a letter, _ or $; any other stands in quotes"
    raise ParseError(text, start, f"{shorten(found)} is neither a number nor a name", hint)


_STRAY: Final = {
    "'": ("this text is never closed", "end it with ', and write a ' inside it as ''"),
    '"': ("this name is never closed", 'end it with ", and write a " inside it as ""'),
    "`": ("names stand in double quotes, not in back-quotes", 'write "a-b"'),
    "!": ("there is no sign !", "'differs from' is written <>, and negation NOT"),
    "&": ("there is no sign &", "'and' is written AND"),
    "|": ("there is no sign |", "'or' is written OR"),
    "[": ("there are no square brackets in a selector", 'a name with other characters stands in quotes: "a-b"'),
    "?": ("there are no parameters in a selector", "write the value itself"),
    ":": ("there are no parameters in a selector", 'write the value itself; a name with a colon in quotes: "a:b"'),
    ";": ("a selector is one condition", "leave the semicolon out"),
    **typographic_quotes("texts stand in ', names in \""),
}


def _refuse_character(text: str, position: int) -> NoReturn:
    refuse_character(text, position, _STRAY, 'a name that has it stands in quotes: "…"')
