"""Registry of condition languages, and the guard around languages of other packages.

A language is a function from a condition (text, or JSON for JSON languages) and options to a `Filter`. Packages
announce theirs under the entry point group `palio.languages`; Palio's own are announced the same way, and their names
are reserved. Importing `palio` loads none of them.

A plugin must not harm conditions in other languages: a guarded parser turns every failure into a `ParseError`, and a
guarded condition turns every failure into NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any, Protocol

from palio.errors import BrokenLanguage, InvalidArgument, PalioError, ParseError, UnknownLanguage
from palio.filters.text_cache import TextCache

if TYPE_CHECKING:
    from palio.filters.filter import Filter


GROUP = "palio.languages"
CONDITIONS_GROUP = "palio.conditions"
OWN_LANGUAGES = ("sql", "cesql", "cloudevents", "eventbridge", "jms", "sigma", "sns", "xpath")


class Parser(Protocol):
    """Reads a condition; raises `ParseError` where it cannot."""

    def __call__(self, condition: Any, **options: Any) -> Filter: ...


class Condition(Protocol):
    """A condition evaluated by its own language: TRUE, FALSE or None for the attributes of an event."""

    @property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes it reads."""
        ...

    def __call__(self, event: Mapping[str, Any]) -> bool | None: ...


_registered: dict[str, Parser] = {}
_compilers: dict[str, Callable[[str], Condition]] = {}


def register(language: str, parser: Parser, conditions: Callable[[str], Condition] | None = None) -> None:
    """Register a language in this process, replacing one of the same name, with the compiler of its own conditions."""
    _registered[language] = parser
    parser_for.cache_clear()
    if conditions is not None:
        _compilers[language] = conditions
        condition_in.cache_clear()


@cache
def parser_for(language: str) -> Parser:
    """The parser of a language."""
    if language in _registered:
        return GuardedParser(language, _registered[language])  # also for a name of Palio's own: it is not Palio's code
    found: Parser | None = _announced(GROUP, language, "parse")
    if found is None:
        raise UnknownLanguage(language, languages())
    return found if language in OWN_LANGUAGES else GuardedParser(language, found)


def check_options(language: str, parser: Parser, options: Mapping[str, Any]) -> None:
    """Refuse options that a language of Palio's own does not have; those of a plugin are its own affair."""
    if isinstance(parser, GuardedParser):
        return
    known = _option_names(language)
    for name in options:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InvalidArgument(f"the language {language} has no option {name!r}; {has}")


@cache
def _option_names(language: str) -> list[str]:
    return list(signature(parser_for(language)).parameters)[1:]


@TextCache
def condition_in(language: str, text: str) -> Condition:
    """A compiled condition of a language whose meaning SQL cannot express.

    Such a language announces a compiler under the entry point group `palio.conditions`: a function from text to a
    `Condition`. A filter keeps the text, so that it is printed, sent and compared like any other.
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
    """An announced function: Palio's own by module path, which also works in a zip, as Spark ships code."""
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
    """The names of all known languages."""
    return sorted({entry.name for entry in entry_points(group=GROUP)} | set(_registered) | set(OWN_LANGUAGES))


class GuardedParser:
    """A plugin's parser: any outcome but a `Filter` is a `ParseError`."""

    def __init__(self, language: str, parser: Parser) -> None:
        self._language = language
        self._parser = parser

    def __call__(self, condition: Any, **options: Any) -> Filter:
        from palio.filters.filter import Filter

        try:
            found: Any = self._parser(condition, **options)
        # An interrupt is the user's, and an error of Palio already says what is wrong.
        except (KeyboardInterrupt, PalioError):
            raise
        except BaseException as error:  # native libraries panic, programs exit
            raise _plugin_error(self._language, condition, f"failed with {_describe(error)}") from error
        if not isinstance(found, Filter):
            raise _plugin_error(self._language, condition, f"gave {type(found).__name__} where a Filter belongs")
        return found


class GuardedCondition:
    """A plugin's condition: any outcome but TRUE and FALSE is NULL, so that one event cannot end matching."""

    def __init__(self, language: str, text: str, made: Any) -> None:
        try:
            self._condition: Condition = made(text)
            self.attributes = frozenset(self._condition.attributes)
        except (KeyboardInterrupt, PalioError):
            raise
        except BaseException as error:
            raise _plugin_error(language, text, f"failed with {_describe(error)}") from error

    def __call__(self, event: Mapping[str, Any]) -> bool | None:
        try:
            answer = self._condition(event)
        # SQL's NULL: for this event the condition has no value.
        except Exception:
            return None
        return answer if isinstance(answer, bool) else None


def _plugin_error(language: str, condition: Any, what: str) -> ParseError:
    text = condition if isinstance(condition, str) else repr(condition)
    return ParseError(text, 0, f"the package that announces the language {language!r} {what}")


def _describe(error: BaseException) -> str:
    return format_exception_only(error)[-1].strip()
