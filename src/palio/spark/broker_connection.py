"""How does a worker of Spark reach brokers? By what the options of a source or a sink say; one thing at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from palio.errors import PalioError, PipelineError
from palio.network.addresses import Address
from palio.network.client.blocking import BlockingBroker, connect_blocking
from palio.network.security.tls import ClientTls

APP: Final = "spark"
SCHEMES: Final = ("palio://", "palio+tls://")


def read_address(address: str) -> dict[str, str]:
    """The options in `palio://host:7420,other:7420?option=value`."""
    parts = urlsplit(address)
    hosts = f"{parts.netloc}{parts.path.rstrip('/')}".split(",")
    return {"url": ",".join(f"{parts.scheme}://{host}" for host in hosts), **dict(parse_qsl(parts.query))}


@dataclass(frozen=True)
class Brokers:
    """One broker or several. It travels to the workers, so it holds addresses, not connections."""

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

    @contextmanager
    def connect(self, url: str) -> Iterator[BlockingBroker]:
        """One of them, for the time of a `with`; whatever is wrong with it is a `PipelineError` that names it."""
        try:
            with connect_blocking(url, self.token, app=APP, tls=self.tls(), patience=self.patience) as broker:
                yield broker
        except PipelineError:
            raise
        except PalioError as error:
            raise PipelineError(f"{url}: {error}") from None
