"""Addresses of brokers: `palio://[application@]host[:port]`, as in Jerzak §8, where the scheme is the transport.

`palio` is TCP, `palio+tls` TCP with TLS, `palio+udp` datagrams between brokers. The application part tells clients of
one broker apart, and means nothing in the address of a broker itself. An IPv6 address stands in brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from palio.errors import InvalidArgument

DEFAULT_PORT: Final = 7420
TOKEN_PREFIX: Final = "palio_"  # of every token
SCHEMES: Final = ("palio", "palio+tls", "palio+udp")
_PATTERN: Final = re.compile(
    r"(?P<scheme>[a-z+]+)://(?:(?P<app>[^@/?#\s\[\]]*)@)?(?P<host>\[[^\]]*\]|[^:@/?#\s\[\]]*)(?::(?P<port>[^/]*))?/?"
)


@dataclass(frozen=True, slots=True)
class Address:
    """One address; port 0 of a listener is any free port."""

    host: str
    port: int = DEFAULT_PORT
    scheme: str = "palio"
    app: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse an address; `InvalidArgument` says what is wrong with it."""
        if not isinstance(text, str):
            raise InvalidArgument(f"an address is a text such as palio://localhost:{DEFAULT_PORT}, not {text!r}")
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise InvalidArgument(f"{text!r} is no address; one looks like palio://localhost:{DEFAULT_PORT}")
        scheme, app, host, port = match.group("scheme", "app", "host", "port")
        if scheme not in SCHEMES:
            raise InvalidArgument(f"{text!r}: there is no scheme {scheme!r}; known are {', '.join(SCHEMES)}")
        if app is not None and TOKEN_PREFIX in app:
            raise InvalidArgument(
                "an address holds no token, because addresses are shown and logged; give it apart (--token, token=…)"
            )
        return cls(_check_host(text, host), _check_port(text, port), scheme, app or "")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_anywhere(self) -> bool:
        """Whether it stands for all addresses of a machine: good for listening, useless for connecting."""
        return self.host in ("0.0.0.0", "::")

    @property
    def is_secure(self) -> bool:
        return self.scheme == "palio+tls"

    def __str__(self) -> str:
        app = f"{self.app}@" if self.app else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{app}{host}:{self.port}"


def parse_addresses(text: Any) -> tuple[Address, ...]:
    """Parse addresses that are separated by commas; the first is preferred."""
    parts = text.split(",") if isinstance(text, str) else [text]  # `parse` says what is wrong with something else
    return tuple(dict.fromkeys(map(Address.parse, parts)))


def _check_host(text: str, host: str) -> str:
    if not host.startswith("["):
        if not host:
            raise InvalidArgument(f"{text!r} names no host; one looks like palio://localhost:{DEFAULT_PORT}")
        return host
    try:
        return str(ip_address(host[1:-1]))
    except ValueError:
        raise InvalidArgument(f"{text!r}: {host} is no IPv6 address") from None


def _check_port(text: str, port: str | None) -> int:
    if port is None:
        return DEFAULT_PORT
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidArgument(f"{text!r}: a port is a number from 0 to 65535, not {port!r}")
    return int(port)
