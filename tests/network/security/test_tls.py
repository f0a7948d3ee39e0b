"""TLS between both ends, with real sockets and certificates."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from palio import InvalidArgument
from palio.network.security.tls import ClientTls, ServerTls, certificate_names
from tests.network.certificates import Authority


async def names_seen(server: ServerTls, client: ClientTls, name: str = "broker.example") -> tuple[str, ...]:
    """The names in the client's certificate, as the server sees them."""
    seen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(writer.get_extra_info("peercert"))
        writer.write(b"hello")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server.context())
    try:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client.context(), server_hostname=name)
        try:
            if await reader.read() != b"hello":
                raise ConnectionError
        finally:
            writer.close()
        return certificate_names(await seen)
    finally:
        listening.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_client_that_trusts_the_authority_connects(authority: Authority) -> None:
    pair = authority.sign("broker", ("broker.example",))
    assert asyncio.run(names_seen(ServerTls(pair.certificate, pair.key), ClientTls(authority.certificate))) == ()


def test_a_client_refuses_another_authority_and_another_name(authority: Authority, tmp_path: Path) -> None:
    pair = authority.sign("broker", ("broker.example",))
    server = ServerTls(pair.certificate, pair.key)
    stranger = Authority(tmp_path, "stranger")
    for client, name in [
        (ClientTls(stranger.certificate), "broker.example"),
        (ClientTls(), "broker.example"),
        (ClientTls(authority.certificate), "other.example"),
    ]:
        with pytest.raises(ssl.SSLCertVerificationError):
            asyncio.run(names_seen(server, client, name))


def test_a_clients_certificate_says_who_it_is(authority: Authority) -> None:
    pair, desk = authority.sign("broker", ("broker.example",)), authority.sign("desk")
    other = authority.sign("other", ("desk-7.example", "desk-8.example"))
    server = ServerTls(pair.certificate, pair.key, authority.certificate)
    trusting = ClientTls(authority.certificate)
    assert asyncio.run(names_seen(server, trusting)) == ()
    assert asyncio.run(names_seen(server, ClientTls(authority.certificate, desk.certificate, desk.key))) == ("desk",)
    # Where there are alternative names, the common name says nothing.
    shown = asyncio.run(names_seen(server, ClientTls(authority.certificate, other.certificate, other.key)))
    assert shown == ("desk-7.example", "desk-8.example")


def test_a_server_that_requires_certificates_turns_others_away(authority: Authority, tmp_path: Path) -> None:
    pair = authority.sign("broker", ("broker.example",))
    server = ServerTls(pair.certificate, pair.key, authority.certificate, require_certificate=True)
    forged = Authority(tmp_path, "stranger").sign("desk")
    for client in (
        ClientTls(authority.certificate),
        ClientTls(authority.certificate, forged.certificate, forged.key),
    ):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            asyncio.run(names_seen(server, client))


def test_old_versions_of_tls_are_refused(authority: Authority) -> None:
    pair = authority.sign("broker", ("broker.example",))
    for context in (ServerTls(pair.certificate, pair.key).context(), ClientTls(authority.certificate).context()):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_COMPRESSION


def test_files_that_are_no_certificates_are_named(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("hello")
    with pytest.raises(InvalidArgument, match="no-such-file"):
        ServerTls(tmp_path / "no-such-file", tmp_path / "text.pem").context()
    with pytest.raises(InvalidArgument, match=r"text\.pem"):
        ServerTls(tmp_path / "text.pem", tmp_path / "text.pem").context()
    pair = authority.sign("broker")
    with pytest.raises(InvalidArgument, match="say whose"):
        ServerTls(pair.certificate, pair.key, require_certificate=True).context()
