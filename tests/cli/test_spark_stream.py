"""`palio spark stream` and `palio spark backfill`, as processes of their own, as one would run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner, Result

from palio import Event, connect_blocking
from palio.cli.main import palio
from tests.network.processes import served
from tests.spark.nats_server import NatsServer, nats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["nats"]
pytestmark = pytest.mark.spark

_HANG_GUARD_SECONDS = 300.0  # for a test that would never end; no test depends on it

FLOW = [
    *("--events", "quotes/*.jsonl", "--subscriptions", "wants", "--out", "hits", "--checkpoint", "state"),
    *("--schema", "id long, symbol string, price int", "--master", "local[2]"),
]
DEAD = ["--dead-letters", "dead", "--malformed", "no price=price IS NULL"]


def quotes(name: int) -> None:
    """Ten quotes, one without a price, and a line that is none."""
    rows = [
        {"id": name * 100 + n, "symbol": ["ACME", "INIT"][n % 2], "price": n * 10 if n else None} for n in range(10)
    ]
    draft = Path(f"quotes/.{name}")
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{oops\n")
    draft.rename(f"quotes/{name}.jsonl")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(palio, ["spark", *arguments])


def subscribe(*arguments: str) -> None:
    answer = invoke("subscribe", "wants", *arguments)
    assert answer.exit_code == 0, answer.stderr


def pairs(folder: str = "hits") -> Counter[tuple[int, str]]:
    table = ds.dataset(folder, partitioning="hive").to_table(columns=["id", "subscription_id"])
    return Counter(zip(*table.to_pydict().values(), strict=True))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotes").mkdir()


@pytest.fixture
def _same_session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the session of the tests, and leave it running: a start takes longer than all they do."""
    monkeypatch.setattr("palio.spark.session.open_session", lambda master, settings, tell: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    # Its JVM has a working folder of its own.
    monkeypatch.setattr(
        "tests.cli.test_spark_stream.FLOW", [each.replace("quotes/", f"{tmp_path}/quotes/") for each in FLOW]
    )


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "palio", "spark", "stream", *arguments]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=buffered, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read()[-3000:] if process.stderr else ""
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_stream_follows_the_log_and_ends_with_a_summary_when_it_is_told_to() -> None:
    subscribe("--id", "dear", "--where", "price > 50", "--subscriber", "ops")
    with running(*FLOW, *DEAD, "--every", "0.2s", "--json") as process:
        quotes(1)
        first = next_line(process)
        assert (first["batch"], first["version"], first["events"], first["matches"], first["dead"]) == (0, 1, 11, 4, 2)
        subscribe("--id", "acme", "--where", "symbol = 'ACME'")
        quotes(2)
        second = next_line(process)
        assert (second["batch"], second["version"], second["matches"]) == (1, 2, 4 + 4)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        summary = next_line(process)
        assert process.wait(_HANG_GUARD_SECONDS) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert (summary["ended"], summary["batches"], summary["events"], summary["dead"]) == ("interrupted", 2, 22, 4)
    assert summary["most_matched"] == {"dear": 8, "acme": 4}
    assert summary["never_matched"] == 0
    assert set(summary["seconds"]) == {"starting", "index", "sink", "dead letters", "waiting"}


@pytest.mark.usefixtures("_same_session")
@pytest.mark.parametrize("out", ["hits", "delta:hits"])
def test_a_stream_goes_on_where_it_was_and_backfill_tells_what_was_before(out: str) -> None:
    flow = [*FLOW, "--out", out]
    subscribe("--id", "dear", "--where", "price > 50", "--subscriber", "ops")
    quotes(1)
    assert invoke("stream", *flow, *DEAD, "--once").exit_code == 0
    subscribe("--id", "acme", "--where", "symbol = 'ACME'")
    subscribe("--id", "never", "--where", "price > 1000")
    told = json.loads(invoke("backfill", "acme", *flow, "--json", "--report", "backfill.html").stdout)
    assert (told["most_matched"], told["never_matched"]) == ({"acme": 5}, 0)
    assert set(told["seconds"]) == {"starting", "matching"}
    page = Path("backfill.html").read_text(encoding="utf-8")
    for shown in ("a backfill", "Most matched subscriptions", "Matches in each partition"):
        assert shown in page
    # The one without a price is in the archive, which is not screened.
    assert (told["until_batch"], told["events"], told["matches"]) == (1, 11, 5)
    assert "no match was repeated" in invoke("backfill", "acme", *flow).stdout
    quotes(2)
    ended = invoke("stream", *flow, *DEAD, "--once", "--report", "report.html")
    assert ended.exit_code == 0, ended.output
    report = Path("report.html").read_text(encoding="utf-8")
    for shown in ("Events a second", "Matches in each partition", "<li>never</li>", "acme: 4", "dead letters"):
        assert shown in report
    said = " ".join(ended.stdout.split())
    assert "events 11 from " in said
    assert "in 1 batch" in said
    assert "subscriptions 3 at version 3, of which 1 never matched" in said
    assert "least matched dear (4), acme (4)" in said
    expected = Counter({(name * 100 + n, "dear"): 1 for name in (1, 2) for n in range(6, 10)})
    expected.update((name * 100 + n, "acme") for name in (1, 2) for n in (2, 4, 6, 8))
    expected[100, "acme"] = 1
    if out == "hits":
        assert pairs() == expected
    else:
        from deltalake import DeltaTable

        rows = DeltaTable("hits").to_pyarrow_table(columns=["id", "subscription_id"]).to_pylist()
        assert Counter((row["id"], row["subscription_id"]) for row in rows) == expected
    dead = ds.dataset("dead").to_table().to_pylist()
    assert Counter(row["palio_reason"] for row in dead) == {"no price": 2, "the record could not be read": 2}


@pytest.mark.usefixtures("_same_session")
@pytest.mark.parametrize("schema", ["id long, price int", None])
def test_from_nats_to_nats(nats: NatsServer, schema: str | None) -> None:
    """With a schema the members of a message are columns, without one they are in `data`."""
    name = "KNOWN" if schema else "UNKNOWN"
    nats.make_stream(name, f"{name}.in.>")
    nats.make_stream(f"{name}_OUT", f"{name}.out.>")
    price = "price" if schema else "data.price"
    subscribe("--id", "dear", "--where", f"{price} > 5 AND message.subject = '{name}.in.x'")
    flow = [
        *("--events", f"{nats.url}/{name}", "--subscriptions", "wants", "--checkpoint", "state"),
        *("--out", f"{nats.url}/{name}.out.{{subscription_id}}", *(["--schema", schema] if schema else [])),
    ]
    nats.publish(f"{name}.in.x", [{"id": id, "price": id} for id in range(10)])
    nats.publish(f"{name}.in.y", [{"id": id, "price": id} for id in range(10)])
    first = invoke("stream", *flow, "--once", "--json")
    assert first.exit_code == 0, first.output
    summary = json.loads(first.stdout.splitlines()[-1])
    assert (summary["events"], summary["matches"], summary["most_matched"]) == (20, 4, {"dear": 4})
    assert (summary["never_matched"], summary["skew"]) == (0, 1)
    subscribe("--id", "late", "--where", f"{price} = 3")
    secret = [each.replace("nats://", "nats://ada:secret@") for each in flow]
    nats.run(lambda jetstream: jetstream.publish(f"{name}.in.x", b""))
    again = invoke("stream", *secret, "--once", "--report", "report.html", "--dead-letters", "dead")
    assert again.exit_code == 0, again.output
    [empty] = ds.dataset("dead").to_table().to_pylist()
    assert (empty["message"]["sequence"], "could not be read" in empty["palio_reason"]) == (21, schema is not None)
    assert "secret" not in again.output + Path("report.html").read_text(encoding="utf-8")
    told = json.loads(invoke("backfill", "late", *flow, "--json").stdout)
    assert (told["events"], told["matches"], told["most_matched"]) == (20, 2, {"late": 2})
    found = nats.messages(f"{name}_OUT")
    assert Counter(subject for subject, _, _ in found) == {f"{name}.out.dear": 4, f"{name}.out.late": 2}


@pytest.mark.usefixtures("_same_session")
def test_from_a_broker_to_a_broker() -> None:
    """Only what `--where` asks for is read; a match is an event, which comes again under the same id."""
    subscribe("--id", "dear", "--where", "price > 5 AND message.source = '/exchange'", "--subscriber", "ops")
    subscribe("--id", "acme", "--where", "symbol = 'ACME' AND day >= DATE '2026-11-15'")
    events = [
        {"id": n, "price": n, "symbol": ["ACME", "INIT"][n % 2], "day": date(2026, 11, 10 + n)} for n in range(10)
    ]
    with served("--http", "off", data="data") as broker, connect_blocking(broker.url) as client:
        for each in events:
            client.publish(Event.from_dict(each, source="/exchange"), confirm=True)
        flow = [
            *(
                "--events",
                broker.url,
                "--where",
                "price > 1",
                "--schema",
                "id long, symbol string, price int, day date",
            ),
            *("--subscriptions", "wants", "--checkpoint", "state", "--out", broker.url),
        ]
        with client.subscribe("subscription_id IS NOT NULL") as hits:
            first = invoke("stream", *flow, "--once", "--json")
            assert first.exit_code == 0, first.output
            summary = json.loads(first.stdout.splitlines()[-1])
            assert (summary["events"], summary["matches"]) == (8, 4 + 2)
            found = [event for event in (hits.get(_HANG_GUARD_SECONDS) for _ in range(6)) if event is not None]
            wanted = {(n, "dear", "ops") for n in range(6, 10)} | {(n, "acme", None) for n in (6, 8)}
            assert {(each.get("id"), each.get("subscription_id"), each.get("subscriber")) for each in found} == wanted
            assert {each.get("day") for each in found} == {date(2026, 11, 10 + n) for n in range(6, 10)}
            subscribe("--id", "late", "--where", "price IN (0, 3)")
            told = json.loads(invoke("backfill", "late", *flow, "--json").stdout)
            assert (told["events"], told["matches"]) == (8, 1)
            again = json.loads(invoke("backfill", "late", *flow, "--json").stdout)
            assert again["matches"] == 1  # sent again, and not let in
            late = hits.get(_HANG_GUARD_SECONDS)
            assert late is not None
            assert (late.get("id"), late.get("subscription_id")) == (3, "late")
            # The broker delivers in order: no repeat came before the marker.
            client.publish(Event.from_dict({"subscription_id": "marker"}), confirm=True)
            marker = hits.get(_HANG_GUARD_SECONDS)
            assert marker is not None
            assert marker.get("subscription_id") == "marker"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "soon"], "write 30s, 10m, 2h or 1d"),
        (["--malformed", "no price"], "write 'REASON=CONDITION'"),
        (["--conf", "nonsense"], "NAME=VALUE"),
        (["--out", "https://example.org"], "which columns tell one event from another"),
        (["--out", "nats://localhost:4222", "--key", "id"], "not the subject to publish to"),
        (["--out", "s3://bucket/hits"], "DeltaSink"),
        (["--dead-letters", "nats://localhost:4222/dead"], "name a folder, or delta:FOLDER"),
        (["--undelivered", "palio://localhost"], "name a folder, or delta:FOLDER"),
        (["--events", "palio://a/b"], "is no address"),
        (["--events", "palio://a", "--where", "price >"], "the condition ends"),
        (["--where", "price > 1"], "quotes/*.jsonl is read whole"),
        (["--out", "palio://localhost"], "which columns tell one event from another"),
    ],
)
def test_what_makes_no_sense_is_refused_before_spark_is_started(arguments: list[str], said: str) -> None:
    answer = invoke("stream", *FLOW, *arguments)
    assert answer.exit_code == 2
    assert said in answer.stderr


def test_inputs_are_looked_at_before_spark_is_started() -> None:
    subscribe("--id", "dear", "--where", "price > 50")
    quotes(1)
    one_file = next(Path("quotes").glob("*.jsonl"))
    answer = invoke("stream", *FLOW, "--events", str(one_file))
    assert (answer.exit_code, "in quotes, so that the shell does not expand it" in answer.stderr) == (2, True)
    answer = invoke("stream", *FLOW, "--subscriptions", "nowhere")
    assert answer.exit_code == 2
    assert "there is no subscription log at" in answer.stderr
    assert "palio spark subscribe makes one" in answer.stderr


@pytest.mark.usefixtures("_same_session")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--events", "elsewhere/*.jsonl", "--schema", "id lung"], "Spark cannot read 'id lung'"),
        (["--events", "quotes", "--format", "delta"], "error: quotes: Spark cannot read it"),
        (["--events", "table"], "a table is no stream"),
        (["--out", "http://127.0.0.1:9/", "--key", "nothing"], "there is no column nothing"),
        (["--columns", "nothing"], "there is no column nothing"),
    ],
)
def test_what_ends_a_stream_is_said_in_a_line(arguments: list[str], said: str) -> None:
    subscribe("--id", "dear", "--where", "price > 50")
    quotes(1)
    answer = invoke("stream", *FLOW, "--once", *arguments)
    assert answer.exit_code == 2, answer.output
    assert said in answer.stderr
    assert len(answer.stderr.splitlines()) < 3


@pytest.mark.usefixtures("_same_session")
def test_cells_of_csv_are_of_the_types_that_the_files_show(tmp_path: Path) -> None:
    """One that says NA is missing, one that does not fit is a dead letter, and so is a line with too few cells."""
    subscribe("--id", "dear", "--where", "price > 50")
    subscribe("--id", "none", "--where", "price IS NULL")
    subscribe("--id", "never", "--where", "symbol > 50", "--language", "jms")
    Path("quotes/1.csv").write_text("id,symbol,price\n1,ACME,60\n2,INIT,NA\n3,ACME,40\n")
    flow = [each for each in FLOW if each != "--schema" and "symbol" not in each]
    flow[flow.index("--events") + 1] = f"{tmp_path}/quotes/*.csv"
    first = invoke("stream", *flow, "--once", "--dead-letters", "dead")
    assert first.exit_code == 0, first.output
    assert "symbol is string, and compared with numbers by never" in " ".join(first.stderr.split())
    assert pairs() == {(1, "dear"): 1, (2, "none"): 1}
    subscribe("--id", "late", "--where", "price = 40")
    told = json.loads(invoke("backfill", "late", *flow, "--json").stdout)
    assert (told["events"], told["matches"]) == (3, 1)
    Path("quotes/2.csv").write_text("id,symbol,price\n4,ACME,70\n5,ACME\n")
    again = invoke("stream", *flow, "--once", "--dead-letters", "dead")
    assert again.exit_code == 0, again.output
    assert pairs() == {(1, "dear"): 1, (2, "none"): 1, (3, "late"): 1, (4, "dear"): 1}
    [dead] = ds.dataset("dead").to_table().to_pylist()
    assert (dead["id"], dead["palio_reason"]) == (5, "the record could not be read")


@pytest.mark.usefixtures("_same_session")
def test_without_a_schema_there_have_to_be_files() -> None:
    subscribe("--id", "dear", "--where", "price > 50")
    place = FLOW.index("--schema")
    without = [*FLOW[:place], *FLOW[place + 2 :]]
    answer = invoke("stream", *without, "--once")
    assert answer.exit_code == 2
    assert "--schema 'id long, price double'" in answer.stderr
    quotes(1)
    assert invoke("stream", *without, "--once").exit_code == 0
    assert set(pairs()) == {(100 + n, "dear") for n in range(6, 10)}


@pytest.mark.usefixtures("_same_session")
def test_a_batch_as_large_as_a_row_group_is_taken() -> None:
    """The first batch of Arrow that fills a row group of 131,072 rows ends with row 140,000."""
    subscribe("--id", "all", "--where", "id >= 0")
    Path("quotes/1.jsonl").write_text("".join(f'{{"id": {n}}}\n' for n in range(140_000)))
    answer = invoke("stream", *FLOW, "--once", "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout.splitlines()[-1])["matches"] == 140_000
    assert ds.dataset("hits").count_rows() == 140_000


@pytest.mark.usefixtures("_same_session")
def test_the_last_line_names_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    subscribe("--id", "dear", "--where", "price > 50")
    quotes(1)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("palio.spark.sinks.parquet._finish_draft", fail)
    answer = invoke("stream", *FLOW, "--once")
    assert answer.exit_code == 2, answer.output
    last = answer.stderr.strip().splitlines()[-1]
    assert last == "error: the stream ended: OSError: [Errno 28] No space left on device"
