"""Regular expressions mean here what they mean to Python's engine, which agrees with PCRE on what is accepted."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio.filters.regex import Regex
from palio.languages.sigma.pcre import to_java

PIECES = [
    "a", "b", ".", "^", "$", "\\.", "\\w", "\\W", "\\s", "\\d", "\\b", "\\B", "\\A", "\\n", "[ab]", "[^a]", "[]a]",
    "[^]]", "[a[]", "[&&]", "[a^]", "[a-c-]", "[\\]]", "(?:a|b)", "(a)", "(?P<n>a)", "(?i)", "(?i:A)", "(?s:.)",
    "(?-i:a)", "{", "}", "]", "a{2}", "a{1,}", "a{,2}", "a*", "b+?", ".*", "|", "\\x41", "\\-", "\\/", "é", "\\\\",
]  # fmt: skip
TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aa",
    "A",
    "a\n",
    "a\nb",
    "\na",
    "a\r",
    "\r\nb",
    "a.b",
    "{",
    "]",
    "&&",
    "a{,2}",
    "é",
    "-",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    st.sets(st.sampled_from("ims")).map(frozenset),
    st.lists(st.one_of(st.sampled_from(TEXTS), st.text(st.sampled_from("abA\n\r{}].&-é"), max_size=6)), max_size=8),
)
@example("a$", frozenset(), ["a\n", "a\r", "a\u2028", "a\n\n"])
@example("(a$|b)", frozenset("m"), ["a\nc", "cb"])
def test_an_expression_means_what_it_means_to_python(text: str, flags: frozenset[str], texts: list[str]) -> None:
    try:
        java = Regex.compile(to_java(text, flags))
    except ValueError:
        return  # what is refused has another test
    own = re.ASCII
    for name, flag in (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL)):
        own |= flag if name in flags else 0
    try:
        expected = re.compile(text.replace("a{,2}", "a[{],2[}]"), own)
    except re.error:
        return
    if re.search(r".\(\?i\)", text):
        return  # Python wants flags at the start
    for each in texts:
        if not each and r"\B" in text:
            continue  # Python finds no place within nothing, and no other language does as it
        assert java.search(each) is (expected.search(each) is not None), (text, java.text, each)


@pytest.mark.parametrize(
    ("text", "found", "missed"),
    [
        ("[[:alpha:]]+[[:digit:]]", "a1", "1a"),
        ("[[:^alpha:]]", "1", "a"),
        ("[[:word:]-]", "-", "."),
        ("\\Qa.b\\E", "a.b", "aXb"),
        ("\\Qa.b", "a.b", "aXb"),
        ("a\\Z", "ba\n", "ab"),
        ("a\\z", "ba", "a\n"),
        ("(?<name>a)b", "ab", "b"),
    ],
)
def test_notations_that_python_does_not_have(text: str, found: str, missed: str) -> None:
    assert Regex.compile(to_java(text)).search(found)
    assert not Regex.compile(to_java(text)).search(missed)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a(?=b)", "look-ahead"),
        ("(?<!a)b", "look-behind"),
        ("(a)\\1", "back-references"),
        ("a++", "possessive"),
        ("(?>a)", "atomic"),
        ("a\\Kb", r"\\K"),
        ("(?#comment)a", "comments"),
        ("(?x)a", "the flag x"),
        ("[a", "never closed"),
        ("[[:nothing:]]", "no class"),
        ("(?m)a^b", "with the flag m"),
        ("a$\\nb", r"\$ must be at the end"),
        ("\\p{Lu}", "Unicode"),
        ("(a", "never closed"),
        ("a{5000}", "more than 1000"),
    ],
)
def test_what_a_linear_engine_cannot_mean_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        to_java(text)
