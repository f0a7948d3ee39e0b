"""The systemd unit and the container file: their commands run, and the service manager is told."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from configparser import RawConfigParser
from pathlib import Path

import pytest

from tests.network.processes import Broker, command, running

PROJECT = Path(__file__).parents[1]
UNIT = PROJECT / "deploy" / "palio.service"
CONTAINER = PROJECT / "deploy" / "Containerfile"


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", CONTAINER.read_text(encoding="utf-8"), re.MULTILINE)


def assert_serves(options: list[str], folder: Path) -> None:
    """The options of `palio serve` are known, and name a file and a folder of the service."""
    assert options[:2] == ["serve", "--config"]
    assert (options[2], options[4]) == ("/etc/palio/palio.toml", "/var/lib/palio")
    (folder / "palio.toml").write_text("watch = 7.0\n", encoding="utf-8")
    code, out, err = command("serve", "--config", str(folder / "palio.toml"), *options[3:], "--print-config")
    assert code == 0, err
    printed = tomllib.loads(out)
    assert (printed["watch"], printed["data"], printed["log"]["json"]) == (7.0, "/var/lib/palio", True)


def unit() -> RawConfigParser:
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT, encoding="utf-8")
    return parser


def test_the_command_of_the_unit_runs(tmp_path: Path) -> None:
    service = unit()["Service"]
    program, *options = service["ExecStart"].split()
    assert program == "/usr/local/bin/palio"
    assert_serves(options, tmp_path)
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["Type"] == "notify"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / "palio.service"
    text = UNIT.read_text(encoding="utf-8").replace("/usr/local/bin/palio", sys.executable)
    copy.write_text(re.sub(r"^(User|Group)=.*\n", "", text, flags=re.MULTILINE), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, timeout=60, check=False
    )
    said = [line for line in done.stderr.decode().splitlines() if "palio.service" in line]
    assert said == []


def test_the_commands_of_the_container_run(tmp_path: Path) -> None:
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["palio"]
    assert_serves(json.loads(instructions("CMD")[0]), tmp_path)
    copied = [name for each in instructions("COPY") for name in each.split()[:-1]]
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} == set(copied)
    [(named)] = re.findall(r"/src\[([a-z,]+)\]", CONTAINER.read_text(encoding="utf-8"))
    assert set(named.split(",")) <= project["optional-dependencies"].keys()
    assert "palio warm" in instructions("RUN")
    assert command("warm", "--help")[0] == 0
    assert instructions("USER") == ["palio"]


def test_the_health_check_of_the_container_tells_a_broker_from_none() -> None:
    [check] = instructions("HEALTHCHECK CMD")
    _, option, code = json.loads(check)
    with running(Broker("--http", "127.0.0.1:0")) as broker:
        assert isinstance(broker, Broker)
        here = code.replace("http://127.0.0.1:7480", broker.http)
        assert here != code
        assert subprocess.run([sys.executable, option, here], check=False, capture_output=True).returncode == 0
        broker.send(signal.SIGTERM)
        assert broker.end()[0] == 0
        assert subprocess.run([sys.executable, option, here], check=False, capture_output=True).returncode != 0


def test_the_service_manager_hears_when_the_broker_serves_reloads_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setitem(os.environ, "NOTIFY_SOCKET", str(tmp_path / "notify"))
        with running(Broker("--http", "off")) as broker:
            assert manager.recv(100) == b"READY=1"
            broker.send(signal.SIGHUP)
            assert manager.recv(100).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert manager.recv(100) == b"READY=1"
            broker.send(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert broker.end()[0] == 0
