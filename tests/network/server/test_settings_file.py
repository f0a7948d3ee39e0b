"""The settings file: the documented one, the line of an error, and the file that is printed."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from palio.cli.main import palio
from palio.errors import InputError
from palio.network.addresses import Address
from palio.network.data_directory import DEFAULT_PATH
from palio.network.gateway.settings import HttpSettings
from palio.network.server.settings import Settings
from palio.network.server.settings_file import find_line, read_settings, write_settings

DEFAULTS = Settings(http=HttpSettings(is_optional=True), data=DEFAULT_PATH)
DOCUMENT = Path(__file__).parents[3] / "docs" / "operations.md"


def documented() -> str:
    found = re.search(r'```toml title="palio.toml"\n(.*?)```', DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def names(settings: Any, place: str = "") -> set[str]:
    found = set()
    for each in fields(settings):
        value = getattr(settings, each.name)
        if is_dataclass(value) and not isinstance(value, Address):
            found |= names(value, f"{place}{each.name}.")
        else:
            found.add(f"{place}{each.name}")
    return found


def written(table: dict[str, Any], known: set[str], place: str = "") -> set[str]:
    found = set()
    for name, value in table.items():
        at = f"{place}{name}"
        found |= written(value, known, f"{at}.") if isinstance(value, dict) and at not in known else {at}
    return found


def test_the_documented_file_has_every_setting_with_its_default(tmp_path: Path) -> None:
    known = names(DEFAULTS)
    assert written(tomllib.loads(documented()), known) == known
    path = tmp_path / "palio.toml"
    path.write_text(documented(), encoding="utf-8")
    assert read_settings(path, Settings()) == DEFAULTS


def test_every_setting_of_the_documented_file_is_explained() -> None:
    for line in documented().splitlines():
        assert not re.match(r"\w+ = ", line) or "  # " in line, line


def test_settings_that_are_commented_out_in_the_documented_file_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "palio.toml"
    # What stands for an absent table goes, and its example comes.
    uncommented = documented().replace('tls = "none"', "").replace("#>", "")
    path.write_text(uncommented, encoding="utf-8")
    settings = read_settings(path, Settings())
    assert settings.tls is not None
    assert settings.links
    assert settings.keys.at
    assert settings.log.modules == {"links": "debug"}


def test_a_file_that_is_no_text_is_refused_with_the_byte_at_fault(tmp_path: Path) -> None:
    path = tmp_path / "palio.toml"
    path.write_bytes(b"# \xff\xfe\x00")
    with pytest.raises(InputError, match=r"palio\.toml: not UTF-8 text, at byte 2$"):
        read_settings(path, Settings())


def test_a_printed_file_reads_as_the_settings_it_was_printed_from(tmp_path: Path) -> None:
    changed = DEFAULTS.with_changes(
        {
            "listen": ["palio://127.0.0.1:1", "palio+tls://[::1]:2"],
            "tls": {"certificate": "a.pem", "key": "b.key"},
            "links": {"palio://hub": {"imports": "x > 1 AND s = 'a\"b'"}},
            "keys": {"at": {"palio+udp://hub:7421": "palio+tls://hub:7420"}},
            "keeping": {"log_seconds": "none", "disk_bytes": 10**9},
            "http": "off",
            "limits": {"events_per_second": 10.5, "event": {"depth": 7}},
            "log": {"modules": {"links": "debug"}},
            "options": {"completeness": 0.5},
        }
    )
    path = tmp_path / "palio.toml"
    for settings in (DEFAULTS, changed):
        path.write_text(write_settings(settings), encoding="utf-8")
        assert read_settings(path, Settings()) == settings


def test_a_printed_file_has_no_secret() -> None:
    answer = CliRunner().invoke(palio, ["serve", "--print-config", "--token", "palio_secret", "--data", "none"])
    assert answer.exit_code == 0
    assert "secret" not in answer.stdout
    assert "# token is set, and not shown" in answer.stdout
    assert 'data = "none"' in answer.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen = []\n\n[limits]\n# many\nconections = 5\n", "line 5: there is no setting of limits 'conections'"),
        ("[limits.event]\ndepth = 'deep'\n", "line 2: limits.event.depth is a whole number, not 'deep'"),
        ("[limits]\nevent.depth = 0\n", "line 2: limits.event.depth must be a positive integer"),
        ("limits = {event = {depth = 0}}\n", "line 1: limits.event.depth must be a positive integer"),
        ("[keeping]\nlog_bytes = '8 GiB'\n", "line 2: keeping.log_bytes is a whole number, not '8 GiB'; in bytes"),
        ("heartbeat = '500 ms'\n", "line 1: heartbeat is a number, not '500 ms'; in seconds that is 0.5"),
        ("\n[keeping]\nlog_seconds = '7d'\n", "line 3: keeping.log_seconds is a number, not '7d'; in seconds"),
        ("[log.modules]\nlink = 'debug'\n", "line 2: log.modules.link is no module that logs; did you mean links?"),
        ("[log]\nlevel = 'loud'\n", "line 2: log.level is one of debug, info, warning, error, not 'loud'"),
        ("[links.'palio://hub:7420']\nimports = 'x >'\n", 'line 2: links."palio://hub:7420".imports'),
        ("[http]\nport = 99999\n", "line 2: http.port is a number from 0 to 65535"),
        ("listen = [\n", "Invalid value (at end of document)"),
    ],
)  # fmt: skip
def test_an_error_has_the_line_and_what_would_be_right(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "palio.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as wrong:
        read_settings(path, DEFAULTS)
    assert str(wrong.value).startswith(f"{path}: {said}")


def test_the_line_of_a_setting_inside_a_table_of_one_line_is_that_of_the_table() -> None:
    assert find_line("a = 1\nlimits = {event = {depth = 0}}\n", "limits.event.depth") == 2
    assert find_line("a = 1\n", "limits.event.depth") is None
    assert find_line('x = """\n[limits]\n"""\n', "nothing") is None


def test_levels_of_the_log_are_options_too() -> None:
    options = ["serve", "--print-config", "--data", "none", "--log-level", "error", "--log-level", "links=debug"]
    answer = CliRunner().invoke(palio, options)
    assert 'level = "error"' in answer.stdout
    assert 'links = "debug"' in answer.stdout
    wrong = CliRunner().invoke(palio, ["serve", "--print-config", "--log-level", "loud"])
    assert (wrong.exit_code, "log.level is one of debug, info, warning, error" in wrong.stderr) == (2, True)
