"""TLS contexts of both ends, the names in a certificate, and the rule for exposed listeners.

A server may ask for certificates of its clients (mutual TLS); the names in one select the principal. They are the
subject's alternative names where there are any, as RFC 9525 §2 has it, and its common name otherwise.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from palio.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Certificate of a server, and the authority of its clients' certificates."""

    certificate: Path
    key: Path
    client_authority: Path | None = None
    """Authority whose certificates are accepted from clients."""
    require_certificate: bool = False
    """Whether the handshake fails without a client certificate."""

    def context(self) -> ssl.SSLContext:
        """The context of a listening socket."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _harden(context)
        _load(context.load_cert_chain, self.certificate, self.key)
        if self.client_authority is not None:
            _load(context.load_verify_locations, self.client_authority)
            context.verify_mode = ssl.CERT_REQUIRED if self.require_certificate else ssl.CERT_OPTIONAL
        elif self.require_certificate:
            raise InvalidArgument("to require certificates of clients, say whose: an authority is needed")
        return context


class CurrentTls:
    """The TLS context for new connections of all listeners; one that is replaced stays with its connections."""

    def __init__(self, settings: ServerTls) -> None:
        self.context = settings.context()


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Authority that a client trusts, and its own certificate."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The context of a connecting socket; the server's name is always checked."""
        if self.authority is None:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        else:
            # Not the default context, which trusts the authorities of the system too.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            _load(context.load_verify_locations, self.authority)
        _harden(context)
        if self.certificate is not None:
            _load(context.load_cert_chain, self.certificate, self.key or self.certificate)
        return context

    def also(self) -> ssl.SSLContext:
        """The context for foreign servers: trusts the authority beside those of the system, shows no certificate."""
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        _harden(context)
        if self.authority is not None:
            _load(context.load_verify_locations, self.authority)
        return context


def _harden(context: ssl.SSLContext) -> None:
    # Compression lets an observer guess secrets by length (CRIME); renegotiation lets a peer repeat costly handshakes.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _load(loading: Any, *paths: Path) -> None:
    for path in paths:
        if not path.is_file():
            raise InvalidArgument(f"{path} is no file; a certificate or key in PEM form is needed")
    try:
        loading(*map(str, paths))
    except (ssl.SSLError, ValueError) as error:
        raise InvalidArgument(f"{' and '.join(map(str, paths))} cannot be used for TLS: {error}") from None


def certificate_names(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names in a verified peer certificate, as `ssl.SSLSocket.getpeercert` returns it."""
    if not certificate:
        return ()
    alternatives = tuple(str(name) for kind, name in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI"))
    return alternatives or tuple(_common_names(certificate))


def _common_names(certificate: Mapping[str, Any]) -> Iterator[str]:
    for parts in certificate.get("subject", ()):
        for kind, value in parts:
            if kind == "commonName":
                yield str(value)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host; host names other than `localhost` count as reachable by others."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, *, tls: bool, tokens: bool, insecure: bool) -> None:
    """InvalidArgument for a listener that other machines can reach without TLS and tokens."""
    if insecure or is_loopback(host) or (tls and tokens):
        return
    missing = " and ".join(
        what for what, there in (("TLS (--tls)", tls), ("tokens (palio token add)", tokens)) if not there
    )
    raise InvalidArgument(
        f"others can reach {host or 'every address of this machine'}, and this broker has no {missing}; "
        "listen on 127.0.0.1, or add what is missing, or say --insecure"
    )
