"""Languages of other packages, so that whatever they do costs only the conditions that are written in them."""

from __future__ import annotations

from collections.abc import Mapping
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any

from palio.errors import PalioError, ParseError

if TYPE_CHECKING:
    from palio.filters.filter import Filter
    from palio.filters.registry import Condition, Parser


class GuardedParser:
    """A parser of which everything but a `Filter` is a `ParseError`."""

    def __init__(self, language: str, parser: Parser) -> None:
        self._language = language
        self._parser = parser

    def __call__(self, condition: Any, **options: Any) -> Filter:
        from palio.filters.filter import Filter

        try:
            found: Any = self._parser(condition, **options)
        except (KeyboardInterrupt, PalioError):
            raise
        except BaseException as error:  # libraries in other languages have panics, programs have exits
            raise _refusal(self._language, condition, f"failed with {_told(error)}") from error
        if not isinstance(found, Filter):
            raise _refusal(self._language, condition, f"gave {type(found).__name__} where a Filter belongs")
        return found


class GuardedCondition:
    """A condition of which every answer but TRUE and FALSE is NULL: one event must not end the matching of all."""

    def __init__(self, language: str, text: str, made: Any) -> None:
        try:
            self._condition: Condition = made(text)
            self.attributes = frozenset(self._condition.attributes)
        except (KeyboardInterrupt, PalioError):
            raise
        except BaseException as error:
            raise _refusal(language, text, f"failed with {_told(error)}") from error

    def __call__(self, event: Mapping[str, Any]) -> bool | None:
        try:
            answer = self._condition(event)
        except Exception:
            return None
        return answer if isinstance(answer, bool) else None


def _refusal(language: str, condition: Any, what: str) -> ParseError:
    text = condition if isinstance(condition, str) else repr(condition)
    return ParseError(text, 0, f"the package that announces the language {language!r} {what}")


def _told(error: BaseException) -> str:
    return format_exception_only(error)[-1].strip()
