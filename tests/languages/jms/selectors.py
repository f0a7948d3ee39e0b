"""Random selectors, and random messages to meet them.

Literals and values come from the same small pools, so that they meet; names are few, so that conditions share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.strategies import EVERY_VALUE, MISSING, Attributes, scalars

NAMES = ["a", "b", "JMSPriority", "$c_1", "é"]
QUOTED = {name: name for name in NAMES} | {"x-y": '"x-y"', "in": '"in"'}
SIGNS = ["=", "<>", "<", "<=", ">", ">="]
NUMBERS = [
    "0", "1", "-1", "2", "3L", "5", "10", "0x0A", "017", "0b11", "1_000", "0.0", "1.0", "-1.", ".5", "2.5", "5.0f",
    "0.1", "0.1f", "1e1", "1E-1", "7E3", "0x1p1", "9007199254740993", "9223372036854775807", "-9223372036854775808",
    "1e308",
]  # fmt: skip
TEXTS = ["", "a", "ab", "abc", "b", "it''s", "%", "_", "a_c", "A", "5", "é", "\n", "true", "x\ny"]
PATTERNS = [
    "", "%", "_", "a", "a%", "%b", "%b%", "a%b", "a_", "_b%", "%a%b%", "a_c", "%''%", "%é", "\n", "x%y", "\\%", "!",
    "%%", "%_",
]  # fmt: skip
ESCAPED = [
    ("a!_c", "!"), ("!%", "!"), ("!!%", "!"), ("%_%", "%"), ("__", "_"), ("a\\_%", "\\"), ("!a", "!"), ("!", "a"),
    ("%!%%", "!"), ("_a_", "_"),
]  # fmt: skip


class _Writer:
    """Writes random selectors: every method gives a piece of text."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw

    def _pick(self, options: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(options))

    def _word(self, word: str) -> str:
        return str(self._pick([word, word, word.lower(), word.title()]))

    def name(self) -> str:
        return str(self._pick(list(QUOTED.values())))

    def number(self) -> str:
        return str(self._pick(NUMBERS))

    def text(self) -> str:
        return f"'{self._pick(TEXTS)}'"

    def literal(self) -> str:
        return str(self._pick([self.number, self.number, self.text])())

    def value(self, depth: int) -> str:
        """Something that is compared."""
        if depth == 0 or self._pick([0, 1, 2]) == 0:
            return str(self._pick([self.name, self.name, self.literal])())
        return str(self._pick([self._arithmetic, self._signed, self._joined])(depth - 1))

    def _operand(self, depth: int) -> str:
        if depth == 0 or self._pick([0, 1]) == 0:
            return str(self._pick([self.name, self.name, self.number])())
        return f"({self._arithmetic(depth - 1)})"

    def _arithmetic(self, depth: int) -> str:
        pieces = [self._operand(depth)]
        for _ in range(self._pick([1, 1, 2])):
            pieces += [self._pick(["+", "-", "*", "/", "%"]), self._operand(depth)]
        return " ".join(pieces)

    def _signed(self, depth: int) -> str:
        return f"{self._pick(['-', '+', '- '])}{self._pick([self.name(), f'({self._arithmetic(depth)})'])}"

    def _joined(self, depth: int) -> str:
        return f"{self.name()} + {self.text()}"

    def condition(self, depth: int) -> str:
        if depth == 0 or self._pick([0, 1, 2]) == 0:
            simple = self._pick([True, True, False])
            return str(self._pick(self._atoms)(self, 0 if simple else 2))
        return str(self._pick(self._compounds)(self, depth - 1))

    def _comparison(self, depth: int) -> str:
        sign = self._pick(SIGNS)
        if sign in ("=", "<>") and self._pick([0, 1, 2, 3]) == 0:
            return f"{self.name()} {sign} {self._word(self._pick(['TRUE', 'FALSE']))}"
        return f"{self.value(depth)} {sign} {self.value(depth)}"

    def _with_literal(self, depth: int) -> str:
        sides = [self.name(), self.literal()]
        if self._pick([True, False]):
            sides.reverse()
        return f" {self._pick(SIGNS)} ".join(sides)

    def _flag(self, depth: int) -> str:
        return self.name()

    def _constant(self, depth: int) -> str:
        return str(self._pick(["TRUE", "false", "1 = 1", "'a' = 5", "1 / 0 > 2"]))

    def _between(self, depth: int) -> str:
        word = f"{self._not()}{self._word('BETWEEN')}"
        return f"{self.value(depth)} {word} {self.value(depth)} {self._word('AND')} {self.value(depth)}"

    def _in(self, depth: int) -> str:
        make = self.literal if depth == 0 else lambda: self.value(1)
        items = [make() for _ in range(self._pick([1, 2, 3]))] + self._pick([[], [], ["TRUE"]])
        return f"{self.value(depth)} {self._not()}{self._word('IN')} ({', '.join(items)})"

    def _like(self, depth: int) -> str:
        if self._pick([True, False]):
            return f"{self.value(depth)} {self._not()}{self._word('LIKE')} '{self._pick(PATTERNS)}'"
        pattern, escape = self._pick(ESCAPED)
        return f"{self.name()} {self._not()}LIKE '{pattern}' {self._word('ESCAPE')} '{escape}'"

    def _is_null(self, depth: int) -> str:
        return f"{self.value(depth)} {self._word('IS')} {self._not()}NULL"

    def _not(self) -> str:
        return str(self._pick(["", "", "NOT ", "not "]))

    def _and_or(self, depth: int) -> str:
        parts = [
            self._pick(["({})", "({})", "NOT ({})"]).format(self.condition(depth)) for _ in range(self._pick([2, 3]))
        ]
        return str(self._pick([" AND ", " OR ", " and "]).join(parts))

    def _bare(self, depth: int) -> str:
        """Without brackets: precedence says what belongs together."""
        parts = [f"{self._pick(['', '', 'NOT '])}{self._pick(self._atoms)(self, 0)}" for _ in range(3)]
        return f"{parts[0]} {self._pick(['AND', 'OR'])} {parts[1]} {self._pick(['AND', 'OR'])} {parts[2]}"

    def _negation(self, depth: int) -> str:
        return f"{self._word('NOT')} ({self.condition(depth)})"

    def _condition_is_null(self, depth: int) -> str:
        return f"({self.condition(depth)}) IS {self._not()}NULL"

    def _truths(self, depth: int) -> str:
        right = self._pick(["TRUE", "FALSE", self.name(), f"({self.condition(depth)})", "5"])
        return f"({self.condition(depth)}) {self._pick(['=', '<>'])} {right}"

    _atoms = (_comparison, _with_literal, _with_literal, _flag, _constant, _between, _in, _like, _is_null)
    _compounds = (_and_or, _and_or, _bare, _negation, _condition_is_null, _truths)


@st.composite
def selectors(draw: Any, depth: int = 3) -> str:
    """A valid selector."""
    return _Writer(draw).condition(depth)


@st.composite
def simple_selectors(draw: Any) -> str:
    """A selector of comparisons of an attribute with literals, flags, AND, OR and NOT: what an index can hold."""
    writer = _Writer(draw)

    def condition(depth: int) -> str:
        if depth == 0:
            name = writer.name()
            number, text = writer.number(), writer.text()
            return str(
                draw(
                    st.sampled_from(
                        [
                            f"{name} {draw(st.sampled_from(SIGNS))} {number}",
                            f"{text} {draw(st.sampled_from(SIGNS))} {name}",
                            f"{name} <> TRUE",
                            f"{name} IN ({text}, {writer.text()}, {number})",
                            f"{name} NOT IN ({text})",
                            f"{name} BETWEEN {number} AND {writer.number()}",
                            f"{name} NOT BETWEEN {number} AND {writer.number()}",
                            f"{name} LIKE '{draw(st.sampled_from(PATTERNS))}'",
                            f"{name} NOT LIKE '{draw(st.sampled_from(PATTERNS))}'",
                            f"{name} IS NULL",
                            f"{name} IS NOT NULL",
                            name,
                        ]
                    )
                )
            )
        parts = [condition(depth - 1) for _ in range(2)]
        form = draw(st.sampled_from(["({}) AND ({})", "({}) OR ({})", "NOT ({}) AND ({})", "NOT ({}) OR NOT ({})"]))
        return str(form.format(*parts))

    return condition(draw(st.integers(0, 2)))


def messages() -> st.SearchStrategy[Attributes]:
    """What a message says, by name: values of every kind, null, and nothing."""
    pool = st.sampled_from([value for value in EVERY_VALUE if value is not MISSING])
    return st.dictionaries(st.sampled_from(list(QUOTED)), pool | scalars(), max_size=len(QUOTED))
