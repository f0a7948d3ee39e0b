"""What may reach a terminal? Anybody can put into an event or a name what a terminal would obey; it is written out."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from rich.text import Text

_ASCII: Final = re.compile(r"[^ -~]")


def visible(shown: Any) -> Any:
    """What is shown, without anything that a terminal would obey where it is text."""
    text = shown.plain if isinstance(shown, Text) else shown
    if not isinstance(text, str) or text.isprintable():
        return shown
    written = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    if written == text:
        return shown
    return Text(written, style=shown.style) if isinstance(shown, Text) else written


def visible_json(line: str, *, ascii_only: bool) -> str:
    """A line of JSON in which everything is escaped that cannot be seen; the value is the same."""
    if ascii_only or not line.isprintable():
        return _ASCII.sub(lambda found: _escape(found.group(), ascii_only), line)
    return line


def _escape(character: str, ascii_only: bool) -> str:
    if character.isprintable() and not ascii_only:
        return character
    return json.dumps(character)[1:-1] if not character.isascii() else f"\\u{ord(character):04x}"
