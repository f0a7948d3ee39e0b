"""Terminal output: consoles, tables, numbers, progress, and escaping of control characters.

Results go to standard output and messages to standard error, so that a pipe carries only results. Colours and progress
appear only for people: Rich leaves colours out when the output is a file or `NO_COLOR` is set, and progress is drawn
only on a terminal that can draw over itself.

Events, names and conditions come from others. Control characters in them, which a terminal would obey, are escaped.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text
from rich.theme import Theme

from palio.errors import PalioError, ParseError
from palio.events.json import write_json

if TYPE_CHECKING:
    from rich.progress import Progress

    from palio.events import Event


_THEME: Final = Theme(
    {
        "good": "green",
        "bad": "bold red",
        "warning": "yellow",
        "name": "cyan",
        "bar": "cyan",
        "quiet": "dim",
        "title": "bold",
        "progress.elapsed": "dim",
    }
)
WIDE_COLUMNS: Final = 120  # columns; from here on a layout has columns side by side instead of stacked
_LONG_UNITS: Final = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
"""Units of a duration from a minute on: name and seconds, and those of the unit for the rest."""
_TRAILING_BLANKS: Final = re.compile(r"[ ]+$", re.MULTILINE)
_NOT_PRINTABLE_ASCII: Final = re.compile(r"[^ -~]")
_EIGHTH_BLOCKS: Final = " ▏▎▍▌▋▊▉"


class _Unpadded:
    """A stream without the trailing blanks with which Rich pads tables; for files and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_TRAILING_BLANKS.sub("", text))

    # Rich asks a stream for its encoding, its descriptor and whether it is a terminal.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Console(Console):
    """A console that escapes control characters, and raises BrokenPipeError where Rich would end the program."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError

    # Escaped here, by which everything passes, and not by each caller: one that forgot it would be a hole.
    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(escape_control, objects), **options)


class _Table(Table):
    """A table whose cells are escaped."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*map(escape_control, cells), **options)


def results() -> Console:
    """The console of results: standard output."""
    # Made at each call: `sys.stdout` may be replaced meanwhile, as by `CliRunner`. Markup, emoji and highlighting are
    # off, because names and events of others would be read as Rich's markup.
    stream: Any = sys.stdout if sys.stdout.isatty() else _Unpadded(sys.stdout)
    return _Console(file=stream, theme=_THEME, highlight=False, emoji=False, markup=False)


def messages() -> Console:
    """The console of messages: standard error."""
    return _Console(theme=_THEME, highlight=False, emoji=False, markup=False, stderr=True)


def can_animate(console: Console) -> bool:
    """Whether progress can be drawn: FORCE_COLOR does not make a pipe a terminal."""
    return console.is_terminal and not console.is_dumb_terminal and sys.stderr.isatty()


def error(message: PalioError | str) -> None:
    """Print an error on standard error."""
    _print_reason(messages(), Text("error: ", style="bad"), message)


def warning(message: str) -> None:
    """Print a warning on standard error."""
    _print_reason(messages(), Text("warning: ", style="warning"), message)


def fault(
    console: Console, place: str, kind: str, name: str | None, reason: PalioError | str, hint: str | None = None
) -> None:
    """Print one fault: its place in the format that editors follow, the reason, and an excerpt of the text."""
    style = "bad" if kind == "error" else "warning"
    subject = f"{shorten(name, 60)}: " if name else ""
    _print_reason(console, Text.assemble((f"{place}: ", "quiet"), (f"{kind}: ", style), (subject, "name")), reason)
    if hint:
        console.print(Text(f"    {hint}", style="quiet"), soft_wrap=True)


def _print_reason(console: Console, start: Text, reason: PalioError | str) -> None:
    if not isinstance(reason, ParseError):
        console.print(start, str(reason), sep="", soft_wrap=True)
        return
    console.print(start, reason.reason, sep="", soft_wrap=True)
    for line in excerpt(reason.text, reason.position, console.width - 4).splitlines():
        console.print(f"    {line}", soft_wrap=True)
    if reason.hint:
        console.print(Text(f"    {reason.hint}", style="quiet"), soft_wrap=True)


@contextmanager
def status(text: str) -> Iterator[None]:
    """A spinner, if the console is a terminal."""
    console = messages()
    if not can_animate(console):
        yield
        return
    with console.status(f"{text} …", spinner_style="name"):
        yield


def print_json(value: Any, *, at_once: bool = False, to: TextIO | None = None) -> None:
    """Print a value as one line of JSON on standard output, or on `to`; in ASCII if that encodes nothing else.

    The value may hold values of events, and results of `as_json`. Control characters are escaped. With `at_once` the
    line is flushed, so that a pipe does not delay it.
    """
    import msgspec

    try:
        # One line, with blanks after commas and colons.
        line = msgspec.json.format(write_json(value), indent=0)
    except UnicodeEncodeError:  # half a surrogate pair, in the name of something in a file
        line = json.dumps(value)
    stream = to or sys.stdout
    stream.write(escape_json(line, ascii_only=_is_ascii()) + "\n")
    if at_once:
        stream.flush()


def as_json(event: Event) -> Any:
    """An event as a value for `print_json`, with the text of `Event.to_json`."""
    import msgspec

    return msgspec.Raw(event.to_json().encode())


def table(*columns: str | Column, title: str | None = None) -> Table:
    """A table without lines but one below its header; use `numbers` for numeric columns."""
    from rich.box import Box

    # Rich describes a box by eight lines of four characters; the third is the line below the header.
    line = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
    plain = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
    return _Table(
        *columns,
        title=title,
        box=plain if _is_ascii() else line,
        title_justify="left",
        title_style="title",
        header_style="quiet",
        border_style="quiet",
        show_edge=False,
        pad_edge=False,
        padding=(0, 1),
    )


def numbers(header: str) -> Column:
    """A right-aligned column."""
    return Column(header, justify="right", no_wrap=True)


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values in two columns."""
    grid = _Table.grid(Column(justify="right", no_wrap=True, style="quiet"), Column(), padding=(0, 2, 0, 0))
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def bar(share: float, width: int) -> Text:
    """A bar over a share of a width; any share above 0 is visible."""
    eighths = 0 if share <= 0 else max(1, round(min(share, 1.0) * width * 8))
    if _is_ascii():  # no parts of a character there; a small share is rounded up to a whole one
        return Text("#" * max(eighths > 0, eighths // 8), style="bar")
    return Text("█" * (eighths // 8) + _EIGHTH_BLOCKS[eighths % 8].strip(), style="bar")


def _is_ascii() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return not encoding.lower().startswith("utf")


def excerpt(text: str, position: int, width: int) -> str:
    """The line of a text around a position with a caret below it, in at most `width` columns."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = "".join(c if c.isprintable() else " " for c in text[start : end if end >= 0 else len(text)])
    at = position - start
    before, after = line[:at], line[at:]
    room = max(10, width)
    if cell_len(line) + 1 > room:
        before = _last_cells(before, room * 2 // 3)
        after = _first_cells(after, room - cell_len(before) - 1)
    return f"{before}{after}\n{' ' * cell_len(before)}^"


def _first_cells(text: str, room: int) -> str:
    if cell_len(text) <= room:
        return text
    # Measured in columns, not characters: some characters take two columns, some none.
    while text and cell_len(text) > room - 1:
        text = text[: max(0, len(text) - max(1, (cell_len(text) - room) // 2))]
    return text + "…"


def _last_cells(text: str, room: int) -> str:
    return _first_cells(text[::-1], room)[::-1]


def shorten(text: str, room: int) -> str:
    """A text on one line, in at most `room` columns."""
    return _first_cells("".join(c if c.isprintable() else " " for c in text), room)


def strip_parentheses(condition: str) -> str:
    """A condition without parentheses around the whole of it."""
    depth = 0
    quote = ""
    for at, character in enumerate(condition):
        if quote:
            quote = "" if character == quote and condition[at - 1] != "\\" else quote
        elif character in "'`":
            quote = character
        else:
            depth += (character == "(") - (character == ")")
        # The first parenthesis closes before the end, so it does not enclose the whole.
        if depth == 0 and at < len(condition) - 1:
            return condition
    return condition[1:-1] if condition.startswith("(") else condition


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """`1 event`, `2,000 events`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def rate(count: float, seconds: float) -> str:
    """A rate per second, to three digits: more would change from run to run."""
    each = count / max(seconds, 1e-9)
    if each < 1000:
        return f"{each:.3g}"
    digits = len(str(int(each))) - 3
    return f"{round(each, -digits):,.0f}"


def percent(share: float) -> str:
    """A share, to three digits."""
    return f"{100 * share:.3g} %"


def duration(seconds: float) -> str:
    """A duration in one unit, to three digits, or in two: `12.3 ms`, `1 min 23 s`, `3 d 4 h`."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 0.000_999_5:
        return f"{seconds * 1e6:.0f} µs"
    # Compared after rounding: 999.9 ms is 1 s, and 59.96 s is 1 min.
    for unit, amount, end in (("ms", seconds * 1e3, 1000), ("s", seconds, 60)):
        if float(f"{amount:.3g}") < end:
            return f"{amount:.3g} {unit}"
    whole = round(seconds)
    unit, size, smaller, part = next(each for each in _LONG_UNITS if whole >= each[1])
    rest = whole % size // part
    return f"{whole // size:,} {unit}" + (f" {rest} {smaller}" if rest else "")


def progress(console: Console, description: str, total: float | None, shown: bool = True) -> Progress:
    """Transient progress on a console; each task has a field `done`, the text beside the bar."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn(description),
        SpinnerColumn(style="name") if total is None else BarColumn(bar_width=20),
        TextColumn("{task.fields[done]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,  # gone when it is done, so that the summary stands alone
        disable=not (shown and can_animate(console)),
        # Results go to standard output as they are; Rich would print them through its console.
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=8,
    )


def escape_control(shown: Any) -> Any:
    """The value itself, with control characters escaped if it is text."""
    text = shown.plain if isinstance(shown, Text) else shown
    if not isinstance(text, str) or text.isprintable():
        return shown
    # Newlines stay: some messages have several lines.
    written = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    if written == text:
        return shown
    return Text(written, style=shown.style) if isinstance(shown, Text) else written


def escape_json(line: str, *, ascii_only: bool) -> str:
    """A line of JSON with unprintable characters escaped; its value is unchanged."""
    if ascii_only or not line.isprintable():
        return _NOT_PRINTABLE_ASCII.sub(lambda found: _escape(found.group(), ascii_only), line)
    return line


def _escape(character: str, ascii_only: bool) -> str:
    if character.isprintable() and not ascii_only:
        return character
    return json.dumps(character)[1:-1] if not character.isascii() else f"\\u{ord(character):04x}"
