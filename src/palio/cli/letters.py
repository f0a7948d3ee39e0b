"""`palio letters`: events that no sink took. They are of HTTP, where events are pushed, and are asked for by it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import click

from palio.cli import terminal
from palio.errors import ConnectionFailed, InvalidArgument, Refused

_SECONDS = 60.0


def _http_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--authority", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
                     help="Whose certificates to trust, with https://."),
        click.option(
            "--token", envvar="PALIO_TOKEN", metavar="TOKEN", help="Says who you are; also read from PALIO_TOKEN."
        ),
        click.option("--http", "url", default="http://127.0.0.1:7480", show_default=True, metavar="URL",
                     help="Where the broker speaks HTTP."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def letters() -> None:
    """See the events that no sink took (dead letters), send them again, or let them go.

    \b
    Examples:
      palio letters list
      palio letters send 12 13
      palio letters delete 14
    """


@letters.command(name="list")
@click.option("--after", type=click.IntRange(0), default=0, metavar="NUMBER", help="Those behind a number.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, on a line each.")
@_http_options
def list_letters(after: int, as_json: bool, url: str, token: str | None, authority: Path | None) -> None:
    """List them, the oldest first."""
    found = _ask("GET", f"/dead-letters?after={after}", url, token, authority)
    table = terminal.table(terminal.numbers("number"), "since", "owner", "subscription", "reason")
    for each in found:
        if as_json:
            terminal.print_json(each)
        else:
            when = datetime.fromtimestamp(each["time"], UTC)
            shown = (f"{each['number']}", f"{when:%Y-%m-%d %H:%M:%S}Z", *(each[name] for name in _SHOWN))
            table.add_row(*shown)
    if not as_json:
        terminal.results().print(table)


_SHOWN = ("owner", "subscription", "reason")


@letters.command()
@click.argument("numbers", type=click.IntRange(1), nargs=-1, required=True)
@_http_options
def delete(numbers: tuple[int, ...], url: str, token: str | None, authority: Path | None) -> None:
    """Let go of the letters with these NUMBERS."""
    for number in numbers:
        _ask("DELETE", f"/dead-letters/{number}", url, token, authority)


@letters.command()
@click.argument("numbers", type=click.IntRange(1), nargs=-1, required=True)
@_http_options
def send(numbers: tuple[int, ...], url: str, token: str | None, authority: Path | None) -> None:
    """Send the letters with these NUMBERS to their sinks again; those that are taken are kept no more."""
    for number in numbers:
        _ask("POST", f"/dead-letters/{number}/send", url, token, authority)


def _ask(method: str, path: str, url: str, token: str | None, authority: Path | None) -> Any:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgument(f"a place for HTTP looks like http://127.0.0.1:7480, not {url!r:.80}")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    context = ssl.create_default_context(cafile=authority) if parts.scheme == "https" else None
    try:
        asked = Request(f"{url.rstrip('/')}{path}", method=method, headers=headers)
        with urlopen(asked, timeout=_SECONDS, context=context) as answer:
            return json.loads(answer.read() or b"null")
    except HTTPError as error:
        raise Refused(_reason(error)) from None
    except (URLError, TimeoutError) as error:
        raise ConnectionFailed(url, str(getattr(error, "reason", error))) from None
    except ValueError:
        raise ConnectionFailed(url, "what answers there is no broker") from None


def _reason(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"
