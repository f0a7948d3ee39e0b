"""Validation of settings: an error names the setting and what would be right."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from palio import InvalidArgument
from palio.cli.main import palio
from palio.network.gateway.settings import HttpSettings, RetryPolicy
from palio.network.server.settings import Settings
from tests.network.gateway.serving import serving
from tests.network.running import run


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("lisen = []", "there is no setting 'lisen'; did you mean listen?"),
        ("listen = 5", "listen is a text or a list of texts, not 5"),
        ("listen = ['palio://127.0.0.1:0', 5]", "listen is a text or a list of texts, not ['palio://127.0.0.1:0', 5]"),
        ("listen = ['hub']", "listen: 'hub' is no address; one looks like palio://localhost:7420"),
        ("data = 5", "data is a text, not 5"),
        ("heartbeat = 'x'", "heartbeat is a number, not 'x'"),
        ("heartbeat = -3.0", "heartbeat is a positive number, not -3.0"),
        ("heartbeat = nan", "heartbeat is a positive number, not nan"),
        ("watch = 0", "watch is a positive number, not 0"),
        ("insecure = 1", "insecure is true or false, not 1"),
        ("safety = 'bogus'", "safety is one of durable, relaxed, not 'bogus'"),
        ("limits = 5", "limits is a table, not 5"),
        ("limits.frame_bytes = 10", "limits.frame_bytes is a number from 512 on, not 10"),
        ("limits.event = 5", "limits.event is a table, not 5"),
        ("limits.event.json_bytes = 0.5", "limits.event.json_bytes is a whole number, not 0.5"),
        ("limits.event.json_bytes = 0", "limits.event.json_bytes must be a positive integer, not 0"),
        ("limits.event.deep = 5", "there is no setting of limits.event 'deep'; did you mean depth?"),
        ("flow.queue = 'ten'", "flow.queue is a whole number, not 'ten'"),
        ("flow.queue = true", "flow.queue is a whole number, not True"),
        ("flow.overflow = 'bogus'", "flow.overflow is one of block, drop_oldest, drop_newest, disconnect, not 'bogus'"),
        ("keeping.queue_overflow = 'bogus'", "keeping.queue_overflow is one of refuse, drop_oldest, drop_newest"),
        ("keeping.log_seconds = -1", "keeping.log_seconds is a number from 0 on, not -1"),
        ("http.sinks = ['bogus']", "http.sinks are networks such as 10.1.0.0/16"),
        ("http.port = 70000", "http.port is a number from 0 to 65535, not 70000"),
        ("http.persistence.attempts = 0", "http.persistence.attempts is a number from 1 on, not 0"),
        ("tls.certificate = 'x.pem'", "tls is not whole; its settings are certificate, key"),
        ("links.'palio://hub'.imports = 'x >'", "links.\"palio://hub\".imports: "),
        ("keys.seconds = -1", "keys.seconds is a positive number, not -1"),
        ("options.loss = 0.5", "loss is an option of simulated networks"),
        ("options = 5", "options is a table, not 5"),
        ("crash_log = 'recover'", "crash_log recover needs a data directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_its_name(written: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Settings().with_changes(tomllib.loads(written))
    assert str(refused.value).startswith(said)


def test_tables_inside_tables_become_what_they_are() -> None:
    written = "[limits.event]\njson_bytes = 500\n[http]\nport = 0\n[http.persistence]\nattempts = 2\n"

    async def test() -> None:
        async with serving(limits={"event": {"json_bytes": 500}}) as (_, client):
            assert (await client.post("/events", json={"x": "y" * 400})).is_success
            assert (await client.post("/events", json={"x": "y" * 600})).status_code == 400

    run(test)
    settings = Settings().with_changes(tomllib.loads(written))
    assert settings.http == HttpSettings(port=0, persistence=RetryPolicy(attempts=2))
    assert (settings.limits.event.json_bytes, settings.limits.event.depth) == (500, 100)


def test_a_place_for_http_keeps_the_rest_of_what_was_chosen() -> None:
    before = Settings().with_changes({"http": {"sinks": ["10.0.0.0/8"], "port": 1, "is_optional": True}})
    assert before.with_changes({"http": "127.0.0.1:0"}).http == HttpSettings(port=0, sinks=("10.0.0.0/8",))
    assert before.with_changes({"http": "off"}).http is None


def test_the_command_line_says_the_same(tmp_path: Path) -> None:
    config = tmp_path / "palio.toml"
    config.write_text("[limits.event]\ndepth = 1000\n", encoding="utf-8")
    wrong = CliRunner().invoke(palio, ["serve", "--config", str(config), "--data", "none"])
    assert (wrong.exit_code, "limits.event.depth must be at most 200" in wrong.stderr) == (2, True)
    wrong = CliRunner().invoke(palio, ["serve", "--crash-log", "recover", "--data", "none"])
    assert (wrong.exit_code, "crash_log recover needs a data directory" in wrong.stderr) == (2, True)
    wrong = CliRunner().invoke(palio, ["serve", "--option", "loss=0.5", "--data", "none"])
    assert (wrong.exit_code, "loss is an option of simulated networks" in wrong.stderr) == (2, True)
