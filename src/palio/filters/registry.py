"""Which languages a condition may be written in.

A language is a function from a condition (text, or JSON for JSON languages) and options to a `Filter`. Packages
announce theirs under the entry point group `palio.languages`; Palio's own are announced the same way, so that no
language is more at home than another, and importing `palio` loads none of them.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from palio.errors import UnknownLanguage

if TYPE_CHECKING:
    from palio.filters.filter import Filter

GROUP = "palio.languages"


class Parser(Protocol):
    """Reads a condition; raises `ParseError` where it cannot."""

    def __call__(self, condition: Any, **options: Any) -> Filter: ...


_registered: dict[str, Parser] = {}


def register(language: str, parser: Parser) -> None:
    """Add a language to this process, in place of any of the same name."""
    _registered[language] = parser
    parser_for.cache_clear()


@cache
def parser_for(language: str) -> Parser:
    """The parser of a language."""
    if language in _registered:
        return _registered[language]
    for entry in entry_points(group=GROUP, name=language):
        parser: Parser = entry.load()
        return parser
    raise UnknownLanguage(language, languages())


def languages() -> list[str]:
    """The names of all languages there are."""
    return sorted({entry.name for entry in entry_points(group=GROUP)} | set(_registered))
