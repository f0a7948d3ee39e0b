"""`palio log`: the events of a broker's event log, listed and exported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from palio import Event
from palio.cli.main import palio
from palio.network.store.interface import Retention
from palio.network.store.sqlite import SqliteStore
from palio.routing import codec
from palio.routing.effects import Finished, Logged
from palio.routing.messages import EventId, Publish

START = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """Thirty events, a minute apart, in a store that is open, as a broker has it."""
    monkeypatch.chdir(tmp_path)
    now = [START]
    store = SqliteStore("palio-data", Retention(log_seconds=3_600), clock=lambda: now[0])
    store.open()
    for number in range(30):
        now[0] = START + 60 * number
        write(store, number)
    yield store
    now[0] = START + 3_600 + 630
    store.close()


@pytest.fixture
def oldest(store: SqliteStore) -> int:
    """The oldest offset of a second log, in `short`, that has let go of some of its events."""
    short = SqliteStore("short", Retention(log_bytes=300))
    short.open()
    for number in range(10):
        write(short, number)
    short.retain()
    oldest, after = short.log.bounds()
    short.close()
    assert 1 < oldest < after
    return oldest


def write(store: SqliteStore, number: int) -> None:
    content = {"symbol": "ACME" if number % 2 else "INIT", "price": number, "day": date(2026, 11, 15)}
    body = codec.encode_event(Event.from_dict(content, id=f"e{number}"))
    store.write([Logged(Publish(EventId(1, 1, number), body), "exchange"), Finished(EventId(1, 1, number))])


def log(*arguments: str) -> Result:
    return CliRunner().invoke(palio, ["log", *arguments])


def listed(*arguments: str) -> list[int]:
    answer = log("list", "--json", *arguments)
    assert answer.exit_code == 0, answer.output
    return [json.loads(line)["offset"] for line in answer.output.splitlines()]


def test_the_last_events_are_listed() -> None:
    answer = log("list", "--limit", "2")
    assert [line.split()[0] for line in answer.output.splitlines()[-2:]] == ["29", "30"]
    assert "exchange" in answer.output
    assert '"price":29' in answer.output


def test_events_are_listed_by_place_and_condition() -> None:
    assert listed("--from", "3", "--until", "6") == [3, 4, 5]
    assert listed("--from", "2026-11-15T12:27") == [28, 29, 30]
    assert listed("--from", "2026-11-15T13:27+01:00") == [28, 29, 30]
    assert listed("--where", "symbol = 'ACME' AND price < 6") == [2, 4, 6]
    assert listed("--from", "31") == []


def test_an_event_is_listed_as_json() -> None:
    [line] = log("list", "--from", "2", "--limit", "1", "--json").output.splitlines()
    assert json.loads(line) == {
        "offset": 2,
        "logged": "2026-11-15T12:01:00+00:00",
        "publisher": "exchange",
        "id": "e1",
        "source": None,
        "event": {"symbol": "ACME", "price": 1, "day": "2026-11-15"},
    }


def test_the_log_is_exported_to_a_file() -> None:
    answer = log("export", "events.parquet", "--from", "11")
    assert "20 events written to events.parquet" in answer.output
    assert pq.read_table("events.parquet")["price"].to_pylist() == list(range(10, 30))
    assert [each.name for each in Path().iterdir() if "parquet" in each.name] == ["events.parquet"]
    assert Path("events.parquet").stat().st_mode & 0o777 == 0o600  # as private as the log


def test_zero_is_the_oldest_that_is_kept(oldest: int) -> None:
    assert listed("--from", "0", "--limit", "2") == [1, 2]
    assert listed("--from", "0", "--until", "0") == []
    assert listed("--data", "short", "--from", "0") == list(range(oldest, 11))
    assert log("export", "events.parquet", "--data", "short", "--from", "0").exit_code == 0
    assert pq.read_table("events.parquet")["price"].to_pylist() == list(range(oldest - 1, 10))
    for command in ("list", "export"):
        assert "0 is the oldest event" in " ".join(log(command, "--help").output.split())


def test_what_cannot_be_read_is_said(oldest: int) -> None:
    assert "there is no store here" in log("list", "--data", "elsewhere").output
    assert "an offset or a time" in log("list", "--from", "yesterday").output
    Path("events.parquet").write_text("before")
    wrong = log("export", "events.parquet", "--data", "short", "--from", "1")
    assert wrong.exit_code == 2
    assert f"no longer has offset 1, retention removed it; the oldest is {oldest}" in wrong.output
    assert Path("events.parquet").read_text() == "before"
