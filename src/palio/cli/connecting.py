"""The options with which commands reach a broker, and how they run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from palio.network.client.connecting import Connecting

_Command = TypeVar("_Command", bound=Callable[..., Any])


def broker_options(command: _Command) -> _Command:
    """`--connect`, `--token`, `--authority` and `--json`, which every command that talks to a broker has."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Everything as JSON, on a line each."),
        click.option(
            "--authority",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Whose certificates to trust, with palio+tls://.",
        ),
        click.option(
            "--token", envvar="PALIO_TOKEN", metavar="TOKEN", help="Says who you are; also read from PALIO_TOKEN."
        ),
        click.option(
            "--connect", "url", default="palio://127.0.0.1:7420", show_default=True, metavar="URL", help="The broker."
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def connecting(url: str, token: str | None, authority: Path | None, *, patience: float = 30.0) -> Connecting:
    """A connection with what the options say."""
    from palio.network.client.connecting import connect
    from palio.network.security.tls import ClientTls

    tls = ClientTls(authority).context() if authority is not None else None
    return connect(url, token, app="palio", tls=tls, patience=patience)


def run(doing: Coroutine[Any, Any, None]) -> None:
    """Run a command to its end; Ctrl-C ends it as soon as it has taken its leave."""
    from palio.network import loops

    loops.run(doing)
