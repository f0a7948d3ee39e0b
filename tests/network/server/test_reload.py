"""Reload of settings: what changes at once, what waits for a restart, and that a bad file changes nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import ssl
from pathlib import Path
from typing import Any

import pytest

import palio
from palio.network.gateway.settings import HttpSettings
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from palio.network.server.reload import plan_reload
from palio.network.server.settings import Settings
from tests.network.certificates import Authority
from tests.network.gateway.serving import serving
from tests.network.processes import Broker, running
from tests.network.running import broker, run, url


def test_a_reload_applies_what_it_can_and_names_the_rest() -> None:
    now = Settings(http=HttpSettings())
    wanted = now.with_changes(
        {
            "limits": {"connections": 5, "event": {"depth": 3}},
            "http": {"port": 1, "origins": ["https://a.example"]},
            "keeping": {"log_bytes": 1_000, "disk_bytes": 10_000},
            "propagation": "covering",
            "listen": ["palio://127.0.0.1:1"],
            "log": {"level": "debug"},
        }
    )
    plan = plan_reload(now, wanted)
    assert plan.changed == (
        "http.origins", "keeping.log_bytes", "limits.connections", "limits.event.depth", "log.level"
    )  # fmt: skip
    assert plan.postponed == ("http.port", "keeping.disk_bytes", "listen", "propagation")
    assert plan.settings.limits == wanted.limits
    assert plan.settings.http == HttpSettings(origins=("https://a.example",))
    assert plan.settings.keeping.disk_bytes is None
    assert plan_reload(plan.settings, wanted).changed == ()
    assert plan_reload(now, now).postponed == ()


def test_a_table_that_was_absent_needs_a_restart() -> None:
    now = Settings()
    wanted = now.with_changes({"tls": {"certificate": "a.pem", "key": "a.key"}})
    assert plan_reload(now, wanted).changed == ()
    assert plan_reload(now, wanted).settings == now
    assert "tls.certificate" in plan_reload(now, wanted).postponed


def test_limits_hold_for_clients_that_are_connected_already() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            await client.publish({"x": "y" * 2_000}, confirm=True)
            limits = {"event": {"json_bytes": 500}, "events_per_second": 0.001, "burst_events": 2}
            await server.reload(server.settings.with_changes({"limits": limits}))
            with pytest.raises(palio.LimitReached, match="event_bytes"):
                await client.publish({"x": "y" * 2_000}, confirm=True)
            for _ in range(2):
                await client.publish({"x": 1}, confirm=True)
            with pytest.raises(palio.LimitReached, match="too fast"):
                await client.publish({"x": 1}, confirm=True)
            await server.reload(server.settings.with_changes({"limits": {"connections": 1}}))
            with pytest.raises(palio.PalioError, match="1 connections are as many"):
                async with palio.connect(url(server), patience=0):
                    pass

    run(test)


def test_limits_of_matching_hold_for_subscriptions_after_a_reload() -> None:
    slow = "x RLIKE '(a|b)*a(a|b){200}c'"

    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            async with client.subscribe(slow):
                pass
            limits = {"slow_patterns_per_principal": 1, "unread_bytes": 1_000_000, "pattern_size": 100}
            await server.reload(server.settings.with_changes({"limits": limits}))
            with pytest.raises(palio.LimitReached, match="pattern_size"):
                async with client.subscribe(slow):
                    pass
            assert server.host.conditions.costs.limits.slow_patterns_per_principal == 1
            assert server.quotas.held_frames.most == 1_000_000

    run(test)


def test_origins_and_retention_change_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(data=str(tmp_path)) as (server, client):
            page = {"Origin": "https://app.example"}
            assert (await client.get("/status", headers=page)).status_code == 403
            changes = {"http": {"origins": ["https://app.example"]}, "keeping": {"log_bytes": 0}}
            await server.reload(server.settings.with_changes(changes))
            assert (await client.get("/status", headers=page)).status_code == 200
            await client.post("/events", json={"n": 1})
            await asyncio.to_thread(server.store.retain)
            assert server.store.log.size().events == 0

    run(test)


def test_new_connections_get_the_new_certificate_and_old_ones_stay(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    first, second = authority.sign("first", ("127.0.0.1",)), authority.sign("second", ("127.0.0.1",))
    trust = ssl.create_default_context(cafile=str(authority.certificate))

    async def common_name(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        subject = dict(each[0] for each in writer.get_extra_info("peercert")["subject"])
        writer.close()
        del reader
        return str(subject["commonName"])

    async def test() -> None:
        tls = {"certificate": str(first.certificate), "key": str(first.key)}
        http = HttpSettings(port=0)
        async with (
            broker(listen=["palio+tls://127.0.0.1:0"], tls=tls, http=http) as server,
            palio.connect(url(server), tls=trust) as client,
        ):
            assert server.gateway is not None
            ports = server.addresses[0].port, server.gateway.address[1]
            assert [await common_name(port) for port in ports] == ["first", "first"]
            # As certificates are renewed: other files under the same names.
            first.certificate.write_bytes(second.certificate.read_bytes())
            with pytest.raises(palio.InvalidArgument, match=r"first\.(pem|key)"):
                await server.reload(server.settings)  # the key is still the old one
            assert [await common_name(port) for port in ports] == ["first", "first"]
            first.key.write_bytes(second.key.read_bytes())
            await server.reload(server.settings)
            assert [await common_name(port) for port in ports] == ["second", "second"]
            await client.publish({"x": 1}, confirm=True)

    run(test)


def test_tokens_are_read_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=str(tmp_path), watch=3_600.0) as server:
            token = Tokens(tmp_path).add(Principal("desk", may_publish=palio.Filter.everything))
            await server.reload(server.settings)
            assert not server.authenticator.is_open
            async with palio.connect(url(server), token) as client:
                await client.publish({"x": 1}, confirm=True)

    run(test)


def logged(process: Broker, message: str) -> dict[str, Any]:
    """The next line of the log with a message."""
    while True:
        line = json.loads(process.message())
        if message in line["message"]:
            found: dict[str, Any] = line
            return found


def test_sighup_reloads_the_file_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    config = tmp_path / "palio.toml"
    config.write_text("watch = 60.0\n", encoding="utf-8")
    with running(Broker("--http", "off", "--config", str(config))) as process:
        assert isinstance(process, Broker)
        config.write_text("watch = 30.0\npropagation = 'covering'\n[log]\nlevel = 'debug'\n", encoding="utf-8")
        process.send(signal.SIGHUP)
        assert logged(process, "settings reloaded")["changed"] == ["log.level", "watch"]
        assert logged(process, "need a restart")["settings"] == ["propagation"]
        config.write_text("watch = 20.0\n[log]\nlevl = 'error'\n", encoding="utf-8")
        process.send(signal.SIGHUP)
        refused = logged(process, "not reloaded")
        assert refused["reason"].startswith(f"{config}: line 3: there is no setting of log 'levl'; did you mean level?")
        config.write_text("watch = 20.0\n[log]\nlevel = 'debug'\n", encoding="utf-8")
        process.send(signal.SIGHUP)
        assert logged(process, "settings reloaded")["changed"] == ["watch"]  # the bad file left the level
        process.send(signal.SIGTERM)
        assert process.end()[0] == 0


def test_levels_of_modules_come_and_go() -> None:
    from palio.network.logging_setup import LogSettings, set_levels

    before = logging.getLogger("palio").level
    try:
        set_levels(LogSettings("error", modules={"links": "debug"}))
        assert logging.getLogger("palio.links").isEnabledFor(logging.DEBUG)
        assert not logging.getLogger("palio.server").isEnabledFor(logging.WARNING)
        set_levels(LogSettings("warning"))
        assert not logging.getLogger("palio.links").isEnabledFor(logging.INFO)
    finally:
        set_levels(LogSettings("info"))
        logging.getLogger("palio").setLevel(before)
