"""XPath patterns of an attribute: one index for all of them, and each by itself where the index has its limits."""

from __future__ import annotations

import pytest

from palio import Matcher
from palio.xml import path_automaton

PATTERNS = ["/a/b", "//c[@d='1']", "/a//e", "/a/b/c", "//f", "/a[not(b)]", "//b[c]/c"]
DOCUMENT = "<a><b><c d='1'/></b><g/></a>"


def wants() -> Matcher:
    matcher = Matcher()
    for pattern in PATTERNS:
        matcher.add(pattern, pattern, language="xpath")
    return matcher


def test_a_document_beyond_the_limits_of_the_index_is_matched_pattern_by_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = wants().match({"xml": DOCUMENT})
    assert expected == {"/a/b", "//c[@d='1']", "/a/b/c", "//b[c]/c"}
    limited = wants()
    monkeypatch.setattr(path_automaton, "_FIRST_ROOM", 4)
    monkeypatch.setattr(path_automaton, "MAX_STATE_BYTES", 500)
    assert limited.match({"xml": DOCUMENT}) == expected
    assert limited.match_batch([{"xml": DOCUMENT}] * 3).num_rows == 3 * len(expected)
