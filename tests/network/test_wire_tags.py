"""Tags of messages between brokers: a channel takes those of its own for itself."""

from __future__ import annotations

from palio.network.protocol import GOODBYE, PING
from palio.routing.codec import MESSAGE_KINDS


def test_no_message_between_brokers_has_the_tag_of_one_that_a_channel_keeps() -> None:
    # It would be taken for a sign of life, and never arrive; in the simulation there are no channels.
    assert not {PING, GOODBYE} & MESSAGE_KINDS.keys()
