"""A rule as a whole: its forms, and what is refused because no subscription can be it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, PalioError, ParseError
from palio.languages import sigma
from tests.hangs import no_hang
from tests.languages.sigma.rules import rule

TEXT = """
title: Whoami
id: 0e1a4d4b-0000-4000-8000-000000000001
status: test
logsource:
  product: windows
  category: process_creation
detection:
  selection:
    Image|endswith: '\\whoami.exe'
  condition: selection
level: medium
"""
EVENT = {
    "Channel": "Microsoft-Windows-Sysmon/Operational",
    "EventID": 1,
    "Image": "C:\\Windows\\System32\\whoami.exe",
}


def test_a_rule_is_text_or_bytes_or_what_was_read_from_it() -> None:
    import yaml

    document = yaml.safe_load(TEXT)
    wanted = sigma.parse(TEXT)
    assert wanted == sigma.parse(TEXT.encode()) == sigma.parse(document) == Filter.parse(TEXT, language="sigma")
    assert wanted.matches(EVENT)
    assert not wanted.matches({**EVENT, "EventID": 5})
    assert Filter.parse(str(wanted)) == wanted


def test_covering_sees_through_rules() -> None:
    wide = Filter.parse(rule(selection={"Image|endswith": ".exe"}), language="sigma")
    narrow = Filter.parse(rule(selection={"Image|endswith": "\\cmd.exe", "User": "root"}), language="sigma")
    assert wide.covers(narrow)
    assert not narrow.covers(wide)
    assert wide.overlaps(narrow)
    assert not Filter.parse(rule(selection={"Port": 5}), language="sigma").overlaps(
        Filter.parse(rule(selection={"Port": 6}), language="sigma")
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a YAML mapping"),
        ("- a\n- b\n", "a YAML mapping"),
        ("just text", "a YAML mapping"),
        ("a: [1", "no YAML"),
        ("a: 1\na: 2\n", "Duplicate key"),
        ("a: \x07", "no YAML"),
        ("title: x\n---\ntitle: y\n", "2 documents"),
        ("title: x\n", "a rule has a mapping `detection`"),
        ("detection: []\n", "a rule has a mapping `detection`"),
        ("detection: {condition: a}\n", "a rule has a detection"),
        ("detection: {a: {x: 1}}\n", "a rule has a condition"),
        ("detection: {5: {x: 1}, condition: a}\n", "a detection's name is text"),
        ("correlation: {type: event_count}\n", "a correlation counts events over time"),
        ("filter: {rules: [a]}\n", "a filter changes other rules"),
        ("action: global\ndetection: {a: {x: 1}, condition: a}\n", "several documents"),
        ("detection: {a: {x: 1}, timeframe: 5m, condition: a}\n", "a timeframe spans several events"),
        ("logsource: windows\ndetection: {a: {x: 1}, condition: a}\n", "a log source is a mapping"),
        ("logsource: {product: 5}\ndetection: {a: {x: 1}, condition: a}\n", "a product is text"),
        ("a: &a [*a]\n", "no YAML"),
        ("detection: {a: {x: 2024-13-45}, condition: a}", "no YAML"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ParseError) as refused:
        sigma.parse(text)
    assert reason in str(refused.value)


@pytest.mark.parametrize("condition", [None, 5, [rule()], {5: 6}])
def test_what_is_neither_text_nor_a_mapping_is_refused(condition: Any) -> None:
    with pytest.raises(ParseError):
        sigma.parse(condition)


def test_a_mistake_is_pointed_at() -> None:
    text = TEXT.replace("Image|endswith", "Image|ends")
    with pytest.raises(ParseError) as refused:
        sigma.parse(text)
    assert refused.value.line == text[: text.index("Image|ends")].count("\n") + 1
    assert refused.value.reason.startswith("detection.selection.Image|ends: there is no modifier 'ends'")
    assert "endswith" in (refused.value.hint or "")


LAUGHS = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{this}: &{this} [{', '.join([f'*{last}'] * 8)}]\n" for last, this in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 50_000,
        "- " * 50_000 + "a",
        "".join(" " * level + "a:\n" for level in range(2_000)),
        "? " * 20_000,
        LAUGHS,
        f"detection: {{a: {{x: {'9' * 100_000}}}, condition: a}}",
        f"detection: {{a: {{x: '{'*a' * 100_000}'}}, condition: a}}",
        "x" * 1_000_000,
        "detection:\n  a:\n    x:\n" + "".join(f"    - value {n}\n" for n in range(10_000)) + "  condition: not a\n",
        "detection:\n  a:\n" + "".join(f"    x{n}|contains: y\n" for n in range(5_000)) + "  condition: not a\n",
        "detection: {a: {x|re: '" + "(" * 5_000 + "'}, condition: a}",
        "detection: {a: {x|re: '" + "(a+)+" * 50 + "$'}, condition: a}",
    ],
    ids=lambda text: text[:20].strip() or "deep",
)
def test_no_text_takes_long_or_too_deep(text: str) -> None:
    with no_hang():
        try:
            wanted = sigma.parse(text)
            wanted.matches({"x": "value 7" * 100})
            str(~wanted)
        except PalioError:
            pass


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A rule in which some characters were changed, removed or doubled."""
    characters = list(TEXT)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(characters) - 1))
        characters[at] = draw(st.sampled_from(["", "|", ":", "'", '"', "[", "{", "\n", "  ", "*", "&a ", "*a", "\x00"]))
    return "".join(characters)


@given(damaged())
def test_a_damaged_rule_is_a_rule_or_refused(text: str) -> None:
    with contextlib.suppress(PalioError):
        sigma.parse(text).matches(EVENT)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["x", "x|re", "x|contains|all", "|cidr", "condition", "timeframe", "", "|", "x|lt"]),
                inner,
                max_size=3,
            ),
        ),
        max_leaves=12,
    )
)
def test_any_detection_is_a_rule_or_refused(detection: Any) -> None:
    try:
        sigma.parse(rule(selection=detection)).matches({"x": "abc"})
        sigma.parse({"detection": detection})
    except PalioError:
        pass


def test_without_pysigma_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name == "sigma" or name.startswith("sigma.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sigma", None)
    for condition in (TEXT, rule(selection={"x": "a"})):
        with pytest.raises(PalioError, match=r"pip install 'palio\[sigma\]'"):
            sigma.parse(condition)
