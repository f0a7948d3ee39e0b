"""Parsing of addresses, and the errors of malformed ones."""

from __future__ import annotations

import pytest

from palio.errors import InvalidArgument
from palio.network.addresses import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("palio://localhost", Address("localhost", 7420)),
        ("palio://desk@hub.example:99", Address("hub.example", 99, "palio", "desk")),
        ("palio+tls://[::1]:7421/", Address("::1", 7421, "palio+tls")),
        ("palio+udp://127.0.0.1:0", Address("127.0.0.1", 0, "palio+udp")),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hub:7420", "looks like palio://localhost:7420"),
        ("http://hub", "no scheme 'http'; known are palio, palio\\+tls, palio\\+udp"),
        ("palio://", "names no host"),
        ("palio://hub:seven", "a port is a number from 0 to 65535"),
        ("palio://hub:70000", "a port is a number from 0 to 65535"),
        ("palio://[::zz]:1", "no IPv6 address"),
        ("palio://hub/path", "a number|no address"),
        (5, "an address is a text"),
        ("palio+tls://palio_1a2b3c4d_secret@hub", "holds no token"),
        ("palio://me:palio_1a2b3c4d_secret@hub", "holds no token"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Address.parse(text)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("0.0.0.0", False), ("hub", False)],
)
def test_it_is_known_what_only_this_machine_can_reach(host: str, is_loopback: bool) -> None:
    assert Address(host).is_loopback is is_loopback
