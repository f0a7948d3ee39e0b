"""`palio peer`: rings of real processes, that clients use as they use a broker."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import palio
from palio.cli.peer import MAPPING_NAMES, OVERLAY_NAMES
from palio.network.client.broker import Broker
from palio.peers.communities.overlays import OVERLAYS
from palio.peers.rendezvous_mappings import ANY_ATTRIBUTE, MAPPINGS
from tests.network.processes import Peer, command, running
from tests.network.running import run


@contextmanager
def ring_of(count: int, *arguments: str) -> Iterator[list[Peer]]:
    """Peers of one ring; the first founds it."""
    with ExitStack() as stack:
        founder = stack.enter_context(running(Peer(*arguments)))
        assert isinstance(founder, Peer)
        contact = founder.url.removeprefix("palio://")
        others = [Peer("--join", contact) for _ in range(count - 1)]
        for each in others:
            stack.enter_context(running(each))
        yield [founder, *others]


async def settled(urls: list[str]) -> list[dict[str, Any]]:
    """The rings' states, once every peer has the next one for its successor."""
    while True:
        states = [await ring_state(each) for each in urls]
        if all(each["is_member"] for each in states):
            ordered = sorted(each["position"] for each in states)
            following = dict(zip(ordered, [*ordered[1:], ordered[0]], strict=True))
            if all(each["successors"][0] == following[each["position"]] for each in states):
                return states
        await asyncio.sleep(0.1)


async def ring_state(url: str) -> dict[str, Any]:
    state: dict[str, Any] = (await _status(url))["ring"]
    return state


async def _status(url: str) -> dict[str, Any]:
    async with palio.connect(url) as client:
        return await client.status()


def test_a_ring_serves_clients_as_a_broker_does_also_when_peers_are_killed() -> None:
    with ring_of(5) as peers:
        urls = [each.url for each in peers]

        async def body() -> None:
            await settled(urls)
            async with palio.connect(urls[4]) as client, client.subscribe("price > 100") as stream:
                code, _, said = await asyncio.to_thread(command, "publish", '{"price": 120}', "--connect", urls[2])
                assert code == 0, said
                assert (await anext(stream))["price"] == 120
            code, out, said = await asyncio.to_thread(command, "status", "--connect", urls[1])
            assert code == 0, said
            assert out.startswith("peer ")
            assert "Ring" in out
            assert "any-attribute, 3 replicas" in out
            async with palio.connect(urls[0]) as client, client.subscribe("n >= 0") as stream:
                for doomed in peers[3:]:
                    doomed.send(signal.SIGKILL)
                async with palio.connect(urls[1]) as publisher:
                    await asyncio.gather(*(publisher.publish({"n": n}, confirm=True) for n in range(50)))
                got = [(await anext(stream))["n"] for _ in range(50)]
                assert sorted(map(int, got)) == list(range(50)), "a killed peer takes nothing with it"
                await settled(urls[:3])

        run(body)
        for each in peers[:3]:
            each.send(signal.SIGTERM)
            code, _, said = each.end()
            assert code == 0, said
            assert "Traceback" not in said, said


def test_the_mapping_of_a_ring_is_chosen_by_samples_and_refused_where_it_differs(tmp_path: Path) -> None:
    events, wanted = tmp_path / "events.jsonl", tmp_path / "wanted.jsonl"
    events.write_text("".join(f'{{"symbol": "S{n % 50}", "price": {n}}}\n' for n in range(300)))
    wanted.write_text("".join(json.dumps({"id": str(n), "where": f"symbol = 'S{n}'"}) + "\n" for n in range(50)))
    founder = Peer("--events", str(events), "--subscriptions", str(wanted))
    with running(founder):

        async def body() -> None:
            state = await ring_state(founder.url)
            assert state["mapping"] in MAPPINGS

        run(body)
        contact = founder.url.removeprefix("palio://")
        other = next(each for each in MAPPINGS if each != "attribute-split")
        code, _, said = command(
            "peer", "--listen", "palio://:0", "--data", "none", "--join", contact, "--mapping", ANY_ATTRIBUTE
        )
        assert code == 2, other
        assert "that ring has the mapping" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--mapping", "key-space-split"), "needs samples"),
        (("--mapping", "similar"), "is not one of"),
        (("--join", "nowhere:port"), "a port is a number"),
        (("--replicas", "0"), "is not in the range"),
        (("--replicas", "3", "--join", "127.0.0.1:1"), "a peer that joins one takes what that has"),
        (("--collect",), "give --buffer"),
        (("--virtual-nodes", "0"), "is not in the range"),
        (("--mapping", "containment", "--replicas", "3"), "a containment overlay stores nothing for others"),
        (("--listen", "palio://0.0.0.0:0"), "no TLS"),
    ],
)
def test_wrong_arguments_are_explained(arguments: tuple[str, ...], reason: str) -> None:
    code, _, said = command("peer", "--data", "none", *arguments)
    assert code == 2
    assert reason in " ".join(said.split())


def test_the_mappings_of_the_help_are_those_that_there_are() -> None:
    assert set(MAPPING_NAMES) == {"auto", ANY_ATTRIBUTE, *MAPPINGS}
    assert OVERLAY_NAMES == OVERLAYS


@pytest.mark.deep
def test_newcomers_join_while_a_thousand_events_a_second_flow_and_nothing_is_lost_or_doubled() -> None:
    rate, seconds, turn = 1_000, 8.0, 20
    with ring_of(4) as peers, ExitStack() as stack:
        urls = [each.url for each in peers]
        contact = urls[1].removeprefix("palio://")
        joined: dict[str, float] = {}  # by address of a newcomer: seconds from its greeting until all know it

        async def flow(client: Broker, newcomers: asyncio.Task[None]) -> tuple[int, float]:
            """Publish until the newcomers are on the ring, and so long at least; what was published, and the time."""
            clock = asyncio.get_running_loop().time
            began, count = clock(), 0
            under_way: set[asyncio.Task[None]] = set()
            while not newcomers.done() or clock() - began < seconds:
                # By the clock: what comes late is not made up for by a burst without end.
                await asyncio.sleep(max(0.0, began + count / rate - clock()))
                if len(under_way) > 2 * rate:
                    await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for n in range(count, count + turn):
                    task = asyncio.create_task(client.publish({"n": n, "kind": "tick"}, confirm=True))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                count += turn
            await asyncio.gather(*under_way)
            return count, clock() - began

        async def take(url: str) -> list[int]:
            got: list[int] = []
            async with (
                palio.connect(url) as client,
                client.subscribe("n >= 0 AND kind IN ('tick', 'end')", queue=1_000_000) as ticks,
            ):
                ready.release()
                async for event in ticks:
                    if event["kind"] == "end":
                        return got
                    got.append(int(event["n"]))  # type: ignore[call-overload]
            return got

        ready = asyncio.Semaphore(0)

        async def join_twice() -> None:
            for _ in range(2):
                newcomer = await asyncio.to_thread(Peer, "--join", contact)
                stack.enter_context(running(newcomer))
                url = await asyncio.to_thread(
                    lambda started: started.url, newcomer
                )  # its start must not hold back the flow
                urls.append(url)
                began = asyncio.get_running_loop().time()
                await settled(urls)
                joined[url] = asyncio.get_running_loop().time() - began

        async def body() -> None:
            await settled(urls)
            taking = [asyncio.create_task(take(each)) for each in (urls[0], urls[3])]
            for _ in taking:
                await ready.acquire()
            async with palio.connect(urls[2]) as publisher:
                count, took = await flow(publisher, asyncio.create_task(join_twice()))
                places = ", ".join(f"{each:.1f}" for each in joined.values())
                print(
                    f"{count / took:,.0f} events a second for {took:.1f} s; newcomers had their places after {places} s"
                )
                async with palio.connect(urls[4]) as client, client.subscribe("n >= 0 AND kind = 'late'") as late:
                    await publisher.publish({"n": 7, "kind": "late"}, confirm=True)
                    assert (await anext(late))["n"] == 7
                # What an event is confirmed for is with its subscribers' peers: nothing comes after this.
                for url in (urls[0], urls[3]):
                    assert (await _status(url))["counts"]["out"] == count, "each event once"
                await publisher.publish({"n": 0, "kind": "end"}, confirm=True)
            for each in taking:
                assert sorted(await each) == list(range(count))

        run(body)


@pytest.mark.deep
def test_thirty_peers_of_which_a_third_is_killed_in_waves_lose_nothing_for_durable_subscribers(tmp_path: Path) -> None:
    with ring_of(20) as stable, ExitStack() as stack:
        contact = stable[0].url.removeprefix("palio://")
        folders = [tmp_path / str(n) for n in range(10)]
        killed = [Peer("--join", contact, data=str(each)) for each in folders]
        for each in killed:
            stack.enter_context(running(each))
        urls = [each.url for each in stable]
        published: list[int] = []

        async def publish(client: Broker, count: int) -> None:
            first = len(published)
            published.extend(range(first, first + count))
            await asyncio.gather(*(client.publish({"n": n}, confirm=True) for n in range(first, first + count)))

        async def body() -> None:
            await settled([*urls, *(each.url for each in killed)])
            for number, each in enumerate(killed):
                async with palio.connect(each.url) as client, client.subscribe("n >= 0", durable=f"desk {number}"):
                    pass
            async with palio.connect(urls[7]) as publisher:
                await publish(publisher, 200)
                for wave in range(0, 10, 2):  # fewer than three replicas at once
                    for doomed in killed[wave : wave + 2]:
                        doomed.send(signal.SIGKILL)
                        doomed.kill()
                    await publish(publisher, 100)
                    await settled([*urls, *(each.url for each in killed[wave + 2 :])])
                    await asyncio.sleep(3)  # some periods, in which copies are made again
                await publish(publisher, 200)
                back = [Peer("--join", contact, data=str(each)) for each in folders]
                for each in back:
                    stack.enter_context(running(each))
                await settled([*urls, *(each.url for each in back)])
                for number, each in enumerate(back):
                    async with (
                        palio.connect(each.url) as client,
                        client.subscribe("n >= 0", durable=f"desk {number}") as desk,
                    ):
                        got = []
                        while len(set(got)) < len(published):
                            event = await anext(desk)
                            got.append(int(event["n"]))  # type: ignore[call-overload]
                            await event.ack()
                        assert sorted(got) == published, f"desk {number}"

        run(body)
