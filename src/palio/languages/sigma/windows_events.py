"""An event of the Windows event log as rules speak of it: one flat object.

Windows keeps an event as XML, and what turns it into JSON keeps its nesting: `{"System": {"EventID": 1, …},
"EventData": {"Image": …}}`, attributes under `#attributes` and text under `#text`. Rules name fields without the way
to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_ATTRIBUTES: Final = ("#attributes", "@attributes")
_TEXT: Final = "#text"
_MOST_LEVELS: Final = 20


def flatten_windows_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event by their own names; where one occurs twice, the event's own data come first.

    >>> flatten_windows_event({"System": {"EventID": 1, "Provider": {"#attributes": {"Name": "Sysmon"}}},
    ...                        "EventData": {"Image": "C:\\\\cmd.exe"}})
    {'Image': 'C:\\\\cmd.exe', 'EventID': 1, 'Provider_Name': 'Sysmon'}
    """
    event = event.get("Event", event)
    fields: dict[str, Any] = {}
    for part in ("EventData", "UserData"):
        for name, value in _data(event.get(part), 0):
            fields.setdefault(name, value)
    for name, value in _system(event.get("System")):
        fields.setdefault(name, value)
    for name, value in event.items():
        if name not in ("EventData", "UserData", "System", *_ATTRIBUTES):
            fields.setdefault(name, value)
    return fields


def _data(value: Any, level: int) -> Iterator[tuple[str, Any]]:
    """The named data of an event, however deep they lie."""
    if level > _MOST_LEVELS:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _ATTRIBUTES:
                continue
            if name == "Data":
                yield from _named(inner)
            elif isinstance(inner, Mapping) and _TEXT in inner:
                yield name, inner[_TEXT]
            elif isinstance(inner, Mapping):
                yield from _data(inner, level + 1)
            else:
                yield name, inner


def _named(data: Any) -> Iterator[tuple[str, Any]]:
    """`Data` elements, each with its name as an attribute; those without one are the field Data."""
    unnamed = []
    for each in data if isinstance(data, list) else [data]:
        name = _attribute(each, "Name")
        text = each.get(_TEXT) if isinstance(each, Mapping) else each
        if name is None:
            unnamed.append(text)
        else:
            yield name, text
    if unnamed:
        yield "Data", unnamed if len(unnamed) > 1 else unnamed[0]


def _system(system: Any) -> Iterator[tuple[str, Any]]:
    """What Windows itself says of an event; an attribute is named after its element, as in Provider_Name."""
    if not isinstance(system, Mapping):
        return
    for name, value in system.items():
        if not isinstance(value, Mapping):
            yield name, value
            continue
        if _TEXT in value:
            yield name, value[_TEXT]
        for group in _ATTRIBUTES:
            attributes = value.get(group)
            if isinstance(attributes, Mapping):
                yield from ((f"{name}_{own}", inner) for own, inner in attributes.items())


def _attribute(element: Any, name: str) -> Any:
    if isinstance(element, Mapping):
        for group in _ATTRIBUTES:
            attributes = element.get(group)
            if isinstance(attributes, Mapping) and name in attributes:
                return attributes[name]
        return element.get(f"@{name}")
    return None
