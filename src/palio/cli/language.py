"""The option that names a language of conditions; one that is not there is refused before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from palio.errors import UnknownLanguage
from palio.filters.registry import OWN_LANGUAGES, languages

_Command = TypeVar("_Command", bound=Callable[..., Any])


def language_option(
    name: str = "--language", *, help: str = "The language of conditions that do not name one."
) -> Callable[[_Command], _Command]:
    """An option that the command gets as `language`."""
    return click.option(
        name, "language", default="sql", show_default=True, metavar="LANGUAGE", callback=_known, help=help
    )


def _known(ctx: click.Context, param: click.Parameter, given: str) -> str:
    if given not in OWN_LANGUAGES and given not in (there := languages()):
        raise UnknownLanguage(given, there)
    return given
