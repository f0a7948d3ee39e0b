"""Sealed datagrams: opened once, by the other end only, and under no other form."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import InvalidArgument, WireError
from palio.network.addresses import Address
from palio.network.links.key_exchange import (
    FORGED,
    KEY_OVERLAP_SECONDS,
    NOT_SEALED,
    REPLAYED,
    SEAL_OVERHEAD_BYTES,
    UNKNOWN_KEY,
    KeyRegistry,
    KeySettings,
    Seal,
    SharedKey,
    key_id_of,
)
from palio.network.protocol import AskKey, KeyGiven
from palio.network.security.authorization import Principal

BROKER = Principal("leaf", "broker")
HALF = bytes(range(32))


def ends(seconds: float = 60.0, datagrams: int = 10**6) -> tuple[Seal, Seal]:
    """Both ends of a new key: of who dials, and of who listens."""
    key = SharedKey(secrets.token_bytes(8), secrets.token_bytes(32), secrets.token_bytes(32), seconds, datagrams)
    return Seal(key, dials=True, now=0.0), Seal(key, dials=False, now=0.0)


@given(st.lists(st.binary(max_size=100), max_size=20), st.booleans())
def test_what_one_end_seals_the_other_opens(contents: list[bytes], turned: bool) -> None:
    here, there = reversed(ends()) if turned else ends()
    for content in contents:
        datagram = here.seal(content)
        assert len(datagram) == len(content) + SEAL_OVERHEAD_BYTES
        assert key_id_of(datagram) == here.id == there.id
        assert there.open(datagram) == content


@given(st.binary(max_size=40), st.integers(0), st.integers(1, 255))
def test_no_bit_of_a_datagram_can_be_changed(content: bytes, place: int, change: int) -> None:
    here, there = ends()
    datagram = bytearray(here.seal(content))
    place = 9 + place % (len(datagram) - 9)  # before that is the key's id, by which the key is found
    datagram[place] ^= change
    with pytest.raises(WireError, match=f"{FORGED}|{REPLAYED}"):
        there.open(bytes(datagram))


@given(st.integers(0, SEAL_OVERHEAD_BYTES + 20), st.binary(max_size=20))
def test_what_was_cut_or_made_longer_is_refused(length: int, more: bytes) -> None:
    here, there = ends()
    whole = here.seal(b"twenty bytes or some")
    for datagram in {whole[:length], whole + more} - {whole}:
        look = key_id_of if len(datagram) < SEAL_OVERHEAD_BYTES else there.open
        with pytest.raises(WireError, match=f"{FORGED}|{NOT_SEALED}"):
            look(datagram)
    assert there.open(whole) == b"twenty bytes or some"  # and nothing of that has used up its number


def test_a_datagram_that_is_sent_back_is_not_the_other_ends() -> None:
    here, there = ends()
    with pytest.raises(WireError, match=FORGED):
        here.open(here.seal(b"mine"))
    stranger, _ = ends()
    with pytest.raises(WireError, match=FORGED):
        there.open(stranger.seal(b"not mine"))


@given(st.lists(st.integers(0, 1_499), max_size=200))
def test_each_datagram_is_opened_once_in_whatever_order_they_come(order: list[int]) -> None:
    here, there = ends()
    datagrams = [here.seal(b"%d" % n) for n in range(1_500)]
    seen: set[int] = set()
    for n in order:
        is_new = n not in seen and n > max(seen, default=-1) - 1_024
        if is_new:
            assert there.open(datagrams[n]) == b"%d" % n
            seen.add(n)
        else:
            with pytest.raises(WireError, match=REPLAYED):
                there.open(datagrams[n])


def test_a_seal_is_over_after_its_time_and_after_its_last_datagram() -> None:
    here, there = ends(seconds=10.0, datagrams=4)
    assert [here.is_renewal_due(now) for now in (0.0, 4.9, 5.0)] == [False, False, True]
    assert [here.has_expired(now) for now in (9.9, 10.0)] == [False, True]
    for _ in range(2):
        there.open(here.seal(b""))
    assert here.is_renewal_due(0.0)
    assert there.is_renewal_due(0.0)  # by what it heard, though it said nothing
    for _ in range(2):
        here.seal(b"")
    assert here.has_expired(0.0)
    there.expire_by(3.0)
    there.expire_by(5.0)
    assert [there.has_expired(now) for now in (2.9, 3.0)] == [False, True]


class Giver:
    """Keys, with a clock that can be set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.keys = KeyRegistry(KeySettings(seconds=100.0), lambda: self.now)

    def ask(self, replaces: bytes = b"", principal: Principal = BROKER) -> Seal:
        """The dialling end of a new key."""
        given = self.keys.issue(principal, AskKey(HALF, replaces))
        return Seal(of(given), dials=True, now=self.now)

    def refuses(self, datagram: bytes) -> None:
        with pytest.raises(WireError, match=UNKNOWN_KEY):
            self.keys.open(datagram)


def of(given: KeyGiven) -> SharedKey:
    return SharedKey(given.id, given.secret, HALF, given.seconds, given.datagrams)


def test_a_key_that_was_replaced_is_good_until_the_new_one_is_used_and_a_little_longer() -> None:
    giver = Giver()
    old = giver.ask()
    giver.keys.open(old.seal(b"1"))
    giver.now = 50.0
    new = giver.ask(replaces=old.id)
    giver.now = 90.0
    giver.keys.open(old.seal(b"2"))
    giver.now = 50.0 + 1.0
    giver.keys.open(new.seal(b"3"))
    giver.keys.open(old.seal(b"4"))  # on its way while the key was changed
    giver.now += KEY_OVERLAP_SECONDS
    giver.refuses(old.seal(b"5"))
    giver.keys.open(new.seal(b"6"))


def test_nobody_replaces_a_key_of_somebody_else_and_a_principal_that_is_gone_has_none() -> None:
    giver = Giver()
    own = giver.ask()
    giver.keys.open(own.seal(b""))
    other = giver.ask(replaces=own.id, principal=Principal("other", "broker"))
    giver.keys.open(other.seal(b""))
    giver.now = KEY_OVERLAP_SECONDS + 1.0
    giver.keys.open(own.seal(b""))
    giver.keys.forget("leaf")
    giver.refuses(own.seal(b""))
    giver.keys.open(other.seal(b""))


def test_whoever_asks_for_ever_more_keys_has_the_last_ones_alone() -> None:
    giver = Giver()
    other = giver.ask(principal=Principal("other", "broker"))
    seals = [giver.ask() for _ in range(100)]
    giver.refuses(seals[0].seal(b""))
    giver.keys.open(seals[-1].seal(b""))
    giver.keys.open(other.seal(b""))
    assert len(giver.keys) == 65
    giver.now = 101.0
    giver.refuses(seals[-1].seal(b""))
    giver.ask()
    assert len(giver.keys) == 1  # what is over is not kept


def test_settings_that_make_no_sense_are_refused() -> None:
    tls, udp = Address("hub", 7420, "palio+tls"), Address("hub", 7421, "palio+udp")
    assert KeySettings().exchange_address(udp) == Address("hub", 7421, "palio+tls")
    assert KeySettings(at={str(udp): tls}).exchange_address(udp) == tls
    for wrong in ({"seconds": 0.0}, {"datagrams": 1}, {"at": {str(udp): udp}}, {"at": {str(tls): tls}}):
        with pytest.raises(InvalidArgument, match=r"key|seconds|datagrams"):
            KeySettings(**wrong)  # type: ignore[arg-type]
