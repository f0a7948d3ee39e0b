"""Reading of XPath expressions as tree patterns, and refusal of what is none."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from palio.errors import ParseError
from palio.xml.containment import contains
from palio.xml.pattern import Axis, Name, NodeKind, Pattern, PatternNode, ValueTest
from palio.xml.xpath_parser import MAX_TEXT_CHARACTERS, parse_xpath
from palio.xml.xpath_tokens import MAX_NESTED_BRACKETS


def test_a_path_is_a_tree_with_one_branch_for_each_predicate() -> None:
    pattern = parse_xpath("/article//contrib[@role='author']/name")
    (article,) = pattern.root.branches
    (contrib,) = article.branches
    role, name = contrib.branches
    assert pattern.root.kind is NodeKind.DOCUMENT
    assert (article.axis, article.name) == (Axis.CHILD, Name("article", ""))
    assert (contrib.axis, contrib.name) == (Axis.DESCENDANT, Name("contrib", ""))
    assert role == PatternNode(Axis.CHILD, NodeKind.ATTRIBUTE, Name("role", ""), tests=(ValueTest("=", "author"),))
    assert name == PatternNode(Axis.CHILD, NodeKind.ELEMENT, Name("name", ""))
    assert pattern.is_conjunctive
    assert pattern.size == 4


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("article/front", "/article/front"),
        ("/a/./b", "/a/b"),
        (".//b", "//b"),
        ("/child::a/descendant::b/attribute::c", "/a//b/@c"),
        ("/descendant-or-self::node()/child::a", "//a"),
        ("//self::a", "//a"),
        ("/a//@x", "/a//@x"),
        ("/a[b/text()='x']", '/a/b[text()="x"]'),
        ("/a[b = 'x']", '/a/b[.="x"]'),
        ("/a/b = 'x'", '/a/b[.="x"]'),
        ("/a['x' = b]", '/a/b[.="x"]'),
        ("/a[5 < b]", "/a/b[.>5]"),
        ("/a[b < '5']", "/a/b[.<5]"),
        ("/a[b < 'five']", "false()"),
        ("/a[b > -1.50]", "/a/b[.>-1.5]"),
        ("/a[b and not(not(c))]", "/a[b]/c"),
        ("/a[not(b or c)]", "/a[not(b)][not(c)]"),
        ("/a[not(b = 'x')]", '/a[not(b="x")]'),
        ("/a[not(. = 'x')]", '/a[.!="x"]'),
        ("/a[b or c or b]", "/a[b or c]"),
        ("/b | /a | /b", "/a or /b"),
        ("/a[(b or c) and d]", "/a[b or c]/d"),
        ("/a[b | c]", "/a[b or c]"),
        ("/a[count(b) = 0]", "/a[not(b)]"),
        ("/a[count(b) >= 1]", "/a/b"),
        ("/a[contains(., 'x')]", '/a[contains(., "x")]'),
        ("/a[contains(@b, 'x')]", '/a[contains(@b, "x")]'),
        ("/a[contains(b, 'x')]", '/a[contains(string(b), "x")]'),
        ("/a[contains(b[1], 'x')]", '/a[contains(string(b), "x")]'),
        ("/a[starts-with(@b, '')]", "/a"),
        ("/a[string(@b) = '']", '/a[@b="" or not(@b)]'),
        ("/a/b[1]", "/a/b"),
        ("//x[parent::y]", "//y/x"),
        ("//x[ancestor::y]", "//y//x"),
        ("//x[not(ancestor::y)]", "//x[not(ancestor::y)]"),
        ("/a[//b]", "/a[//b]"),
        ("//*[self::a or self::b]", "//*[self::a or self::b]"),
        ("//*[self::a]", "//a"),
        ("/a[@b=concat('\"', \"'\")]", '/a[@b=concat("", \'"\', "\'")]'),
        ("/and/or[div]", "/and/or/div"),
        ("/a[true()]", "/a"),
        ("/a[false()]", "false()"),
        ("/", "true()"),
    ],
)
def test_spellings_of_one_meaning_have_one_canonical_text(text: str, canonical: str) -> None:
    pattern = parse_xpath(text)
    assert str(pattern) == canonical
    assert parse_xpath(canonical) == pattern
    assert hash(parse_xpath(canonical)) == hash(pattern)
    assert pickle.loads(pickle.dumps(pattern)) == pattern


def test_prefixes_are_bound_by_the_caller_or_declared_in_the_text() -> None:
    bound = parse_xpath("//m:math[@x:href]", {"m": "urn:m", "x": "urn:x"})
    declared = parse_xpath("declare namespace m = 'urn:m'; declare namespace x = \"urn:x\"; //m:math[@x:href]")
    assert bound == declared
    assert str(bound) == (
        '//*[local-name()="math" and namespace-uri()="urn:m"]/@*[local-name()="href" and namespace-uri()="urn:x"]'
    )
    assert parse_xpath(str(bound)) == bound


def test_a_default_namespace_is_that_of_elements_only() -> None:
    pattern = parse_xpath("declare default element namespace 'urn:m'; /a/@b")
    assert str(pattern) == '/*[local-name()="a" and namespace-uri()="urn:m"]/@b'
    assert parse_xpath("/a/@b", {"": "urn:m"}) == pattern


def test_all_names_of_a_namespace_are_a_wildcard() -> None:
    assert str(parse_xpath("//m:*", {"m": "urn:m"})) == '//*[namespace-uri()="urn:m"]'
    assert str(parse_xpath("//@xml:*")) == '//@*[namespace-uri()="http://www.w3.org/XML/1998/namespace"]'


@pytest.mark.parametrize(
    ("text", "canonical", "cover"),
    [
        ("//a[ 2 ]", "//a[2]", "//a"),
        ("a[2]/b", "/a[2]/b", "/a/b"),
        ("//a[count(b) = 2]/c", "//a[count(b)=2]/c", "//a[b]/c"),
        ("//a[2 < count( b )]", "//a[2<count(b)]", "//a/b"),
        ("//a[count(b) < 2]", "//a[count(b)<2]", "//a"),
        ("//a[b = c]/@x", "//a[b=c]/@x", "//a[b][c]/@x"),
        ("//a[normalize-space(b) = 'x']", '//a[normalize-space(b)="x"]', "//a/b"),
        ("//a[normalize-space(b) = '']", '//a[normalize-space(b)=""]', "//a"),
        ("//a[preceding-sibling::b]", "//a[preceding-sibling::b]", "//a[//b]"),
        (
            "//a[string-length(substring-after(b/c, '-')) > 3]",
            '//a[string-length(substring-after(b/c, "-"))>3]',
            "//a/b/c",
        ),
        ("//a[not(b[2])]", "//a[not(b[2])]", "//a"),
        ("//a[b[2] and c]", "//a[b[2]]/c", "//a[b]/c"),
        ("//a[2] | //b", "//b or //a[2]", "//a or //b"),
        ("//a[b] [2] [c]", "//a[b][2][c]", "//a[b]/c"),
        ("//a/comment()", "//a/comment()", "//a"),
        ("//m:a[2]", '//*[local-name()="a" and namespace-uri()="urn:m"][2]', None),
        ("//a[b + 1 > - c]", "//a[b+1>-c]", "//a"),
        ("//a[boolean(b) = true()]", "//a[boolean(b)=true()]", "//a"),
        ("//a[not(number(b))]", "//a[not(number(b))]", "//a"),
    ],
)
def test_what_is_no_tree_pattern_is_an_expression_that_an_index_can_look_for(
    text: str, canonical: str, cover: str | None
) -> None:
    pattern = parse_xpath(text, {"m": "urn:m"})
    assert str(pattern) == canonical
    assert parse_xpath(canonical) == pattern
    assert pattern.has_residuals
    assert not pattern.is_conjunctive
    if cover is not None:
        alternatives = {str(_without_residuals(each)) for each in pattern.alternatives}
        assert alternatives == {str(each) for each in parse_xpath(cover).alternatives}
        assert contains(parse_xpath(cover), pattern)
    assert not contains(pattern, parse_xpath("//a"))


def _without_residuals(pattern: Pattern) -> Pattern:
    def strip(node: PatternNode) -> PatternNode:
        return replace(node, branches=tuple(map(strip, node.branches)), others=())

    return Pattern(strip(pattern.root))


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "there is no XPath"),
        ("/a[", 4, "a step of a path"),
        ("/a[b", 3, "never closed"),
        ("/a]", 3, "is expected; here is ]"),
        ("//a[. = 'x]", 9, "the text is never closed"),
        ("//m:math", 3, "the prefix m stands for no namespace"),
        ("//a[lower-case(.) = 'x'][2]", 5, "XPath 2.0"),
        ("//a[2]/b[", 10, "a step of a path"),
        ("//a[2]/b = ", 12, "a step of a path"),
        ("//a[2", 4, "never closed"),
        ("//a[count('x') = 2]", 5, "count() takes a path"),
        ("//a[substring(.) = 'x']", 5, "substring() does not take 1 argument"),
        ("//a[(b = 'x')[1]]", 5, "only nodes have predicates"),
        ("//a[name() = 'x']", 5, "the prefixes that name() returns"),
        ("id('x')", 1, "id() needs a DTD"),
        ("//a/namespace::*", 5, "the axis namespace"),
        ("//a[2 | b]", 5, "only paths have a union"),
        ("//a[document('x')/b]", 5, "no function document()"),
        ("/a[matches(b, 'x')]", 4, "XPath 2.0"),
        ("/a[e:is(.)]", 4, "no function e:is()"),
        ("/a[b = $x]", 8, "no variables"),
        ("/a/sideways::b", 4, "no axis sideways"),
        ("/a[.[b]]", 5, "no predicate after ."),
        ("“a”", 1, "has no meaning"),
        ("//a[. = 1e0]", 10, "is expected; here is e0"),
    ],
)
def test_what_no_subscription_may_ask_is_refused_where_it_stands(text: str, column: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_xpath(text)
    assert reason in caught.value.reason
    assert caught.value.column == column


@pytest.mark.parametrize(
    "text",
    [
        "/a" * MAX_TEXT_CHARACTERS,
        "/a" * 5_000,
        "/a[" * (MAX_NESTED_BRACKETS + 1) + "b" + "]" * (MAX_NESTED_BRACKETS + 1),
        "/a" * 100,
        "/a[" + " or ".join(f"b{number}/c/d/e" for number in range(400)) + "]",
    ],
    ids=["characters", "words", "brackets", "levels", "nodes"],
)
def test_sizes_and_depths_are_bounded(text: str) -> None:
    with pytest.raises(ParseError):
        parse_xpath(text)
