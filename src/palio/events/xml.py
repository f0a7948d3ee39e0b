"""XML documents as content of events: the checked text of a document.

A document is an ordinary attribute with XML text, so that it travels wherever strings do. It is parsed here once, to
refuse what is malformed where it comes in; patterns parse it again where they are asked about it.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import replace
from typing import Any, Final

from palio.events.values import Limits
from palio.xml import document_parser

_ENCODING: Final = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDE_STARTS: Final = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_STARTS: Final = (b"\xef\xbb\xbf<", b"\xff\xfe<\0", b"\xfe\xff\0<", b"<\0", b"\0<")


def is_document(text: str | bytes | bytearray | memoryview) -> bool:
    """Whether the text of an event is XML: no JSON begins with <."""
    if isinstance(text, str):
        return text.lstrip("\ufeff \t\r\n").startswith("<")
    start = bytes(text[:200])
    return start.startswith(_STARTS) or start.lstrip().startswith(b"<")


def document_text(data: Any, limits: Limits) -> str:
    """The text of a well-formed document; a `DocumentError` says where it is not.

    >>> from palio.events.values import DEFAULT_LIMITS
    >>> document_text("<?xml version='1.0' encoding='latin-1'?><caf\u00e9/>".encode("latin-1"), DEFAULT_LIMITS)
    "<?xml version='1.0' encoding='latin-1'?><caf\u00e9/>"
    """
    document_parser.parse_document(data, replace(document_parser.DEFAULT_LIMITS, bytes=limits.json_bytes))
    if isinstance(data, str):
        return str.__str__(data).removeprefix("\ufeff")
    return decode_document(bytes(data))  # the parser has decoded it already


def decode_document(raw: bytes) -> str:
    """The text of a document, where its encoding is known; a LookupError names one that is not.

    In a text the declared encoding has no meaning any more, and is left as it is.
    """
    return raw.decode(_encoding_of(raw), "replace").removeprefix("\ufeff")


def _encoding_of(raw: bytes) -> str:
    """The encoding of a document by its first bytes, or by its declaration."""
    for start, encoding in (*_BYTE_ORDER_MARKS, *_WIDE_STARTS):
        if raw.startswith(start):
            return encoding
    declared = _ENCODING.match(raw)
    return declared[1].decode() if declared else "utf-8"
