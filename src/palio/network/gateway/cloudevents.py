"""CloudEvents HTTP binding: events of an HTTP message, and an event as a CloudEvent in JSON.

The modes of the binding (§3) are distinguished by the content type: structured, batched, and binary with `ce-` headers.
Plain forms are accepted as well, because people type them: one JSON object, JSON lines, and an XML document, which is
the attribute `xml` of an event. An object with a `specversion` is a CloudEvent; any other is an event as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from palio.errors import EventError, LimitReached
from palio.events import Event
from palio.events.cloudevents import with_base64
from palio.events.json import parse_value, write_json
from palio.events.values import Limits as EventLimits
from palio.network.security.quotas import BrokerLimits

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
JSON_LINES: Final = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
XML_TYPES: Final = ("application/xml", "text/xml")
_DEFAULT_TYPE: Final = "palio.event"
_DEFAULT_SOURCE: Final = "palio"


def read_events(body: bytes, headers: Iterable[tuple[str, str]], limits: BrokerLimits) -> list[Event]:
    """The events of an HTTP message; EventError says which one cannot be read, and why."""
    relevant = _select_headers(headers)
    media = relevant.get("content-type", "").partition(";")[0].strip().lower()
    if media == BATCH:
        return _read_many(_read_array(body, limits), limits)
    if media in JSON_LINES:
        return _read_many([line for line in body.split(b"\n") if line.strip()], limits)
    is_binary = any(name.startswith("ce-") for name in relevant)
    if media == "application/json" and not is_binary:
        return [read_event(body, limits.event)]
    if not is_binary and (media in XML_TYPES or media.endswith("+xml")):
        return [Event.from_xml(body, limits=limits.event)]
    if media.startswith("application/cloudevents") or is_binary:
        return [Event.from_cloudevent(body, relevant, limits=limits.event)]
    raise EventError(
        f"neither a CloudEvent nor JSON: the content type is {media or 'missing'!r}; "
        f"{STRUCTURED}, {BATCH}, {JSON_LINES[0]}, application/json or application/xml can be read, "
        "or any with ce- headers"
    )


def read_event(event: bytes | Mapping[str, Any], limits: EventLimits) -> Event:
    """An event from one JSON object: a CloudEvent if it has a `specversion`."""
    content = parse_value(event, limits) if isinstance(event, bytes) else event
    if isinstance(content, Mapping) and "specversion" in content:
        return Event.from_cloudevent(content, limits=limits)
    return Event.from_dict(content, limits=limits)


def _select_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        if name == "content-type" or name.startswith("ce-"):
            # Readers differ in which of two equal headers counts, so neither does.
            if name in found:
                raise EventError(f"the header {name!r} occurs twice")
            found[name] = value
    return found


def _read_array(body: bytes, limits: BrokerLimits) -> list[Any]:
    # The limit of the whole is that of a request; each event in it has a limit of its own.
    whole = EventLimits(json_bytes=max(limits.frame_bytes, 1))
    events = parse_value(body, whole)
    if not isinstance(events, list):
        raise EventError("a batch of CloudEvents is a JSON array")
    return events


def _read_many(events: list[Any], limits: BrokerLimits) -> list[Event]:
    if len(events) > limits.batch_events:
        raise LimitReached("batch_events", limits.batch_events, f"{len(events):,} events in one request")
    read = []
    for at, each in enumerate(events):
        try:
            if isinstance(each, bytes):
                read.append(read_event(each, limits.event))
            else:
                if not isinstance(each, Mapping):
                    raise EventError("a CloudEvent is a JSON object")
                read.append(Event.from_cloudevent(each, limits=limits.event))
        except EventError as error:
            raise EventError(f"event {at}: {error.reason}", error.path) from None
    return read


def to_cloudevent(event: Event) -> dict[str, Any]:
    """An event as a CloudEvent in its JSON form. An event that was not one becomes the data of one."""
    content = event.to_dict()
    identity = (content.get("specversion"), content.get("id"), content.get("source"))
    if identity != ("1.0", event.id, event.source):
        wrapped: dict[str, Any] = {
            "specversion": "1.0",
            "id": event.id,
            "source": event.source or _DEFAULT_SOURCE,
            "type": _DEFAULT_TYPE,
        }
        if event.time is not None:
            wrapped["time"] = event.time
        return {**wrapped, "datacontenttype": "application/json", "data": content}
    return with_base64(content)


def write_cloudevent(event: Event) -> str:
    """The JSON text of an event as a CloudEvent, on one line."""
    return write_json(to_cloudevent(event))
