"""Brokers in network namespaces of the kernel, as on machines of their own."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import palio
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import unrestricted
from tests.network.certificates import Authority
from tests.network.namespaces import Machines, machines
from tests.network.processes import served
from tests.network.scenarios import Scenario, on_sockets, scenario, simulated

GIVEN = scenario(seed=7, brokers=3, steps=60)  # two brokers that are linked to a third


def agree(given: Scenario, there: Machines, urls: list[str], tokens: tuple[str, ...] = ()) -> None:
    """What clients on the first machine get from the brokers of all is what they get in a simulation."""

    async def test() -> None:
        async with asyncio.TaskGroup() as group:
            for url, token in zip(urls, (*tokens, *[""] * len(urls)), strict=False):
                group.create_task(until_linked(url, token, 2 if url == urls[0] else 1))
        assert await on_sockets(given, urls, tokens=tokens) == expected

    expected = simulated(given, propagation="covering")
    assert given.parents == (0, 0)
    assert sum(map(len, expected.values())) > 10
    there.run_at(0, test)


async def until_linked(url: str, token: str, links: int) -> None:
    async with palio.connect(url, token) as client:
        while sum(each["up"] for each in (await client.status())["neighbours"]) < links:
            await asyncio.sleep(0.02)


def test_brokers_on_machines_of_their_own_deliver_what_simulated_ones_do(tmp_path: Path) -> None:
    """One is linked over TLS, the other by sealed datagrams."""
    authority = Authority(tmp_path)
    tokens = Tokens(tmp_path / "hub")
    owner, leaf = tokens.add(unrestricted("owner")), tokens.add(unrestricted("leaf"))
    with machines(3) as there, ExitStack() as stack:
        secure, datagrams = (
            f"palio+{kind}://{there.address(0)}:{port}" for kind, port in (("tls", 7421), ("udp", 7422))
        )
        pair = authority.sign("hub", (there.address(0),))
        listening = ("--listen", secure, "--tls", str(pair.certificate), str(pair.key), "--listen", datagrams)
        trusting = ("--authority", str(authority.certificate), "--token", leaf, "--keys", datagrams, secure)
        brokers = [
            stack.enter_context(
                served(
                    *("--propagation", "covering", "--http", "off", "--insecure", *arguments),
                    listen=f"palio://{there.address(number)}:7420",
                    data=data,
                    before=there.command(number),
                )
            )
            for number, (data, arguments) in enumerate(
                [
                    (str(tmp_path / "hub"), listening),
                    ("none", ("--connect", secure, *trusting)),
                    ("none", ("--connect", datagrams, *trusting)),
                ]
            )
        ]
        agree(GIVEN, there, [each.url for each in brokers], (owner,))
