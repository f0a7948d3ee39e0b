"""`palio explain`: which conditions hold for an event, which fail, and for which value."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from palio.cli import terminal
from palio.cli.common_options import language_option, timezone_option
from palio.errors import EventError, InputError

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from palio.events import Event
    from palio.filters.explanation import Explanation

_EXIT_NOT_MATCHED: Final = 1
_MAX_BLAMED: Final = 3  # failed conditions that the verdict names
_MAX_VALUE_WIDTH: Final = 60


@click.command()
@click.argument("condition", metavar="FILTER")
@click.argument("event_text", metavar="EVENT")
@language_option(help="The language of FILTER.")
@click.option("--json", "as_json", is_flag=True, help="Answer as one JSON object.")
@timezone_option
@click.pass_context
def explain(ctx: click.Context, condition: str, event_text: str, language: str, timezone: str, as_json: bool) -> None:
    """Explain why a condition matches an event, or which part of it fails.

    FILTER is a condition, or @FILE that holds one. EVENT is a JSON object or an XML document, @FILE that
    holds one, or - for standard input.

    \b
    Examples:
      palio explain "price > 100 AND symbol = 'ACME'" '{"symbol": "ACME", "price": 80}'
      palio explain @desk.sql @event.json
      palio explain "//surname[.='Curie']" @article.xml --language xpath
      curl -s https://example.org/event | palio explain "quote.price > 100" -

    Each condition is shown in its place, with NOT drawn into it, and how an index decides it if not by the
    values of its attribute. Exit code 0: it matches; 1: it does not; 2:
    the condition or the event cannot be read.
    """
    from palio.cli.condition_diagnostics import doubtful_dates, why_unsatisfiable
    from palio.events import Event
    from palio.filters.explanation import explain as explain_tree
    from palio.filters.filter import Filter
    from palio.matching.access_paths import AccessPaths

    text = _read_argument(condition).strip()
    wanted = Filter.parse(text, language=language, timezone=timezone)
    try:
        event = Event.from_text(_read_content(event_text))
    except EventError as error:
        raise InputError("EVENT", str(error)) from None
    answer = explain_tree(wanted.written, event.attributes, wanted.timezone, AccessPaths.alone(wanted.tree).of)
    verdict = _verdict(answer)
    doubtful = doubtful_dates(text, language)
    if wanted == Filter.nothing:
        reason = why_unsatisfiable(wanted, text, language)
        verdict = f"Not matched: no event can satisfy this condition{f': {reason}' if reason else ''}."
    if as_json:
        terminal.print_json(
            {
                "matched": answer.matched,
                "verdict": verdict,
                "blamed": [each.as_dict() for each in answer.failed()],
                "explanation": answer.as_dict(),
                "warnings": doubtful,
            }
        )
    else:
        _print(answer, verdict, [*doubtful, *_suggestions(answer, event)])
    ctx.exit(0 if answer.matched else _EXIT_NOT_MATCHED)


def _read_argument(text: str) -> str:
    """The text of an argument: itself, or the content of @FILE."""
    return _decode(_read_file(text[1:]), text[1:]) if text.startswith("@") else text


def _read_content(text: str) -> str | bytes:
    """The content of an event: an argument itself, the content of @FILE, or standard input."""
    from palio.events.xml import is_document

    if text != "-" and not text.startswith("@"):
        return text
    source = "standard input" if text == "-" else text[1:]
    content = sys.stdin.buffer.read() if text == "-" else _read_file(source)
    return content if is_document(content) else _decode(content, source)


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(path, error.strerror or str(error)) from None


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(source, f"invalid UTF-8 at byte {error.start}") from None


def _verdict(answer: Explanation) -> str:
    """One line: matched, or which conditions failed."""
    conditions = sum(1 for _ in _leaves(answer))
    if answer.matched:
        if conditions == 1:
            return "Matched."
        held = [leaf for leaf in _leaves(answer) if leaf.matched]
        if len(held) == conditions:
            return f"Matched: all {conditions} conditions held."
        return f"Matched: {len(held)} of {conditions} conditions held, and that is enough."
    blamed = answer.failed()
    if not blamed:
        return "Not matched: each condition holds for some element of an array, but no one choice holds for all."
    named = "; ".join(_because(leaf) for leaf in blamed[:_MAX_BLAMED])
    more = f"; and {len(blamed) - _MAX_BLAMED} more" if len(blamed) > _MAX_BLAMED else ""
    if answer.operator == "OR":
        return f"Not matched, none of the alternatives holds: {named}{more}."
    return f"Not matched because of {named}{more}."


def _because(leaf: Explanation) -> str:
    condition = terminal.shorten(terminal.strip_parentheses(leaf.condition), _MAX_VALUE_WIDTH)
    seen = _seen(leaf)
    return f"{condition} ({seen})" if seen else condition


def _seen(leaf: Explanation) -> str:
    return ", ".join(f"{name} is {terminal.shorten(value, _MAX_VALUE_WIDTH)}" for name, value in leaf.seen().items())


def _index_used(leaf: Explanation) -> str:
    """By which part of an index a condition is decided, where it is not the values of its attribute."""
    path = leaf.access_path
    return "" if path is None or path.kind == "attribute" else str(path)


def _leaves(answer: Explanation) -> Iterator[Explanation]:
    if not answer.parts:
        yield answer
    for part in answer.parts:
        yield from _leaves(part)


def _suggestions(answer: Explanation, event: Event) -> Iterator[str]:
    """Hints for values of other kinds, and for each missing attribute the most similar name of the event."""
    for hint in dict.fromkeys(leaf.hint for leaf in answer.failed()):
        if hint:
            yield f"{hint}."
    present = list(event.attributes)
    folded = {name.casefold(): name for name in present}
    for name in dict.fromkeys(name for leaf in answer.failed() for name in leaf.values):
        if name in event.attributes:
            continue
        near = folded.get(name.casefold()) or next(iter(get_close_matches(name, present, 1, 0.75)), None)
        near = near or next((each for each in present if each.endswith(f".{name}")), None)
        if near:
            yield f"The event has no {name}, but it has {near}; did you mean that?"


def _print(answer: Explanation, verdict: str, suggestions: list[str]) -> None:
    from rich.text import Text
    from rich.tree import Tree

    console = terminal.results()
    # Rich indents each level of a tree by four columns; values stand below each other.
    widest = max(
        (len(terminal.strip_parentheses(leaf.condition)) + 4 * depth for leaf, depth in _with_depth(answer, 0)),
        default=0,
    )
    tree = Tree(_label(answer, 0, min(widest, console.width // 2)), guide_style="quiet")
    _grow(tree, answer, 1, min(widest, console.width // 2))
    console.print(tree)
    console.print()
    console.print(Text(verdict, style="good" if answer.matched else "bad"), soft_wrap=True)
    for suggestion in suggestions:
        console.print(Text(suggestion), soft_wrap=True)


def _with_depth(answer: Explanation, depth: int) -> Iterator[tuple[Explanation, int]]:
    if not answer.parts:
        yield answer, depth
    for part in answer.parts:
        yield from _with_depth(part, depth + 1)


def _grow(tree: Tree, answer: Explanation, depth: int, width: int) -> None:
    for part in answer.parts:
        _grow(tree.add(_label(part, depth, width)), part, depth + 1, width)


def _label(answer: Explanation, depth: int, width: int) -> Text:
    from rich.text import Text

    mark = ("✓ ", "good") if answer.matched else ("✗ ", "bad")
    if answer.operator is not None:
        return Text.assemble(mark, ("all of" if answer.operator == "AND" else "some of", "quiet"))
    seen = "; ".join(filter(None, (_seen(answer), _index_used(answer))))
    condition = terminal.strip_parentheses(answer.condition)
    padded = condition.ljust(width - 4 * depth) if seen else condition
    return Text.assemble(mark, padded, (f"   {seen}" if seen else "", "quiet"))
