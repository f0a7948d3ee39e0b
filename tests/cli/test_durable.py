"""`palio durable` and `palio subscribe --group`: what they print, change and ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import palio
from palio.cli.main import palio as main
from tests.network.processes import Broker, Process, command, running, served


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with served() as broker:
        yield broker


def subscribe(broker: Broker, name: str, where: str = "x > 0", events: int = 0) -> None:
    with palio.connect_blocking(broker.url) as client, client.subscribe(where, durable=name):
        for x in range(1, events + 1):
            client.publish({"x": x}, confirm=True)


def run(broker: Broker, *arguments: str) -> str:
    told = CliRunner().invoke(main, ["durable", *arguments, "--connect", broker.url])
    assert told.exit_code == 0, told.output
    return told.stdout


def test_list_and_show_tell_of_queue_limits_and_home(broker: Broker) -> None:
    subscribe(broker, "desk-7", "x > 0 AND x < 100", events=3)
    [listed] = [json.loads(line) for line in run(broker, "list", "--json").splitlines()]
    assert (listed["name"], listed["owner"], listed["queued"], listed["where"]) == (
        "desk-7",
        "anyone",
        3,
        "x > 0 AND x < 100",
    )
    assert listed["address"] == broker.url
    table = run(broker, "list")
    assert "desk-7" in table
    assert f"at broker {listed['broker']}, {broker.url}" in table
    shown = run(broker, "show", "desk-7")
    for part in ("by no consumer now", "3 events", "x > 0 AND x < 100", "defaults", f"broker {listed['broker']}"):
        assert part in shown
    with (
        palio.connect_blocking(broker.url, app="till") as client,
        client.subscribe("x > 0 AND x < 100", group="desk-7", key="account"),
    ):
        shown = run(broker, "show", "desk-7")
        assert "by a group of 1 member, in order of account" in shown
        assert re.search(r"anyone at 127\.0\.0\.1:\d+ \(till\) since \d{4}-", shown)
    run(broker, "delete", "desk-7")


def test_subscribe_sets_the_limits_of_a_durable_subscription(broker: Broker) -> None:
    with palio.connect_blocking(broker.url) as client:
        with client.subscribe("x > 0", durable="desk-5"):
            client.publish({"x": 1}, confirm=True)
        limits = ("--max-events", "7", "--on-full", "drop_oldest", "--expires-after", "1h")
        arguments = ["subscribe", "x > 0", "--durable", "desk-5", "--count", "1", "--connect", broker.url]
        told = CliRunner().invoke(main, [*arguments, *limits])
        assert told.exit_code == 0, told.output
        found = client.durable("desk-5")["limits"]
        assert (found["max_events"], found["on_full"], found["expires_after"]) == (7, "drop_oldest", 3_600.0)
    told = CliRunner().invoke(main, ["subscribe", "x > 0", "--max-events", "7", "--connect", broker.url])
    assert told.exit_code == 2
    assert "settings of a queue on disk are those of a durable subscription" in told.stderr
    run(broker, "delete", "desk-5")


def test_limit_changes_what_is_given_and_nothing_else(broker: Broker) -> None:
    subscribe(broker, "desk-8")
    limits = ("--max-events", "1000", "--on-full", "drop_oldest", "--expires-after", "30d", "--max-deliveries", "5")
    told = json.loads(run(broker, "limit", "desk-8", *limits, "--json"))
    assert told["limits"] == {
        "max_events": 1000,
        "max_bytes": None,
        "on_full": "drop_oldest",
        "expires_after": 30 * 86_400,
        "max_deliveries": 5,
        "standby_away": None,
    }
    told = json.loads(run(broker, "limit", "desk-8", "--max-events", "default", "--max-bytes", "5000", "--json"))
    assert (told["limits"]["max_events"], told["limits"]["max_bytes"]) == (None, 5000)
    assert told["limits"]["max_deliveries"] == 5
    told = json.loads(run(broker, "limit", "desk-8", "--standby-away", "degrade", "--json"))
    assert told["limits"]["standby_away"] == "degrade"
    assert "expires_after 30 d" in run(broker, "limit", "desk-8", "--max-bytes", "6000")
    run(broker, "delete", "desk-8", "--yes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("limit", "desk-9"), "nothing to change"),
        (("limit", "desk-9", "--max-events", "many"), "--max-events is a whole number or `default`, not 'many'"),
        (("limit", "desk-9", "--max-events", "0"), "max_events is a whole number from 1 on, not 0"),
        (("limit", "desk-9", "--on-full", "explode"), "on_full is one of refuse"),
        (("limit", "desk-9", "--standby-away", "wait"), "standby_away is one of refuse, degrade, not 'wait'"),
        (("limit", "desk-9", "--expires-after", "soon"), "a time is a number and one of s, m, h and d"),
        (("show", "unknown"), "there is none"),
        (("delete", "unknown"), "there is none"),
    ],
)
def test_wrong_uses_say_what_would_be_right(broker: Broker, arguments: tuple[str, ...], message: str) -> None:
    subscribe(broker, "desk-9")
    told = CliRunner().invoke(main, ["durable", *arguments, "--connect", broker.url])
    assert told.exit_code == 2
    assert message in " ".join(told.stderr.split())


def test_delete_asks_on_a_terminal(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    subscribe(broker, "desk-10", events=2)
    monkeypatch.setattr("palio.cli.durable._is_interactive", lambda: True)
    kept = CliRunner().invoke(main, ["durable", "delete", "desk-10", "--connect", broker.url], input="n\n")
    assert kept.exit_code != 0
    assert "Delete desk-10 of anyone at broker" in kept.stderr
    assert "with 2 events?" in kept.stderr
    assert '"desk-10"' in run(broker, "list", "--json")
    gone = CliRunner().invoke(main, ["durable", "delete", "desk-10", "--json", "--connect", broker.url], input="y\n")
    assert gone.exit_code == 0
    assert json.loads(gone.stdout)["deleted"] == "desk-10"


def test_members_of_a_group_print_each_event_once_and_a_second_reader_alone_is_told_what_to_do(broker: Broker) -> None:
    at = ("--connect", broker.url)
    with palio.connect_blocking(broker.url) as client:
        with client.subscribe("n > 0", group="billing"):
            pass
        client.publish_all(({"n": n} for n in range(1, 9)), confirm=True)
    member = ("subscribe", "n > 0", "--group", "billing", "--count", "4", *at)
    with running(Process(*member)) as one, running(Process(*member)) as two:
        printed = [json.loads(line)["n"] for each in (one, two) for line in each.end()[1].splitlines()]
    assert sorted(printed) == list(range(1, 9))
    with palio.connect_blocking(broker.url) as client, client.subscribe("n > 0", durable="alone"):
        code, _, said = command("subscribe", "n > 0", "--durable", "alone", *at)
        assert code == 2
        assert "read by anyone at 127.0.0.1:" in said
        assert "--group alone" in said
