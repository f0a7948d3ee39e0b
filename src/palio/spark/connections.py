"""Connections of Spark workers to brokers and NATS servers, configured by the options of a source or sink.

A worker handles one request at a time, so both clients are used synchronously.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from palio.errors import PalioError, PipelineError
from palio.network.addresses import Address
from palio.network.client.blocking import BlockingBroker, connect_blocking
from palio.network.client.broker import Broker, connect
from palio.network.security.tls import ClientTls

if TYPE_CHECKING:
    from nats.js import JetStreamContext


APP: Final = "spark"
BROKER_SCHEMES: Final = ("palio://", "palio+tls://")


def read_broker_address(address: str) -> dict[str, str]:
    """The options in an address `palio://host:7420,other:7420?option=value`."""
    parts = urlsplit(address)
    hosts = f"{parts.netloc}{parts.path.rstrip('/')}".split(",")
    return {"url": ",".join(f"{parts.scheme}://{host}" for host in hosts), **dict(parse_qsl(parts.query))}


@dataclass(frozen=True)
class Brokers:
    """Addresses and credentials of brokers. It travels to the workers, so it holds no connections."""

    urls: tuple[str, ...]
    token: str | None = None
    authority: str | None = None
    patience: float = 30.0

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Brokers:
        """Options: `url`, several with commas; perhaps `token`, `authority` (a file) and `patience` (seconds)."""
        urls = tuple(each.strip() for each in options.get("url", "palio://127.0.0.1:7420").split(","))
        for url in urls:
            Address.parse(url)
        try:
            patience = float(options.get("patience", "30"))
        except ValueError:
            raise PipelineError(f"patience is a number of seconds, not {options['patience']!r}") from None
        return cls(urls, options.get("token"), options.get("authority"), patience)

    def tls(self) -> SSLContext | None:
        return None if self.authority is None else ClientTls(Path(self.authority)).context()

    def open_publisher(self) -> AbstractAsyncContextManager[Broker]:
        """Connect to the first broker, to publish."""
        # One publisher name for all workers and runs: brokers deduplicate by publisher, source and id.
        return connect(self.urls[0], self.token, app=APP, tls=self.tls(), patience=self.patience, publisher=APP)

    @contextmanager
    def connect(self, url: str) -> Iterator[BlockingBroker]:
        """Connect to one of the brokers; its errors become a `PipelineError` that names it."""
        try:
            with connect_blocking(url, self.token, app=APP, tls=self.tls(), patience=self.patience) as broker:
                yield broker
        except PipelineError:
            raise
        except PalioError as error:
            raise PipelineError(f"{url}: {error}") from None


_Result = TypeVar("_Result")
NATS_SCHEMES: Final = ("nats://", "tls://")
_CONNECT_TIMEOUT_SECONDS: Final = 5.0
_MAX_RECONNECTIONS: Final = 10


def nats_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `nats.connect` for the options of a source or sink."""
    names = {"user": "user", "password": "password", "token": "token", "credentials": "user_credentials"}
    settings: dict[str, Any] = {names[name]: options[name] for name in names if name in options}
    return {"servers": [each.strip() for each in options["servers"].split(",")], **settings}


def read_nats_address(address: str, what: str) -> tuple[dict[str, str], str]:
    """The options and the name in an address `nats://user:password@host:4222,other:4222/NAME?option=value`."""
    parts = urlsplit(address)
    credentials, _, hosts = parts.netloc.rpartition("@")
    name = unquote(parts.path).strip("/")
    if not hosts or not name:
        shown = f"{parts.scheme}://{hosts or 'localhost:4222'}"
        raise PipelineError(f"{shown} names a server, and not {what}; write {shown}/NAME")
    options = {
        "servers": ",".join(f"{parts.scheme}://{host}" for host in hosts.split(",")),
        **dict(parse_qsl(parts.query)),
    }
    if credentials:
        user, colon, password = credentials.partition(":")
        options |= {"user": unquote(user), "password": unquote(password)} if colon else {"token": unquote(user)}
    return options, name


class NatsConnection:
    """A synchronous NATS connection, open for the time of a `with`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)

    @property
    def servers(self) -> str:
        return ", ".join(self._settings["servers"])

    def __enter__(self) -> NatsConnection:
        try:
            import nats
        except ImportError:
            raise PipelineError("NATS needs nats-py; run: pip install 'palio[nats]'") from None
        self._loop = asyncio.new_event_loop()
        try:
            self._client = self.run(
                nats.connect(
                    **self._settings,
                    connect_timeout=_CONNECT_TIMEOUT_SECONDS,
                    max_reconnect_attempts=_MAX_RECONNECTIONS,
                    reconnect_time_wait=0.5,
                    error_cb=_ignore,  # calls raise the error, too
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
