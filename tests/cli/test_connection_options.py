"""Options by which commands reach a broker, and their errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from palio.cli.main import palio
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import unrestricted
from tests.network.certificates import Authority
from tests.network.processes import Process, running, served


def said(*arguments: str) -> Any:
    return CliRunner().invoke(palio, arguments)


def test_a_certificate_says_who_comes_and_a_url_what_application_it_is(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    broker, desk = authority.sign("broker", ("localhost",)), authority.sign("desk")
    trusts = ("--authority", str(authority.certificate))
    data = tmp_path / "data"
    Tokens(data).add(unrestricted("desk"), certificates=("desk",))
    own = (*trusts, "--tls", str(broker.certificate), str(broker.key), "--http", "off")
    with served(*own, listen="palio+tls://localhost:0", data=str(data)) as server:
        at = server.url.replace("127.0.0.1", "localhost").replace("://", "://desk-app@")
        stranger = said("status", "--connect", at, *trusts)
        assert (stranger.exit_code, "who" in stranger.stderr or "token" in stranger.stderr) == (2, True)
        known = said("status", "--json", "--connect", at, *trusts, "--tls", str(desk.certificate), str(desk.key))
        [client] = json.loads(known.stdout)["clients"]
        assert (client["principal"], client["app"]) == ("desk", "desk-app")


def test_what_goes_wrong_is_json_where_everything_is() -> None:
    nowhere = ("--connect", "palio://127.0.0.1:1", "--json")
    for asked in (
        ("status",),
        ("publish", '{"x": 1}'),
        ("subscribe", "TRUE"),
        ("subscribe", "x >"),
        ("advertise", "x"),
    ):
        wrong = said(*asked, *nowhere)
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        error = json.loads(wrong.stderr)
        assert error["kind"] == ("ParseError" if asked[-1] == "x >" else "ConnectionFailed"), error


def test_wrong_usage_is_json_where_everything_is_wherever_that_is_said() -> None:
    for asked, reason in (
        (("subscribe", "--json"), "Missing argument 'WHERE'"),
        (("--json", "subscribe", "TRUE"), "No such option"),
        (("subscribe", "TRUE", "--json", "--nosuch"), "No such option"),
        (("subscribe", "--json", "--queue", "many", "TRUE"), "'many' is not a valid integer"),
        (("log", "list", "--limit", "0", "--json"), "0 is not in the range"),
        (("log", "--json"), "No such option"),
        (("nosuch", "--json"), "No such command"),
        (("--nosuch", "--json"), "No such option"),
    ):
        wrong = said(*asked)
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        error = json.loads(wrong.stderr)
        assert (set(error), error["kind"], reason in error["error"]) == ({"error", "kind"}, "UsageError", True), error


def test_what_a_command_without_a_broker_cannot_read_is_json_too(tmp_path: Path) -> None:
    for asked, kind in (
        (("log", "list", "--data", str(tmp_path / "nosuch"), "--json"), "StoreError"),
        (("explain", "x >", "{}", "--json"), "ParseError"),
        (("explain", f"@{tmp_path / 'nosuch'}", "{}", "--json"), "InputError"),
    ):
        wrong = said(*asked)
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        assert json.loads(wrong.stderr)["kind"] == kind


def test_wrong_usage_is_text_where_json_is_only_an_argument() -> None:
    wrong = said("publish", "--nosuch", "--", "--json")
    assert (wrong.exit_code, wrong.stderr.startswith("Usage: ")) == (2, True)


def test_a_port_for_http_is_called_one_and_a_banner_says_how_to_connect() -> None:
    with running(Process("serve", "--listen", "palio://127.0.0.1:0", "--http", "127.0.0.1:0", "--data", "none")) as one:
        lines = [one.line()]
        while not lines[-1].startswith("Try:"):
            lines.append(one.line())
        url, http = (next(line.split()[-1] for line in lines if name in line) for name in ("listens at", "HTTP at"))
        assert lines[-1].count(f"--connect {url}") == 2
        wrong = said("status", "--connect", http.replace("http://", "palio://")).stderr
        assert "speaks HTTP" in wrong
        assert wrong.count("127.0.0.1") <= 1
        one.send(15)
