"""Sealed events over real connections: key files, inner brokers, replaced keys, dead letters."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import palio
from palio.errors import InputError
from palio.network.security.sealing_keys import SealingKeyFile
from palio.network.server.host import Host
from palio.network.server.process import Server
from palio.routing.link_sessions import Transmit
from palio.routing.sealing import KEY_BYTES
from tests.network.running import broker, run, until, up, url, wanted

OLD, NEW = bytes(range(KEY_BYTES)), bytes(range(1, KEY_BYTES + 1))
SECRET = "only-for-subscribers"


def key_file(path: Path, *keys: bytes) -> Path:
    path.write_text("# of the market\n" + "".join(f"{b64encode(key).decode()}\n" for key in keys))
    path.chmod(0o600)
    return path


@asynccontextmanager
async def edge_inner_edge(first: Path, last: Path) -> AsyncIterator[list[Server]]:
    """Three brokers in a line; the middle one has no key."""
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for choices in ({"sealing_keys": first}, {"options": {"sealed": True}}, {"sealing_keys": last}):
            connect = servers[-1].addresses if servers else ()
            each = broker(connect=connect, forwarding="bloom", watch=0.02, **choices)
            servers.append(await stack.enter_async_context(each))
        await until(lambda: all(len(up(server)) == wanted(server, servers) for server in servers))
        yield servers


def test_an_inner_broker_forwards_what_it_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[bytes] = []
    transmit = Host._transmit

    def record(host: Host, effect: Transmit) -> None:
        frames.append(effect.data)
        transmit(host, effect)

    monkeypatch.setitem(_carried_out(), Transmit, record)

    async def check() -> None:
        first, last = key_file(tmp_path / "first", OLD), key_file(tmp_path / "last", OLD)
        async with (
            edge_inner_edge(first, last) as servers,
            palio.connect(url(servers[0])) as desk,
            palio.connect(url(servers[1])) as inner,
            palio.connect(url(servers[2])) as feed,
            desk.subscribe("price > 100", confirm="network") as events,
        ):
            for price in (50, 120):
                await feed.publish({"price": price, "note": SECRET}, confirm=True)
            assert (await anext(events)).get("note") == SECRET
            past = await desk.replay("price > 10")
            assert [each.event.get("note") for each in past.events] == [SECRET, SECRET]
            assert servers[1].host.node.broker.content_reads == 0
            with pytest.raises(palio.Refused, match="has no key of sealed events"):
                async with inner.subscribe("TRUE"):
                    raise AssertionError
            with pytest.raises(palio.Refused, match="has no key of sealed events"):
                await inner.publish({"price": 120}, confirm=True)
            with pytest.raises(palio.Refused, match="has no key of sealed events"):
                await inner.replay()

            # A new key is added at both, then first at the publisher's: no event is lost.
            key_file(first, OLD, NEW)
            await until(lambda: _knows(servers[0], 2))
            key_file(last, NEW)
            await until(lambda: _knows(servers[2], 1))
            await feed.publish({"price": 130, "note": SECRET})
            assert (await anext(events)).get("price") == 130
            assert servers[0].store.dead_letters.read(0, 10) == []

    run(check)
    assert frames
    assert not any(SECRET.encode() in frame for frame in frames)


def _carried_out() -> dict[type, object]:
    from palio.network.server import host

    return host._CARRY_OUT  # type: ignore[return-value]


def _knows(server: Server, keys: int) -> bool:
    ring = server.host.node.broker.keys
    return ring is not None and len(ring._ciphers) == keys


def test_an_event_under_another_key_is_a_dead_letter(tmp_path: Path) -> None:
    async def check() -> None:
        first, last = key_file(tmp_path / "first", OLD), key_file(tmp_path / "last", NEW)
        async with (
            edge_inner_edge(first, last) as servers,
            palio.connect(url(servers[0])) as desk,
            palio.connect(url(servers[2])) as feed,
            desk.subscribe("price > 100", confirm="network") as events,
        ):
            await feed.publish({"price": 120, "note": SECRET})
            await until(lambda: bool(servers[0].store.dead_letters.read(0, 10)))
            [letter] = servers[0].store.dead_letters.read(0, 10)
            assert letter.reason == "unreadable: sealed with a key that this broker does not have"
            assert SECRET.encode() not in letter.data
            assert not events._waiting

    run(check)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "from 1 to 64 keys"),
        (b"# nothing\n\n", "from 1 to 64 keys"),
        (b"c2hvcnQ=\n", "file:1: a key is 64 random bytes in base64"),
        (b"# \n not base64!\n", "file:2: a key is 64 random bytes in base64"),
        (b"\xff", "keys are text"),
    ],
)
def test_a_file_that_has_no_keys_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InputError, match=said) as caught:
        SealingKeyFile(path).read()
    assert "c2hvcnQ" not in str(caught.value)


def test_keys_that_others_may_read_are_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path / "file", OLD)
    assert SealingKeyFile(path).read() == [OLD]
    path.chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        SealingKeyFile(path).read()
