"""`palio letters`: dead letters, which are events that no sink and no consumer took.

Sinks are served by the HTTP gateway, so that this command asks the broker over HTTP.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import click

from palio.cli import terminal
from palio.errors import ConnectionFailed, InvalidArgument, Refused

_TIMEOUT_SECONDS: Final = 60.0
_COLUMNS: Final = ("owner", "subscription", "reason")
_HTTP_HINT: Final = "dead letters are read over HTTP, from the HTTP address that `palio serve` prints"


def _http_options(command: Callable[..., None]) -> Callable[..., None]:
    # Last to first: a decorator that is applied later stands earlier in `--help`.
    for option in (
        click.option("--authority", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
                     help="Certificate authority to trust, with https://."),
        click.option("--token", envvar="PALIO_TOKEN", metavar="TOKEN",
                     help="Token for authentication; also read from PALIO_TOKEN."),
        click.option("--connect", "--http", "url", default="http://127.0.0.1:7480", show_default=True, metavar="URL",
                     help="The HTTP address of the broker."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def letters() -> None:
    """List dead letters (events that no sink or consumer took), send them again, or delete them.

    An event of a durable subscription becomes one when it is rejected, or after too many deliveries without an
    acknowledgement; to send it again is to put it back into its queue.

    Events are pushed to sinks over HTTP, so the broker is asked there, at an http:// or https:// URL.

    \b
    Examples:
      palio letters list
      palio letters send 12 13
      palio letters delete 14 --connect https://hub:7480
    """


@letters.command(name="list")
@click.option("--after", type=click.IntRange(0), default=0, metavar="NUMBER", help="Only those after this number.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each, on a line each.")
@_http_options
def list_letters(after: int, as_json: bool, url: str, token: str | None, authority: Path | None) -> None:
    """List dead letters, the oldest first."""
    found = _request("GET", f"/dead-letters?after={after}", url, token, authority)
    table = terminal.table(terminal.numbers("number"), "since", "owner", "subscription", "reason")
    for each in found:
        if as_json:
            terminal.print_json(each)
        else:
            when = datetime.fromtimestamp(each["time"], UTC)
            shown = (f"{each['number']}", f"{when:%Y-%m-%d %H:%M:%S}Z", *(each[name] for name in _COLUMNS))
            table.add_row(*shown)
    if not as_json:
        terminal.results().print(table)


@letters.command()
@click.argument("numbers", type=click.IntRange(1), nargs=-1, required=True)
@_http_options
def delete(numbers: tuple[int, ...], url: str, token: str | None, authority: Path | None) -> None:
    """Delete the dead letters with these NUMBERS."""
    for number in numbers:
        _request("DELETE", f"/dead-letters/{number}", url, token, authority)


@letters.command()
@click.argument("numbers", type=click.IntRange(1), nargs=-1, required=True)
@_http_options
def send(numbers: tuple[int, ...], url: str, token: str | None, authority: Path | None) -> None:
    """Send the dead letters with these NUMBERS again, to their sinks or queues; delivered ones are deleted."""
    for number in numbers:
        _request("POST", f"/dead-letters/{number}/send", url, token, authority)


def _request(method: str, path: str, url: str, token: str | None, authority: Path | None) -> Any:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgument(f"{_HTTP_HINT}, such as http://127.0.0.1:7480; not {url!r:.80}")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    context = ssl.create_default_context(cafile=authority) if parts.scheme == "https" else None
    try:
        request = Request(f"{url.rstrip('/')}{path}", method=method, headers=headers)
        with urlopen(request, timeout=_TIMEOUT_SECONDS, context=context) as answer:
            return json.loads(answer.read() or b"null")
    except HTTPError as error:
        raise Refused(_detail_of(error)) from None
    except OSError as error:
        raise ConnectionFailed(url, f"{error.reason if isinstance(error, URLError) else error}; {_HTTP_HINT}") from None
    except (HTTPException, ValueError):
        raise ConnectionFailed(url, f"the answer does not come from the HTTP port of a broker; {_HTTP_HINT}") from None


def _detail_of(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"
