"""Exposed listeners: refused without TLS and tokens."""

from __future__ import annotations

import pytest

from palio import InvalidArgument
from palio.network.security.tls import check_exposure, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_ones_own_machine_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, tls=False, tokens=False, insecure=False)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "[::]", "192.168.1.5", "10.0.0.1", "broker.example", "localhost.evil"]
)
def test_anywhere_else_needs_tls_and_tokens_or_an_order(host: str) -> None:
    for tls, tokens, missing in [
        (False, False, "TLS.* and tokens"),
        (True, False, "no tokens"),
        (False, True, "no TLS"),
    ]:
        with pytest.raises(InvalidArgument, match=missing):
            check_exposure(host, tls=tls, tokens=tokens, insecure=False)
        check_exposure(host, tls=tls, tokens=tokens, insecure=True)
    check_exposure(host, tls=True, tokens=True, insecure=False)
