"""Generator of text expressions: functions, constructs, patterns, regular expressions."""

from __future__ import annotations

from tests.oracles.sql_types import BINARY, STRING
from tests.oracles.writing import COMPARISON, PRIMARY, SUM, Expr, Writer

# fmt: off
_WORDS = ("a", "A", "ab", "abc", "b", "é", "😀", "10", " ", "%", "_", "\\", "", "World")
_PIECES = ("a", "A", "b", "ab", "aB", "c", "é", "É", "😀", "10", " ", "\n", "ß", "Σ", "İ", "-", "World")
"""Of LIKE patterns."""
_ATOMS = [" ", *r"""
    a b A ab . \d \w \s \S \W \D [a-c] [^a] [a-zA-Z0-9] \. é 😀 [é-ü] \n 1 [\w.] \x41 \u0061 \t \p{L} \p{Lu} \Qa.b\E
    [[a-c]&&[b-z]] \p{Alpha} %
""".split()]
_QUANTIFIERS = "* + ? {2} {1,3} {2,} *? +? ??".split()
_BEGINNINGS = r"(?i) (?s) (?m) (?i) (?=a) (a)\1 a++ (?<!b)".split()
# fmt: on


class Texts(Writer):
    """Strings, LIKE patterns and regular expressions."""

    def _string_function(self, depth: int) -> Expr:
        return self.function(STRING, depth)

    def _string_cast(self, depth: int) -> Expr:
        return self.cast(self.printable(depth - 1), STRING, "varchar(30)" if self.chance(0.1) else None)

    def _joined(self, depth: int) -> Expr:
        parts = [
            self.value(STRING, depth - 1) if self.chance(0.85) else self.printable(0)
            for _ in range(self.random.randint(2, 3))
        ]
        self.used["||"] += 1
        if all(part.type == BINARY for part in parts):
            parts.append(self.literal(STRING))
        return self.infix("||", SUM, STRING, *parts)

    def _string_construct(self, depth: int) -> Expr:
        value = self.value(STRING, depth - 1)
        place = self.random.choice(["TRIM", "SUBSTRING", "trim"])
        if place == "SUBSTRING":
            start, count = self.small(-3, 4), self.small(-1, 5)
            ending = f" {self.word('FOR')} {count.text}" if self.chance(0.6) else ""
            return self.made(
                f"{self.word(place)}({self.within(value, COMPARISON + 1)} {self.word('FROM')} {start.text}{ending})",
                STRING,
                PRIMARY,
                value,
                start,
            )
        side = self.word(self.random.choice(["BOTH ", "LEADING ", "TRAILING ", ""]))
        part = self.text(self.random.choice(_WORDS)) if self.chance(0.7) or not side else None
        characters = f"{part.text} " if part else ""
        return self.made(
            f"{self.word(place)}({side}{characters}{self.word('FROM')} {self.within(value, COMPARISON + 1)})",
            STRING,
            PRIMARY,
            value,
        )

    def pattern(self, escape: str = "\\") -> Expr:
        """A LIKE pattern: pieces of the tables' strings, with wildcards and escapes."""
        random = self.random
        pieces = []
        for _ in range(random.choice([0, 1, 1, 2, 2, 3, 4])):
            chance = random.random()
            if chance < 0.3:
                pieces.append("%")
            elif chance < 0.45:
                pieces.append("_")
            elif chance < 0.6:
                pieces.append(escape + random.choice(["%", "_", escape]))
            elif chance < 0.61:
                pieces.append(escape)
            else:
                piece = random.choice(_PIECES)
                pieces.append(piece if escape not in piece else "")
        return self.text("".join(pieces))

    def regex(self, depth: int = 2) -> str:
        """A Java regular expression, now and then one that no linear engine can do."""
        random = self.random
        pieces = []
        for _ in range(random.choice([1, 1, 2, 2, 3])):
            chance = random.random()
            if chance < 0.15 and depth:
                inner = self.regex(depth - 1)
                pieces.append(f"{random.choice(['(', '(?:', '(?i:'])}{inner})")
                if any(each in inner for each in "*+?{"):
                    continue  # repeated as well, it may take Java longer than the test has
            elif chance < 0.25:
                pieces.append(random.choice(["^", "$", "\\A", "\\z", "\\Z"]))
                continue
            else:
                pieces.append(random.choice(_ATOMS))
            if self.chance(0.3):
                pieces.append(random.choice(_QUANTIFIERS))
        whole = "".join(pieces)
        if self.chance(0.15):
            whole = f"{whole}|{self.regex(0)}"
        if depth == 2 and self.chance(0.12):
            whole = random.choice(_BEGINNINGS) + whole
        return whole
