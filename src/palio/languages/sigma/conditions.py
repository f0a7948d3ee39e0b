"""Reading a rule's condition: `selection and not 1 of filter_*`.

`not` binds closer than `and`, and `and` closer than `or`. pySigma has a parser of this too; it is built of backtracking
parts that take exponential time for nested brackets and says of a mistake only that there is one. The grammar
is four lines long, so it is read here, in one pass, with the place of every mistake.

    condition   = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | "(" condition ")" | quantifier "of" pattern | name
    quantifier  = "1" | "any" | "all"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NoReturn

from palio.errors import PalioError
from palio.filters.like import LikePattern
from palio.languages.sigma.formulas import All, Any, Formula, Not

_TOKEN: Final = re.compile(r"\s*([\w*-]+|\S)")
_QUANTIFIERS: Final[dict[str, type[All] | type[Any]]] = {"1": Any, "any": Any, "all": All}
_MOST_LEVELS: Final = 100
_MOST_WORDS: Final = 10_000


class ConditionError(PalioError, ValueError):
    """What is wrong with a condition, and at which character."""

    def __init__(self, position: int, reason: str, hint: str | None = None) -> None:
        self.position = position
        self.reason = reason
        self.hint = hint
        super().__init__(reason)


def read_condition(text: str, detections: Mapping[str, Formula]) -> Formula:
    """The formula of a condition, the named detections in their places."""
    if text.count(" ") > _MOST_WORDS:
        raise ConditionError(0, f"the condition has more than {_MOST_WORDS:,} words")
    reader = _Reader(text, detections)
    formula = reader.alternatives()
    if reader.word is not None:
        reader.refuse(f"{reader.word!r} does not continue the condition")
    return formula


class _Reader:
    def __init__(self, text: str, detections: Mapping[str, Formula]) -> None:
        self._text = text
        self._detections = detections
        self._levels = 0
        self._end = 0
        self.word: str | None = None
        self.position = 0
        self._next()

    def alternatives(self) -> Formula:
        self._levels += 1
        if self._levels > _MOST_LEVELS:
            self.refuse(f"the condition is nested more than {_MOST_LEVELS} levels deep")
        parts = [self._conjunction()]
        while self._took("or"):
            parts.append(self._conjunction())
        self._levels -= 1
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def _conjunction(self) -> Formula:
        parts = [self._negation()]
        while self._took("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _negation(self) -> Formula:
        negated = False
        while self._took("not"):
            negated = not negated
        formula = self._operand()
        return Not(formula) if negated else formula

    def _operand(self) -> Formula:
        if self._took("("):
            formula = self.alternatives()
            if not self._took(")"):
                self.refuse("a ( is never closed" if self.word is None else f"{self.word!r} does not continue this")
            return formula
        word, start = self.word, self.position
        if word is None:
            self.refuse("the condition ends too soon")
        self._next()
        if self._took("of"):
            return self._selection(word, start)
        if word not in self._detections:
            is_name = re.fullmatch(r"[\w-]+", word) is not None
            self.refuse(f"there is no detection {word!r}" if is_name else f"{word!r} is not expected here", start)
        return self._detections[word]

    def _selection(self, quantifier: str, start: int) -> Formula:
        joined = _QUANTIFIERS.get(quantifier.lower())
        if joined is None:
            self.refuse(f"{quantifier!r} is no quantifier", start, "it is written `1 of …`, `any of …` or `all of …`")
        pattern, at = self.word, self.position
        if pattern is None or not re.fullmatch(r"[\w*-]+", pattern):
            self.refuse("after `of` comes a pattern of names, such as selection_*, or them")
        self._next()
        names = self._names(pattern)
        if not names:
            self.refuse(f"no detection is named like {pattern!r}", at)
        return joined(tuple(self._detections[name] for name in names))

    def _names(self, pattern: str) -> list[str]:
        """The detections a pattern means; a name that begins with _ only if the pattern does too."""
        wanted = "*" if pattern.lower() == "them" and pattern not in self._detections else pattern
        like = LikePattern.parse("%".join(part.replace("_", "\\_") for part in wanted.split("*")))
        return [
            name
            for name in self._detections
            if like.matches(name) and (wanted.startswith("_") or not name.startswith("_"))
        ]

    def _took(self, word: str) -> bool:
        """Whether the next word is this one, and is now behind us; a detection may be named like an operator."""
        if self.word is None or self.word.lower() != word or (self.word in self._detections and word.isalpha()):
            return False
        self._next()
        return True

    def _next(self) -> None:
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            self.word, self.position = None, len(self._text)
            return
        self.word, self.position = found[1], found.start(1)
        self._end = found.end()

    def refuse(self, reason: str, position: int | None = None, hint: str | None = None) -> NoReturn:
        if hint is None and self._detections:
            hint = "the detections are " + ", ".join(list(self._detections)[:20])
        raise ConditionError(self.position if position is None else position, reason, hint)
