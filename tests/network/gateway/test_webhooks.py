"""Connections to sinks: permitted addresses (server-side request forgery), bounds, keep-alive. Real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import InvalidArgument
from palio.network.gateway.webhooks import AddressPolicy, Sink, SinkConnection, SinkRefused, SinkUnreachable, send_once
from tests.network.running import run

NOWHERE = AddressPolicy()
LOOPBACK = AddressPolicy(["127.0.0.0/8"])


@pytest.mark.parametrize(
    "address",
    """127.0.0.1 127.9.9.9 0.0.0.0 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.1
    192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255
    :: ::1 fe80::1 fe80::1%eth0 fc00::1 fd12:3456::1 ff02::1 2001:db8::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1
    64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b:1::1 2002:7f00:1:: 2001:0:7f00:1:: fec0::1 ::ffff:0:10.0.0.1 5f00::1
    192.0.0.8 192.0.0.170 198.19.0.1 3fff::1 100:0:0:1::1 2001:20::1 4000::1""".split(),
)
def test_addresses_that_are_not_public_are_not_sent_to(address: str) -> None:
    assert not NOWHERE.permits(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are(address: str) -> None:
    assert NOWHERE.permits(address)


@given(st.ip_addresses(v=4), st.sampled_from(["10.1.0.0/16", "192.168.7.0/24"]))
def test_a_network_that_was_allowed_is_allowed_and_nothing_else(address: Any, network: str) -> None:
    from ipaddress import ip_network

    policy = AddressPolicy([network])
    assert policy.permits(str(address)) == (address in ip_network(network) or NOWHERE.permits(str(address)))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "127.1", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0"],
)
def test_whatever_way_this_machine_is_written_it_is_refused(host: str) -> None:
    async def test() -> None:
        with pytest.raises((SinkRefused, SinkUnreachable)):
            await send_once(Sink.parse(f"http://{host}:1/"), "POST", {}, b"", NOWHERE, seconds=2)

    run(test)


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "ftp://example.com/", "file:///etc/passwd", "http://", "http:///path", "http://user@example.com/",
        "http://user:secret@example.com/", "http://example.com:99999/", "http://exa mple.com/", "http://[::1/",
        "http://example.com/\r\nX: y", "http://example.com/\x00", "http://ex\u00e4mple.com/", "gopher://127.0.0.1:25/",
        "http://a/" + "x" * 3_000,
    ],
)  # fmt: skip
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="sink"):
        Sink.parse(url)


def test_a_url_is_taken_apart() -> None:
    assert Sink.parse("https://example.com/a/b?c=d#e") == Sink(True, "example.com", 443, "/a/b?c=d")
    assert Sink.parse("http://Example.com:8080") == Sink(False, "example.com", 8080, "/")
    assert Sink.parse("http://[2606:4700::1]:80/").authority == "[2606:4700::1]"
    assert Sink.parse("https://example.com:80/").authority == "example.com:80"


async def answering(answer: bytes, heard: list[bytes]) -> asyncio.Server:
    """A server on this machine that answers one thing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65_536))
        writer.write(answer)
        await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


def test_a_name_that_resolves_to_another_address_later_is_connected_to_at_the_one_that_was_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding: a public address when it is looked at, this machine when it is connected to."""
    asked: list[str] = []

    def lying(honest: Callable[..., Any]) -> Callable[..., Any]:
        def resolve(host: Any, *arguments: Any, **options: Any) -> Any:
            if host != "rebinding.example":
                return honest(host, *arguments, **options)
            asked.append(host)
            address = "192.0.2.1" if len(asked) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80))]

        return resolve

    monkeypatch.setattr(socket, "getaddrinfo", lying(socket.getaddrinfo))

    async def test() -> None:
        heard: list[bytes] = []
        server = await answering(b"HTTP/1.1 200 OK\r\n\r\n", heard)
        sink = Sink.parse(f"http://rebinding.example:{port_of(server)}/")
        # 192.0.2.1 stands for a public address; it is reserved for documentation, and nobody answers there.
        with pytest.raises(SinkUnreachable):
            await send_once(sink, "POST", {}, b"", AddressPolicy(["192.0.2.0/24"]), seconds=0.5)
        assert (asked, heard) == (["rebinding.example"], [])
        with pytest.raises(SinkRefused):
            await send_once(sink, "POST", {}, b"", NOWHERE, seconds=0.5)
        assert heard == []
        server.close()

    run(test)


def test_an_allowed_network_can_be_sent_to_and_headers_are_what_was_said() -> None:
    async def test() -> None:
        heard: list[bytes] = []
        server = await answering(b"HTTP/1.1 201 Created\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n", heard)
        sink = Sink.parse(f"http://127.0.0.1:{port_of(server)}/hook?a=b")
        reply = await send_once(sink, "POST", {"X-Own": "1"}, b"body", LOOPBACK, seconds=5)
        assert (reply.status, reply.headers["x-a"]) == (201, "1")
        assert heard[0].startswith(b"POST /hook?a=b HTTP/1.1\r\n")
        assert heard[0].endswith(b"\r\n\r\nbody")
        server.close()

    run(test)


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, b"HTTP/1.1 abc\r\n\r\n"]
)
def test_an_answer_that_is_none_is_an_error_and_no_crash(answer: bytes) -> None:
    async def test() -> None:
        server = await answering(answer, [])
        with pytest.raises(SinkUnreachable):
            await send_once(Sink.parse(f"http://127.0.0.1:{port_of(server)}/"), "POST", {}, b"", LOOPBACK, seconds=5)
        server.close()

    run(test)


def test_a_sink_that_never_answers_is_given_up() -> None:
    async def test() -> None:
        noticed = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            noticed.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        with pytest.raises(SinkUnreachable, match=r"0\.2 seconds"):
            await send_once(Sink.parse(f"http://127.0.0.1:{port_of(server)}/"), "POST", {}, b"", LOOPBACK, seconds=0.2)
        server.close()
        await noticed.wait()  # the connection was closed at its other end, too

    run(test)


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", 3),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000,
            3,
        ),  # of which no more than some is read
    ],
)
def test_a_connection_is_kept_where_the_sink_keeps_it(answer: bytes, connections: int) -> None:
    async def test() -> None:
        made: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            made.append(writer)
            while await reader.read(65_536):
                writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connection = SinkConnection(Sink.parse(f"http://127.0.0.1:{port_of(server)}/"), LOOPBACK, seconds=5)
        for _ in range(3):
            assert (await connection.send("POST", {}, b"body")).status == 200
        assert len(made) == connections
        made[-1].close()  # which the sink may do at any time
        await made[-1].wait_closed()
        assert (await connection.send("POST", {}, b"body")).status == 200
        connection.close()
        server.close()
        for each in made:
            each.close()
            with contextlib.suppress(ConnectionError):
                await each.wait_closed()

    run(test)


def test_networks_are_written_as_networks() -> None:
    with pytest.raises(InvalidArgument, match=r"10\.1\.0\.0/16"):
        AddressPolicy(["here"])
