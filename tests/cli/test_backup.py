"""`palio backup` and `palio restore`, of brokers that run, and neighbours that go on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import palio
from tests.network.processes import Broker, command, running


async def publish(url: str, *numbers: int) -> None:
    async with palio.connect(url) as broker:
        for number in numbers:
            await broker.publish({"x": number}, confirm=True)


async def taken(url: str, name: str, wanted: set[int]) -> set[int]:
    """What a durable subscription has, until all that is wanted came."""
    found: set[int] = set()
    async with asyncio.timeout(60), palio.connect(url) as broker, broker.subscribe("x > 0", durable=name) as events:
        while not wanted <= found:
            event = await anext(events)
            found.add(event.get("x"))
            await event.ack()
    return found


async def subscribe(url: str, name: str) -> None:
    async with palio.connect(url) as broker, broker.subscribe("x > 0", durable=name, confirm="network"):
        pass


def test_a_restored_broker_loses_what_came_after_the_backup_and_its_neighbours_go_on(tmp_path: Path) -> None:
    data, copy, again = (str(tmp_path / each) for each in ("data", "copy", "again"))
    with running(Broker("--http", "off", data=data)) as hub:
        assert isinstance(hub, Broker)
        with running(Broker("--http", "off", "--connect", hub.url, data=str(tmp_path / "leaf"))) as leaf:
            assert isinstance(leaf, Broker)
            asyncio.run(subscribe(hub.url, "at-hub"))
            asyncio.run(subscribe(leaf.url, "at-leaf"))
            asyncio.run(publish(hub.url, 1, 2))
            asyncio.run(publish(leaf.url, 3, 4))
            code, out, err = command("backup", copy, "--data", data, "--json")
            assert code == 0, err
            assert json.loads(out)["subscriptions"] == 1
            # Life goes on: events are taken, and others come.
            assert asyncio.run(taken(hub.url, "at-hub", {1, 2, 3, 4})) == {1, 2, 3, 4}
            asyncio.run(publish(hub.url, 5, 6))
            asyncio.run(publish(leaf.url, 7, 8))
            hub.kill()
            code, out, err = command("restore", copy, "--data", again)
            assert code == 0, err
            assert "1 durable subscription" in out
            with running(Broker("--http", "off", listen=hub.url, data=again)) as restored:
                assert isinstance(restored, Broker)
                asyncio.run(publish(restored.url, 9, 10))
                asyncio.run(publish(leaf.url, 11, 12))
                # All that was confirmed anywhere and waits at a broker that lost nothing.
                assert asyncio.run(taken(leaf.url, "at-leaf", set(range(1, 13)))) == set(range(1, 13))
                # What was acknowledged after the backup comes again; what came after it may be missing, and no more.
                found = asyncio.run(taken(restored.url, "at-hub", {1, 2, 3, 4, 9, 10, 11, 12}))
                assert found <= set(range(1, 13))


def test_a_backup_takes_data_directory_and_settings_from_the_file(tmp_path: Path) -> None:
    config = tmp_path / "palio.toml"
    config.write_text(f"data = '{tmp_path / 'data'}'\n", encoding="utf-8")
    with running(Broker("--http", "off", data=str(tmp_path / "data"))):
        code, out, err = command("backup", str(tmp_path / "copy"), "--config", str(config))
        assert code == 0, err
        assert "is backed up in" in out
        assert (tmp_path / "copy" / "palio.toml").read_text(encoding="utf-8") == config.read_text(encoding="utf-8")
        assert command("restore", str(tmp_path / "copy"), "--verify")[0] == 0
        code, _, err = command("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "data"))
        assert code == 2
        assert "exists and is not empty; nothing is overwritten" in err
    config.write_text("data = 'none'\n", encoding="utf-8")
    code, _, err = command("backup", str(tmp_path / "other"), "--config", str(config))
    assert (code, "has no backup" in err) == (2, True)
