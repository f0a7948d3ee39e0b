"""Options for the limits of a durable subscription, of `palio subscribe` and `palio durable limit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

from palio.cli.common_options import parse_seconds
from palio.errors import InvalidArgument
from palio.routing.durable_settings import ON_FULL_POLICIES, STANDBY_AWAY_POLICIES

_DEFAULT: Final = "default"
_OPTIONS: Final = (
    ("--max-events", "N", "How many events may wait."),
    ("--max-bytes", "N", "How many bytes of events may wait."),
    ("--on-full", "POLICY", f"What a full queue does: {', '.join(ON_FULL_POLICIES)}."),
    ("--expires-after", "TIME", "It ends after this time without a consumer: 30d, 12h, 90s."),
    ("--max-deliveries", "N", "Failed deliveries after which an event becomes a dead letter."),
    (
        "--standby-away",
        "POLICY",
        f"While its standby is away: {', '.join(STANDBY_AWAY_POLICIES)} to confirm its events on one disk.",
    ),
)


def durable_limit_options(of: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options, whose values the command gets as `limits`: those that were given, by field of `DurableSettings`.

    `of` begins the help of each, where a command has options of other things too.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_limits(**given: Any) -> Any:
            texts = {_field(option): given.pop(_field(option)) for option, _, _ in _OPTIONS}
            limits = {name: _read(name, text) for name, text in texts.items() if text is not None}
            return command(limits=limits, **given)

        decorated: Callable[..., Any] = with_limits
        for option, metavar, help in reversed(_OPTIONS):
            decorated = click.option(option, metavar=metavar, help=f"{of}{help}")(decorated)
        return decorated

    return decorate


def _field(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _read(name: str, text: str) -> Any:
    if text == _DEFAULT:
        return None
    if name in ("on_full", "standby_away"):
        return text  # checked with the others, by `DurableSettings`
    if name == "expires_after":
        return parse_seconds(text)
    if not text.isascii() or not text.isdigit():
        raise InvalidArgument(f"--{name.replace('_', '-')} is a whole number or `{_DEFAULT}`, not {text!r:.80}")
    return int(text)
