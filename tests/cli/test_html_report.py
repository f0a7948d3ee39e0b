"""HTML reports: plots, escaping, and the option that asks for them."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from palio.cli.html_report import (
    DURATIONS,
    Page,
    Point,
    Scale,
    bars,
    columns,
    line,
    report_option,
    round_duration,
    round_up,
    write_page,
)

EVIL = "<script>alert('x')</script>&\"\x00\u202e"


def parts(svg: str, kind: str, of: str | None = None) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [each for each in root.iter(kind) if of is None or each.get("class") == of]


def test_a_bar_is_as_long_as_what_it_stands_for() -> None:
    svg = bars([("a", 400), ("b", 100), ("c", 0)])
    first, second, third = (float(each.get("width", "")) for each in parts(svg, "rect"))
    assert first == pytest.approx(4 * second, rel=0.01)
    assert 0 < third <= 1
    assert [each.text for each in parts(svg, "text")] == ["a", "400", "b", "100", "c", "0"]
    assert parts(bars([]), "rect") == []


def test_of_very_many_columns_the_largest_of_neighbours_are_shown() -> None:
    values = [1.0] * 1000
    values[777] = 50.0
    found = [float(each.get("height", "")) for each in parts(columns(values, "partitions"), "rect")]
    assert len(found) == 200
    assert [place for place, height in enumerate(found) if height > 100] == [777 // 5]
    assert len(parts(columns([3.0, 1.0], "partitions"), "rect")) == 2
    assert parts(columns([], "partitions"), "rect") == []


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e12)), max_size=20))
def test_a_line_stays_in_its_picture(given: list[tuple[float, float]]) -> None:
    points = [Point(at, value) for at, value in sorted(given)]
    svg = line(points, "seconds")
    if not points:
        assert svg == ""
        return
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    marks = parts(svg, "circle")
    assert len(marks) == len(points)
    for mark in marks:
        assert 0 <= float(mark.get("cx", "")) <= width
        assert 0 <= float(mark.get("cy", "")) <= height


@given(st.floats(1e-6, 1e15))
def test_a_scale_ends_at_a_round_number_not_far_above(value: float) -> None:
    end = round_up(value)
    assert value * (1 - 1e-6) <= end <= value * 2.1


def test_a_time_axis_has_round_times() -> None:
    """Four hours of a stream, whose first batch ended after 2.31 s."""
    svg = line([Point(2.31, 40_000), Point(7_000, 52_000), Point(14_312, 1_234_567_890)], "time since the first batch")
    assert [each.text for each in parts(svg, "text", "below")] == [
        "0",
        "1 h",
        "2 h",
        "3 h",
        "4 h",
        "time since the first batch",
    ]
    assert parts(svg, "title")[0].text == "40,000 at 2.31 s"


def test_a_lag_is_shown_as_a_duration() -> None:
    svg = line([Point(0.5, 83.2719), Point(3.5, 2.5)], "time", DURATIONS)
    assert [each.text for each in parts(svg, "text", "name")] == ["0", "30 s", "1 min", "1 min 30 s", "2 min"]
    assert [each.text for each in parts(svg, "title")] == ["1 min 23 s at 500 ms", "2.5 s at 3.5 s"]


def extent(text: ElementTree.Element) -> tuple[float, float]:
    """Where a label begins and ends, if a character of 12 pixels is about 7 wide."""
    at, length = float(text.get("x", "")), 7 * len(text.text or "")
    start = {"name": at - length, "below": at - length / 2}.get(text.get("class", ""), at)
    return start, start + length


@given(
    st.lists(st.tuples(st.floats(0, 1e7), st.floats(0, 1e12)), min_size=1, max_size=8),
    st.sampled_from([None, DURATIONS]),
)
def test_labels_neither_overlap_nor_leave_the_picture(given: list[tuple[float, float]], scale: Scale | None) -> None:
    points = [Point(at, value) for at, value in sorted(given)]
    pictures = [
        line(points, "time", scale),
        columns([point.value for point in points], "partitions"),
        bars([("a long name " * 9, point.value) for point in points]),
    ]
    for svg in pictures:
        width = float(ElementTree.fromstring(svg).get("viewBox", "").split()[2])
        rows: dict[str, list[tuple[float, float]]] = {}
        for text in parts(svg, "text"):
            rows.setdefault(text.get("y", ""), []).append(extent(text))
        for row in rows.values():
            assert min(row)[0] >= 0
            assert max(end for _, end in row) <= width
            assert all(left[1] < right[0] for left, right in pairwise(sorted(row)))


@given(st.floats(1e-6, 1e10))
def test_a_round_duration_is_not_far_above(seconds: float) -> None:
    found = round_duration(seconds)
    assert seconds * (1 - 1e-6) <= found <= seconds * 2.6


class _Reader(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[Any] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "style") or name.startswith("on")]


def test_whatever_data_says_is_text_and_nothing_is_fetched(tmp_path: Path) -> None:
    page = Page(EVIL, [(EVIL, EVIL)])
    page.plot(EVIL, bars([(EVIL, 1)], lambda value: EVIL), EVIL)
    page.plot(EVIL, columns([1.0], EVIL))
    page.plot(EVIL, line([Point(0, 1), Point(1, 2)], EVIL, Scale(lambda value: EVIL, round_up)))
    page.names(EVIL, [EVIL], EVIL)
    write_page(page, str(tmp_path / "page.html"))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    reader = _Reader()
    reader.feed(text)
    assert "script" not in reader.tags
    assert "link" not in reader.tags
    assert reader.tags.count("svg") == 3
    assert reader.addresses == []
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "://" not in text
    for svg in text.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + svg.partition("</svg>")[0] + "</svg>")


@pytest.mark.parametrize("path", [".", "nowhere/report.html"])
def test_a_report_that_has_no_place_is_refused_before_the_work(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    @click.command()
    @report_option
    def command(report: str | None) -> None:
        raise AssertionError("work was begun")

    answer = CliRunner().invoke(command, ["--report", path])
    assert answer.exit_code == 2
    assert "folder" in answer.stderr
