"""A connection to a NATS server for code that is not asynchronous: a worker's, which does one thing at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from palio.errors import PipelineError

if TYPE_CHECKING:
    from nats.js import JetStreamContext

_Result = TypeVar("_Result")
SCHEMES: Final = ("nats://", "tls://")
_SECONDS_TO_CONNECT: Final = 5.0
_RECONNECTIONS: Final = 10


def nats_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """What a connection needs, from the options of a source or a sink."""
    names = {"user": "user", "password": "password", "token": "token", "credentials": "user_credentials"}
    settings: dict[str, Any] = {names[name]: options[name] for name in names if name in options}
    return {"servers": [each.strip() for each in options["servers"].split(",")], **settings}


def read_address(address: str, what: str) -> tuple[dict[str, str], str]:
    """The options and the name in `nats://user:password@host:4222,other:4222/NAME?option=value`."""
    parts = urlsplit(address)
    who, _, hosts = parts.netloc.rpartition("@")
    name = unquote(parts.path).strip("/")
    if not hosts or not name:
        shown = f"{parts.scheme}://{hosts or 'localhost:4222'}"
        raise PipelineError(f"{shown} names a server, and not {what}; write {shown}/NAME")
    options = {
        "servers": ",".join(f"{parts.scheme}://{host}" for host in hosts.split(",")),
        **dict(parse_qsl(parts.query)),
    }
    if who:
        user, colon, password = who.partition(":")
        options |= {"user": unquote(user), "password": unquote(password)} if colon else {"token": unquote(user)}
    return options, name


class Connection:
    """An open connection, closed at the end of a `with`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)

    @property
    def servers(self) -> str:
        return ", ".join(self._settings["servers"])

    def __enter__(self) -> Connection:
        try:
            import nats
        except ImportError:
            raise PipelineError("NATS needs nats-py; run: pip install 'palio[nats]'") from None
        self._loop = asyncio.new_event_loop()
        try:
            self._client = self.run(
                nats.connect(
                    **self._settings,
                    connect_timeout=_SECONDS_TO_CONNECT,
                    max_reconnect_attempts=_RECONNECTIONS,
                    reconnect_time_wait=0.5,
                    error_cb=_ignore,  # whoever asks gets the error too
                )
            )
        except (nats.errors.Error, OSError) as error:
            self._loop.close()
            raise PipelineError(
                f"no NATS server answers at {self.servers}: {str(error) or type(error).__name__}"
            ) from None
        self.jetstream: JetStreamContext = self._client.jetstream()
        return self

    def __exit__(self, *_: object) -> None:
        from nats.errors import Error

        with suppress(Error, OSError):
            self.run(self._client.close())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self._loop.run_until_complete(work)


async def _ignore(error: Exception) -> None:
    return None
