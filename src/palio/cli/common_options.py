"""Options that several commands have: the condition language, the time zone, strategy options, the broker, its data."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from palio.errors import InvalidArgument, UnknownLanguage
from palio.filters.registry import OWN_LANGUAGES, languages
from palio.network.data_directory import DEFAULT_PATH
from palio.routing.combinations import CRASH_LOGS, PATHS, TABLES
from palio.routing.strategies import OPTION_TYPES, ForwardingChoice, Options, options_help

if TYPE_CHECKING:
    from palio.network.client.broker import ConnectionContext

_Command = TypeVar("_Command", bound=Callable[..., Any])
_SECONDS_OF_UNIT: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def language_option(
    name: str = "--language", *, help: str = "The language of conditions that do not name one."
) -> Callable[[_Command], _Command]:
    """An option that the command gets as `language`; an unknown one is refused before anything is read."""
    return click.option(
        name, "language", default="sql", show_default=True, metavar="LANGUAGE", callback=_check_language, help=help
    )


def _check_language(ctx: click.Context, param: click.Parameter, given: str) -> str:
    # Palio's own first: only `languages` reads the metadata of installed packages.
    if given not in OWN_LANGUAGES and given not in (known := languages()):
        raise UnknownLanguage(given, known)
    return given


def timezone_option(command: _Command) -> _Command:
    """An option that the command gets as `timezone`."""
    return click.option(
        "--timezone", default="UTC", show_default=True, metavar="ZONE",
        help="The time zone of conditions that do not name one: Europe/Oslo.",
    )(command)  # fmt: skip


def data_option(command: _Command) -> _Command:
    """`--data`, which the command gets as `directory`: the data directory of a broker on this machine."""
    return click.option(
        "--data", "directory", type=click.Path(file_okay=False, path_type=Path), default=DEFAULT_PATH,
        show_default=True, metavar="DIR", help="The broker's data directory.",
    )(command)  # fmt: skip


def parse_option(text: str) -> tuple[str, Any]:
    """The name and the value of NAME=VALUE; a value is a number or a boolean if it can be read as one."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgument(f"an option is NAME=VALUE, not {text!r}")
    for kind in (int, float):  # in this order: a float reads every integer, too
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, {"true": True, "false": False}.get(value, value)


def parse_seconds(text: str) -> int:
    """The seconds of a time such as 90d, 12h, 30m or 45s."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if found is None:
        raise InvalidArgument(f"a time is a number and one of s, m, h and d, such as 90d, not {text!r:.40}")
    return int(found[1]) * _SECONDS_OF_UNIT[found[2]]


def strategy_options(examples: str) -> Callable[[_Command], _Command]:
    """`--option`, which the command gets as `options`, with a list of all that there are."""
    return click.option(
        "--option", "options", multiple=True, metavar="NAME=VALUE",
        help=f"An option, such as {examples}; may be repeated. They are listed below.",
    )  # fmt: skip


def upkeep_options(tables: str | None, crash_log: str | None, paths: str | None) -> Callable[[_Command], _Command]:
    """`--tables`, `--crash-log` and `--paths`, with their defaults; None leaves one to the settings."""

    def with_options(command: _Command) -> _Command:
        # Last to first: a decorator that is applied later stands earlier in `--help`.
        for name, known, default, help in (
            ("--paths", PATHS, paths, "What happens to paths when a broker or a link fails."),
            ("--crash-log", CRASH_LOGS, crash_log, "What of routing survives a crash."),
            ("--tables", TABLES, tables, "How tables of subscriptions stay true."),
        ):
            shown = help if default else f"{help}  [default: {known[0]}]"
            option = click.option(name, type=click.Choice(known), default=default, show_default=True, help=shown)
            command = option(command)
        return command

    return with_options


def options_epilog(*without: type[Options]) -> str:
    """The options of all strategies, for the end of a command's help."""
    kinds = [each for each in (*OPTION_TYPES, ForwardingChoice) if each not in without]
    lines = [fill(line, 76, initial_indent="  ", subsequent_indent="    ") for line in options_help(kinds)]
    return "\n".join(("\b", "Options (docs/routing.md):", *lines))


@dataclass(frozen=True, slots=True)
class BrokerLocation:
    """The address of a broker, and the credentials to connect with."""

    url: str
    token: str | None
    authority: Path | None
    tls: tuple[Path, Path] | None

    def connect(self, *, patience: float = 30.0) -> ConnectionContext:
        """A connection; the URL may name the application."""
        from palio.network.addresses import parse_addresses
        from palio.network.client.broker import connect
        from palio.network.security.tls import ClientTls

        certificate, key = self.tls or (None, None)
        tls = ClientTls(self.authority, certificate, key).context() if self.authority or self.tls else None
        app = parse_addresses(self.url)[0].app or "palio"
        return connect(self.url, self.token, app=app, tls=tls, patience=patience).without_waiting()


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--connect`, `--token`, `--authority`, `--tls` and `--json`, which every command that talks to a broker has.

    The command gets a `BrokerLocation` as `place`, and `as_json`.
    """

    @wraps(command)
    def with_location(
        url: str, token: str | None, authority: Path | None, tls: tuple[Path, Path] | None, as_json: bool, **others: Any
    ) -> None:
        command(place=BrokerLocation(url, token, authority, tls), as_json=as_json, **others)

    # Last to first: a decorator that is applied later stands earlier in `--help`.
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Everything as JSON, on a line each."),
        click.option("--tls", nargs=2, type=_FILE, metavar="CERTIFICATE KEY",
                     help="A client certificate for authentication, with palio+tls://."),
        click.option(
            "--authority", type=_FILE, metavar="FILE", help="Certificate authority to trust, with palio+tls://."
        ),
        click.option("--token", envvar="PALIO_TOKEN", metavar="TOKEN",
                     help="Token for authentication; also read from PALIO_TOKEN."),
        click.option(
            "--connect", "url", default="palio://127.0.0.1:7420", show_default=True, metavar="URL", help="The broker."
        ),
    ):  # fmt: skip
        with_location = option(with_location)
    return with_location
