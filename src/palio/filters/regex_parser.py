r"""Parser of Java's regular expressions: the subset that a linear-time engine can mean identically.

Every literal and class becomes a set of code points, computed here by Java's rules (`.` excludes five line
terminators, `\s` includes a vertical tab, `(?i)` folds ASCII letters only), so that nothing is left for the engine to
interpret differently. Groups and reluctant quantifiers matter to extraction only and are kept in the tree. What would
change the set of matches and cannot be expressed is rejected: look-around, back-references, possessive quantifiers,
Unicode classes, whose members depend on the Unicode version, and rare notations on which Java and other engines
disagree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]

LAST: Final = 0x10FFFF  # code point
REPEAT_LIMIT: Final = 1000  # RE2's own
_DEPTH_LIMIT: Final = 100


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    """Concatenation."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Alternation."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repetition; unbounded where `most` is None."""

    body: Node
    least: int
    most: int | None
    is_reluctant: bool = False


@dataclass(frozen=True, slots=True)
class CapturingGroup:
    """A capturing group, by its number from 1."""

    body: Node
    number: int


@dataclass(frozen=True, slots=True)
class Anchor:
    r"""A position assertion: `^` (also \A), `$` (also \Z), `z` (\z), `b` (\b), `B` (\B)."""

    name: str


Node: TypeAlias = Characters | Sequence | Alternation | Repeat | CapturingGroup | Anchor


def normal(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges sorted and merged."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The complement of a set of code points."""
    gaps = []
    start = 0
    for low, high in normal(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    return (*gaps, (start, LAST)) if start <= LAST else tuple(gaps)


def _points(text: str) -> Ranges:
    return normal((ord(character), ord(character)) for character in text)


TERMINATORS: Final = "\n\r\x85\u2028\u2029"
_DOT: Final = complement(_points(TERMINATORS))
_ANYTHING: Final[Ranges] = ((0, LAST),)
_DIGIT: Final = normal([(0x30, 0x39)])
_LOWER: Final = normal([(0x61, 0x7A)])
_UPPER: Final = normal([(0x41, 0x5A)])
_ALPHA: Final = normal([*_LOWER, *_UPPER])
_WORD: Final = normal([*_ALPHA, *_DIGIT, *_points("_")])
_SPACE: Final = _points(" \t\n\x0b\f\r")
_PUNCT: Final = _points("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CLASSES: Final[dict[str, Ranges]] = {
    "d": _DIGIT,
    "w": _WORD,
    "s": _SPACE,
    "h": normal([*_points(" \t\xa0\u1680\u180e\u202f\u205f\u3000"), (0x2000, 0x200A)]),
    "v": _points("\n\x0b\f\r\x85\u2028\u2029"),
}
_CLASSES.update({name.upper(): complement(ranges) for name, ranges in list(_CLASSES.items())})
_POSIX: Final[dict[str, Ranges]] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": normal([(0, 0x7F)]),
    "Alpha": _ALPHA,
    "Digit": _DIGIT,
    "Alnum": normal([*_ALPHA, *_DIGIT]),
    "Punct": _PUNCT,
    "Graph": normal([(0x21, 0x7E)]),
    "Print": normal([(0x20, 0x7E)]),
    "Blank": _points(" \t"),
    "Cntrl": normal([(0, 0x1F), (0x7F, 0x7F)]),
    "XDigit": normal([*_DIGIT, (0x41, 0x46), (0x61, 0x66)]),
    "Space": _SPACE,
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_PLACES: Final = {"A": "^", "Z": "$", "z": "z", "b": "b", "B": "B"}
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")
_REFUSED_ESCAPES: Final = {
    "G": r"\G, the end of the match before, has no meaning where one match is asked for",
    "R": r"\R is not supported; write (?:\r\n|[\n\x0B\f\r\x85\u2028\u2029])",
    "X": r"\X is not supported",
    "N": r"\N{…} is not supported; write \x{…}",
    "k": r"back-references need a backtracking engine, and are not supported",
    "c": r"\c… is not supported; write \x…",
    "0": r"octal numbers are not supported; write \x…",
    "E": r"there is no \Q before this \E",
}
_REFUSED_GROUPS: Final = {
    "=": "look-ahead needs a backtracking engine, and is not supported; use another condition with AND",
    "!": "negative look-ahead needs a backtracking engine, and is not supported; use AND NOT … RLIKE …",
    ">": "atomic groups need a backtracking engine, and are not supported; use (?:…)",
    "<=": "look-behind needs a backtracking engine, and is not supported; use another condition with AND",
    "<!": "negative look-behind needs a backtracking engine, and is not supported; use AND NOT … RLIKE …",
}
_REFUSED_FLAGS: Final = {
    "m": "the flag m is not supported: Java ends lines in more ways than other engines",
    "u": "the flag u is not supported: how letters fold depends on the version of Unicode",
    "U": "the flag U is not supported: what its classes contain depends on the version of Unicode",
    "x": "the flag x is not supported; write the expression without blanks and comments",
    "d": "the flag d is not supported",
}


def parse(text: str) -> Node:
    """Parse an expression; a ValueError tells what is not supported, and where."""
    return parse_groups(text)[0]


def parse_groups(text: str) -> tuple[Node, int, dict[str, int]]:
    """Parse an expression: its tree, the number of its groups, and the numbers of named groups."""
    parser = _RegexParser(text)
    node = parser.choice()
    if parser.peek() is not None:
        parser.refuse("there is no ( for this )")
    return node, parser.groups, parser.names


class _RegexParser:
    """Recursive-descent parser; `\\Q…\\E` is resolved first, so that every character is marked as quoted or not."""

    def __init__(self, text: str) -> None:
        self._characters: list[tuple[str, int, bool]] = []
        self._at = 0
        self._depth = 0
        self.groups = 0
        self.names: dict[str, int] = {}
        self._end = len(text)
        self._ignore_case = False
        self._dot_is_all = False
        self._unquote(text)

    def _unquote(self, text: str) -> None:
        at, quoted = 0, False
        while at < len(text):
            pair = text[at : at + 2]
            if pair == ("\\E" if quoted else "\\Q"):
                quoted = not quoted
                at += 2
                continue
            width = 2 if not quoted and text[at] == "\\" and len(pair) == 2 else 1
            self._characters.extend((text[at + step], at + step, quoted) for step in range(width))
            at += width

    def refuse(self, reason: str, back: int = 0) -> NoReturn:
        place = self._at - back
        position = self._characters[place][1] if 0 <= place < len(self._characters) else self._end
        raise ValueError(f"{reason} (at character {position + 1} of the regular expression)")

    def peek(self, ahead: int = 0) -> str | None:
        """The next character; None at the end, '' for a quoted one, which has no special meaning."""
        place = self._at + ahead
        if place >= len(self._characters):
            return None
        character, _, quoted = self._characters[place]
        return "" if quoted else character

    def take(self) -> str:
        """Consume the next character, quoted or not."""
        if self._at >= len(self._characters):
            self.refuse("the regular expression ends too soon")
        self._at += 1
        return self._characters[self._at - 1][0]

    def choice(self) -> Node:
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            self.refuse(f"groups are nested more than {_DEPTH_LIMIT} deep")
        options = [self._sequence()]
        while self.peek() == "|":
            self.take()
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while (character := self.peek()) is not None and character not in ("|", ")"):
            part = self._part(character)
            if part is not None:
                parts.append(self._quantified(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _part(self, character: str) -> Node | None:
        """The next repeatable part; None for flags, which match nothing."""
        match character:
            case "(":
                return self._group()
            case "[":
                return Characters(self._class())
            case "\\":
                return self._escape()
            case ".":
                self.take()
                return Characters(_ANYTHING if self._dot_is_all else _DOT)
            case "^" | "$":
                return Anchor(self.take())
            case "*" | "+" | "?":
                self.refuse(f"there is nothing for {character} to repeat")
            case "{":
                self.refuse(r"a { must follow what it repeats; for the character itself, write \{")
        return Characters(self._folded(_points(self.take())))

    def _folded(self, ranges: Ranges) -> Ranges:
        """The set with both cases of its ASCII letters, if case is ignored."""
        if not self._ignore_case:
            return ranges
        other = []
        for low, high in ranges:
            for start, end, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
                first, last = max(low, start), min(high, end)
                if first <= last:
                    other.append((first + shift, last + shift))
        return normal([*ranges, *other])

    def _quantified(self, body: Node) -> Node:
        character = self.peek()
        if character not in ("*", "+", "?", "{"):
            return body
        least, most = self._counts(self.take())
        is_reluctant = self.peek() == "?"
        if is_reluctant:
            self.take()
        elif self.peek() == "+":
            self.refuse("possessive quantifiers need a backtracking engine, and are not supported")
        if self.peek() in ("*", "+", "?", "{"):
            self.refuse("a quantifier cannot follow another; put the first with what it repeats in (?:…)")
        if isinstance(body, Anchor):
            # A place that must be passed once is passed as often as one likes; one that need not be passed is nothing.
            return body if least else Sequence(())
        return Repeat(body, least, most, is_reluctant)

    def _counts(self, character: str) -> tuple[int, int | None]:
        if character != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        least = self._number()
        most: int | None = least
        if self.peek() == ",":
            self.take()
            most = None if self.peek() == "}" else self._number()
        if self.peek() != "}":
            self.refuse("a repetition is written {n}, {n,} or {n,m}")
        self.take()
        if most is not None and most < least:
            self.refuse(f"a repetition cannot be at least {least} and at most {most} times", 1)
        return least, most

    def _number(self) -> int:
        digits = ""
        while (character := self.peek()) is not None and character and character in "0123456789":
            digits += self.take()
        if not digits:
            self.refuse("a repetition is written {n}, {n,} or {n,m}")
        if len(digits) > 4 or int(digits) > REPEAT_LIMIT:
            self.refuse(f"a repetition of more than {REPEAT_LIMIT} times is not supported", 1)
        return int(digits)

    def _group(self) -> Node | None:
        self.take()
        saved = self._ignore_case, self._dot_is_all
        before = self.groups
        if self.peek() != "?":
            self.groups += 1
        else:
            self.take()
            if not self._group_start():
                # Flags such as (?i) hold up to the end of the group around them, which restores its own.
                return None
        number = self.groups if self.groups > before else 0
        body = self.choice()
        if self.peek() != ")":
            self.refuse("a ( is never closed")
        self.take()
        self._ignore_case, self._dot_is_all = saved
        if number:
            return CapturingGroup(body, number)
        return body

    def _group_start(self) -> bool:
        """Parse what follows `(?`; whether it opens a group rather than sets flags."""
        character = self.peek()
        if character == ":":
            self.take()
            return True
        sign = "<" + (self.peek(1) or "") if character == "<" else character or ""
        if sign in _REFUSED_GROUPS:
            self.refuse(_REFUSED_GROUPS[sign])
        if character == "<":
            self._group_name()
            return True
        return self._flags()

    def _group_name(self) -> None:
        self.take()
        name = ""
        while (character := self.peek()) is not None and character != ">":
            name += self.take()
        if not (name.isascii() and name.isalnum() and name[0].isalpha()) or self.peek() is None:
            self.refuse("a named group is written (?<name>…), its name letters and digits")
        if name in self.names:
            self.refuse(f"there are two groups named {name}")
        self.groups += 1
        self.names[name] = self.groups
        self.take()

    def _flags(self) -> bool:
        wanted = True
        while (character := self.peek()) not in (")", ":"):
            if not character or character not in "idmsuxU-":
                self.refuse("this kind of group is not known")
            if character in _REFUSED_FLAGS:
                self.refuse(_REFUSED_FLAGS[character])
            if character == "-":
                wanted = False
            elif character == "i":
                self._ignore_case = wanted
            else:
                self._dot_is_all = wanted
            self.take()
        return self.take() == ":"

    def _escape(self) -> Node:
        character = self.peek(1)
        if character in _PLACES:
            self.take()
            return Anchor(_PLACES[self.take()])
        return Characters(self._escaped())

    def _escaped(self) -> Ranges:
        r"""The set denoted by an escape, inside a class or outside."""
        self.take()
        character = self.peek()
        if not character:
            self.refuse("a \\ must be followed by what it escapes")
        # Classes are not folded: each has both cases of its letters, or `_property` refuses it.
        if character in _CLASSES:
            return _CLASSES[self.take()]
        if character in ("p", "P"):
            return self._property()
        return self._folded(_points(self._escaped_character(character)))

    def _escaped_character(self, character: str) -> str:
        if character in _REFUSED_ESCAPES:
            self.refuse(_REFUSED_ESCAPES[character])
        if character in "123456789":
            self.refuse("back-references need a backtracking engine, and are not supported")
        if character in ("x", "u"):
            return self._hexadecimal()
        if character in _CONTROLS:
            return _CONTROLS[self.take()]
        if character.isascii() and character.isalpha():
            self.refuse(f"\\{character} has no meaning here")
        return self.take()

    def _hexadecimal(self) -> str:
        r"""\xhh, \x{h…h} or \uhhhh."""
        width = 2 if self.take() == "x" else 4
        digits = ""
        if width == 2 and self.peek() == "{":
            self.take()
            while (character := self.peek()) is not None and character in _HEXADECIMAL and len(digits) < 9:
                digits += self.take()
            if self.peek() != "}":
                self.refuse(r"a code point is written \x{h…h}")
            self.take()
        else:
            while (character := self.peek()) is not None and character in _HEXADECIMAL and len(digits) < width:
                digits += self.take()
            if len(digits) < width:
                self.refuse(rf"a code is written with {width} hexadecimal digits")
        code = int(digits, 16) if digits else LAST + 1
        if code > LAST or 0xD800 <= code <= 0xDFFF:
            self.refuse("this is not the code of a character", 1)
        return chr(code)

    def _property(self) -> Ranges:
        wanted = self.take() == "p"
        name = ""
        if self.peek() == "{":
            self.take()
            while self.peek() not in ("}", None):
                name += self.take()
            if self.peek() is None:
                self.refuse("a { is never closed")
        self.take()
        if name not in _POSIX:
            self.refuse(
                f"\\p is supported for {', '.join(_POSIX)}: what other classes contain depends on the "
                "version of Unicode; write the characters themselves, as in [a-zà-ÿ]",
                1,
            )
        if self._ignore_case and name in ("Lower", "Upper"):
            self.refuse(f"\\p{{{name}}} without regard to case means different things in different Javas", 1)
        return _POSIX[name] if wanted else complement(_POSIX[name])

    def _class(self) -> Ranges:
        self.take()
        negated = self.peek() == "^"
        if negated:
            self.take()
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            self.refuse(f"groups and classes are nested more than {_DEPTH_LIMIT} deep")
        # A ] that comes first is a character.
        first = list(self._class_item()) if self.peek() == "]" else []
        operands = [self._class_operand(first)]
        while self.peek() == "&":
            self._at += 2
            operands.append(self._class_operand([]))
        if len(operands) > 1 and not all(operands):
            self.refuse("&& stands between two classes")
        self.take()
        self._depth -= 1
        common = operands[0]
        for operand in operands[1:]:
            common = complement([*complement(common), *complement(operand)])
        # To Java since 9, ^ negates all that follows.
        return complement(common) if negated else common

    def _class_operand(self, ranges: list[tuple[int, int]]) -> Ranges:
        """What stands in a class up to its end or to &&: characters, ranges and classes, all together."""
        while (character := self.peek()) != "]":
            if character is None:
                self.refuse("a [ is never closed")
            if character == "&" and self.peek(1) == "&":
                if self.peek(2) == "&":
                    self.refuse(r"for an & beside &&, write \&")
                break
            ranges.extend(self._class() if character == "[" else self._class_item())
        return normal(ranges)

    def _class_item(self) -> Ranges:
        """A character, a range or an escaped class, split as in Java."""
        if self.peek() == "\\":
            following = self.peek(1)
            if following in _PLACES:
                self.refuse(f"\\{following} has no meaning in a class")
            if following in _CLASSES or following in ("p", "P"):
                return self._escaped()
        low = self._class_character()
        if self.peek() != "-" or self.peek(1) in ("]", "[", None):
            return self._folded(((low, low),))
        self.take()
        high = self._class_character()
        if high < low:
            self.refuse("a range must go from a lower character to a higher one", 1)
        return self._folded(((low, high),))

    def _class_character(self) -> int:
        if self.peek() != "\\":
            return ord(self.take())
        self.take()
        character = self.peek()
        if not character or character in _CLASSES or character in _PLACES or character in ("p", "P"):
            self.refuse("a range goes from one character to another")
        return ord(self._escaped_character(character))
