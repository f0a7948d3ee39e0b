"""The pattern index, compared with the reference matcher."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidArgument, LimitReached
from palio.xml import path_automaton, pattern_index
from palio.xml.document import Document
from palio.xml.document_parser import parse_document
from palio.xml.pattern import Pattern
from palio.xml.pattern_index import PatternIndex
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath
from tests.xml.strategies import conjunctive_paths, documents, xpaths

QUOTE = "<env><hdr><txn must='1'>5</txn></hdr><body><getQuote><sym>DEF</sym></getQuote></body></env>"
TWO_STOCKS = (
    "<env><body><resp><Stock><Symbol>GHI</Symbol><Price>12</Price></Stock>"
    "<Stock><Symbol>JKL</Symbol><Price>20</Price></Stock></resp></body></env>"
)


def index_of(*xpaths: str) -> PatternIndex:
    index = PatternIndex()
    index.add_many(map(parse_xpath, xpaths))
    return index


def matches(document: str, *xpaths: str) -> list[str]:
    return [xpaths[number] for number in index_of(*xpaths).match(parse_document(document))]


def expected(patterns: dict[int, Pattern], document: Document) -> list[int]:
    matcher = ReferenceMatcher(document)
    return [number for number, pattern in patterns.items() if matcher.matches(pattern)]


def test_worked_examples_of_tree_patterns() -> None:
    index = index_of(
        "//getQuote/sym",
        "//getQuote/sym[text()='DEF']",
        "/env/body/*/sym[text()='DEF']",
        "//txn/@must",
        "//txn[@must=1]",
        "//Stock/Symbol[text()='GHI']",
        "//Stock/Price[text()>15]",
        "//Stock[Symbol/text()='GHI'][Price/text()>15]",
        "/sym",
        "//*",
        "/env//env",
    )
    assert index.match(parse_document(QUOTE)) == [0, 1, 2, 3, 4, 9]
    assert index.match(parse_document(TWO_STOCKS)) == [5, 6, 9]


@pytest.mark.parametrize(
    ("xpath", "document", "is_matched"),
    [
        # The branches of a pattern are below one element, however deep elements of one name are nested.
        ("//a[b][c]", "<a><a><b/></a><c/></a>", False),
        ("//a[b][c]", "<a><a><b/><c/></a></a>", True),
        ("//a[.//b][c]", "<a><c/><a><b/></a></a>", True),
        ("//a[b]//c[d]", "<a><b/><x><c><x/></c><c><d/></c></x></a>", True),
        ("//a[b]//c[d]", "<a><x><b/></x><c><d/></c></a>", False),
        # What follows a second // is below the node before it, and not beside it.
        ("//a//b", "<x><a/><b/></x>", False),
        ("//a//b", "<b><a/></b>", False),
        ("//a//b//c", "<a><b/><c/></a>", False),
        ("//a//b//c", "<x><a><x><b><x><c/></x></b></x></a></x>", True),
        ("//a[.//b/c]", "<x><b><a><c/></a></b></x>", False),
        ("//b[.//b/c]", "<b><c/></b>", False),
        ("//b[.//b/c]", "<b><b><c/></b></b>", True),
        ("//a//@x", "<a x='1'/>", True),
        ("//a[.//@x][b]", "<a><b x='1'/></a>", True),
        ("//a//b[@x]", "<b x='1'><a/></b>", False),
        ("//a//b[.//@x='1']", "<a><b><c x='2'/></b><b><c x='1'/></b></a>", True),
        ("//a//text()", "<a>1</a>", True),
        # A node that is tested and branches.
        ("//a[.='12'][b]", "<x><a>12</a><a><b>1</b>2</a></x>", True),
        ("//a[.='12'][b]", "<x><a>12</a><a><b/>1</a></x>", False),
        # Conditions that are no conjunction.
        ("//a[b or c]", "<a><c/></a>", True),
        ("//a[not(b)]", "<a><b/></a>", False),
        ("//a | //b", "<b/>", True),
        ("//a[..]", "<a/>", True),
        (".='1'", "<a>1</a>", True),
        (".='1'", "<a>2</a>", False),
    ],
)
def test_branches_are_below_one_element(xpath: str, document: str, is_matched: bool) -> None:
    assert matches(document, xpath) == ([xpath] if is_matched else [])


@given(st.lists(xpaths() | conjunctive_paths, min_size=1, max_size=12), st.lists(documents(), min_size=1, max_size=3))
def test_the_index_finds_what_the_reference_matcher_finds(xpaths: list[str], documents: list[str]) -> None:
    index = PatternIndex()
    half = len(xpaths) // 2
    patterns = dict(zip(index.add_many(map(parse_xpath, xpaths[:half])), map(parse_xpath, xpaths[:half]), strict=True))
    for xpath in xpaths[half:]:
        patterns[index.add(parse_xpath(xpath))] = parse_xpath(xpath)
    for document in map(parse_document, documents):
        assert index.match(document) == expected(patterns, document)
        assert index.match(document) == expected(patterns, document)


@given(st.lists(conjunctive_paths, min_size=2, max_size=12), documents(), st.data())
def test_a_removed_pattern_is_as_if_it_had_never_been_added(
    xpaths: list[str], document: str, data: st.DataObject
) -> None:
    index = PatternIndex()
    patterns = {index.add(parse_xpath(xpath)): parse_xpath(xpath) for xpath in xpaths}
    parsed = parse_document(document)
    index.match(parsed)
    for number in data.draw(st.sets(st.sampled_from(sorted(patterns)))):
        index.remove(number)
        del patterns[number]
    assert index.match(parsed) == expected(patterns, parsed)
    assert len(index) == len(patterns)


def test_patterns_come_and_go_between_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_index, "_FEWEST_RECENT", 4)
    monkeypatch.setattr(pattern_index, "_FEWEST_REMOVED", 8)
    index = PatternIndex()
    document = parse_document("<a>" + "".join(f"<b{n}><c/></b{n}>" for n in range(0, 60, 2)) + "</a>")
    kept = {}
    for n in range(60):
        kept[index.add(parse_xpath(f"/a[b{n}]//c"))] = n
        if n % 3 == 2:
            oldest = min(kept)
            index.remove(oldest)
            del kept[oldest]
        assert index.match(document) == [number for number, each in kept.items() if each % 2 == 0]


def test_a_pattern_that_is_not_there_cannot_be_removed() -> None:
    index = index_of("//a")
    index.remove(0)
    with pytest.raises(InvalidArgument, match="there is no pattern 0"):
        index.remove(0)


def test_no_pattern_and_patterns_that_match_everything_or_nothing() -> None:
    assert PatternIndex().match(parse_document("<a/>")) == []
    assert matches("<b/>", "/", "//a[not(self::a)]", "/b") == ["/", "/b"]


def test_values_find_tests_of_every_kind() -> None:
    tests = ["= 2", "!= 2", "< 2", "<= 2", "> 2", ">= 2", "= '2'", "!= '2'"]
    xpaths = [f"//a[@x {test}]" for test in tests] + ["//a[contains(@x, '2')]", "//a[starts-with(@x, '2')]"]
    for value in ("1", "2", "2.0", "3", "twenty 2", ""):
        document = parse_document(f"<a x='{value}'/>")
        matcher = ReferenceMatcher(document)
        wanted = [xpath for xpath in xpaths if matcher.matches(parse_xpath(xpath))]
        assert matches(f"<a x='{value}'/>", *xpaths) == wanted


def test_a_node_may_have_more_branches_than_a_word_has_bits() -> None:
    xpath = "/a" + "".join(f"[b{n}]" for n in range(100))
    children = [f"<b{n}/>" for n in range(100)]
    assert matches(f"<a>{''.join(children)}</a>", xpath) == [xpath]
    assert matches(f"<a>{''.join(children[1:])}</a>", xpath) == []


def test_states_that_take_too_much_memory_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of("//a[b]//c", "/x/*/c", "//c")
    document = parse_document("<x><a><b/><c/></a></x>")
    assert index.match(document) == [0, 1, 2]
    monkeypatch.setattr(path_automaton, "MAX_STATE_BYTES", 2 * index._large.automaton.bytes - 1)
    assert index.match(document) == [0, 1, 2]
    monkeypatch.setattr(path_automaton, "_FIRST_ROOM", 4)
    monkeypatch.setattr(path_automaton, "MAX_STATE_BYTES", 500)
    with pytest.raises(LimitReached, match="too many different paths"):
        index.match(document)


def test_the_automaton_grows_with_the_paths_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_automaton, "_FIRST_ROOM", 4)
    xpaths = [f"/a//b{n}[c{n % 7}]//d{n % 5}" for n in range(40)]
    index = index_of(*xpaths)
    inner = "".join(f"<b{n}><c{n % 7}/><x><d{n % 5}/></x></b{n}>" for n in range(0, 40, 2))
    document = parse_document(f"<a>{inner}<e>{inner}</e></a>")
    assert index.match(document) == list(range(0, 40, 2))
    assert index.match(document) == list(range(0, 40, 2))


def test_a_document_with_too_many_branches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of("//a[b][c]", "//a[b][d]")
    document = parse_document("<x>" + "<a><b/><c/></a>" * 3_000 + "</x>")
    assert index.match(document) == [0]
    monkeypatch.setattr(pattern_index, "MAX_JOIN_ENTRIES", 4_096)
    with pytest.raises(LimitReached, match="too many elements at which branches of patterns begin"):
        index_of("//a[b][c]", "//a[b][d]").match(document)
    assert index.match(parse_document("<a><b/><d/></a>")) == [1]


def test_names_that_no_pattern_mentions_are_one_symbol() -> None:
    index = index_of("//a/b", "/*/*/c")
    index.match(parse_document("<x>" + "".join(f"<n{n}/>" for n in range(500)) + "</x>"))
    assert len(index._large.automaton) < 10
