"""Dead letters: listing, sending again and deleting, over HTTP and from the command line."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from decimal import Decimal

from click.testing import CliRunner, Result

from palio import Event, connect
from palio.cli.main import palio
from tests.network.gateway.serving import base, serving
from tests.network.gateway.test_push_subscriptions import HTTP, dead, publish, sink, subscribe
from tests.network.running import run


def test_dead_letters_are_sent_again_or_let_go() -> None:
    async def test() -> None:
        status = ["415 What"]
        async with serving(HTTP) as (server, client), sink(answer=lambda event: status[0]) as there:
            await subscribe(client, there.url, id="mine")
            for n in (1, 2):
                await publish(client, n)
            await there.have(2)
            while len(letters := await dead(client)) < 2:
                await asyncio.sleep(0.01)
            one, other = (f"/dead-letters/{each['number']}" for each in letters)
            again = await client.post(f"{one}/send")
            assert (again.status_code, "answered 415" in again.json()["detail"]) == (422, True)
            status[0] = "204 Fine"
            assert (await client.post(f"{one}/send")).status_code == 204
            assert await there.have(4) == [1, 2, 1, 1]
            command = ["letters", "delete", str(letters[1]["number"]), "--http", base(server)]
            deleted = await asyncio.to_thread(CliRunner().invoke, palio, command)
            assert (deleted.exit_code, deleted.output) == (0, "")
            assert await dead(client) == []
            for gone in (one, other, "/dead-letters/0", f"/dead-letters/{10**30}", "/dead-letters/x"):
                assert (await client.delete(gone)).status_code == 404
            missing = await asyncio.to_thread(CliRunner().invoke, palio, [*command[:1], "send", "9", *command[3:]])
            assert (missing.exit_code, "there is no dead letter 9" in missing.stderr) == (2, True)
            listed = await asyncio.to_thread(CliRunner().invoke, palio, ["letters", "list", *command[3:]])
            assert (listed.exit_code, "subscription" in listed.output) == (0, True)

    run(test)


def test_letters_are_asked_for_where_a_broker_speaks_http_and_a_command_says_so() -> None:
    async def letters(*options: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, palio, ["letters", "list", *options])

    async def test() -> None:
        async with serving(HTTP) as (server, _):
            assert (await letters("--connect", base(server))).exit_code == 0
            port = server.addresses[0].port
            for wrong in (str(server.addresses[0]), f"http://127.0.0.1:{port}", "http://127.0.0.1:1", "127.0.0.1:7480"):
                for option in ("--connect", "--http"):
                    told = await letters(option, wrong)
                    assert (told.exit_code, told.stdout, told.stderr[:7]) == (2, "", "error: "), told
                    assert "from the HTTP address that `palio serve` prints" in told.stderr
                    assert wrong in told.stderr
            shown = " ".join((await letters("--help")).output.split())
            assert "--connect, --http URL" in shown
            assert "http://127.0.0.1:7480" in shown

    run(test)


def test_the_letter_of_a_durable_subscription_goes_back_into_its_queue_as_it_was() -> None:
    async def test() -> None:
        async with (
            serving(HTTP) as (server, client),
            connect(str(server.addresses[0])) as consumer,
            consumer.subscribe("price > 0", durable="desk") as events,
        ):
            sent = Event({"price": Decimal("12.50"), "day": date(2026, 11, 18)}, id="one", source="shop")
            await consumer.publish(sent, confirm=True)
            await (await anext(events)).reject(requeue=False, reason="closed")
            while not (letters := await dead(client)):
                await asyncio.sleep(0.01)
            assert (letters[0]["owner"], letters[0]["subscription"]) == ("anyone", "desk")
            assert json.loads(letters[0]["data"]) == {"price": 12.5, "day": "2026-11-18"}
            letter = f"/dead-letters/{letters[0]['number']}"
            assert (await client.post(f"{letter}/send")).status_code == 204
            again = await anext(events)
            assert (again, again.id, again.source, again.deliveries) == (sent, "one", "shop", 1)
            assert await dead(client) == []
            await again.reject(requeue=False)
            while not (letters := await dead(client)):
                await asyncio.sleep(0.01)
            await events.unsubscribe()
            while server.host.durable_count:
                await asyncio.sleep(0.01)
            assert (await client.post(f"/dead-letters/{letters[0]['number']}/send")).status_code == 404

    run(test)
