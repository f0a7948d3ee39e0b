"""Authentication: everyone is admitted without tokens, only known principals with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from palio import AuthenticationFailed, Filter
from palio.network.security.authentication import PRINCIPALS_FILE, Authenticator, Tokens
from palio.network.security.authorization import ANYONE, Principal, unrestricted


def test_without_tokens_everyone_is_let_in_whatever_they_say(tmp_path: Path) -> None:
    for door in (Authenticator(None), Authenticator(tmp_path)):
        assert door.is_open
        assert door.authenticate() == door.authenticate("anything") == door.find("anyone") == ANYONE
        with pytest.raises(AuthenticationFailed):
            door.find("desk")


def test_with_the_first_token_those_who_were_let_in_without_have_to_leave(tmp_path: Path) -> None:
    door = Authenticator(tmp_path)
    token = Tokens(tmp_path).add(unrestricted("root"))
    assert door.changes() == {"anyone": None}
    assert door.authenticate(token).name == "root"
    with pytest.raises(AuthenticationFailed, match="palio token add"):
        door.authenticate()
    with pytest.raises(AuthenticationFailed):
        door.find("anyone")


def test_a_door_that_was_closed_never_opens_again(tmp_path: Path) -> None:
    Tokens(tmp_path).add(unrestricted("root"))
    door = Authenticator(tmp_path)
    Tokens(tmp_path).remove("root")
    assert door.changes() == {"root": None}
    (tmp_path / PRINCIPALS_FILE).unlink()
    door.changes()
    for token in ("", "anything"):
        with pytest.raises(AuthenticationFailed):
            door.authenticate(token)


def test_a_certificate_is_as_good_as_a_token(tmp_path: Path) -> None:
    Tokens(tmp_path).add(Principal("desk", may_subscribe=Filter.everything), certificates=("desk.example",))
    door = Authenticator(tmp_path)
    assert door.authenticate(certificate=("desk.example",)).name == "desk"
    with pytest.raises(AuthenticationFailed):
        door.authenticate(certificate=("other.example",))
    with pytest.raises(AuthenticationFailed):
        door.authenticate("wrong", ("desk.example",))


def test_whoever_expires_has_to_leave_once(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.add(Principal("desk"), expires=datetime.now(UTC) + timedelta(seconds=0.2))
    door = Authenticator(tmp_path)
    while not (changes := door.changes()):
        pass
    assert changes == {"desk": None}
    assert door.changes() == {}
