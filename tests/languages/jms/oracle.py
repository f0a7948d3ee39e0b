"""Second implementation of JMS selectors: parsed and evaluated at once, rule by rule of the specification.

Nothing here is shared with what it is compared to, and nothing is fast: the text is read anew for every message, by
one function per line of the grammar, and each function gives the value of what it has read. None is NULL and unknown.
It takes valid selectors only; what is refused is tested elsewhere.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_TOKENS = re.compile(
    r"""\s*(?: (?P<hexfloat>0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+[fFdD]?)
             | (?P<integer>0[xX][0-9a-fA-F_]+[lL]? | 0[bB][01_]+[lL]? | [0-9][0-9_]*[lL]?(?![0-9_.eEfFdD]))
             | (?P<double>(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?[fFdD]?)
             | (?P<text>'(?:[^']|'')*') | (?P<quoted>"(?:[^"]|"")*")
             | (?P<word>[\w$]+(?:\.[\w$]+)*) | (?P<sign><>|<=|>=|[-+*/%=<>(),]) )""",
    re.VERBOSE,
)
_NUMBERS = (int, float, Decimal)


def judge(selector: str, message: Mapping[str, Any]) -> bool | None:
    """TRUE, FALSE or None for one message; a blank selector selects every one."""
    reading = _Reading(selector, message)
    if not reading.tokens:
        return True
    outcome = reading.truth(reading.or_())
    assert not reading.tokens, reading.tokens
    return outcome


class _Attribute:
    """The value of a property, which may stand for a value or a condition."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Reading:
    def __init__(self, selector: str, message: Mapping[str, Any]) -> None:
        self.message = message
        self.tokens: list[tuple[str, str]] = []
        end = len(selector.rstrip())
        at = 0
        while at < end:
            found = _TOKENS.match(selector, at)
            assert found is not None, selector[at:]
            assert found.lastgroup is not None
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()

    def sees(self, *words: str) -> bool:
        for (kind, text), word in zip(self.tokens, words, strict=False):
            if kind not in ("word", "sign") or text.upper() != word:
                return False
        return len(self.tokens) >= len(words)

    def skip(self, *words: str) -> bool:
        if not self.sees(*words):
            return False
        del self.tokens[: len(words)]
        return True

    @staticmethod
    def truth(found: Any) -> bool | None:
        """A property stands for a condition as if it were compared with TRUE."""
        if isinstance(found, _Attribute):
            return compare("=", found.value, True)
        assert found is None or isinstance(found, bool)
        return found

    # NOT binds more tightly than AND, and AND than OR; the truth tables are those of SQL's three values.

    def or_(self) -> Any:
        found = self.and_()
        while self.skip("OR"):
            left, right = self.truth(found), self.truth(self.and_())
            found = True if True in (left, right) else None if None in (left, right) else False
        return found

    def and_(self) -> Any:
        found = self.not_()
        while self.skip("AND"):
            left, right = self.truth(found), self.truth(self.not_())
            found = False if False in (left, right) else None if None in (left, right) else True
        return found

    def not_(self) -> Any:
        if self.skip("NOT"):
            inner = self.truth(self.not_())
            return None if inner is None else not inner
        return self.comparison()

    def comparison(self) -> Any:
        left = self.sum()
        value = left.value if isinstance(left, _Attribute) else left
        for sign in ("<>", "<=", ">=", "=", "<", ">"):
            if self.skip(sign):
                return compare(sign, value, self.value())
        if self.skip("IS", "NULL"):
            return value is None
        if self.skip("IS", "NOT", "NULL"):
            return value is not None
        negated = self.sees("NOT", "BETWEEN") or self.sees("NOT", "IN") or self.sees("NOT", "LIKE")
        if negated:
            self.skip("NOT")
        if self.skip("BETWEEN"):
            low = self.value()
            assert self.skip("AND")
            return between(value, low, self.value(), negated)
        if self.skip("IN"):
            assert self.skip("(")
            items = [self.value()]
            while self.skip(","):
                items.append(self.value())
            assert self.skip(")")
            return not_within(value, items) if negated else within(value, items)
        if self.skip("LIKE"):
            pattern = self.text()
            escape = self.text() if self.skip("ESCAPE") else None
            return like(value, pattern, escape, negated)
        return left

    def text(self) -> str:
        kind, found = self.tokens.pop(0)
        assert kind == "text"
        return found[1:-1].replace("''", "'")

    # Signs bind more tightly than products, and products than sums.

    def value(self) -> Any:
        found = self.sum()
        return found.value if isinstance(found, _Attribute) else found

    def sum(self) -> Any:
        found = self.product()
        while self.sees("+") or self.sees("-"):
            sign = self.tokens.pop(0)[1]
            found = arithmetic(sign, _plain(found), _plain(self.product()))
        return found

    def product(self) -> Any:
        found = self.signed()
        while self.sees("*") or self.sees("/") or self.sees("%"):
            sign = self.tokens.pop(0)[1]
            found = arithmetic(sign, _plain(found), _plain(self.signed()))
        return found

    def signed(self) -> Any:
        if self.sees("-") and len(self.tokens) > 1 and self.tokens[1][0] == "integer":
            self.skip("-")
            return wrap(-integer(self.tokens.pop(0)[1]))
        if self.skip("-"):
            value = _plain(self.signed())
            return wrap(-value) if type(value) is int else -value if type(value) in _NUMBERS else None
        if self.skip("+"):
            value = _plain(self.signed())
            return value if type(value) in _NUMBERS else None
        return self.primary()

    def primary(self) -> Any:
        if self.skip("("):
            found = self.or_()
            assert self.skip(")")
            return found
        kind, text = self.tokens.pop(0)
        match kind:
            case "integer":
                return wrap(integer(text))
            case "double":
                return double(text)
            case "hexfloat":
                return double_of_hex(text)
            case "text":
                return text[1:-1].replace("''", "'")
            case "quoted":
                return _Attribute(self.message.get(text[1:-1].replace('""', '"')))
        if text.upper() in ("TRUE", "FALSE"):
            return text.upper() == "TRUE"
        return _Attribute(self.message.get(text))


def _plain(found: Any) -> Any:
    return found.value if isinstance(found, _Attribute) else found


# Numerals are written as in Java.


def integer(text: str) -> int:
    digits = text.replace("_", "").rstrip("lL")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    if digits[:2] in ("0b", "0B"):
        return int(digits, 2)
    return int(digits, 8) if digits[0] == "0" else int(digits)


def double(text: str) -> float:
    digits = text.replace("_", "")
    return single(float(digits[:-1])) if digits[-1] in "fF" else float(digits.rstrip("dD"))


def double_of_hex(text: str) -> float:
    mantissa, _, exponent = text.replace("_", "").lower().partition("p")
    value = float.fromhex(f"{mantissa}p{exponent.rstrip('fd')}")
    return single(value) if exponent[-1] == "f" else value


def single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def wrap(value: int) -> int:
    """A long, as Java adds and multiplies them."""
    return int.from_bytes((value % 2**64).to_bytes(8, "big"), "big", signed=True)


# Unlike values compared are false, and NULL compared is unknown.


def compare(sign: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        if float in (type(left), type(right)):
            return _compare_doubles(sign, float(left), float(right))
    elif type(left) is not type(right) or (type(left) is bool and sign not in ("=", "<>")):
        return False
    below, equal = left < right, left == right
    return _outcome(sign, below, equal)


def _compare_doubles(sign: str, left: float, right: float) -> bool:
    """As `Double.compareTo` has it, but for the two zeros."""
    if left != left:
        return _outcome(sign, False, right != right)
    if right != right:
        return _outcome(sign, True, False)
    return _outcome(sign, left < right, left == right)


def _outcome(sign: str, below: bool, equal: bool) -> bool:
    return {
        "=": equal,
        "<>": not equal,
        "<": below,
        "<=": below or equal,
        ">": not below and not equal,
        ">=": not below,
    }[sign]


# BETWEEN is two comparisons that both hold, NOT BETWEEN their opposites, of which one holds.


def between(value: Any, low: Any, high: Any, negated: bool) -> bool | None:
    if negated:
        parts = [compare("<", value, low), compare(">", value, high)]
        return True if True in parts else None if None in parts else False
    parts = [compare(">=", value, low), compare("<=", value, high)]
    return False if False in parts else None if None in parts else True


# Whether NULL is in a list, or not in it, is unknown.


def within(value: Any, items: list[Any]) -> bool | None:
    outcomes = [compare("=", value, item) for item in items]
    return True if True in outcomes else None if None in outcomes else False


def not_within(value: Any, items: list[Any]) -> bool | None:
    inside = within(value, items)
    if inside is None or inside:
        return None if inside is None else False
    # Unlike all of them: the operation is false, as any that compares unlike values.
    return any(compare("=", value, item) or compare("<>", value, item) for item in items)


# A pattern as a regular expression.


def like(value: Any, pattern: str, escape: str | None, negated: bool) -> bool | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return False
    pieces: list[str] = []
    characters = list(pattern)
    while characters:
        character = characters.pop(0)
        if character == escape and characters and characters[0] in ("%", "_", escape):
            pieces.append(re.escape(characters.pop(0)))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return (re.fullmatch("".join(pieces), value, re.DOTALL) is not None) is not negated


# Numbers are promoted as in Java.


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if type(left) not in _NUMBERS or type(right) not in _NUMBERS:
        return None
    if type(left) is int and type(right) is int:
        return _of_longs(sign, left, right)
    return _of_doubles(sign, float(left), float(right))


def _of_longs(sign: str, left: int, right: int) -> int | float | None:
    match sign:
        case "+":
            return wrap(left + right)
        case "-":
            return wrap(left - right)
        case "*":
            return wrap(left * right)
    if right == 0:
        return None
    return float(left) / float(right) if sign == "/" else left - right * _towards_zero(left, right)


def _towards_zero(left: int, right: int) -> int:
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _of_doubles(sign: str, left: float, right: float) -> float:
    """Through NumPy, whose doubles never raise."""
    import numpy as np

    with np.errstate(all="ignore"):
        a, b = np.float64(left), np.float64(right)
        found = {"+": a + b, "-": a - b, "*": a * b, "/": a / b, "%": np.fmod(a, b)}[sign]
    return float(found)
