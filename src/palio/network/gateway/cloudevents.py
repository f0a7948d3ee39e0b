"""How does an HTTP message become events, and an event a CloudEvent again?

The three modes of the CloudEvents HTTP binding §3 are told apart by the content type: structured, batched, and binary,
which has `ce-` headers. Two plain forms are taken beside them, because they are what people type: one JSON object, and
JSON lines; in these, an object that has a `specversion` is a CloudEvent, and any other is an event as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from palio.errors import EventError, LimitReached
from palio.events import Event
from palio.events.cloudevents import with_base64
from palio.events.json import parse_value, write_json
from palio.events.limits import Limits as EventLimits
from palio.network.security.limits import Limits

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
LINES: Final = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
_TYPE: Final = "palio.event"
_UNKNOWN_SOURCE: Final = "palio"


def read_events(body: bytes, headers: Iterable[tuple[str, str]], limits: Limits) -> list[Event]:
    """The events of an HTTP message; EventError says which of them cannot be read, and why."""
    relevant = _relevant(headers)
    media = relevant.get("content-type", "").partition(";")[0].strip().lower()
    if media == BATCH:
        return _read_several(_array(body, limits), limits)
    if media in LINES:
        return _read_several([line for line in body.split(b"\n") if line.strip()], limits)
    is_binary = any(name.startswith("ce-") for name in relevant)
    if media == "application/json" and not is_binary:
        return [read_event(body, limits.event)]
    if media.startswith("application/cloudevents") or is_binary:
        return [Event.from_cloudevent(body, relevant, limits=limits.event)]
    raise EventError(
        f"neither a CloudEvent nor JSON: the content type is {media or 'missing'!r}; "
        f"{STRUCTURED}, {BATCH}, {LINES[0]} or application/json can be read, or any with ce- headers"
    )


def read_event(event: bytes | Mapping[str, Any], limits: EventLimits) -> Event:
    """An event from one JSON object: a CloudEvent where it says so, and an event as it is otherwise."""
    content = parse_value(event, limits) if isinstance(event, bytes) else event
    if isinstance(content, Mapping) and "specversion" in content:
        return Event.from_cloudevent(content, limits=limits)
    return Event.from_dict(content, limits=limits)


def _relevant(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        if name == "content-type" or name.startswith("ce-"):
            if name in found:
                raise EventError(f"the header {name!r} occurs twice")
            found[name] = value
    return found


def _array(body: bytes, limits: Limits) -> list[Any]:
    # Bounded by the size of a request: each event in it has a bound of its own.
    whole = EventLimits(json_bytes=max(limits.frame_bytes, 1))
    events = parse_value(body, whole)
    if not isinstance(events, list):
        raise EventError("a batch of CloudEvents is a JSON array")
    return events


def _read_several(events: list[Any], limits: Limits) -> list[Event]:
    if len(events) > limits.batch_events:
        raise LimitReached("batch_events", limits.batch_events, f"{len(events):,} events in one request")
    made = []
    for at, each in enumerate(events):
        try:
            if isinstance(each, bytes):
                made.append(read_event(each, limits.event))
            else:
                if not isinstance(each, Mapping):
                    raise EventError("a CloudEvent is a JSON object")
                made.append(Event.from_cloudevent(each, limits=limits.event))
        except EventError as error:
            raise EventError(f"event {at}: {error.reason}", error.path) from None
    return made


def to_cloudevent(event: Event) -> dict[str, Any]:
    """An event as a CloudEvent in its JSON form. One that never was a CloudEvent is the data of one."""
    content = event.to_dict()
    identity = (content.get("specversion"), content.get("id"), content.get("source"))
    if identity != ("1.0", event.id, event.source):
        made: dict[str, Any] = {
            "specversion": "1.0",
            "id": event.id,
            "source": event.source or _UNKNOWN_SOURCE,
            "type": _TYPE,
        }
        if event.time is not None:
            made["time"] = event.time
        return {**made, "datacontenttype": "application/json", "data": content}
    return with_base64(content)


def write_cloudevent(event: Event) -> str:
    """The JSON text of an event as a CloudEvent, on one line."""
    return write_json(to_cloudevent(event))
