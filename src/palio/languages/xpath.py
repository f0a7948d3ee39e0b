"""XPath 1.0 tree patterns over XML documents; `docs/languages/xpath.md` is the specification.

A pattern asks about one attribute of an event that holds XML text, `xml` unless another is named. In SQL it is
`xpath_boolean(xml, '…')`, Spark's own function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palio.errors import InvalidArgument, ParseError
from palio.events.values import XML_ATTRIBUTE
from palio.filters.filter import Filter
from palio.filters.tree import Leaf
from palio.filters.value_predicates import Test, XPath
from palio.filters.value_sets import STRINGS
from palio.xml.xpath_parser import parse_xpath

__all__ = ["parse"]


def parse(
    condition: Any,
    *,
    attribute: str = XML_ATTRIBUTE,
    namespaces: Mapping[str, str] | None = None,
    timezone: str = "UTC",
) -> Filter:
    """The filter of an XPath expression, which matches where the document in an attribute does.

    `namespaces` are what prefixes stand for; "" is the namespace of names without prefix. Prefixes can also be declared
    before the path, `declare namespace m = "…";`. `timezone` has no effect: XPath has no times.

    >>> wanted = parse("//contrib[@role='author']/surname[.='Curie']")
    >>> wanted.matches({"xml": "<article><contrib role='author'><surname>Curie</surname></contrib></article>"})
    True
    >>> print(wanted)
    xpath_boolean(xml, '//contrib[@role="author"]/surname[.="Curie"]')
    """
    if not isinstance(condition, str):
        raise ParseError(str(condition), 0, f"an XPath is a text, not {type(condition).__name__}")
    pattern = parse_xpath(condition, _namespaces(namespaces))
    if pattern.is_never:
        return Filter.nothing
    return Filter.of_tree(Leaf(_name(attribute), STRINGS.where([Test(XPath(pattern))])))


def _name(attribute: Any) -> str:
    if isinstance(attribute, str) and attribute:
        return attribute
    raise InvalidArgument(f"the attribute of an XPath is named by text such as 'xml', not {attribute!r}")


def _namespaces(given: Any) -> Mapping[str, str]:
    if given is None:
        return {}
    if isinstance(given, Mapping) and all(isinstance(each, str) for pair in given.items() for each in pair):
        return given
    raise InvalidArgument(f"namespaces map prefixes to namespaces, as in {{'m': 'http://…'}}, not {given!r}")
