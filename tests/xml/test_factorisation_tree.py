"""Containment searches over a set of patterns, compared with pairwise containment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio.xml.containment import contains
from palio.xml.factorisation_tree import FactorisationTree
from palio.xml.pattern import Pattern
from palio.xml.xpath_parser import parse_xpath
from tests.xml.strategies import conjunctive_paths, xpaths

# The running example of XSearch (Chand §5.5.1), with labels of our choice.
SEVEN = ("/a/c", "/b", "/a/b[c]/a", "/a[b/c]/b/a", "//b", "/a/b[a]/b", "/a/b")


def tree_of(*xpaths: str) -> FactorisationTree:
    tree = FactorisationTree()
    for xpath in xpaths:
        tree.add(parse_xpath(xpath))
    return tree


def of_seven(*numbers: int) -> set[Pattern]:
    return {parse_xpath(SEVEN[number - 1]) for number in numbers}


def test_the_running_example() -> None:
    tree = tree_of(*SEVEN)
    expected = {
        "/a[*/a][b/b]": (of_seven(6), of_seven(5, 7)),
        "/a//b": (of_seven(3, 4, 6, 7), of_seven(5)),
        "//b": (of_seven(2, 3, 4, 5, 6, 7), of_seven(5)),
        "/a": (of_seven(1, 3, 4, 6, 7), of_seven()),
        "/*": (of_seven(1, 2, 3, 4, 5, 6, 7), of_seven()),
    }
    for xpath, (contained, containing) in expected.items():
        pattern = parse_xpath(xpath)
        assert tree.contained(pattern) == contained, xpath
        assert tree.containing(pattern) == containing, xpath
    assert tree.node_count < sum(parse_xpath(xpath).size for xpath in SEVEN)


def test_value_predicates_are_compared_by_implication() -> None:
    wide, narrow, bare, point = map(
        parse_xpath, ("/q/p[text()>10]", "/q/p[text()>20]", "/q/p[text()]", "/q/*[text()='25']")
    )
    tree = FactorisationTree()
    for each in (wide, narrow, bare, point):
        tree.add(each)
    middle = parse_xpath("/q/p[text()>15]")
    assert tree.contained(middle) == {narrow}
    assert tree.containing(middle) == {wide, bare}
    exact = parse_xpath("/q/p[text()='25']")
    assert tree.contained(exact) == set()
    assert tree.containing(exact) == {wide, narrow, bare, point}


def test_a_removed_pattern_leaves_nothing_behind() -> None:
    tree = tree_of(*SEVEN, "/a[not(b)]")
    for pattern in list(tree):
        assert pattern in tree
        tree.discard(pattern)
        assert pattern not in tree
    assert (len(tree), tree.node_count) == (0, 0)
    tree.discard(parse_xpath("/a"))
    tree.add(parse_xpath("/a"))
    assert tree.containing(parse_xpath("/a/b")) == {parse_xpath("/a")}


@given(st.lists(conjunctive_paths | xpaths(), max_size=12), st.lists(conjunctive_paths | xpaths(), max_size=3))
def test_searches_equal_pairwise_containment(members: list[str], sought: list[str]) -> None:
    patterns = {parse_xpath(xpath) for xpath in members}
    tree = tree_of(*members)
    removed = {parse_xpath(xpath) for xpath in members[::3]}
    for kept in (patterns, patterns - removed):
        for pattern in (*map(parse_xpath, sought), *patterns):
            assert tree.contained(pattern) == {each for each in kept if contains(pattern, each)}
            assert tree.containing(pattern) == {each for each in kept if contains(each, pattern)}
        for each in removed:
            tree.discard(each)


@given(st.permutations([*SEVEN, "//a[b][.//c]", "/a//c[@x]", "//c/@x"]))
def test_answers_do_not_depend_on_the_order_of_insertion(members: list[str]) -> None:
    tree, usual = tree_of(*members), tree_of(*sorted(members))
    for xpath in members:
        assert tree.contained(parse_xpath(xpath)) == usual.contained(parse_xpath(xpath))
        assert tree.containing(parse_xpath(xpath)) == usual.containing(parse_xpath(xpath))
