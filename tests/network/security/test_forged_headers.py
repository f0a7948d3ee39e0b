"""Forged forwarding headers: whoever may not annotate, and is no broker, cannot decide where an event goes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import palio
from palio import Event, Filter, NotPermitted
from palio.network import protocol
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.routing import codec
from tests.network.running import ANY_PORT, broker, run, until, url

EVERYTHING = Filter.everything
# One of each kind of header, and bytes that are none: all would send the event nowhere, were they believed.
FORGED = [bytes([kind, *rest]) for kind in (1, 2, 3, 4, 9) for rest in (b"", bytes(64))]


@pytest.mark.parametrize("forwarding", ["content", "reuse", "prefix", "bloom"])
def test_a_header_of_a_client_that_may_not_annotate_is_refused(tmp_path: Path, forwarding: str) -> None:
    tokens = Tokens(tmp_path)
    forger = tokens.add(Principal("forger", may_publish=EVERYTHING))
    link = tokens.add(Principal("leaf", "broker", may_subscribe=EVERYTHING, may_publish=EVERYTHING))

    async def test() -> None:
        async with (
            broker(data=str(tmp_path), forwarding=forwarding) as hub,
            broker(forwarding=forwarding, connect=hub.addresses, token=link) as leaf,
            palio.connect(url(leaf)) as subscriber,
            subscriber.subscribe("n >= 0", confirm="network") as events,
            palio.connect(url(hub), forger) as client,
        ):
            body = codec.encode_event(Event.from_dict({"n": 0}))
            for header in FORGED:
                publish = partial(protocol.Publish, body=body, header=header)
                with pytest.raises(NotPermitted, match="send events with a header"):
                    await client.connection.request(publish)
            await client.publish({"n": 1}, confirm=True)
            assert (await anext(events)).get("n") == 1

    run(test)


def test_a_client_is_no_broker(tmp_path: Path) -> None:
    """The token of a client opens no link, over which an event may bring a header."""
    token = Tokens(tmp_path).add(unrestricted("root"))
    client = Tokens(tmp_path).add(Principal("forger", may_publish=EVERYTHING, may_subscribe=EVERYTHING))

    async def linked(server: Any, token: str) -> bool:
        async with broker(connect=server.addresses, token=token) as stranger:
            await until(lambda: server.refusals.counts or stranger.host.node.broker.links)
            return bool(stranger.host.node.broker.links)

    async def test() -> None:
        async with broker(data=str(tmp_path), listen=(ANY_PORT,)) as server:
            assert not await linked(server, client)
            assert not server.host.node.broker.links
            async with palio.connect(url(server), token) as owner:
                await owner.publish({"n": 1}, confirm=True)

    run(test)
