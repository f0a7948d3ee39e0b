"""Link sessions: handshake and credit."""

from __future__ import annotations

from typing import Any

import pytest

from palio.routing import codec
from palio.routing.combinations import Combination
from palio.routing.effects import (
    Close,
    LinkUp,
)
from palio.routing.link_sessions import (
    CREDIT_WINDOW_EVENTS,
    BrokerIdentity,
    NetworkConstants,
    SessionOutput,
    StreamSession,
    Transmit,
)
from palio.routing.messages import EventId, Publish
from palio.routing.retransmission import DatagramSession

CONSTANTS = NetworkConstants.of(Combination())


@pytest.mark.parametrize("session", [StreamSession, DatagramSession])
def test_a_neighbour_with_other_constants_is_refused_by_name(session: Any) -> None:
    ours = session(1, BrokerIdentity(1, 1, CONSTANTS))
    theirs = session(1, BrokerIdentity(2, 1, NetworkConstants.of(Combination("identity"))))
    out = SessionOutput()
    ours.on_connected(SessionOutput(), 0.0)
    theirs.on_connected(out, 0.0)
    [hello] = [codec.decode(each.data) for each in out.effects if isinstance(each, Transmit)]
    out = SessionOutput()
    ours.on_frame(hello, out, 0.0)
    assert out.effects == [
        Close(1, "the neighbour is of another network: propagation is 'simple' here and 'identity' there")
    ]
    assert not ours.is_up


def test_credit_is_granted_as_events_are_taken() -> None:
    session, out = StreamSession(1, BrokerIdentity(1, 1, CONSTANTS)), SessionOutput()
    other = StreamSession(1, BrokerIdentity(2, 1, CONSTANTS))
    other.on_connected(out, 0.0)
    session.on_frame(codec.decode(out.effects[0].data), out, 0.0)  # type: ignore[union-attr]
    assert out.inputs == [LinkUp(1, 2, CREDIT_WINDOW_EVENTS, columns=True)]
    granted = 0
    for number in range(2 * CREDIT_WINDOW_EVENTS):
        out = SessionOutput()
        session.on_frame(Publish(EventId(0, 0, number), b""), out, 0.0)
        session.finish_batch(out)
        for effect in out.effects:
            assert isinstance(effect, Transmit)
            granted += codec.decode(effect.data).events  # type: ignore[union-attr]
    assert granted == 2 * CREDIT_WINDOW_EVENTS
