"""Runner for the examples of a Markdown file, in order.

A block of `python` is executed; where it is written as a session, with `>>>`, the answers are compared. A
block of `console` holds commands after `$ ` (continued after `> `), each followed by what it prints; a
command must end with status 0, and print what is shown, if anything is (`...` stands for any text, as in a
session). A block with a title, such as ```json title="wants.jsonl", is a file that later examples find in
their working folder. A command that ends in `&` goes on until the end of the file (`background_commands`).

All examples of one file share their names and a working folder of their own. Sybil finds the blocks and runs
the Python; `<!-- skip: next -->` before a block is its way of leaving one out. Commands that set up a machine
are shown, never run.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sybil import Document, Example, Region
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from tests.background_commands import BackgroundCommands

COMPARISON = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_SETS_UP_A_MACHINE = re.compile(r"(git|make|pip|python3? -m (pip|venv)|source|cd)\b")
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Command:
    """One command of a console block, and what the block says it prints."""

    text: str
    prints: str


def read_examples(path: Path) -> Document:
    """The examples of a Markdown file, as Sybil's document; `run_examples` runs them."""
    return Document.parse(
        str(path),
        PythonCodeBlockParser(doctest_optionflags=COMPARISON),
        CodeBlockParser("console", _run_console),
        _titled_files,
        SkipParser(),
    )


def run_examples(path: Path) -> int:
    """Run the examples of a Markdown file in the current folder, and count them; the first that fails raises."""
    document = read_examples(path)
    count = 0
    with BackgroundCommands() as document.namespace["_background"]:
        for example in document:
            example.evaluate()
            count += 1
    return count


def console_commands(block: str) -> Iterator[Command]:
    """The commands of a console block, each with the lines that follow it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        while printed.startswith("> "):
            more, _, printed = printed[2:].partition("\n")
            command += "\n" + more
        yield Command(command, printed.strip("\n"))


def _run_console(example: Example) -> str | None:
    """The fault of a console block, or None."""
    for command in console_commands(example.parsed):
        if _SETS_UP_A_MACHINE.match(command.text):
            continue
        if wrong := _run_command(command, example.namespace["_background"]):
            return f"$ {command.text}\n{wrong}"
    return None


def _run_command(command: Command, background: BackgroundCommands) -> str | None:
    """The fault of a command, or None."""
    printed, terminal = "", None
    if command.text.endswith("&"):
        terminal = background.start(command.text.removesuffix("&").strip(), _plain_terminal())
    else:
        ended = subprocess.run(
            ["/bin/sh", "-c", command.text],
            env=_plain_terminal(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        printed = ended.stdout
        if ended.returncode != 0:
            return f"ended with status {ended.returncode}:\n{printed}"
    if command.prints:
        heard = background.hear(lambda heard: _same(command.prints, printed + heard), terminal)
        if not _same(command.prints, printed + heard):
            return f"should print:\n{command.prints}\nbut printed:\n{printed + heard}"
    background.forget()
    return None


def _plain_terminal() -> dict[str, str]:
    """This environment, with this Python's programs first on PATH, and a terminal without colours."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return dict(os.environ, PATH=programs, COLUMNS="100", NO_COLOR="1", TERM="dumb")


def _same(shown: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(shown.strip() + "\n", printed.strip() + "\n", COMPARISON)


def _titled_files(document: Document) -> Iterable[Region]:
    """A parser of Sybil's kind: blocks with a title are files to write."""
    titled = re.compile(r'\w+[ \t]+title="(?P<name>[\w.-]+)"[ \t]*\n')
    for region in RawFencedCodeBlockLexer(titled)(document):
        region.parsed = region.lexemes["name"], region.lexemes["source"]
        region.evaluator = _write_file
        yield region


def _write_file(example: Example) -> None:
    name, text = example.parsed
    Path(name).write_text(text)
