"""XPath patterns of an attribute: one index for all of them, and each by itself where the index has its limits."""

from __future__ import annotations

import pytest

from palio.filters.value_predicates import Test, XPath
from palio.filters.xml_text import pattern_of
from palio.matching.columnar.document_patterns import DocumentPatterns
from palio.xml import path_automaton

XPATHS = ["/a/b", "//c[@d='1']", "/a//e", "/a/b/c", "//f", "/a[not(b)]", "//b[c]/c"]
DOCUMENT = "<a><b><c d='1'/></b><g/></a>"


def patterns() -> DocumentPatterns:
    wanted = [(code, Test(XPath(pattern_of(each)), True)) for code, each in enumerate(XPATHS)]
    unwanted = [(code, Test(XPath(pattern_of(each)), False)) for code, each in enumerate(XPATHS, len(XPATHS))]
    return DocumentPatterns(wanted + unwanted)


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_document_beyond_the_limits_of_the_index_is_matched_pattern_by_pattern(
    is_limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_limited:
        monkeypatch.setattr(path_automaton, "_FIRST_ROOM", 4)
        monkeypatch.setattr(path_automaton, "MAX_STATE_BYTES", 500)
    assert sorted(patterns().codes(DOCUMENT)) == [0, 1, 3, 6, 9, 11, 12]


def test_nothing_holds_for_a_text_that_is_no_document() -> None:
    assert patterns().codes("<a>") == []
