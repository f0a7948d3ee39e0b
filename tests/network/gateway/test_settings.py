"""Settings of the gateway: how they are read, and a broker that starts without HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from palio import InvalidArgument
from palio.network.gateway.settings import HttpSettings
from palio.network.server.settings import Settings
from palio.network.server.settings_file import read_settings
from tests.network.gateway.serving import serving
from tests.network.running import broker, run

TABLE = """
connect = ["palio://hub.example:7420"]

[http]
host = "127.0.0.1"
port = 8080
origins = ["https://app.example"]
sinks = ["10.1.0.0/16"]

[links."palio://hub.example"]
imports = "region = 'eu'"
"""


def test_a_place_is_a_host_and_a_port() -> None:
    assert HttpSettings.at("127.0.0.1:0") == HttpSettings("127.0.0.1", 0)
    assert HttpSettings.at("[::1]:7480") == HttpSettings("::1", 7480)
    for wrong in ("", "7480", "host", "host:x", "host:65536", "http://host:1", "a b:1", "[::1]"):
        with pytest.raises(InvalidArgument, match=r"looks like 127\.0\.0\.1:7480"):
            HttpSettings.at(wrong)
    with pytest.raises(InvalidArgument, match=r"https://app\.example\.com"):
        HttpSettings(origins=("app.example",))


def test_settings_come_from_a_file_and_from_a_line(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(TABLE)
    settings = read_settings(tmp_path / "broker.toml", Settings())
    assert settings.http == HttpSettings(port=8080, origins=("https://app.example",), sinks=("10.1.0.0/16",))
    link = settings.links["palio://hub.example:7420"]
    assert (str(link.imports), str(link.exports)) == ("region = 'eu'", "TRUE")
    assert settings.with_changes({"http": "off"}).http is None
    for wrong in ({"http": {"hosts": "x"}}, {"links": {"palio://hub": {"import": "x"}}}, {"links": {"hub": {}}}):
        with pytest.raises(InvalidArgument):
            settings.with_changes(wrong)


def test_a_broker_starts_without_http_only_where_nobody_asked_for_it() -> None:
    async def test() -> None:
        async with serving() as (server, _):
            assert server.gateway is not None
            taken = server.gateway.address[1]
            async with broker(http=HttpSettings(port=taken, is_optional=True)) as second:
                assert second.gateway is None
            with pytest.raises(InvalidArgument, match=f"cannot listen on 127.0.0.1:{taken}"):
                async with broker(http=HttpSettings(port=taken)):
                    pass

    run(test)
