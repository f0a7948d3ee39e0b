"""Generators of XML documents and XPath patterns, and the schemas they use."""

from __future__ import annotations

from itertools import islice

import pytest

from palio.workloads import WorkloadError
from palio.workloads.xml_documents import XmlDocuments
from palio.workloads.xml_schema import Schema, read_dtd, read_xsd
from palio.workloads.xpath_patterns import XPathPatterns
from palio.xml.document_parser import parse_document
from palio.xml.pattern import Axis
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath

NEWS = """
<!-- <!ELEMENT hidden EMPTY> -->
<!ENTITY % text "#PCDATA | em">
<!ELEMENT news (head, body+)>
<!ELEMENT head (title, (date | place)*, note?)>
<!ELEMENT body (p | section)*>
<!ELEMENT section (title?, (p | section)+)>
<!ELEMENT title (#PCDATA)>
<!ELEMENT date EMPTY>
<!ELEMENT place (#PCDATA)>
<!ELEMENT note ANY>
<!ELEMENT p (%text;)*>
<!ELEMENT em (%text;)*>
<!ATTLIST date day CDATA #REQUIRED era (bc|ad) "ad" zone NMTOKEN #FIXED "utc">
"""

NEWS_XSD = """
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:n="urn:n" targetNamespace="urn:n">
  <xs:attributeGroup name="common"><xs:attribute name="id"/><xs:attribute name="class"/></xs:attributeGroup>
  <xs:group name="inline"><xs:choice><xs:element ref="n:em"/><xs:element name="br"/></xs:choice></xs:group>
  <xs:complexType name="base"><xs:sequence><xs:element name="title" type="xs:string"/></xs:sequence></xs:complexType>
  <xs:element name="news"><xs:complexType><xs:complexContent><xs:extension base="n:base">
    <xs:sequence><xs:element ref="n:p" minOccurs="0" maxOccurs="unbounded"/></xs:sequence>
    <xs:attribute name="lang"/>
  </xs:extension></xs:complexContent></xs:complexType></xs:element>
  <xs:element name="p"><xs:complexType mixed="true">
    <xs:choice minOccurs="0" maxOccurs="4"><xs:group ref="n:inline"/><xs:any/></xs:choice>
    <xs:attributeGroup ref="n:common"/>
  </xs:complexType></xs:element>
  <xs:element name="em" type="xs:string"/>
</xs:schema>
"""


@pytest.fixture(scope="module")
def news() -> Schema:
    return read_dtd(NEWS, "news")


def test_a_dtd_says_what_stands_in_an_element(news: Schema) -> None:
    assert news.children["news"] == ("head", "body")
    assert news.children["section"] == ("title", "p", "section")
    assert news.children["p"] == ("em",)
    assert news.children["date"] == ()
    assert news.types["date"].attributes == ("day", "era", "zone")
    assert [name for name, kind in news.types.items() if kind.has_text] == ["title", "place", "note", "p", "em"]
    assert "hidden" not in news.types


def test_an_xsd_says_what_stands_in_an_element() -> None:
    schema = read_xsd(NEWS_XSD, "news")
    assert schema.children["news"] == ("title", "p")
    assert schema.children["p"] == ("em", "br")
    assert schema.types["p"].attributes == ("id", "class")
    assert schema.types["news"].attributes == ("lang",)
    assert schema.types["p"].has_text
    assert schema.types["em"].has_text
    assert not schema.types["news"].has_text
    assert schema.types["p"].content.parts[0].most == 4


@pytest.mark.parametrize(
    ("dtd", "said"),
    [
        ("<!ELEMENT a (b", "does not declare its document element 'a'"),
        ("<!ELEMENT a (b,>", "the content model of 'a' cannot be read"),
        ('<!ENTITY % x "%y; %y;"><!ENTITY % y "%x;"><!ELEMENT a %x;>', "contain each other"),
    ],
)
def test_a_dtd_that_cannot_be_read_is_an_error(dtd: str, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        read_dtd(dtd, "a")


def test_elements_that_require_each_other_allow_no_document() -> None:
    with pytest.raises(WorkloadError, match="require each other in a circle"):
        XmlDocuments(read_dtd("<!ELEMENT a (b)><!ELEMENT b (a)>", "a"))


def test_documents_have_the_size_and_depth_asked_for(news: Schema) -> None:
    workload = XmlDocuments(news, tags=58, levels=6)
    for row in range(30):
        document = parse_document(workload.document(row))
        assert 52 <= len(document) <= 64
        assert max(document.depths) <= 6
        for element in range(len(document)):
            kind = news.children[document.name(element).local]
            assert {document.name(child).local for child in document.children[element]} <= set(kind)


def test_the_same_seed_and_row_give_the_same(news: Schema) -> None:
    documents, others = XmlDocuments(news, seed=3), XmlDocuments(news, seed=4)
    assert documents.document(5) == XmlDocuments(news, seed=3).document(5) != others.document(5)
    patterns = XPathPatterns(news, seed=3)
    assert patterns.pattern(5) == XPathPatterns(news, seed=3).pattern(5)
    assert list(islice(patterns.patterns(), 50)) == list(islice(XPathPatterns(news, seed=3).patterns(), 50))


def test_patterns_follow_their_parameters(news: Schema) -> None:
    workload = XPathPatterns(news, max_depth=5, descendant_depth=2, branch=0.2)
    texts = list(islice(workload.patterns(), 200))
    assert len(set(texts)) == 200
    for text in texts:
        pattern = parse_xpath(text)
        for depth, node in walk(pattern.root):
            assert depth <= 5
            assert node.axis is Axis.CHILD or depth <= 2 or "*" in text  # the canonical form moves // before *


def walk(node, depth=0):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    for branch in node.branches:
        yield depth + 1, branch
        yield from walk(branch, depth + 1)


def test_plain_patterns_have_neither_descendants_nor_wildcards_nor_branches(news: Schema) -> None:
    workload = XPathPatterns(news, descendant=0.0, wildcard=0.0, branch=0.0, distinct=False)
    for text in islice(workload.patterns(), 100):
        assert not set(text) & set("*[")
        assert "//" not in text
        assert text.startswith("/news")


def test_documents_match_patterns_of_their_schema(news: Schema) -> None:
    patterns = [parse_xpath(text) for text in islice(XPathPatterns(news).patterns(), 100)]
    documents = XmlDocuments(news)
    matchers = [ReferenceMatcher(parse_document(documents.document(row))) for row in range(20)]
    matched = [pattern for pattern in patterns if any(matcher.matches(pattern) for matcher in matchers)]
    assert len(matched) > 50


def test_a_schema_with_too_few_patterns_says_so() -> None:
    schema = read_dtd("<!ELEMENT a (b?)><!ELEMENT b EMPTY>", "a")
    with pytest.raises(WorkloadError, match=r"only some \d+ distinct patterns"):
        list(XPathPatterns(schema, min_depth=1, max_depth=2, branch=0.0).patterns())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"min_depth": 4, "max_depth": 3}, "depths from 4 to 3"),
        ({"branch": 1.0}, "probabilities below 1"),
    ],
)
def test_parameters_that_describe_no_workload_are_refused(news: Schema, wrong: dict[str, float], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        XPathPatterns(news, **wrong)  # type: ignore[arg-type]
