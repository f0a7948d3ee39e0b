"""Errors: their hierarchy, and the class and the message for wrong arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from errno import ENOENT
from pathlib import Path
from typing import Any

import pytest

import palio
import palio.errors
from palio import Event, Filter, InvalidArgument, Matcher, PalioError, ValueSet
from palio.events import Limits
from palio.files.events import read_events

WANTED = Filter.parse("x > 5")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: WANTED.covers({}), "a filter or its text in SQL is needed here, not dict"),  # type: ignore[arg-type]
        (lambda: WANTED.overlaps(None), "a filter or its text in SQL is needed here, not NoneType"),  # type: ignore[arg-type]
        (lambda: WANTED.overlaps(WANTED, "bad"), "known are open, closed, thesis"),  # type: ignore[arg-type]
        (lambda: WANTED.merge(5), "a filter or its text in SQL is needed here, not int"),  # type: ignore[arg-type]
        (lambda: WANTED.merge(WANTED, slack=-1), "slack is a share from 0 to 1"),
        (lambda: WANTED.merge_perfect(5), "a filter or its text in SQL is needed here"),  # type: ignore[arg-type]
        (lambda: WANTED.merge(WANTED, slack="a"), "slack is a share from 0 to 1"),  # type: ignore[arg-type]
        (lambda: Filter("x > 5", zone="UTC"), "the language sql has no option 'zone'; it has timezone"),
        (lambda: Filter.parse('{"x": [1]}', "eventbridge", zone=1), "the language eventbridge has no option 'zone'"),
        (lambda: Filter.parse("x > 5", timezone=None), "a time zone is named by text"),
        (lambda: Filter.parse("x > 5", ["sql"]), "a condition language is named by text"),  # type: ignore[arg-type]
        (lambda: next(iter(Filter.parse("s LIKE '%a%'").tree.values for _ in [0])).complement(), "no complement"),
        (lambda: Limits(depth=0), "depth must be a positive integer"),
        (lambda: Limits(depth=1_000), "depth must be at most 200"),
        (lambda: read_events("a.jsonl", batch_size=0), "batch_size must be positive"),
        (lambda: Matcher().add_many(["a", "b"], ["x > 1"]), "2 ids and 1"),
    ],
)
def test_a_wrong_argument_gets_a_sentence(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        wrong()
    assert isinstance(caught.value, PalioError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: Filter.parse(None), palio.ParseError),
        (lambda: Filter.parse("x > 5", timezone="Nowhere"), palio.ParseError),
        (lambda: Filter.parse("x > 5", "klingon"), palio.UnknownLanguage),
        (lambda: WANTED.matches(None), palio.EventError),  # type: ignore[arg-type]
        (lambda: WANTED.explain(5), palio.EventError),  # type: ignore[arg-type]
        (lambda: Event.from_dict(5), palio.EventError),  # type: ignore[arg-type]
        (lambda: Matcher().remove(None), palio.UnknownSubscription),  # type: ignore[arg-type]
        (lambda: Matcher()[5], palio.UnknownSubscription),  # type: ignore[index]
        (lambda: Matcher().match(None), palio.EventError),  # type: ignore[arg-type]
        (lambda: Matcher().match_batch(None), palio.EventError),
        (lambda: Matcher().match_batch(5), palio.EventError),
        (lambda: Matcher().add("a", None), palio.InvalidSubscription),
        (lambda: Matcher().add(None, "x > 5"), palio.InvalidSubscription),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_used_is_an_error_of_its_kind(wrong: Callable[[], Any], error: type[PalioError]) -> None:
    with pytest.raises(error):
        wrong()


def test_errors_are_those_that_python_has_for_such_failures(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 1") as caught:
        Filter("x >")
    assert isinstance(caught.value, palio.ParseError)
    with pytest.raises(FileNotFoundError, match="missing: cannot be opened: No such file") as missing:
        Matcher.open(tmp_path / "missing")
    assert isinstance(missing.value, palio.IndexFileError)
    assert missing.value.errno == ENOENT
    with pytest.raises(KeyError):
        Matcher()["a"]


def test_sets_of_values_say_so_too() -> None:
    with pytest.raises(PalioError, match="object"):
        ValueSet.points([object()])  # type: ignore[list-item]


def test_the_module_of_errors_opens_with_its_hierarchy() -> None:
    assert palio.errors.__doc__ is not None
    assert "\n".join(hierarchy(PalioError)) in palio.errors.__doc__


def hierarchy(error: type, indent: str = "    ") -> Iterator[str]:
    """The lines of the listing: an error, its bases that are not of Palio, and below it its own subclasses."""
    classes = [value for value in vars(palio.errors).values() if isinstance(value, type)]
    foreign = [base.__name__ for base in error.__bases__ if base not in (*classes, Exception)]
    listed = f" ({', '.join(foreign)})" if foreign else ""
    yield f"{indent}{error.__name__}{listed}"
    for each in classes:
        if error in each.__bases__:
            yield from hierarchy(each, indent + "  ")
