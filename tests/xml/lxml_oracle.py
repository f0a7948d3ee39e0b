"""XPath 1.0 by lxml: the oracle of the matchers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lxml import etree


class LxmlDocument:
    """A document that lxml has parsed."""

    def __init__(self, tree: etree._ElementTree, namespaces: Mapping[str, str]) -> None:
        self._tree = tree
        self._namespaces = dict(namespaces)

    def matches(self, xpath: str) -> bool:
        """Whether `boolean()` of an expression is true, from the document node."""
        # In the predicate the document node is the context; lxml itself begins at the root element.
        try:
            return bool(self._tree.xpath(f"boolean(/self::node()[boolean({xpath})])", namespaces=self._namespaces))
        except etree.XPathError as error:
            raise ValueError(f"lxml cannot evaluate {xpath}: {error}") from None


@contextmanager
def lxml_document(data: bytes, namespaces: Mapping[str, str] | None = None) -> Iterator[LxmlDocument]:
    """A document in lxml. Text in CDATA sections is part of the text around it, and documents may be deep."""
    parser = etree.XMLParser(strip_cdata=True, huge_tree=True, no_network=True, resolve_entities=True)
    yield LxmlDocument(etree.ElementTree(etree.fromstring(data, parser)), namespaces or {})
