"""The commands of the command line, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv, parquet

import palio
from palio.cli.main import palio as main
from tests.network.processes import PATIENCE, Broker, Process, command, running, served


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with served() as broker:
        yield broker


def test_events_go_from_publish_to_subscribe_and_status_tells(broker: Broker, tmp_path: Path) -> None:
    lines = tmp_path / "quotes.jsonl"
    lines.write_text('{"price": 150}\n\n{"price": 7}\n', encoding="utf-8")
    at = ("--connect", broker.url)
    with subscribed(broker.url, "price > 100", "--count", "3", "--json") as subscriber:
        assert command("publish", '{"symbol": "ACME", "price": 120}', *at)[0] == 0
        assert command("publish", str(lines), *at, "--unconfirmed")[0] == 0
        code, out, _ = command("publish", "--json", *at, given='{"price": 101}\n{"price": 1}\n')
        assert (code, json.loads(out)["published"]) == (0, 2)
        code, out, said = subscriber.end()
        assert (code, said) == (0, "")
        assert [json.loads(line)["data"]["price"] for line in out.splitlines()] == [120, 150, 101]
    code, out, _ = command("status", *at)
    assert code == 0
    assert broker.url in out
    assert "identity propagation, content forwarding" in out
    assert "last as long as the broker" in out


def test_status_shows_the_slowest_subscriptions(broker: Broker) -> None:
    at = ("--connect", broker.url)
    with palio.connect_blocking(broker.url) as client, client.subscribe("t RLIKE 'a[ab]{60}c'"):
        found: dict[str, Any] = {"slowest": []}
        while not found["slowest"]:
            client.publish({"t": "ab" * 250_000}, confirm=True)
            found = json.loads(command("status", "--slowest", "--json", *at)[1])
        [slowest] = found["slowest"]
        assert slowest["condition"] == "t RLIKE 'a[ab]{60}c'"
        assert {"subscription", "principal", "seconds", "share", "samples", "unexamined"} <= slowest.keys()
        code, out, _ = command("status", "--slowest", *at)
        assert code == 0
        assert "unexamined" in out
        assert "anyone" in out


@pytest.mark.parametrize("how", [(), ("--unconfirmed",)])
@pytest.mark.parametrize("format", ["parquet", "csv", "csv.gz", "jsonl"])
def test_the_rows_of_a_file_are_published_in_batches(broker: Broker, tmp_path: Path, format: str, how: Any) -> None:
    path, rows = tmp_path / f"quotes.{format}", [{"price": price, "symbol": "ACME"} for price in range(2_500)]
    table = pa.Table.from_pylist(rows)
    match format:
        case "parquet":
            parquet.write_table(table, path)
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case _:
            with pa.output_stream(path, compression="gzip" if format == "csv.gz" else None) as stream:
                csv.write_csv(table, stream)
    with subscribed(broker.url, "price >= 2490 AND symbol = 'ACME'", "--count", "10") as subscriber:
        code, out, _ = command("publish", str(path), *how, "--json", "--connect", broker.url)
        assert (code, json.loads(out)["published"]) == (0, 2_500)
        assert [json.loads(line)["price"] for line in subscriber.end()[1].splitlines()] == list(range(2_490, 2_500))


def test_xml_files_and_folders_are_published_as_documents(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "feeds").mkdir()
    for name in ("feeds/1.xml", "feeds/2.xml", "3.xml"):
        (tmp_path / name).write_text(f"<a>{name}</a>")
    at = ("--connect", broker.url)
    with subscribed(broker.url, "//a", "--language", "xpath", "--count", "3", "--json") as subscriber:
        assert command("publish", str(tmp_path / "feeds"), str(tmp_path / "3.xml"), *at)[0] == 0
        received = [json.loads(line)["data"] for line in subscriber.end()[1].splitlines()]
        assert received == [{"xml": f"<a>{name}</a>"} for name in ("feeds/1.xml", "feeds/2.xml", "3.xml")]
    (tmp_path / "bad.xml").write_text("<a>")
    code, _, said = command("publish", str(tmp_path / "bad.xml"), *at)
    assert code == 2
    assert "bad.xml:1: the XML document is not well-formed" in said


@pytest.mark.parametrize("how", [(), ("--unconfirmed",)])
def test_what_stands_before_a_line_that_cannot_be_read_is_published(broker: Broker, tmp_path: Path, how: Any) -> None:
    lines = tmp_path / "some.jsonl"
    lines.write_text('{"x": 1}\n{"x": 2}\nnot JSON\n{"x": 3}\n', encoding="utf-8")
    at = ("--connect", broker.url)
    with subscribed(broker.url, "x > 0", "--count", "2") as subscriber:
        code, _, said = command("publish", str(lines), *how, *at)
        assert code == 2
        assert "published 2 events, and then no more" in said
        assert "some.jsonl:3: not JSON" in said
        assert [json.loads(line)["x"] for line in subscriber.end()[1].splitlines()] == [1, 2]


def test_a_publisher_that_is_interrupted_says_what_was_confirmed(broker: Broker) -> None:
    reading, writing = os.pipe()
    with (
        subscribed(broker.url, "x > 0", "--count", "2") as subscriber,
        os.fdopen(reading, "rb") as stdin,
        os.fdopen(writing, "wb", buffering=0) as stream,
        running(Process("publish", "--connect", broker.url, stdin=stdin)) as publisher,
    ):
        stream.write(b'{"x": 1}\n{"x": 2}\n')
        assert subscriber.end()[0] == 0  # both are published, and their confirmations are at least under way
        publisher.send(signal.SIGINT)
        code, _, said = publisher.end()
        assert code == 130
        assert re.search(r"^[0-2] events? confirmed; later ones may have been published too$", said, re.MULTILINE)


def test_a_subscription_with_a_lease_prints_events_like_any_other(broker: Broker) -> None:
    with subscribed(broker.url, "price > 100", "--for", "10m", "--count", "1") as subscriber:
        assert command("publish", '{"price": 120}', "--connect", broker.url)[0] == 0
        assert json.loads(subscriber.end()[1]) == {"price": 120}


def test_an_interrupt_ends_a_subscriber_and_its_subscription(broker: Broker) -> None:
    with subscribed(broker.url, "TRUE") as subscriber:
        subscriber.send(signal.SIGINT)
        code, _, said = subscriber.end()
        assert (code, said) == (130, "interrupted\n")
        until_subscriptions(broker.url, 0)


def test_what_nobody_advertised_is_refused_until_it_is() -> None:
    with served("--advertisements") as broker:
        at = ("--connect", broker.url)
        code, _, said = command("publish", '{"x": 1}', *at)
        assert code == 2
        assert "has not advertised events like this one" in said
        assert command("publish", '{"x": 1}', "--advertise", "x > 0", *at)[0] == 0
        with running(Process("advertise", "x > 0", "--json", *at)) as publisher:
            assert json.loads(publisher.line()) == {"advertised": "x > 0"}
            publisher.send(signal.SIGTERM)
            assert publisher.end()[0] == 143


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("status", "--connect", "palio://127.0.0.1:1"), "nothing listens there; start a broker with `palio serve`"),
        (("subscribe", "price >", "--connect", "palio://127.0.0.1:1"), "price >"),
        (("subscribe", "price > 1", "--for", "soon"), "such as 90d, not 'soon'"),
        (
            ("publish", "no-such-file", "--connect", "palio://127.0.0.1:1"),
            "is no JSON object, no XML document, and no file",
        ),
        (("serve", "--listen", "palio://0.0.0.0:0", "--data", "none"), "listen on 127.0.0.1, or add what is missing"),
        (("serve", "--listen", "palio+tls://127.0.0.1:0", "--data", "none"), "a certificate and its key are needed"),
        (("serve", "--forwarding", "bloom", "--propagation", "covering", "--data", "none"), "is not possible"),
        (("serve", "--connect", "hub:7420", "--data", "none"), "looks like palio://localhost:7420"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(arguments: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_two_brokers_cannot_share_a_directory_and_what_is_relaxed_says_so(tmp_path: Path) -> None:
    with served("--relaxed", data=str(tmp_path)) as broker:
        assert "survive a kill; a loss of power may take the last" in command("status", "--connect", broker.url)[1]
        done = CliRunner().invoke(main, ["serve", "--listen", "palio://127.0.0.1:0", "--data", str(tmp_path)])
        assert done.exit_code == 2
        assert "give each its own with --data" in done.stderr


def test_settings_come_from_a_file(tmp_path: Path) -> None:
    config = tmp_path / "palio.toml"
    config.write_text('propagation = "covering"\n[flow]\nqueue = 5\noverflow = "drop_newest"\n', encoding="utf-8")
    with served("--config", str(config)) as broker, palio.connect_blocking(broker.url) as client:
        assert client.status()["network"]["propagation"] == "covering"
    config.write_text('propagations = "covering"\n', encoding="utf-8")
    done = CliRunner().invoke(main, ["serve", "--config", str(config)])
    assert (done.exit_code, "did you mean propagation?" in done.stderr) == (2, True)


@contextmanager
def subscribed(url: str, *arguments: str) -> Iterator[Process]:
    """A subscriber that the broker knows. Others must be gone first: the broker notices their end only after a while,
    and a signal sent too early would meet a process that is still starting."""
    until_subscriptions(url, 0)
    with running(Process("subscribe", *arguments, "--connect", url)) as subscriber:
        until_subscriptions(url, 1)
        yield subscriber


def until_subscriptions(url: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    with palio.connect_blocking(url) as broker:
        while (found := broker.status()["subscriptions"]) != count:
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
