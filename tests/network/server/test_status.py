"""Durable subscriptions without a client: shown in the status, and ended from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import palio
from palio.cli.main import palio as main
from tests.network.gateway.serving import serving
from tests.network.processes import served
from tests.network.running import PATIENCE, run, until, url


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_waits_for_those_who_are_away_is_told(tmp_path: Path, on_disk: bool) -> None:
    async def test() -> None:
        async with (
            serving(data=tmp_path if on_disk else None) as (server, http),
            palio.connect(url(server)) as client,
        ):
            async with client.subscribe("x > 0", durable="desk"):
                pass
            for x in (1, 0, 2, 3):
                await client.publish({"x": x}, confirm=True)
            await until(lambda: server.status()["durable"][0]["connected"] is False)
            # A confirmed event is in the log; it comes into the durable queue a write later.
            await until(lambda: server.status()["durable"][0]["queued"] == 3)
            await until(lambda: server.status()["durable"][0]["lag"] >= 0.01)
            found = await client.status()
            [durable] = found["durable"]
            assert (durable["principal"], durable["name"], durable["queued"]) == ("anyone", "desk", 3)
            assert 0.01 <= durable["lag"] < PATIENCE
            assert (found["subscriptions"], found["queued"]) == (1, 3)
            metrics = (await http.get("/metrics")).text
            assert 'palio_durable_queued_events{principal="anyone",name="desk"} 3' in metrics
            assert 'palio_durable_lag_seconds{principal="anyone",name="desk"} ' in metrics
            async with client.subscribe("x > 0", durable="desk") as events:
                for _ in range(3):
                    await (await anext(events)).ack()
                await until(lambda: server.status()["queued"] == 0)
                [durable] = server.status()["durable"]
                assert (durable["connected"], durable["lag"]) == (True, 0.0)
            await client.unsubscribe("desk")
            await until(lambda: server.status()["durable"] == [])
            with pytest.raises(palio.Refused, match="'desk'"):
                await client.unsubscribe("desk")
            assert (await http.post("/durable/desk/acknowledge", params={"through": 1})).status_code == 404
            assert (await http.delete("/durable/desk")).status_code == 404

    run(test)


def test_the_command_line_shows_them_and_ends_them() -> None:
    def said(*arguments: str) -> Any:
        return CliRunner().invoke(main, [*arguments, "--connect", broker.url])

    with served() as broker:
        with palio.connect_blocking(broker.url) as client:
            with client.subscribe("x > 0", durable="desk-7"):
                pass
            client.publish({"x": 1}, confirm=True)
        shown = said("status").stdout
        assert "Durable subscriptions" in shown
        assert [line.split()[:3] for line in shown.splitlines() if "away" in line] == [["desk-7", "anyone", "1"]]
        assert said("unsubscribe", "desk-7").exit_code == 0
        assert json.loads(said("status", "--json").stdout)["durable"] == []
        again = said("unsubscribe", "desk-7", "--json")
        assert (again.exit_code, again.stdout) == (2, "")
        assert "desk-7" in json.loads(again.stderr)["error"]
