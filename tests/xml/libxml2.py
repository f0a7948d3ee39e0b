"""XPath 1.0 by libxml2, the library below lxml: the oracle of the matchers, called through ctypes."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

# Text in CDATA sections is part of the text around it, documents of any depth, no messages, no network.
_OPTIONS = (1 << 14) | (1 << 19) | (1 << 5) | (1 << 6) | (1 << 11)


@cache
def _library() -> Any:
    name = ctypes.util.find_library("xml2")
    if name is None:
        return None
    library = ctypes.CDLL(name)
    for function in ("xmlReadMemory", "xmlXPathNewContext", "xmlXPathEval"):
        getattr(library, function).restype = ctypes.c_void_p
    library.xmlSetGenericErrorFunc(None, _SILENT)
    return library


_SILENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(lambda *_: None)


class Libxml2Document:
    """A document that libxml2 has parsed."""

    def __init__(self, library: Any, context: Any) -> None:
        self._library = library
        self._context = context

    def matches(self, xpath: str) -> bool:
        """Whether `boolean()` of an expression is true, from the document node."""
        found = self._library.xmlXPathEval(xpath.encode(), self._context)
        if not found:
            raise ValueError(f"libxml2 cannot evaluate {xpath}")
        try:
            return bool(self._library.xmlXPathCastToBoolean(ctypes.c_void_p(found)))
        finally:
            self._library.xmlXPathFreeObject(ctypes.c_void_p(found))


@contextmanager
def libxml2_document(data: bytes, namespaces: Mapping[str, str] | None = None) -> Iterator[Libxml2Document]:
    """A document in libxml2; the test is skipped where the library is not installed."""
    library = _library()
    if library is None:
        pytest.skip("libxml2, whose answers are the oracle, is not installed")
    document = library.xmlReadMemory(data, len(data), b"document.xml", None, _OPTIONS)
    if not document:
        raise ValueError("libxml2 cannot parse the document")
    context = ctypes.c_void_p(library.xmlXPathNewContext(ctypes.c_void_p(document)))
    try:
        library.xmlXPathSetContextNode(ctypes.c_void_p(document), context)  # where relative paths start
        for prefix, uri in (namespaces or {}).items():
            library.xmlXPathRegisterNs(context, prefix.encode(), uri.encode())
        yield Libxml2Document(library, context)
    finally:
        library.xmlXPathFreeContext(context)
        library.xmlFreeDoc(ctypes.c_void_p(document))
