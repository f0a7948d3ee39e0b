"""Numbers, bars and excerpts as the command line shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from palio.cli import terminal


@pytest.mark.parametrize(
    ("count", "seconds", "shown"),
    [
        (5, 1, "5"),
        (1, 3, "0.333"),
        (999.4, 1, "999"),
        (1234.5, 1, "1,230"),
        (1_419_999, 1, "1,420,000"),
        (0, 0, "0"),
    ],
)
def test_rates_have_three_digits(count: float, seconds: float, shown: str) -> None:
    assert terminal.rate(count, seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.00002, "20 µs"),
        (0.0123, "12.3 ms"),
        (1.5, "1.5 s"),
        (59.94, "59.9 s"),
        (125, "2 min 5 s"),
        (0.0009999, "1 ms"),
        (0.9999, "1 s"),
        (59.97, "1 min"),
        (83.2719, "1 min 23 s"),
        (119.7, "2 min"),
        (3600, "1 h"),
        (5025, "1 h 23 min"),
        (86_400, "1 d"),
        (273_600, "3 d 4 h"),
        (126_230_400, "1,461 d"),
        (-1.5, "-1.5 s"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, shown: str) -> None:
    assert terminal.duration(seconds) == shown


def test_plurals() -> None:
    assert terminal.plural(1, "match", "matches") == "1 match"
    assert terminal.plural(2000, "match", "matches") == "2,000 matches"
    assert terminal.plural(0, "event") == "0 events"


@given(st.floats(0, 1.5), st.integers(1, 30))
def test_a_bar_is_as_long_as_its_share_and_never_longer_than_its_room(share: float, width: int) -> None:
    bar = terminal.bar(share, width).plain
    assert cell_len(bar) <= width
    assert bool(bar) == (share > 0)
    assert abs(bar.count("█") - min(share, 1) * width) < 1


@pytest.mark.parametrize(
    ("condition", "bare"),
    [
        ("(a + b)", "a + b"),
        ("((a + b) > 3)", "(a + b) > 3"),
        ("(a) OR (b)", "(a) OR (b)"),
        ("(x = ')')", "x = ')'"),
        (r"(x = '\')')", r"x = '\')'"),
        ("f(x)", "f(x)"),
        ("x", "x"),
        ("", ""),
    ],
)
def test_brackets_around_the_whole_are_left_out(condition: str, bare: str) -> None:
    assert terminal.strip_parentheses(condition) == bare


@given(st.text(max_size=200), st.data(), st.integers(20, 100))
def test_a_caret_stands_in_the_excerpt_and_below_its_place(text: str, data: st.DataObject, width: int) -> None:
    position = data.draw(st.integers(0, len(text)))
    line, caret = terminal.excerpt(text, position, width).split("\n")
    place = len(caret) - 1
    assert cell_len(line) <= width
    assert place <= cell_len(line)
    after = text[position:].split("\n", maxsplit=1)[0]
    if after and after[0].isprintable():
        before = next(cut for cut in range(len(line) + 1) if cell_len(line[:cut]) == place)
        assert line[before:].startswith(after[0]) or cell_len(after[0]) == 0


@given(st.text(max_size=100), st.integers(5, 60))
def test_a_shortened_text_has_room(text: str, room: int) -> None:
    shown = terminal.shorten(text, room)
    assert cell_len(shown) <= room
    assert "\n" not in shown
