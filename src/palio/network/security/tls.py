"""Who is at the other end, and who can read along? TLS contexts for both ends of a connection.

A server may ask for certificates of its clients (mutual TLS); the names in one say which principal it is. Names come
from the subject's alternative names where there are any, as RFC 9525 §2 has it, and from its common name otherwise.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palio.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class ServerTls:
    """A server's certificate, and whose certificates it accepts from clients."""

    certificate: Path
    key: Path
    client_authority: Path | None = None
    """Certificates signed by this are accepted from clients."""
    require_certificate: bool = False
    """Whether a client without one is turned away in the handshake."""

    def context(self) -> ssl.SSLContext:
        """What a listening socket is wrapped in."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _harden(context)
        _load(context.load_cert_chain, self.certificate, self.key)
        if self.client_authority is not None:
            _load(context.load_verify_locations, self.client_authority)
            context.verify_mode = ssl.CERT_REQUIRED if self.require_certificate else ssl.CERT_OPTIONAL
        elif self.require_certificate:
            raise InvalidArgument("to require certificates of clients, say whose: an authority is needed")
        return context


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Whom a client trusts, beside or instead of what the system trusts, and its own certificate."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """What a connecting socket is wrapped in; the server's name is always checked."""
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        _harden(context)
        if self.authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            _harden(context)
            _load(context.load_verify_locations, self.authority)
        if self.certificate is not None:
            _load(context.load_cert_chain, self.certificate, self.key or self.certificate)
        return context

    def also(self) -> ssl.SSLContext:
        """For servers that anybody runs: the authority is trusted beside what the system trusts, and nothing shown."""
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        _harden(context)
        if self.authority is not None:
            _load(context.load_verify_locations, self.authority)
        return context


def _harden(context: ssl.SSLContext) -> None:
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


def names_in(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names that a peer's checked certificate gives it, as `ssl.SSLSocket.getpeercert` shows it; none without."""
    if not certificate:
        return ()
    alternatives = tuple(str(name) for kind, name in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI"))
    return alternatives or tuple(_common_names(certificate))


def _common_names(certificate: Mapping[str, Any]) -> Iterator[str]:
    for parts in certificate.get("subject", ()):
        for kind, value in parts:
            if kind == "commonName":
                yield str(value)
