"""The options with which commands reach a broker, and how they run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from palio.network.client.connecting import Connecting

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker is, and who comes."""

    url: str
    token: str | None
    authority: Path | None
    tls: tuple[Path, Path] | None

    def connect(self, *, patience: float = 30.0) -> Connecting:
        """A connection, for an application that is called as the URL says."""
        from palio.network.addresses import Address
        from palio.network.client.connecting import connect
        from palio.network.security.tls import ClientTls

        certificate, key = self.tls or (None, None)
        tls = ClientTls(self.authority, certificate, key).context() if self.authority or self.tls else None
        app = Address.parse(self.url).app or "palio"
        return connect(self.url, self.token, app=app, tls=tls, patience=patience)


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--connect`, `--token`, `--authority`, `--tls` and `--json`, which every command that talks to a broker has.

    The command gets a `Place` and whether it is to speak JSON.
    """

    @wraps(command)
    def reached(
        url: str, token: str | None, authority: Path | None, tls: tuple[Path, Path] | None, as_json: bool, **others: Any
    ) -> None:
        command(place=Place(url, token, authority, tls), as_json=as_json, **others)

    for option in (
        click.option("--json", "as_json", is_flag=True, help="Everything as JSON, on a line each."),
        click.option("--tls", nargs=2, type=_FILE, metavar="CERTIFICATE KEY",
                     help="A certificate that says who you are, with palio+tls://."),
        click.option(
            "--authority", type=_FILE, metavar="FILE", help="Whose certificates to trust, with palio+tls://."
        ),
        click.option(
            "--token", envvar="PALIO_TOKEN", metavar="TOKEN", help="Says who you are; also read from PALIO_TOKEN."
        ),
        click.option(
            "--connect", "url", default="palio://127.0.0.1:7420", show_default=True, metavar="URL", help="The broker."
        ),
    ):  # fmt: skip
        reached = option(reached)
    return reached


def run(doing: Coroutine[Any, Any, None]) -> None:
    """Run a command to its end; Ctrl-C ends it as soon as it has taken its leave."""
    asyncio.run(doing)
