"""Peers on sockets: a client's view of a ring is its view of a broker, also while peers come, go and crash."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import palio
from palio import Filter, InvalidArgument, PalioError, Refused
from palio.network.addresses import Address
from palio.network.client.broker import Broker
from palio.network.client.subscription import Subscription
from palio.network.peers.connections import ask_ring
from palio.network.peers.server import PeerServer, RingSettings
from palio.network.peers.wire import PeerHello, PeerReference, dialled_address
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from palio.network.security.tls import ClientTls, ServerTls
from palio.network.server.settings import Settings
from palio.peers.ring_description import RingDescription
from tests.network.certificates import Authority
from tests.network.peers.ring import begin, crash, is_settled, peer, ring
from tests.network.running import ANY_PORT, broker, run, until, url

OSLO = "price > 100 AND city = 'Oslo'"


async def clients_of(stack: AsyncExitStack, peers: list[PeerServer]) -> list[Broker]:
    return [await stack.enter_async_context(palio.connect(url(each))) for each in peers]


async def prices(stream: Subscription, count: int) -> list[object]:
    return [(await anext(stream))["price"] for _ in range(count)]


async def nothing_waits(client: Broker, *peers: PeerServer) -> None:
    """Every peer has handled what was sent to it: a publication that nobody else sees went through them all."""
    await client.publish({"marker": True}, confirm=True)
    await until(lambda: all(each.ring is not None and not each.ring.pending for each in peers))


@pytest.mark.parametrize("mapping", ["any-attribute", "selective-attribute", "key-space-split", "attribute-split"])
def test_an_event_reaches_subscribers_at_every_peer_once(mapping: str) -> None:
    sample = [palio.Event({"price": price, "city": "Oslo"}) for price in range(0, 200, 5)]
    description = RingDescription(mapping=mapping, events=tuple(sample), period=0.1, retry=0.3, lease=60.0)

    async def body() -> None:
        async with ring(4, description=description) as peers, AsyncExitStack() as stack:
            clients = await clients_of(stack, peers)
            streams = [
                await stack.enter_async_context(client.subscribe(where))
                for client in clients
                for where in (OSLO, "city LIKE 'O%' AND price > 0")
            ]
            for at, price in enumerate((90, 120, 130)):
                await clients[at].publish({"price": price, "city": "Oslo"}, confirm=True)
            await nothing_waits(clients[0], *peers)
            for number, stream in enumerate(streams):
                wanted = {90, 120, 130} if number % 2 else {120, 130}
                assert set(await prices(stream, len(wanted))) == wanted
                assert stream.dropped == 0
            for each in peers:
                found = each.status()
                assert found["counts"]["out"] == 3, "each event once to its client, for all its subscriptions"
                assert found["ring"]["interests"] == 2

    run(body)


@pytest.mark.parametrize("mapping", ["any-attribute", "containment"])
def test_a_peer_stops_while_clients_are_subscribed(mapping: str) -> None:
    async def body() -> None:
        raised: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: raised.append(context))
        description = RingDescription(mapping=mapping, period=0.1, retry=0.3, lease=3.0)
        server = await begin(description=description)
        async with palio.connect(url(server)) as client, client.subscribe(OSLO):
            await server.stop()
            await until(lambda: not server.host.ring_interests)
        assert not raised

    run(body)


def test_an_ended_subscription_leaves_the_ring() -> None:
    async def body() -> None:
        async with ring(3) as peers, AsyncExitStack() as stack:
            clients = await clients_of(stack, peers)
            async with clients[0].subscribe(OSLO):
                assert sum(len(each.ring.peer.store) for each in peers if each.ring is not None) > 0
            await until(lambda: not any(len(each.ring.peer.store) for each in peers if each.ring is not None))

    run(body)


def test_events_wait_on_the_ring_for_a_durable_subscription_whose_peer_is_away(tmp_path: Path) -> None:
    async def body() -> None:
        async with ring(4) as peers, AsyncExitStack() as stack:
            home = await begin(peers[0], data=str(tmp_path))
            await until(lambda: is_settled([*peers, home]))
            async with palio.connect(url(home)) as client, client.subscribe(OSLO, durable="desk") as desk:
                publisher = (await clients_of(stack, peers))[1]
                await publisher.publish({"price": 110, "city": "Oslo"}, confirm=True)
                received = await anext(desk)
                assert received["price"] == 110
                await received.ack()
            await crash(home)
            for price in range(120, 130):
                await publisher.publish({"price": price, "city": "Oslo"}, confirm=True)
            back = await begin(peers[2], data=str(tmp_path))
            try:
                async with palio.connect(url(back)) as client, client.subscribe(OSLO, durable="desk") as desk:
                    assert sorted(map(int, await prices(desk, 10))) == list(range(120, 130))
                await until(lambda: not any(len(each.ring.peer.store.kept) for each in peers if each.ring is not None))
            finally:
                await back.stop()

    run(body)


def test_a_peer_comes_back_to_its_ring_without_being_told_where(tmp_path: Path) -> None:
    async def body() -> None:
        founder = await begin(data=str(tmp_path))
        async with peer(founder) as other, peer(founder) as third:
            await until(lambda: is_settled([founder, other, third]))
            founder._remember()
            await until((tmp_path / "ring").exists)
            await founder.stop()
            await until(lambda: is_settled([other, third]))
            back = await begin(data=str(tmp_path))
            try:
                assert back.node == founder.node
                await until(lambda: is_settled([back, other, third]))
                assert back.reference.position != founder.reference.position
            finally:
                await back.stop()

    run(body)


def test_a_newcomer_joins_while_events_flow_and_nothing_is_lost_or_doubled() -> None:
    async def body() -> None:
        async with ring(4) as peers, AsyncExitStack() as stack:
            clients = await clients_of(stack, peers)
            stream = await stack.enter_async_context(clients[3].subscribe("n >= 0 AND city = 'Oslo'", queue=10_000))
            sent = 0

            async def flow() -> None:
                nonlocal sent
                while not done.is_set():
                    many = [clients[at % 3].publish({"n": sent + at, "city": "Oslo"}, confirm=True) for at in range(20)]
                    sent += len(many)
                    await asyncio.gather(*many)

            done = asyncio.Event()
            flowing = asyncio.create_task(flow())
            for _ in range(2):
                newcomer = await stack.enter_async_context(peer(peers[1]))
                peers = [*peers, newcomer]
                await until(lambda: is_settled(peers))  # noqa: B023
            done.set()
            await flowing
            got = [(await anext(stream))["n"] for _ in range(sent)]
            assert sorted(map(int, got)) == list(range(sent))
            await nothing_waits(clients[0], *peers)
            assert peers[3].status()["counts"]["out"] == sent

    run(body)


def test_fewer_crashes_at_once_than_replicas_lose_nothing() -> None:
    async def body() -> None:
        async with ring(4) as peers, AsyncExitStack() as stack:
            doomed = [await begin(peers[0]) for _ in range(2)]
            await until(lambda: is_settled([*peers, *doomed]))
            clients = await clients_of(stack, peers)
            stream = await stack.enter_async_context(clients[0].subscribe("n >= 0 OR city LIKE 'O%'"))
            for each in doomed:
                await crash(each)
            await asyncio.gather(*(clients[at % 4].publish({"n": at}, confirm=True) for at in range(40)))
            got = [(await anext(stream))["n"] for _ in range(40)]
            assert sorted(map(int, got)) == list(range(40))
            await until(lambda: is_settled(peers))

    run(body)


def test_peers_with_several_nodes_hold_notifications_back_and_shed_load_and_lose_nothing(tmp_path: Path) -> None:
    busy = RingDescription(period=0.1, retry=0.3, lease=60.0, buffer=0.05, collects=True, shed_above=2)

    async def body() -> None:
        async with ring(4, virtual_nodes=3, description=busy) as peers, AsyncExitStack() as stack:
            doomed = await begin(peers[0], description=busy, virtual_nodes=2)
            home = await begin(peers[0], description=busy, virtual_nodes=2, data=str(tmp_path))
            await until(lambda: is_settled([*peers, doomed, home]))
            async with palio.connect(url(home)) as client, client.subscribe("n >= 100", durable="desk"):
                pass
            clients = await clients_of(stack, peers)
            stream = await stack.enter_async_context(clients[0].subscribe("n >= 0 AND city = 'Oslo'", queue=10_000))

            async def publish(first: int) -> None:
                numbers = range(first, first + 100)
                await asyncio.gather(*(clients[n % 4].publish({"n": n, "city": "Oslo"}, confirm=True) for n in numbers))

            await publish(0)
            for each in (doomed, home):
                await crash(each)
            await publish(100)
            got = [(await anext(stream))["n"] for _ in range(200)]
            assert sorted(map(int, got)) == list(range(200))
            back = await begin(peers[2], description=busy, virtual_nodes=2, data=str(tmp_path))
            try:
                async with palio.connect(url(back)) as client, client.subscribe("n >= 100", durable="desk") as desk:
                    kept = [(await anext(desk))["n"] for _ in range(100)]
                assert sorted(map(int, kept)) == list(range(100, 200))
                assert peers[0].status()["ring"]["virtual_nodes"] == 3
            finally:
                await back.stop()

    run(body)


def test_what_a_peer_cannot_do_is_refused_with_a_reason() -> None:
    async def body() -> None:
        async with ring(1) as peers, palio.connect(url(peers[0])) as client:
            with pytest.raises(Refused, match="a peer has no log of all events"):
                await client.replay("n > 0", since=0)
            with pytest.raises(Refused, match="peers need not be forgotten"):
                await client.forget(7)
            found = await client.status()
            assert found["ring"]["is_member"]
            assert found["ring"]["mapping"] == "any-attribute"

    run(body)


def test_a_broker_refuses_a_peer_and_a_peer_refuses_another_ring() -> None:
    reference = PeerReference("palio://127.0.0.1:1", 1, 1)

    async def asked(at: Address, ring: bytes = b"", token: str = "") -> str:
        try:
            await ask_ring(at, PeerHello(1, reference, token, ring), 5.0, ClientTls().context)
        except PalioError as error:
            return str(error)
        return ""

    async def body() -> None:
        async with broker() as plain, ring(1) as peers:
            assert "this is a broker, no peer" in await asked(plain.addresses[0])
            assert "on another ring" in await asked(peers[0].addresses[0], b"another")
            assert await asked(peers[0].addresses[0]) == ""

    run(body)


def test_only_a_principal_that_may_do_everything_is_a_peer(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    everything = {"may_subscribe": Filter.everything, "may_publish": Filter.everything}
    whole = tokens.add(Principal("whole", "broker", **everything))
    restricted, client = tokens.add(Principal("part", "broker")), tokens.add(Principal("client", **everything))
    reference = PeerReference("palio://127.0.0.1:1", 1, 1)

    async def body() -> None:
        async with peer(data=str(tmp_path), token=whole) as first:
            await until(lambda: first.ring is not None)
            for token in (restricted, client, "", "palio_none"):
                with pytest.raises(PalioError, match=r"role|grants|token"):
                    await ask_ring(first.addresses[0], PeerHello(1, reference, token), 5.0, ClientTls().context)
            async with peer(first, token=whole) as second:
                await until(lambda: is_settled([first, second]))

    run(body)


def test_a_ring_over_tls_trusts_its_authority_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("peer", ("127.0.0.1",))
    secure = {
        "listen": (Address("127.0.0.1", 0, "palio+tls"),),
        "tls": ServerTls(pair.certificate, pair.key),
        "trust": ClientTls(authority.certificate),
    }

    async def body() -> None:
        async with ring(3, **secure) as peers:
            tls = ClientTls(authority.certificate).context()
            async with (
                palio.connect(url(peers[0]), tls=tls) as first,
                palio.connect(url(peers[2]), tls=tls) as last,
                first.subscribe(OSLO) as stream,
            ):
                await last.publish({"price": 120, "city": "Oslo"}, confirm=True)
                assert await prices(stream, 1) == [120]

    run(body)


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ("palio://127.0.0.1:22", "palio://192.0.2.1:7421"),  # what only that machine can reach
        ("palio://192.0.2.1:7421", "palio://127.0.0.1:7421"),
        ("palio://192.0.2.1:7421", "palio+tls://192.0.2.2:7421"),
        ("palio://0.0.0.0:7421", "palio://192.0.2.1:7421"),
        ("palio://192.0.2.1:0", "palio://192.0.2.2:7421"),
        ("http://192.0.2.1/", "palio://192.0.2.2:7421"),
        ("", "palio://192.0.2.2:7421"),
    ],
)
def test_an_address_that_another_peer_names_is_not_dialled_wherever_it_leads(given: str, own: str) -> None:
    with pytest.raises(PalioError):
        dialled_address(PeerReference(given, 1, 1), Address.parse(own))


def test_a_peer_has_no_links_to_brokers() -> None:
    with pytest.raises(InvalidArgument, match="no links to brokers"):
        PeerServer(Settings(listen=(ANY_PORT,), connect=(ANY_PORT,)), RingSettings())
