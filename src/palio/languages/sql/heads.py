"""The quick way to read a conjunction whose conjuncts are known: by what stands before each literal.

Most conjuncts end in a literal: `symbol = 'ACME'`, `price BETWEEN 100 AND 120`. Cut at its literals, a conjunction of
such is a row of *heads*, `symbol = ` and ` AND price BETWEEN ` and ` AND `, and a conjunct is known by its first one
and those it awaits after it. Only what was read the long way is learned, so that a row of heads is one that the parser
parts in the same way.
"""

from __future__ import annotations

import re
from typing import Final

from palio.languages.sql.cutting import LITERAL, LONGEST_INTEGER
from palio.languages.sql.templates import INTEGER, STRING, Template

_AND: Final = " AND "
_HEAD: Final = re.compile("[^\1-\4]*[\1-\4]")
_MOST: Final = 4_096

Known = tuple[Template, list[str]]  # of a first head: its conjunct, and the heads that follow


class Heads:
    """The heads of the conjuncts that were seen; a bounded number of them."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._first: dict[str, Known] = {}
        self._after_and: dict[str, Known] = {}

    def learn(self, shape: str, template: Template) -> None:
        """Take in a conjunct that was found in a conjunction."""
        if shape in self._seen or len(self._seen) >= _MOST:
            return
        self._seen.add(shape)
        first, *others = _HEAD.findall(shape) or [""]
        if first + "".join(others) != shape or len(others) + 1 != len(template.slots):
            return  # it does not end in a literal, or has signs in it that stand for one
        if all(slot.kind in (INTEGER, STRING) and slot.before in ("", "-") for slot in template.slots):
            self._first[first] = self._after_and[_AND + first] = template, others

    def read(self, text: str) -> tuple[list[Template], list[str]] | None:
        """The templates of the conjuncts and all their literals; None where one is not known, or there is one alone.

        Every literal has a value: it is a short integer, or a text that is nothing else.
        """
        pieces = LITERAL.split(text)
        literals = pieces[1::2]
        if pieces[-1] or len(literals) < 2:
            return None
        templates: list[Template] = []
        awaited: list[str] = []
        known = self._first
        for before, literal in zip(pieces[::2], literals, strict=False):
            if literal[0] == "'":
                head = before + STRING
            elif literal.isdigit() and len(literal) <= LONGEST_INTEGER:
                head = before + INTEGER
            else:
                return None
            if awaited:
                if head != awaited[0]:
                    return None
                awaited = awaited[1:]
                continue
            found = known.get(head)
            if found is None:
                return None
            template, awaited = found
            templates.append(template)
            known = self._after_and
        return None if awaited else (templates, literals)
