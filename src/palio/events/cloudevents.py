"""Reader of CloudEvents 1.0, structured and binary.

A *structured* CloudEvent is one JSON object with the context attributes and `data`; a *binary* one is an HTTP message
whose `ce-` headers are the context and whose body is the data. Either way the event's attributes are the context
attributes under their own names, `time` as a timestamp and Binary as its Base64 text, and the data under `data`: JSON
data is nested there (`data.order.id`), text is a string, anything else bytes. A null context attribute is unset, as
the JSON format demands; a null inside the data is a null.

What the specification forbids is rejected: a missing or empty `id`, `source` or `type`, another `specversion`, a name
that is not of lower-case letters and digits, a context attribute that is an object, an array or a fraction.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_to_bytes

from palio.errors import EventError
from palio.events.json import parse_object, parse_value
from palio.events.names import abbreviate
from palio.events.nested_content import nested
from palio.events.values import Limits, type_name

_REQUIRED = ("specversion", "id", "source", "type")
_TEXTS = frozenset({*_REQUIRED, "datacontenttype", "dataschema", "subject"})
_NAME = re.compile(r"[a-z0-9]+")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-]\d\d:\d\d))", re.ASCII)
_CHARSETS = {"utf-8": "utf-8", "us-ascii": "ascii", "ascii": "ascii", "iso-8859-1": "latin-1"}


def read_cloudevent(
    event: Mapping[str, Any] | str | bytes | bytearray | memoryview,
    headers: Mapping[str, str] | None,
    limits: Limits,
) -> tuple[dict[str, Any], datetime | None]:
    """The content of a CloudEvent, context attributes beside `data`, and its time."""
    if headers is None:
        content = nested(event) if isinstance(event, Mapping) else parse_object(event, limits)
        return _read_structured(content)
    lowered = _lower(headers)
    media = _media_type(lowered.get("content-type", ""))
    if media.startswith("application/cloudevents-batch"):
        raise EventError("a batch of CloudEvents is a JSON array; read each of its elements as an event")
    if media in ("application/cloudevents", "application/cloudevents+json"):
        return read_cloudevent(event, None, limits)
    if media.startswith("application/cloudevents"):
        raise EventError(f"a CloudEvent in the format {media!r} cannot be read; JSON can")
    return _read_binary(lowered, event, limits)


def with_base64(content: dict[str, Any]) -> dict[str, Any]:
    """The content in the JSON format of CloudEvents §3.1.1: binary data become `data_base64`."""
    if isinstance(content.get("data"), bytes) and content.get("specversion") == "1.0":
        content["data_base64"] = b64encode(content.pop("data")).decode()
    return content


def _read_structured(members: Mapping[str, Any]) -> tuple[dict[str, Any], datetime | None]:
    if "data" in members and "data_base64" in members:
        raise EventError("a CloudEvent has data or data_base64, not both", "data_base64")
    context = {
        name: value for name, value in members.items() if name not in ("data", "data_base64") and value is not None
    }
    content, time = _read_context(context)
    if "data" in members:
        content["data"] = members["data"]
    elif members.get("data_base64") is not None:
        content["data"] = _read_base64(members["data_base64"])
    return content, time


def _read_binary(headers: dict[str, str], body: Any, limits: Limits) -> tuple[dict[str, Any], datetime | None]:
    prefix = "ce-"
    context = {
        name.removeprefix(prefix): _read_header(value, name)
        for name, value in headers.items()
        if name.startswith(prefix)
    }
    if "datacontenttype" in context:
        raise EventError("in binary mode the content type is given by the Content-Type header alone")
    if "content-type" in headers:
        context["datacontenttype"] = headers["content-type"].strip()
    content, time = _read_context(context)
    if isinstance(body, str):
        body = body.encode("utf-8", "surrogatepass")
    if not isinstance(body, bytes | bytearray | memoryview):
        raise EventError(f"the body of a CloudEvent in binary mode is bytes, not {type_name(body)}")
    data = bytes(body)
    if data:
        content["data"] = _read_body(data, headers.get("content-type", ""), limits)
    return content, time


def _read_context(context: Mapping[Any, Any]) -> tuple[dict[str, Any], datetime | None]:
    """Context attributes checked, with `time` as a timestamp."""
    for name in _REQUIRED:
        if context.get(name) in (None, ""):
            raise EventError("a CloudEvent needs this attribute, and it must not be empty", name)
    content: dict[str, Any] = {}
    for name, value in context.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            place = abbreviate(ascii(name))
            raise EventError("the name of a CloudEvents attribute is of lower-case letters and digits", place)
        if name in _TEXTS and not isinstance(value, str):
            raise EventError(f"must be a string, not {type_name(value)}", name)
        if isinstance(value, Mapping | list | tuple | float):
            raise EventError(
                f"a CloudEvents attribute is a string, an integer or a boolean, not {type_name(value)}", name
            )
        content[name] = b64encode(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value
    if content["specversion"] != "1.0":
        raise EventError(f"CloudEvents 1.0 can be read, not {abbreviate(content['specversion'])!r}", "specversion")
    if "time" not in content:
        return content, None
    moment = content["time"]
    time = moment if isinstance(moment, datetime) else read_time(moment)
    content["time"] = time
    return content, time


def read_time(text: Any) -> datetime:
    """An RFC 3339 timestamp in UTC; digits below the microsecond are cut off."""
    match = _TIMESTAMP.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise EventError("not an RFC 3339 timestamp such as 2026-01-31T12:00:00Z", "time")
    day, clock, seconds, fraction, offset = match.groups()
    micros = ((fraction or "") + "000000")[:6]
    # A leap second, 23:59:60, is the same instant as the second after it.
    leap = seconds == "60"
    try:
        second = "59" if leap else seconds
        local = datetime.fromisoformat(f"{day}T{clock}:{second}.{micros}{offset or '+00:00'}")
        return local.astimezone(UTC) + timedelta(seconds=int(leap))
    except (ValueError, OverflowError) as error:
        raise EventError(f"not a timestamp: {error}", "time") from None


def _read_base64(text: Any) -> bytes:
    try:
        if isinstance(text, str):
            return b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        pass
    raise EventError("not Base64 text", "data_base64")


def _lower(headers: Mapping[Any, Any]) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise EventError(f"headers are a mapping of names to texts, not {type_name(headers)}")
    lowered: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise EventError(f"headers are strings, not {type_name(name)} and {type_name(value)}")
        if name.lower() in lowered:
            raise EventError(f"the header {abbreviate(name)!r} occurs twice")
        lowered[name.lower()] = value
    return lowered


def _read_header(value: str, name: str) -> str:
    """The text of a header: unquoted, then percent-decoded once."""
    value = value.strip(" \t")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeError:
        raise EventError("the header is not UTF-8 after percent-decoding", abbreviate(name)) from None


def _read_body(data: bytes, content_type: str, limits: Limits) -> Any:
    media = _media_type(content_type)
    subtype = media.partition("/")[2]
    if subtype == "json" or subtype.endswith("+json"):
        try:
            return parse_value(data, limits)
        except EventError as error:
            raise EventError(error.reason, f"data.{error.path}" if error.path else "data") from None
    is_text = media.startswith("text/")
    if not is_text and subtype != "xml" and not subtype.endswith("+xml"):
        return data
    match = re.search(r";\s*charset\s*=\s*\"?([^\s;\"]+)", content_type, re.IGNORECASE)
    charset = match.group(1).lower() if match else "utf-8"
    if not is_text and match is None and not _is_utf8(data):
        return data  # XML that declares its encoding inside (RFC 7303 §3)
    if charset not in _CHARSETS:
        raise EventError(f"text in the charset {abbreviate(charset)!r} cannot be read; utf-8 can", "data")
    try:
        return data.decode(_CHARSETS[charset])
    except UnicodeDecodeError as error:
        raise EventError(f"invalid {charset} at byte {error.start}", "data") from None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
