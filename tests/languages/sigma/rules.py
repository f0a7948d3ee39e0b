"""Rules in a few words, for tests."""

from __future__ import annotations

from typing import Any

from palio import Filter


def rule(condition: str = "selection", logsource: dict[str, str] | None = None, **detections: Any) -> dict[str, Any]:
    """A rule as the dict that its YAML would be."""
    own = {} if logsource is None else {"logsource": logsource}
    return {"title": "A rule", **own, "detection": {**detections, "condition": condition}}


def asks(selection: Any, **options: Any) -> Filter:
    """The filter of a rule with one detection."""
    return Filter.parse(rule(selection=selection), language="sigma", **options)


def fires(selection: Any, **event: Any) -> bool:
    """Whether a rule with one detection fires for an event."""
    return asks(selection).matches(event)
