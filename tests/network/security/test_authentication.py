"""Authentication: everyone is admitted without tokens, only known principals with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from palio import AuthenticationFailed, Filter
from palio.network.security.authentication import PRINCIPALS_FILE, Authenticator, Tokens
from palio.network.security.authorization import ANYONE, Principal, unrestricted


def test_without_tokens_everyone_is_let_in_whatever_they_say(tmp_path: Path) -> None:
    for authenticator in (Authenticator(None), Authenticator(tmp_path)):
        assert authenticator.is_open
        assert (
            authenticator.authenticate()
            == authenticator.authenticate("anything")
            == authenticator.find("anyone")
            == ANYONE
        )
        with pytest.raises(AuthenticationFailed):
            authenticator.find("desk")


def test_with_the_first_token_those_who_were_let_in_without_have_to_leave(tmp_path: Path) -> None:
    authenticator = Authenticator(tmp_path)
    token = Tokens(tmp_path).add(unrestricted("root"))
    assert authenticator.changes() == {"anyone": None}
    assert authenticator.authenticate(token).name == "root"
    with pytest.raises(AuthenticationFailed, match="palio token add"):
        authenticator.authenticate()
    with pytest.raises(AuthenticationFailed):
        authenticator.find("anyone")


def test_an_authenticator_that_once_required_tokens_always_does(tmp_path: Path) -> None:
    Tokens(tmp_path).add(unrestricted("root"))
    authenticator = Authenticator(tmp_path)
    Tokens(tmp_path).remove("root")
    assert authenticator.changes() == {"root": None}
    (tmp_path / PRINCIPALS_FILE).unlink()
    authenticator.changes()
    for token in ("", "anything"):
        with pytest.raises(AuthenticationFailed):
            authenticator.authenticate(token)


def test_a_certificate_is_as_good_as_a_token(tmp_path: Path) -> None:
    Tokens(tmp_path).add(Principal("desk", may_subscribe=Filter.everything), certificates=("desk.example",))
    authenticator = Authenticator(tmp_path)
    assert authenticator.authenticate(certificate=("desk.example",)).name == "desk"
    with pytest.raises(AuthenticationFailed):
        authenticator.authenticate(certificate=("other.example",))
    with pytest.raises(AuthenticationFailed):
        authenticator.authenticate("wrong", ("desk.example",))


def test_whoever_expires_has_to_leave_once(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.add(Principal("desk"), expires=datetime.now(UTC) + timedelta(seconds=0.2))
    authenticator = Authenticator(tmp_path)
    while not (changes := authenticator.changes()):
        pass
    assert changes == {"desk": None}
    assert authenticator.changes() == {}
