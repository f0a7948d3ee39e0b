"""The principals file: tokens authenticate their owner alone, and are not stored."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import AuthenticationFailed, Filter, InputError, InvalidArgument
from palio.network.security.authentication import PRINCIPALS_FILE, Authenticator, Tokens
from palio.network.security.authorization import Principal, unrestricted

DESK = Principal("desk", may_subscribe=Filter.parse("symbol = 'ACME'"), may_publish=Filter.parse("price > 0"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_token_says_who_its_owner_is_also_to_a_server_that_starts_later(directory: Path) -> None:
    token = Tokens(directory).add(DESK)
    assert Tokens(directory).authenticate(token) == DESK


def test_nothing_but_the_whole_token_will_do(directory: Path) -> None:
    tokens = Tokens(directory)
    token = tokens.add(DESK)
    other = tokens.add(replace(DESK, name="other"))
    id, other_id = token.split("_")[1], other.split("_")[1]
    wrong = [
        "",
        id,
        token[:-1],
        token + "x",
        token.replace(id, other_id),
        token.upper(),
        "é" * 300,
        token + "_",
        "\ud800",
    ]
    for each in wrong:
        with pytest.raises(AuthenticationFailed):
            tokens.authenticate(each)


@given(st.text(max_size=300))
def test_whatever_text_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(AuthenticationFailed):
        Tokens(Path("there-is-no-such-directory")).authenticate(text)


def test_the_file_holds_no_token_and_nobody_else_can_read_it(directory: Path) -> None:
    directory.mkdir(mode=0o755)
    token = Tokens(directory).add(DESK)
    assert token.split("_", 2)[2] not in (directory / PRINCIPALS_FILE).read_text()
    assert stat.S_IMODE((directory / PRINCIPALS_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_the_same_token_has_another_hash_in_another_file(directory: Path, tmp_path: Path) -> None:
    token = Tokens(directory).add(DESK)
    Tokens(tmp_path / "other").add(DESK)
    with pytest.raises(AuthenticationFailed):
        Tokens(tmp_path / "other").authenticate(token)


def test_a_token_ends_when_it_expires(directory: Path) -> None:
    tokens = Tokens(directory)
    over = tokens.add(DESK, expires=datetime.now(UTC) - timedelta(seconds=1))
    still = tokens.add(replace(DESK, name="other"), expires=datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(AuthenticationFailed):
        tokens.authenticate(over)
    assert tokens.get("desk") is None
    assert tokens.expired(datetime.now(UTC)) == ["desk"]
    assert tokens.authenticate(still).name == "other"


def test_a_server_hears_who_was_changed_and_who_was_removed(directory: Path) -> None:
    server, command = Tokens(directory), Tokens(directory)
    token = command.add(DESK)
    command.add(replace(DESK, name="other"))
    assert server.refresh() == {}  # new ones concern nobody who is connected
    narrower = replace(DESK, may_subscribe=Filter.nothing)
    command.change(narrower)
    command.remove("other")
    assert server.refresh() == {"desk": narrower, "other": None}
    assert server.authenticate(token) == narrower
    assert server.refresh() == {}


def test_grants_are_kept_as_they_are(directory: Path) -> None:
    zoned = Filter.parse("day > date '2026-01-01' AND hour(at) = 7", timezone="Europe/Rome")
    given = Principal("p", "broker", zoned, Filter.everything, True, True, ("a", "*"))
    Tokens(directory).add(given, certificates=("p.example",))
    known = next(iter(Tokens(directory)))
    assert known.principal == given
    assert known.principal.may_subscribe.timezone == zoned.timezone
    assert known.certificates == ("p.example",)


def test_several_that_add_at_once_all_stay(directory: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: Tokens(directory).add(unrestricted(f"p{n}")), range(24)))
    tokens = Tokens(directory)
    assert {tokens.authenticate(each).name for each in made} == {f"p{n}" for n in range(24)}


def test_a_certificate_stands_for_one_principal_or_for_none(directory: Path) -> None:
    tokens = Tokens(directory)
    tokens.add(DESK, certificates=("desk.example", "both.example"))
    tokens.add(replace(DESK, name="other"), certificates=("both.example",))
    assert tokens.authenticate_certificate(("desk.example", "unknown")) == DESK
    for names in [(), ("unknown",), ("both.example",), ("desk",)]:
        with pytest.raises(AuthenticationFailed):
            tokens.authenticate_certificate(names)


def test_a_name_is_used_once_and_has_no_strange_letters(directory: Path) -> None:
    tokens = Tokens(directory)
    tokens.add(DESK)
    with pytest.raises(InvalidArgument, match="already"):
        tokens.add(DESK)
    with pytest.raises(InvalidArgument, match="no principal 'nobody'"):
        tokens.remove("nobody")
    for name in ["", "a b", "a/b", "-a", "a" * 65, "a\n", "é"]:
        with pytest.raises(InvalidArgument, match="a name is"):
            Principal(name)


def test_a_file_that_is_none_is_an_error_and_never_lets_everyone_in(directory: Path) -> None:
    Tokens(directory).add(DESK)
    for content in [
        "",
        "{}",
        "[]",
        '{"version": 2, "key": "00", "entries": []}',
        '{"version":1,"key":"x","entries":[]}',
    ]:
        (directory / PRINCIPALS_FILE).write_text(content)
        with pytest.raises(InputError, match=PRINCIPALS_FILE):
            Tokens(directory)


def test_a_broker_that_ever_had_a_token_never_opens_again(directory: Path) -> None:
    assert Authenticator(directory).is_open
    tokens = Tokens(directory)
    tokens.add(DESK)
    tokens.remove("desk")
    assert not Authenticator(directory).is_open
    (directory / PRINCIPALS_FILE).unlink()  # lost, or not restored
    with pytest.raises(AuthenticationFailed):
        Authenticator(directory).authenticate()
