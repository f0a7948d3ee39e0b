"""Comparisons of string values with constants: evaluation and implication.

Implication is sound and transitive: where it holds, every text that passes the first test passes the second. It is
known for each pair of tests alone, which is what a homomorphism of patterns needs (Chand).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Final

from palio.xml.pattern import ORDER_OPERATORS, ValueTest

_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def xpath_number(text: str) -> float:
    """The number of a text as XPath 1.0 reads it: digits with an optional minus and point, or NaN."""
    found = _NUMBER.fullmatch(text)
    return float(found[1]) if found else math.nan


def passes(test: ValueTest, text: str) -> bool:
    """Whether a string value passes a test."""
    constant = test.constant
    if isinstance(constant, float):
        return _COMPARE[test.operator](xpath_number(text), constant)
    match test.operator:
        case "=":
            return text == constant
        case "!=":
            return text != constant
        case "contains":
            return constant in text
        case "starts-with":
            return text.startswith(constant)
    raise AssertionError(f"{test.operator} compares numbers")


def implies(first: ValueTest, second: ValueTest) -> bool:
    """Whether every text that passes the first test is known to pass the second."""
    if first == second:
        return True
    constant, other = first.constant, second.constant
    if isinstance(constant, float):
        if isinstance(other, float):
            return _implies_number(first.operator, constant, second.operator, other)
        # The text 's' has another number than those that pass, so that no text that passes is 's'.
        return second.operator == "!=" and not _COMPARE[first.operator](xpath_number(other), constant)
    if first.operator == "=":
        return passes(second, constant)
    if isinstance(other, float) or first.operator == "!=":
        return False
    match second.operator:
        case "!=":
            return not passes(first, other)
        case "contains":
            return other in constant
        case "starts-with":
            return first.operator == "starts-with" and constant.startswith(other)
    return False


def _implies_number(first: str, low: float, second: str, high: float) -> bool:
    """Whether a number in one relation to a constant is in another relation to another constant."""
    if first == "=":
        return _COMPARE[second](low, high)
    if second == "!=":
        return first in ORDER_OPERATORS and not _COMPARE[first](high, low)
    if first[0] != second[0] or first not in ORDER_OPERATORS:
        return False
    if low == high:
        return first == second or len(second) == 2
    return low < high if first[0] == "<" else low > high


def excludes(first: ValueTest, second: ValueTest) -> bool:
    """Whether no text is known to pass both tests."""
    match first, second:
        case ValueTest("=", str(text)), _:
            return not passes(second, text)
        case _, ValueTest("=", str(text)):
            return not passes(first, text)
        case ValueTest(one, float(low)), ValueTest(two, float(high)):
            return _exclude_numbers(one, low, two, high)
        case ValueTest("starts-with", str(one)), ValueTest("starts-with", str(two)):
            return not (one.startswith(two) or two.startswith(one))
    return False


def _exclude_numbers(one: str, low: float, two: str, high: float) -> bool:
    if one == "=":
        return not _COMPARE[two](low, high)
    if two == "=":
        return not _COMPARE[one](high, low)
    if one not in ORDER_OPERATORS or two not in ORDER_OPERATORS or one[0] == two[0]:
        return False
    least, most = (low, high) if one[0] == ">" else (high, low)
    return least > most or (least == most and not len(one) == len(two) == 2)
