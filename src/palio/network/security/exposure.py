"""May a broker listen there? Off one's own machine only with TLS and tokens, unless told so."""

from __future__ import annotations

from ipaddress import ip_address

from palio.errors import InvalidArgument


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address. A name other than `localhost` may be anywhere, and is not."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, *, tls: bool, tokens: bool, insecure: bool) -> None:
    """InvalidArgument for a place to listen where strangers could listen, or speak, without either."""
    if insecure or is_loopback(host) or (tls and tokens):
        return
    missing = " and ".join(
        what for what, there in (("TLS (--tls)", tls), ("tokens (palio token add)", tokens)) if not there
    )
    raise InvalidArgument(
        f"others can reach {host or 'every address of this machine'}, and this broker has no {missing}; "
        "listen on 127.0.0.1, or add what is missing, or say --insecure"
    )
