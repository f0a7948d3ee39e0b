"""Which languages a condition may be written in.

A language is a function from a condition (text, or JSON for JSON languages) and options to a `Filter`. Packages
announce theirs under the entry point group `palio.languages`; Palio's own are announced the same way, but nobody else
can announce one under their names. Importing `palio` loads none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from palio.errors import BrokenLanguage, UnknownLanguage
from palio.filters.guarding import GuardedCondition, GuardedParser

if TYPE_CHECKING:
    from palio.filters.filter import Filter

GROUP = "palio.languages"
CONDITIONS_GROUP = "palio.conditions"
OWN_LANGUAGES = ("sql", "cesql", "cloudevents", "eventbridge", "jms", "sigma", "sns")


class Parser(Protocol):
    """Reads a condition; raises `ParseError` where it cannot."""

    def __call__(self, condition: Any, **options: Any) -> Filter: ...


class Condition(Protocol):
    """A condition that only its own language can judge: TRUE, FALSE or None for the attributes of an event."""

    @property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes it reads."""
        ...

    def __call__(self, event: Mapping[str, Any]) -> bool | None: ...


_registered: dict[str, Parser] = {}
_compilers: dict[str, Callable[[str], Condition]] = {}


def register(language: str, parser: Parser, conditions: Callable[[str], Condition] | None = None) -> None:
    """Add a language to this process, in place of any of the same name, with what judges its own conditions."""
    _registered[language] = parser
    parser_for.cache_clear()
    if conditions is not None:
        _compilers[language] = conditions
        condition_in.cache_clear()


@cache
def parser_for(language: str) -> Parser:
    """The parser of a language."""
    if language in _registered:
        return GuardedParser(language, _registered[language])
    found: Parser | None = _announced(GROUP, language, "parse")
    if found is None:
        raise UnknownLanguage(language, languages())
    return found if language in OWN_LANGUAGES else GuardedParser(language, found)


@lru_cache(maxsize=16_384)
def condition_in(language: str, text: str) -> Condition:
    """What is left to compute of a condition, as its own language means it.

    Languages whose meaning SQL cannot say announce how under the entry point group `palio.conditions`: a function
    from text to a `Condition`. A filter keeps the text, so that it prints, travels and compares as any other.
    """
    compiler: Callable[[str], Condition] | None = _compilers.get(language)
    if compiler is None:
        compiler = _announced(CONDITIONS_GROUP, language, "condition")
    if compiler is None:
        known = {entry.name for entry in entry_points(group=CONDITIONS_GROUP)} | set(_compilers)
        raise UnknownLanguage(language, sorted(known))
    is_own = language in OWN_LANGUAGES and language not in _compilers
    return compiler(text) if is_own else GuardedCondition(language, text, compiler)


def _announced(group: str, language: str, function: str) -> Any:
    """Palio's own by its place, which also a zip has, as Spark ships code; or what another package announced."""
    if language in OWN_LANGUAGES:
        try:
            return getattr(import_module(f"palio.languages.{language}"), function, None)
        except Exception as error:
            raise BrokenLanguage(language, f"{type(error).__name__}: {error}") from error
    entries = list(entry_points(group=group, name=language))
    packages = [entry.dist.name if entry.dist else entry.value for entry in entries]
    if len(entries) > 1:
        raise BrokenLanguage(language, f"{' and '.join(sorted(packages))} announce it; uninstall all but one")
    for entry, package in zip(entries, packages, strict=True):
        try:
            return entry.load()
        except Exception as error:
            raise BrokenLanguage(language, f"{package} announces it, but {type(error).__name__}: {error}") from error
    return None


def languages() -> list[str]:
    """The names of all languages there are."""
    return sorted({entry.name for entry in entry_points(group=GROUP)} | set(_registered) | set(OWN_LANGUAGES))
