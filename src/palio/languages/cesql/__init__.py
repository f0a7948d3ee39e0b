"""CESQL, the expression language of CloudEvents, version 1.0; `docs/languages/cesql.md` says what it means here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palio.errors import ParseError
from palio.events import Event
from palio.filters.expressions.ast import attributes_of
from palio.filters.filter import Filter
from palio.filters.text_cache import TextCache
from palio.languages.cesql.evaluation import CompiledExpression, compile_expression
from palio.languages.cesql.lowering import check, lower_filter
from palio.languages.cesql.parser import parse_expression
from palio.languages.cesql.types import PARSE, Failure, Value

__all__ = ["Failure", "condition", "evaluate", "parse"]


def parse(condition: Any, *, timezone: str = "UTC") -> Filter:
    """The filter of a CESQL expression. `timezone` has no effect: CESQL has no literals of time."""
    if not isinstance(condition, str):
        raise ParseError(str(condition), 0, f"a CESQL expression is text, not {type(condition).__name__}")
    return _parse(condition)


@TextCache
def _parse(text: str) -> Filter:
    expression = parse_expression(text)
    check(expression, text)
    return lower_filter(expression)


def evaluate(text: str, event: Event | Mapping[str, Any] | str | bytes) -> tuple[Value, list[Failure]]:
    """The value of an expression for an event, a bool, an int or a str, and the errors that happened on the way.

    A mapping holds the attributes as they are; an `Event` has its `time` in UTC. A text that is no expression gives
    false and the single error `parse`: nothing is raised.

    >>> evaluate("hop < ttl AND EXISTS subject", {"hop": "5", "ttl": 10, "subject": "x"})
    (True, [])
    >>> value, errors = evaluate("5 / (hop - 5)", {"hop": 5})
    >>> value, errors, errors[0].reason, errors[0].position
    (0, ['math'], 'division by zero', 0)
    """
    failures: list[Failure] = []
    if isinstance(event, Event):
        attributes: Mapping[str, Any] = event.attributes
    else:
        attributes = event if isinstance(event, Mapping) else Event.from_json(event).attributes
    try:
        # An expression may come from YAML, where an unquoted TRUE or 10 is a bool or an int.
        value = _compile(str(text))(attributes, failures)
    except ParseError as error:
        return False, [Failure(PARSE, error.reason, error.position)]
    # str(): a timestamp's text has a class of its own, `TimestampText`, which callers should not see.
    return str(value) if isinstance(value, str) else value, failures


@TextCache
def _compile(text: str) -> CompiledExpression:
    return compile_expression(parse_expression(text))


def condition(text: str) -> CompiledCesql:
    """The evaluator of a residual: the entry point `palio.conditions`."""
    return CompiledCesql(text)


class CompiledCesql:
    """A CESQL expression as part of a filter: true, false, or None where it failed or is not a Boolean."""

    def __init__(self, text: str) -> None:
        expression = parse_expression(text)
        check(expression, text)
        self.attributes = attributes_of(expression)
        self._run = compile_expression(expression)

    def __call__(self, event: Mapping[str, Any]) -> bool | None:
        failures: list[Failure] = []
        value = self._run(event, failures)
        return value if isinstance(value, bool) and not failures else None
