"""Synopses of documents, compared with counting, and the similarity of patterns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidArgument
from palio.workloads.xml_documents import XmlDocuments
from palio.workloads.xml_schema import opposed_elements, read_dtd
from palio.workloads.xpath_patterns import XPathPatterns
from palio.xml.containment import contains
from palio.xml.document import Document
from palio.xml.document_parser import parse_document
from palio.xml.expansion import ExpansionNode, expand
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.similarity import CONFLICT, UNDECIDED, proximity, similarity
from palio.xml.similarity_sample import SimilaritySample
from palio.xml.structure import SynopsisStructure
from palio.xml.synopsis import DocumentSynopsis
from palio.xml.xpath_parser import parse_xpath
from tests.xml.strategies import conjunctive_paths, documents

TWO = ("<a><b><c/></b><b><d/></b><e/></a>", "<a><b><c/></b></a>", "<a><e><f/></e><e/></a>")
MEDIA = read_dtd(
    """
    <!ELEMENT media (Book, CD*, DVD*)>
    <!ELEMENT Book (Author|Title)+>
    <!ELEMENT Author (First|Last)+>
    <!ELEMENT Director (First|Last)+>
    <!ELEMENT CD (Author+, (Producer|Interpreter)?)>
    <!ELEMENT Interpreter ((First|Last)+, Instrument*)>
    <!ELEMENT DVD (Title?, Actor+, (Producer|Director)?)>
    <!ELEMENT Actor ((First|Last)+, Role?)>
    """,
    "media",
).structure
BAUDELAIRE = parse_xpath("/media[Book/Author/Last='Baudelaire']/*[*[starts-with(., 'AB')]][*/First='Bob']")


def synopsis_of(texts: list[str]) -> DocumentSynopsis:
    synopsis = DocumentSynopsis()
    for text in texts:
        synopsis.add(parse_document(text))
    return synopsis


def paths_of(document: Document) -> set[str]:
    """The paths of a document, one by one."""
    places = [""] * len(document)
    for element in range(len(document)):
        parent = document.parents[element]
        places[element] = f"{places[parent] if parent >= 0 else ''}/{document.name(element)}"
    attributes = {
        f"{places[owner]}/@{document.names[tag]}"
        for owner, tag in zip(document.attribute_owners, document.attribute_tags, strict=True)
    }
    return {*places, *attributes, *(f"{places[owner]}/text()" for owner in document.text_owners)}


def test_a_path_counts_once_for_each_document_that_has_it() -> None:
    synopsis = synopsis_of(list(TWO))
    expected = {"/a": 3, "/a/b": 2, "/a/b/c": 2, "/a/b/d": 1, "/a/e": 2, "/a/e/f": 1, "/a/x": 0, "/b": 0}
    assert {path: synopsis.frequency(path) for path in expected} == expected
    assert (synopsis.documents, len(synopsis)) == (3, 6)


def test_branches_are_taken_for_independent() -> None:
    synopsis = synopsis_of(list(TWO))
    shares = {"/a/b": 2 / 3, "/a//c": 2 / 3, "/a[b][e]": 4 / 9, "//f": 1 / 3, "//*": 1.0, "/b": 0.0, "/b | //f": 1 / 3}
    assert {path: synopsis.selectivity(parse_xpath(path)) for path in shares} == pytest.approx(shares)


@given(st.lists(documents(3), max_size=6))
def test_frequencies_are_those_of_counting_whatever_the_order_and_the_parts(texts: list[str]) -> None:
    whole = synopsis_of(texts)
    found = [paths_of(parse_document(text)) for text in texts]
    for path in set().union(*found):
        assert whole.frequency(path) == sum(path in each for each in found)
    parts = synopsis_of(texts[::-2])
    parts.merge(synopsis_of(texts[-2::-2]))
    assert parts.documents == whole.documents
    assert len(parts) == len(whole) == len(set().union(*found))
    again = DocumentSynopsis.from_json(parts.to_json())
    assert all(again.frequency(path) == whole.frequency(path) for path in set().union(*found))
    assert all(child.frequency <= node.frequency for node in whole.root.walk() for child in node.children.values())


@given(st.lists(documents(3), min_size=1, max_size=6), conjunctive_paths)
def test_an_estimate_is_a_share_and_none_only_where_no_document_matches(texts: list[str], xpath: str) -> None:
    pattern = parse_xpath(xpath)
    share = synopsis_of(texts).selectivity(pattern)
    assert 0 <= share <= 1
    if any(ReferenceMatcher(parse_document(text)).matches(pattern) for text in texts):
        assert share > 0


def test_a_synopsis_is_bounded() -> None:
    synopsis = DocumentSynopsis(max_nodes=10)
    synopsis.add(parse_document("<a>" + "".join(f"<n{number}/>" for number in range(1_000)) + "</a>"))
    assert len(synopsis) <= 11
    with pytest.raises(InvalidArgument, match="max_nodes"):
        DocumentSynopsis(0)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"documents":1,"paths":{"a":1}}', '{"documents":1,"paths":[1]}'])
def test_what_is_no_synopsis_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="no synopsis"):
        DocumentSynopsis.from_json(text)


@pytest.mark.parametrize(
    ("model", "opposed"),
    [
        ("(a|b)", {"aa", "ab", "ba", "bb"}),
        ("(a|b)?", {"aa", "ab", "ba", "bb"}),
        ("(a|b)*", set()),
        ("(a|b)+", set()),
        ("(a)", {"aa"}),
        ("(a?)", {"aa"}),
        ("(a+)", set()),
        ("(a,b*)", {"aa"}),
        ("((a,c)|b)", {"aa", "bb", "cc", "ab", "ba", "bc", "cb"}),
        ("(a,b,a)", {"bb"}),
    ],
)
def test_elements_are_opposed_that_no_content_has_both(model: str, opposed: set[str]) -> None:
    schema = read_dtd(f"<!ELEMENT r {model}>", "r")
    assert {one + other for one, other in opposed_elements(schema.types["r"].content)} == opposed


def test_an_expansion_has_the_labels_that_can_host_the_pattern() -> None:
    root = expand(BAUDELAIRE, MEDIA)
    assert root is not None

    def shape(node: ExpansionNode) -> dict[tuple[str, float], object]:
        return {(child.label, child.probability): shape(child) for child in node.children}

    assert shape(root) == {
        ("media", 1.0): {
            ("Book", 1.0): {("Author", 1.0): {("Last", 1.0): {}}},
            ("CD", 0.5): {("Producer", 1.0): {}, ("Author", 1.0): {("First", 1.0): {}}},
            ("DVD", 0.5): {
                ("Producer", 0.5): {},
                ("Title", 0.5): {},
                ("Actor", 0.5): {("First", 1.0): {}},
                ("Director", 0.5): {("First", 1.0): {}},
            },
        }
    }


@pytest.mark.parametrize(
    ("xpath", "expected"),
    [
        ("/media/DVD/Actor/First[starts-with(., 'B')]", 1 / 4),
        ("/media/DVD/Actor/First[.='Charles']", 0),
        ("/media[Book]/CD", 1 / 2),
        ("/media/*/Author", 1),
        ("/media/CD/Producer[.='AB Productions']", UNDECIDED / 2),
        ("/media[CD]/DVD", CONFLICT / 4),
        ("/media/DVD[Title]/Director", 1 / 8),
        ("/media/DVD[Producer]/Director", 0),
        ("/media/DVD[Title]/*/First", 1 / 4),
        ("/media/DVD[Producer]/*/First", 1 / 8),
        ("//Author", 1),
        ("//Nobody", 0),
    ],
)
def test_worked_examples_of_similarity(xpath: str, expected: float) -> None:
    assert similarity(BAUDELAIRE, parse_xpath(xpath), MEDIA) == pytest.approx(expected)


def test_what_a_certain_element_excludes_is_not_there() -> None:
    structure = read_dtd("<!ELEMENT a (b | (c, d?))>", "a").structure
    b, c, d = (parse_xpath(f"/a/{name}") for name in "bcd")
    assert similarity(b, c, structure) == similarity(d, b, structure) == 0
    assert similarity(c, d, structure) == UNDECIDED


def nitf_like() -> Iterator[tuple[list[Document], list[str]]]:
    schema = read_dtd(
        """
        <!ELEMENT n (head?, body)> <!ELEMENT head (title?, meta*)> <!ELEMENT meta EMPTY>
        <!ATTLIST meta id CDATA #IMPLIED> <!ELEMENT title (#PCDATA)> <!ELEMENT body (block|p)*>
        <!ELEMENT block (p|list|block)*> <!ELEMENT list (item)+> <!ELEMENT item (#PCDATA)> <!ELEMENT p (#PCDATA|em)*>
        <!ELEMENT em (#PCDATA)>
        """,
        "n",
    )
    documents = XmlDocuments(schema, tags=12)
    yield (
        [parse_document(documents.document(row)) for row in range(150)],
        list(dict.fromkeys(islice(XPathPatterns(schema).patterns(), 60)))[:24],
    )


def test_laws_of_similarity_and_its_agreement_with_what_happens() -> None:
    ((seen, xpaths),) = nitf_like()
    patterns = [parse_xpath(xpath) for xpath in xpaths]
    synopsis = DocumentSynopsis()
    sample = SimilaritySample(patterns, size=200)
    matchers = [ReferenceMatcher(document) for document in seen]
    for document in seen:
        synopsis.add(document)
        sample.add(document)
    structure = SynopsisStructure(synopsis)
    matched = [{at for at, matcher in enumerate(matchers) if matcher.matches(pattern)} for pattern in patterns]
    pairs = []
    for one, other in product(range(len(patterns)), repeat=2):
        estimated = similarity(patterns[one], patterns[other], structure)
        counted = sample.similarity(one, other)
        assert 0 <= estimated <= 1
        assert 0 <= counted <= 1
        assert proximity(patterns[one], patterns[other], structure) == proximity(
            patterns[other], patterns[one], structure
        )
        if contains(patterns[other], patterns[one]):
            assert estimated == counted == 1
        elif matched[one]:
            truth = len(matched[one] & matched[other]) / len(matched[one])
            assert abs(counted - truth) <= 1 / (len(matched[one]) + 1)
            pairs.append((estimated, truth))
    assert len(pairs) > 100
    # Pairs that are estimated as likely are so more often than the others.
    pairs.sort()
    third = len(pairs) // 3
    low, high = (sum(truth for _, truth in some) / third for some in (pairs[:third], pairs[-third:]))
    assert high > low + 0.2


def test_a_sample_forgets_the_oldest_document() -> None:
    sample = SimilaritySample(map(parse_xpath, ("/a", "/b", "//c")), size=2)
    for text in ("<a><c/></a>", "<b><c/></b>", "<b/>"):
        sample.add(parse_document(text))
    assert [sample.rate(number) for number in range(3)] == [0, 1, 0.5]
    assert len(sample) == 2
    assert sample.similarity(1, 2) == pytest.approx((1 + 0.5) / 3)
    assert sample.proximity(1, 2) == sample.proximity(2, 1)


def test_without_documents_a_sample_answers_by_its_prior() -> None:
    patterns = [parse_xpath("/media/CD"), parse_xpath("/media/DVD")]
    sample = SimilaritySample(patterns, prior=lambda one, other: similarity(one, other, MEDIA))
    assert sample.similarity(0, 1) == pytest.approx(similarity(*patterns, MEDIA))
    with pytest.raises(InvalidArgument, match="size of a sample"):
        SimilaritySample([], size=0)
    with pytest.raises(InvalidArgument, match="weight of a prior"):
        SimilaritySample([], weight=-1)
