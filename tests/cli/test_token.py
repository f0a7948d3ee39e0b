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


def test_one_token_is_for_several_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = run_token("add", "desk", "--may-publish", "price > 0", "--for", "hub,leaf1")
    for broker in ("hub", "leaf1"):
        assert Tokens(tmp_path / broker).authenticate(made.strip()).name == "desk"
    own = run_token("add", "own", "--data", "hub")
    assert Tokens(tmp_path / "hub").authenticate(own.strip()).name == "own"
    run_token("change", "desk", "--may-publish", "price > 1", "--for", "hub,leaf1")
    changed = [Tokens(tmp_path / each).authenticate(made.strip()) for each in ("hub", "leaf1")]
    assert [str(each.may_publish) for each in changed] == ["price > 1", "price > 1"]
    run_token("remove", "desk", "--for", "hub,leaf1")
    assert all("desk" not in [each.principal.name for each in Tokens(tmp_path / broker)] for broker in ("hub", "leaf1"))


def test_a_principal_is_added_to_all_brokers_or_to_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_token("add", "desk", "--data", "leaf1")
    wrong = CliRunner().invoke(palio, ["token", "add", "desk", "--for", "hub,leaf1"])
    assert (wrong.exit_code, "there is a principal 'desk' in leaf1 already" in wrong.stderr) == (2, True)
    assert not len(Tokens(tmp_path / "hub"))
    for command in (["change", "desk"], ["remove", "desk"]):
        wrong = CliRunner().invoke(palio, ["token", *command, "--for", "leaf1,hub"])
        assert (wrong.exit_code, "there is no principal 'desk' in hub" in wrong.stderr) == (2, True)
    assert len(Tokens(tmp_path / "leaf1")) == 1
    for names in ("hub,,leaf1", "hub,hub"):
        wrong = CliRunner().invoke(palio, ["token", "add", "other", "--for", names])
        assert (wrong.exit_code, "--for names data directories, each once" in wrong.stderr) == (2, True)


def test_a_principal_is_exported_to_a_broker_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = run_token("add", "desk", "--data", "hub", "--may-subscribe", "price > 0", "--expires", "90d").strip()
    exported = run_token("export", "desk", "--data", "hub")
    assert made.partition("_")[2].partition("_")[2] not in exported
    answer = CliRunner().invoke(palio, ["token", "import", "-", "--data", "leaf"], input=exported)
    assert answer.exit_code == 0, answer.stderr
    found = [Tokens(tmp_path / each) for each in ("hub", "leaf")]
    assert found[0].authenticate(made) == found[1].authenticate(made)
    assert [each.expires for each in found[0]] == [each.expires for each in found[1]]
    for text in ("{}", exported.replace('"key"', '"kee"'), "no JSON"):
        wrong = CliRunner().invoke(palio, ["token", "import", "-", "--data", "other"], input=text)
        assert (wrong.exit_code, "not a principal that `palio token export` printed" in wrong.stderr) == (2, True)


def run_token(*arguments: str) -> str:
    answer = CliRunner().invoke(palio, ["token", *arguments])
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout
