"""Seals: what opens them, what does not, and which combinations can do without content at inner brokers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import IllegalCombination, InvalidArgument
from palio.errors import SealError
from palio.routing.combinations import Combination, legal_combinations
from palio.routing.messages import EventId
from palio.routing.sealing import KEY_BYTES, Keyring, event_context, log_context

OLD, NEW = bytes(range(KEY_BYTES)), bytes(range(1, KEY_BYTES + 1))
CONTEXT = event_context(EventId(1, 2, 3))


def test_rotation_loses_no_event_under_way() -> None:
    first, second = Keyring([OLD]), Keyring([OLD])
    under_way = first.seal(b"content", CONTEXT)
    second.replace([OLD, NEW])
    first.replace([NEW, OLD])
    assert second.open(first.seal(b"content", CONTEXT), CONTEXT) == b"content"
    assert second.open(under_way, CONTEXT) == b"content"
    second.replace([NEW])
    with pytest.raises(SealError, match=r"a key that this broker does not have: [0-9a-f]{16}"):
        second.open(under_way, CONTEXT)


@given(st.binary(min_size=1, max_size=60), st.data())
def test_any_other_byte_or_context_is_a_forgery(content: bytes, data: st.DataObject) -> None:
    keys = Keyring([OLD])
    sealed = keys.seal(content, CONTEXT)
    assert keys.open(sealed, CONTEXT) == content
    place = data.draw(st.integers(0, len(sealed) - 1))
    altered = sealed[:place] + bytes((sealed[place] ^ data.draw(st.integers(1, 255)),)) + sealed[place + 1 :]
    for forged, context in (
        (altered, CONTEXT),
        (sealed[:place], CONTEXT),
        (sealed, event_context(EventId(1, 2, 4))),
        (sealed, log_context(1, 2)),
    ):
        with pytest.raises(SealError):
            keys.open(forged, context)


def test_content_that_is_not_sealed_is_not_read() -> None:
    with pytest.raises(SealError, match="not sealed"):
        Keyring([OLD]).open(b"\x94\xa1a\xc0\xc0\x80", CONTEXT)


def test_keys_are_checked() -> None:
    for wrong in ([b"short"], [OLD, b""]):
        with pytest.raises(InvalidArgument, match="64 bytes"):
            Keyring(wrong)
    assert Keyring().is_empty


def sealed_combinations() -> list[Combination]:
    """The legal combinations that go with sealed events."""
    found = []
    for each in legal_combinations():
        options = {**each.options, "sealed": True}
        try:
            found.append(Combination(each.propagation, each.forwarding, each.advertisements, options=options))
        except IllegalCombination:
            continue
    return found


def test_only_combinations_without_content_at_inner_brokers_are_legal() -> None:
    kinds = {
        (each.propagation, each.mode if each.forwarding == "reuse" else each.forwarding)
        for each in sealed_combinations()
    }
    assert kinds == {
        ("flooding", "content"),
        ("flooding", "never"),
        ("xroute", "prefix"),
        *((propagation, forwarding) for propagation in ("simple", "identity") for forwarding in ("always", "bloom")),
        *(
            (propagation, forwarding)
            for propagation in ("simple", "identity", "covering", "merging")
            for forwarding in ("prefix", "group")
        ),
    }


@pytest.mark.parametrize(
    ("forwarding", "options", "said"),
    [
        ("content", {}, "without headers inner brokers would have to match content, and cannot read it"),
        ("content", {"hierarchy": True}, "without headers inner brokers"),
        ("reuse", {"mode": "never"}, "take prefix, bloom, group, or always reuse"),
        ("bloom", {"trees": "publisher"}, "while trees of publishers change, brokers on the way match content again"),
        ("reuse", {}, "a partial list of keys leaves links without one"),
    ],
)
def test_a_refusal_has_the_reason(forwarding: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(IllegalCombination, match=said):
        Combination("identity", forwarding, options={**options, "sealed": True})
