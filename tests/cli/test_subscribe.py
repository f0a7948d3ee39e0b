"""Output of `palio subscribe`: every event, for people and for programs."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from click.testing import CliRunner

import palio
from palio import Event
from palio.cli.main import palio as main
from tests.network.processes import Process, running, served

CONTENT = {
    "price": Decimal("120.50"),
    "day": date(2026, 11, 15),
    "at": datetime(2026, 11, 15, 8, tzinfo=UTC),
    "raw": b"\x00\xff",
    "nothing": float("nan"),
    "much": float("inf"),
    "text": "\x1b[31m\x9bü",
}
CLOUDEVENT = {"specversion": "1.0", "id": "c", "source": "/s", "type": "t", "data_base64": "AP8="}


def test_a_date_without_quotes_is_questioned() -> None:
    closed = CliRunner().invoke(main, ["subscribe", "day > 2024-01-31", "--connect", "palio://127.0.0.1:1"])
    means = "2024-01-31 is 2024 minus 1 minus 31, which is 1992; did you mean DATE'2024-01-31'?"
    assert closed.stderr.startswith(f"warning: {means}\n")


def test_every_kind_of_value_is_printed(tmp_path: Path) -> None:
    events = [Event.from_dict(CONTENT, id="e"), Event.from_cloudevent(CLOUDEVENT)]
    with served(data=str(tmp_path)) as broker:
        asked = ("subscribe", "TRUE", "--count", "2", "--connect", broker.url)
        with running(Process(*asked)) as person, running(Process(*asked, "--json")) as program:
            with palio.connect_blocking(broker.url) as client:
                while client.status()["subscriptions"] < 2:
                    time.sleep(0.01)
                for event in events:
                    client.publish(event, confirm=True)
            ended = [person.end(), program.end()]
    assert [(code, said) for code, _, said in ended] == [(0, ""), (0, "")]
    people, programs = (out.splitlines() for _, out, _ in ended)
    assert all(line.isprintable() for line in people + programs)
    assert '"price": 120.50' in people[0]
    contents = [json.loads(line) for line in people]
    assert (
        contents == [json.loads(line)["data"] for line in programs] == [json.loads(each.to_json()) for each in events]
    )
    assert (contents[0]["nothing"], contents[1]) == ("NaN", CLOUDEVENT)
    listed = CliRunner().invoke(main, ["log", "list", "--data", str(tmp_path), "--json"]).stdout
    assert [json.loads(line)["event"] for line in listed.splitlines()] == contents
