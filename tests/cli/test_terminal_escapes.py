"""Control characters in output: a terminal shows them and obeys none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from palio import Event
from palio.cli import terminal
from palio.cli.terminal import escape_control, escape_json

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\u202eback"


@given(st.text())
def test_what_is_seen_can_be_printed(text: str) -> None:
    assert escape_control(text).replace("\n", "").isprintable()
    assert escape_control(Text(text)).plain.replace("\n", "").isprintable()


@given(st.text(st.characters(codec="utf-8")), st.booleans())
def test_escaped_json_is_the_same_value(text: str, ascii_only: bool) -> None:
    line = escape_json(json.dumps(text, ensure_ascii=False), ascii_only=ascii_only)
    assert line.isprintable()
    assert line.isascii() or not ascii_only
    assert json.loads(line) == text


def test_tables_lists_and_lines_are_visible(capsys: pytest.CaptureFixture[str]) -> None:
    table = terminal.table("client")
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE, style="bad"))
    terminal.results().print(table)
    terminal.results().print(terminal.facts([("client", HOSTILE)]))
    terminal.error(HOSTILE)
    terminal.print_json({"event": terminal.as_json(Event.from_dict({"x": HOSTILE}))})
    said = capsys.readouterr()
    assert all(line.isprintable() for line in (said.out + said.err).splitlines())
    assert r"\x1b[31mred" in said.out
    assert json.loads(said.out.splitlines()[-1]) == {"event": {"x": HOSTILE}}
