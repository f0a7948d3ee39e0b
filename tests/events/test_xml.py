"""XML documents as events."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from palio import DocumentError, Event, EventError, InvalidArgument
from palio.events.values import Limits


def test_a_document_is_an_attribute_beside_others() -> None:
    event = Event.from_xml("<a/>", {"n": 1, "nested": {"x": True}})
    assert dict(event) == {"n": 1, "nested.x": True, "xml": "<a/>"}


def test_the_identity_is_given_as_to_other_events() -> None:
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    event = Event.from_xml(b"<a/>", id="7", source="feed", time=moment)
    assert (event.id, event.source, event.time) == ("7", "feed", moment)


def test_another_attribute_may_hold_the_document() -> None:
    assert dict(Event.from_xml("<a/>", attribute="body.xml")) == {"body.xml": "<a/>"}
    with pytest.raises(EventError, match="given twice"):
        Event.from_xml("<a/>", {"xml": "<b/>"})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1"])
def test_bytes_are_decoded_as_the_document_says(encoding: str) -> None:
    declared = "" if encoding.startswith("utf") else f"<?xml version='1.0' encoding='{encoding}'?>"
    text = f"{declared}<café>ñ</café>"
    event = Event.from_xml(text.encode(encoding))
    assert event["xml"] == text
    assert Event.from_xml(str(event["xml"])) != event  # the text is a document again, of another event


def test_what_is_malformed_is_refused_where_it_stands() -> None:
    with pytest.raises(DocumentError) as caught:
        Event.from_xml(b"<a>\n<b></a>")
    assert (caught.value.line, caught.value.column) == (2, 6)
    with pytest.raises(DocumentError, match="at most 3"):
        Event.from_xml(b"<a/>", limits=Limits(json_bytes=3))
    with pytest.raises(DocumentError):
        Event.from_xml("<?xml version='1.0' encoding='utf-8'?><a>\xff</a>".encode("latin-1"))


@pytest.mark.parametrize("given", [5, None, {"a": 1}])
def test_a_document_is_bytes_or_text(given: object) -> None:
    with pytest.raises(InvalidArgument, match="bytes or a string"):
        Event.from_xml(given)  # type: ignore[arg-type]
