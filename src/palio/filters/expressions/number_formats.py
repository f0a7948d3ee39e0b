"""Number formats: to_number() reads a text by a format such as `$9,999.99`, and to_char() writes a number by one.

A format has, in this order: `MI` or `S`, `$`, digits with separators, `.` and more digits, and at the end `MI`, `S` or
`PR`; one sign in all. A digit is 0 or 9, a separator `,` or `G`, the point `.` or `D`. A group of digits that begins
with 0 has that many, one that begins with 9 has at most as many. What is written always has the length of the format:
blanks stand for missing digits and signs, and `#` for each digit of a number that has more. Rules and results are those
of Spark; a format with two signs, which Spark takes, is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Final

from palio.events.values import MAX_DECIMAL_DIGITS

_FORMAT: Final = re.compile(
    r"(MI|S)?(\$)?([09]+(?:[,G][09]+)*)?(?:([.D])([09]*))?(MI|S|PR)?\Z", re.IGNORECASE | re.ASCII
)
_SHAPE: Final = "a format of numbers is such as '$9,999.99', 'S000' or '999.9PR'"
_ZERO: Final = "0"


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A parsed format. `groups` are the runs of digits before the point, `fraction` counts those behind it."""

    sign: str
    """MI, S or PR, or nothing."""
    is_sign_first: bool
    has_dollar: bool
    groups: tuple[str, ...]
    has_point: bool
    fraction: int

    @property
    def digits(self) -> int:
        """How many digits there are, before the point and behind it."""
        return sum(map(len, self.groups)) + self.fraction

    @classmethod
    def parse(cls, text: str) -> NumberFormat:
        """Parse a format; a ValueError tells why it is none."""
        found = _FORMAT.match(text)
        if found is None:
            raise ValueError(f"{_SHAPE}, not {text!r}")
        before, dollar, groups, point, fraction, behind = found.groups()
        if before and behind:
            raise ValueError(f"a format of numbers has one sign, and {text!r} has two")
        runs = tuple(re.split("[,Gg]", groups)) if groups else ()
        digits = sum(map(len, runs)) + len(fraction or "")
        if not 1 <= digits <= MAX_DECIMAL_DIGITS:
            raise ValueError(
                f"a format of numbers has from 1 to {MAX_DECIMAL_DIGITS} digits, and {text!r} has {digits}"
            )
        sign = (before or behind or "").upper()
        return cls(sign, before is not None, dollar is not None, runs, point is not None, len(fraction or ""))

    def read(self, text: str) -> Decimal | None:
        """The number that a text denotes; None where it has another form."""
        rest, is_negative = self._without_sign(text)
        if self.has_dollar:
            if not rest.startswith("$"):
                return None
            rest = rest[1:]
        whole, _, fraction = rest.partition(".") if self.has_point else (rest, "", "")
        before, behind = _digit_groups(whole), _digit_groups(fraction)
        if before is None or behind is None or not self._admits(before) or len(behind) > 1:
            return None
        digits, decimals = "".join(before), "".join(behind)
        if len(decimals) > self.fraction or len(digits.lstrip(_ZERO)) > sum(map(len, self.groups)):
            return None
        if not digits and not decimals:
            return None
        value = Decimal(f"{digits or _ZERO}.{decimals.ljust(self.fraction, _ZERO)}")
        return -value if is_negative else value

    def _without_sign(self, text: str) -> tuple[str, bool]:
        if self.sign == "PR":
            is_negative = text.startswith("<") and text.endswith(">")
            return (text[1:-1], True) if is_negative else (text, False)
        signs = ("-", "+") if self.sign == "S" else ("-",) if self.sign == "MI" else ()
        if self.is_sign_first:
            return (text[1:], text[0] == "-") if text.startswith(signs) and signs else (text, False)
        return (text[:-1], text[-1] == "-") if signs and text.endswith(signs) else (text, False)

    def _admits(self, digits: list[str]) -> bool:
        """Whether each group of digits, from the point to the left, has a length that the format has there."""
        if len(digits) > max(1, len(self.groups)):
            return False
        return all(
            len(given) == len(group) if group.startswith(_ZERO) else len(given) <= len(group)
            for group, given in zip_longest(reversed(self.groups), reversed(digits), fillvalue="")
        )

    def write(self, value: Decimal) -> str:
        """A number in this format; `#` for its digits where it has more than the format."""
        digits, _, decimals = f"{abs(value):f}".partition(".")
        digits, decimals = digits.lstrip(_ZERO), decimals.rstrip(_ZERO)
        is_negative = value < 0
        if len(digits) > sum(map(len, self.groups)) or len(decimals) > self.fraction:
            whole = " ".join("#" * len(group) for group in self.groups)
            return self._signed(whole, "#" * self.fraction, is_negative)
        return self._signed(self._grouped(digits), decimals.ljust(self.fraction, _ZERO), is_negative)

    def _grouped(self, digits: str) -> str:
        """The digits before the point, right-aligned in the groups of the format."""
        written = ""
        missing = sum(map(len, self.groups)) - len(digits)
        for number, group in enumerate(self.groups):
            if number:
                written += "," if written[-1].isdigit() else " "
            filled = min(missing, len(group))
            missing -= filled
            written += (_ZERO if group.startswith(_ZERO) else " ") * filled + digits[: len(group) - filled]
            digits = digits[len(group) - filled :]
        return written

    def _signed(self, whole: str, decimals: str, is_negative: bool) -> str:
        """The parts of a number with its sign, which stands next to the digits."""
        first = self._mark(is_negative) if self.is_sign_first else "<" if self.sign == "PR" and is_negative else ""
        number = ("$" if self.has_dollar else "") + whole
        blanks = len(number) - len(number.lstrip(" "))
        number = f"{number[:blanks]}{first}{number[blanks:]}"
        if self.has_point and number.endswith(" "):
            number = f"{number[:-1]}0"
        if self.has_point:
            number += f".{decimals}" if decimals else " "
        if self.is_sign_first or not self.sign:
            return number
        if self.sign == "PR" and not is_negative:
            return f"{number}  "
        digits = number.rstrip(" ")
        return f"{digits}{'>' if self.sign == 'PR' else self._mark(is_negative)}{number[len(digits) :]}"

    def _mark(self, is_negative: bool) -> str:
        return "-" if is_negative else "+" if self.sign == "S" else " "


def _digit_groups(text: str) -> list[str] | None:
    """The runs of digits between commas, blanks within them left out; None where there is anything else."""
    groups = ["".join(each.split()) for each in text.split(",")]
    if not all(each.isdecimal() or not each for each in groups):
        return None
    return ["".join(str(int(digit)) for digit in each) for each in groups] if text else [""]
