"""Examples of the documentation: each runs, and prints what it shows."""

from __future__ import annotations

import doctest
import importlib
import re
import socket
from pathlib import Path

import pytest

from tests.markdown_examples import COMPARISON, Command, console_commands, read_examples, run_examples

PROJECT = Path(__file__).parent.parent
DOCUMENTS = [
    path
    for path in sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
    if any(read_examples(path).examples())
]
SOURCES = PROJECT / "src"
_PORTS = re.compile(r"\b1748\d\b")


def _is_of_spark(path: Path) -> bool:
    return path.parent.name == "spark"


MODULES = [
    ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCES.rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
]


def _name(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def _starts_a_broker(path: Path) -> bool:
    return "$ palio serve &" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if not _is_of_spark(path) and not _starts_a_broker(path)], ids=_name
)
def test_examples_in_documents_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_examples(_with_free_ports(path, tmp_path)) > 0


def _with_free_ports(path: Path, folder: Path) -> Path:
    """A document whose ports, where it names some of its own, are others at which nothing listens."""
    text = path.read_text(encoding="utf-8")
    ports = sorted(set(_PORTS.findall(text)))
    if not ports:
        return path
    for port in ports:
        with socket.create_server(("127.0.0.1", 0)) as place:
            text = text.replace(port, str(place.getsockname()[1]))
    copy = folder / path.name
    copy.write_text(text, encoding="utf-8")
    return copy


@pytest.mark.xdist_group("brokers at the default port")
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if _starts_a_broker(path)], ids=_name)
def test_examples_with_a_broker_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for port in (7420, 7421):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"something listens at port {port}, where the examples run a broker of their own")
    monkeypatch.chdir(tmp_path)
    assert run_examples(path) > 0


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if _is_of_spark(path)], ids=_name)
def test_examples_on_spark_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_examples(path) > 0


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=COMPARISON)
    assert result.attempted > 0
    assert result.failed == 0


# That a wrong example fails, for each kind of example.

RIGHT = """
```python
x = 1 + 1
```
```python
>>> x
2
```
```text title="greeting.txt"
Good morning,
all!
```
```console
$ pip install something-that-is-not-there
$ cat greeting.txt
Good ...,
all!
$ cat \\
>   greeting.txt | wc -l
2
$ false; echo "status $?"
status 1
$ tail -f greeting.txt &
Good morning,
all!
$ echo "and so on" >> greeting.txt
and so on
```
"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("1 + 1", "1 + 2"),
        ("x = 1 + 1", "x = 1 + 1; raise ValueError"),
        (">>> x", ">>> y"),
        ("Good ...", "Bad ..."),
        ("false; echo", "false && echo"),
        ("status 1", "status 0"),
        ("greeting.txt\nGood", "greetings.txt\nGood"),
        ('title="greeting.txt"', ""),
        ("tail -f", "head -n 2"),  # `cat` could still be reading when the next command writes
    ],
)
def test_an_example_that_is_not_true_fails(
    right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = tmp_path / "page.md"
    document.write_text(RIGHT.replace(right, wrong) if right else RIGHT)
    if right == wrong:
        assert run_examples(document) == 4
    else:
        with pytest.raises((AssertionError, ValueError)):
            run_examples(document)


def test_a_console_block_is_commands_with_what_they_print() -> None:
    block = "$ palio match wants.jsonl \\\n>     events.jsonl\none\n\ntwo\n$ palio check wants.jsonl\n"
    assert list(console_commands(block)) == [
        Command("palio match wants.jsonl \\\n    events.jsonl", "one\n\ntwo"),
        Command("palio check wants.jsonl", ""),
    ]
