"""What XPath 1.0 has beyond tree patterns, compared with lxml."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, event, given

from palio.errors import ParseError
from palio.xml.document_parser import parse_document
from palio.xml.expression_evaluator import TooManySteps
from palio.xml.pattern_index import PatternIndex
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath
from tests.xml.lxml_oracle import lxml_document
from tests.xml.strategies import documents, general_xpaths

LIST = "<l><!--one--><i n='1'>a</i><i n='2'>b<x/></i>\n<?page break?><i n='3' xml:lang='en-GB'>c</i><j>4</j> 5 </l>"


@pytest.mark.parametrize(
    ("xpath", "expected"),
    [
        ("/l/i[2]/x", True),
        ("/l/i[1]/x", False),
        ("/l/i[last()][@n=3]", True),
        ("/l/i[@n>1][1]/x", True),
        ("/l/i[position()<3]/x", True),
        ("/l/*[4][self::j]", True),
        ("(//i)[3]='c'", True),
        ("//x/preceding::i", True),
        ("//x/preceding::j", False),
        ("//x/following::i[1]='c'", True),
        ("//i[x]/preceding-sibling::i[1]/@n=1", True),
        ("//j/preceding-sibling::*[1]/@n=3", True),
        ("//j/ancestor-or-self::node()[3]", True),
        ("//j/ancestor-or-self::node()[4]", False),
        ("count(//i)=3", True),
        ("count(//i)=2", False),
        ("sum(//i/@n)=6", True),
        ("sum(//i/@n) div count(//i) = 2", True),
        ("5 mod -2 = 1", True),
        ("-5 mod 2 = -1", True),
        ("1 div -0 < 0", True),
        ("number(//i) = number(//i)", False),
        ("round(-2.5) = -2", True),
        ("//i/@n = //i/@n", True),
        ("//i/@n != //i/@n", True),
        ("//i[1]/@n != //i[1]/@n", False),
        ("//i[@n=2]/@n < //i[1]/@n", False),
        ("normalize-space(/l/text()[last()]) = '5'", True),
        ("substring('12345', 1.5, 2.6) = '234'", True),
        ("substring('12345', 0, 3) = '12'", True),
        ("substring('12345', 0 div 0, 3) = ''", True),
        ("substring('12345', -42, 1 div 0) = '12345'", True),
        ("substring('12345', -1 div 0, 1 div 0) = ''", True),
        ("translate('bar', 'abc', 'AB') = 'BAr'", True),
        ("substring-before('1999/04/01', '/') = '1999'", True),
        ("substring-after('1999/04/01', '/') = '04/01'", True),
        ("string(1 div 0) = 'Infinity'", True),
        ("string(0.1 + 0.2) = '0.30000000000000004'", True),
        ("string(-0.0001 * 1) = '-0.0001'", True),
        ("string(true()) = 'true'", True),
        ("concat('a', 1, true()) = 'a1true'", True),
        ("//comment() = 'one'", True),
        ("//processing-instruction('page') = 'break'", True),
        ("//processing-instruction('line')", False),
        ("/l/node()[1][self::comment()]", True),
        ("//i[lang('en')]/@n = 3", True),
        ("//i[not(lang('en'))]/@n = 3", False),
        ("boolean(//nothing) = false()", True),
        ("//nothing = false()", True),
        ("//i[string-length() = 1]", True),
        ("//i[string(@n) = string(position())]", True),
        ("//i[@n = last()]", True),
        ("(//i | //j)[4] = 4", True),
        ("//@n/parent::i", True),
        ("//*[parent::l = descendant::node()]", False),
        ("//*[parent::l != descendant::node()]", True),
        ("//j[. = descendant::node()]", True),  # which is a text
        ("//j[2 < following::node()]", True),
        ("//j/text()[last()]/self::text()/ancestor::l", True),
        ("//@n/following-sibling::*", False),
        ("//i[.='b' or x + 1 = 2]", True),
        ("local-name(//i[2]/*) = 'x'", True),
        ("namespace-uri(//@*[local-name()='lang']) = 'http://www.w3.org/XML/1998/namespace'", True),
    ],
)
def test_expressions_mean_what_xpath_means(xpath: str, expected: bool) -> None:
    pattern = parse_xpath(xpath)
    assert ReferenceMatcher(parse_document(LIST)).matches(pattern) is expected
    assert parse_xpath(str(pattern)) == pattern


@pytest.mark.parametrize(
    "xpath",
    [
        "(following-sibling::a or ancestor::a) and b",  # only a residual is left of the disjunction
        "a = following-sibling::a/ancestor::*",
        "(a or ancestor::b) and not(descendant-or-self::a/ancestor::a)",
        "not(*)",
        "/a = /a",
    ],
)
def test_the_text_of_a_pattern_is_read_as_the_same_pattern(xpath: str) -> None:
    pattern = parse_xpath(xpath)
    assert parse_xpath(str(pattern)) == pattern


@given(documents(), general_xpaths)
def test_random_expressions_of_xpath_match_where_lxml_says_so(document: str, xpath: str) -> None:
    assume("1e1" not in document)  # lxml reads exponents, which XPath 1.0 does not have
    assume("@x/following" not in xpath and "@x/preceding" not in xpath)
    try:
        pattern = parse_xpath(xpath)
    except ParseError as refusal:
        assert "a comparison of two constants" in str(refusal)
        return
    with lxml_document(document.encode()) as oracle:
        expected = oracle.matches(xpath)
        assert oracle.matches(str(pattern)) is expected
    event(f"matches: {expected}")
    parsed = parse_document(document)
    assert ReferenceMatcher(parsed).matches(pattern) is expected
    index = PatternIndex()
    number = index.add(pattern)
    assert index.match(parsed) == [number] * expected
    assert parse_xpath(str(pattern)) == pattern


@pytest.mark.parametrize(
    "xpath",
    [
        "-" * 3_900 + "1 = //a",
        "//a[" + "not(" * 38 + "b[2]" + ")" * 38 + "]",
        "//a" + "[1]" * 900,
        "//a[b[2]" * 19 + "]" * 19,
        "//a[" * 39 + "2" + "]" * 39,
        "concat(" * 30 + "'a', 'b'" + ", .)" * 30 + " = 'x'",
        " + ".join(["1"] * 900) + " = //a",
    ],
    ids=["signs", "nots", "positions", "predicates", "nested positions", "calls", "sums"],
)
def test_a_nested_or_long_expression_is_read_and_evaluated(xpath: str) -> None:
    pattern = parse_xpath(xpath)
    assert parse_xpath(str(pattern)) == pattern
    with lxml_document(b"<a>1<b/></a>") as oracle:
        assert ReferenceMatcher(parse_document("<a>1<b/></a>")).matches(pattern) is oracle.matches(xpath)


@pytest.mark.parametrize(
    "xpath",
    [
        "//*[count(preceding::*) > 1000000]",
        "count(//*/following::*/preceding::*) = 3",
        "//*[sum(//@n) > count(//*[. = 'x'])*1000]",
        "//*[translate(/, 'abc', 'ABC') = 'x'][2]",
        "//b[//b = //b][5000000]",
    ],
)
def test_an_expression_ends_at_its_limit_of_steps(xpath: str) -> None:
    document = parse_document("<a>" + "".join(f"<b n='{n}'>{n}</b>" for n in range(20_000)) + "</a>")
    matcher = ReferenceMatcher(document)
    with pytest.raises(TooManySteps):
        matcher.matches(parse_xpath(xpath), 16_000_000)
    assert matcher.matches(parse_xpath("//b[20000]"), 16_000_000)  # the next one has all of its steps


def test_an_index_names_the_patterns_that_it_left_undecided() -> None:
    index = PatternIndex()
    slow = index.add(parse_xpath("//b[count(preceding::b) > 5000]"))
    fast = index.add(parse_xpath("//b[3]"))
    plain = index.add(parse_xpath("//b"))
    document = parse_document("<a>" + "<b/>" * 3_000 + "</a>")
    for max_steps, undecided in ((5_000_000, [slow]), (math.inf, [])):
        found, exceeding = index.find_within(document, max_steps)
        assert sorted(found.tolist()) == [fast, plain]
        assert exceeding == undecided
