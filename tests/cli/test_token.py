"""`palio token`: principals made, listed, changed and removed, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from palio import AuthenticationFailed
from palio.cli.main import palio
from palio.network.security.authentication import Tokens


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(palio, ["token", *arguments])


def test_a_token_that_was_added_is_good_until_it_is_removed() -> None:
    added = run("add", "desk-7", "--may-subscribe", "symbol = 'ACME'", "--data", "var")
    assert added.exit_code == 0
    token = added.stdout.strip()
    principal = Tokens(Path("var")).authenticate(token)
    assert (principal.name, str(principal.may_subscribe), str(principal.may_publish)) == (
        "desk-7",
        "symbol = 'ACME'",
        "FALSE",
    )
    assert run("remove", "desk-7", "--data", "var").exit_code == 0
    with pytest.raises(AuthenticationFailed):
        Tokens(Path("var")).authenticate(token)


def test_what_is_not_named_in_a_change_stays() -> None:
    run("add", "p", "--may-publish", "x > 1", "--may-annotate", "--source", "a")
    assert run("change", "p", "--may-subscribe", "true", "--may-see-status").exit_code == 0
    shown = json.loads(run("list", "--json").stdout)
    assert shown == {
        "name": "p",
        "role": "client",
        "may_subscribe": "TRUE",
        "may_publish": "x > 1",
        "may_annotate": True,
        "may_block": False,
        "may_see_status": True,
        "sources": ["a"],
        "certificates": [],
        "expires": None,
    }


def test_the_list_shows_grants_and_no_token() -> None:
    token = json.loads(run("add", "p", "--role", "admin", "--expires", "0s", "--json").stdout)["token"]
    shown = run("list").stdout
    assert "TRUE" in shown
    assert "(over)" in shown
    assert token.split("_", 2)[2] not in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "p", "--may-subscribe", "x >"), "x >"),
        (("add", "p q"), "a name is"),
        (("add", "p", "--expires", "soon"), "such as 90d"),
        (("add", "p", "--role", "king"), "king"),
        (("remove", "p"), "no principal 'p'"),
        (("change", "p"), "no principal 'p'"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
