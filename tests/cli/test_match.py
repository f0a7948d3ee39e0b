"""`palio match`: matches, reports, output files, and interrupts."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio

WANTS = [
    {"id": "desk", "where": "symbol = 'ACME' AND price > 100", "subscriber": "ops"},
    {"id": "cheap", "where": "price < 50"},
    {"id": "silent", "where": "symbol = 'NONE'"},
]
EVENTS: list[dict[str, Any]] = [
    {"symbol": "ACME", "price": 120},
    {"symbol": "ACME", "price": 80},
    {"symbol": "INIT", "price": 20},
    {"symbol": "ACME", "price": 101},
]
MATCHES = [
    {"event": 1, "subscription": "desk", "subscriber": "ops"},
    {"event": 3, "subscription": "cheap", "subscriber": None},
    {"event": 4, "subscription": "desk", "subscriber": "ops"},
]


def json_lines(rows: list[Any]) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("wants.jsonl").write_text(json_lines(WANTS))
    Path("events.jsonl").write_text(json_lines(EVENTS))
    return tmp_path


def match(*arguments: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", **(env or {})})
    return runner.invoke(palio, ["match", *arguments], input=input)


def printed(answer: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_json_prints_each_match_on_a_line() -> None:
    answer = match("wants.jsonl", "events.jsonl", "--json")
    assert answer.exit_code == 0
    assert printed(answer) == MATCHES
    assert answer.stderr == ""


def test_xml_files_are_events_numbered_by_their_place() -> None:
    wants = [
        {"id": "b", "language": "xpath", "where": "//b[@n > 1]"},
        {"id": "a", "where": "xpath_boolean(xml, '/a')"},
    ]
    Path("xpaths.jsonl").write_text(json_lines(wants))
    for name, text in (("1.xml", "<a><b n='1'/></a>"), ("2.xml", "<a><b n='2'/>"), ("3.xml", "<c><b n='3'/></c>")):
        Path(name).write_text(text)
    Path("4.xml.gz").write_bytes(gzip.compress(b"<a><b n='4'/></a>"))
    answer = match("xpaths.jsonl", "1.xml", "2.xml", "3.xml", "4.xml.gz", "--json")
    found = sorted((row["event"], row["subscription"]) for row in printed(answer))
    assert found == [(1, "a"), (3, "b"), (4, "a"), (4, "b")]
    assert "2.xml:1: skipped" in answer.stderr
    assert {row["path"] for row in printed(answer)} == {"1.xml", "3.xml", "4.xml.gz"}
    only = {"event": 1, "path": "1.xml", "subscription": "a", "subscriber": None}
    assert printed(match("xpaths.jsonl", "1.xml", "--json")) == [only]
    refused = match("xpaths.jsonl", "1.xml", "events.jsonl")
    assert refused.exit_code == 2
    assert "several files of events are XML documents" in refused.stderr
    assert "an XML file is an event" in match("1.xml", "events.jsonl").stderr
    assert "end it in .jsonl" in match("wants.jsonl", "events.jsonl", "--out", "matches.xml").stderr


def test_a_folder_stands_for_its_xml_files_and_conditions_may_ask_for_the_path(tmp_path: Path) -> None:
    Path("xpaths.jsonl").write_text('{"id": "b", "where": "path LIKE \'%2.xml\' AND xpath_boolean(xml, \'//b\')"}')
    Path("feeds/old").mkdir(parents=True)
    for name in ("feeds/1.xml", "feeds/2.xml", "feeds/old/2.xml", "feeds/read.me"):
        Path(name).write_text("<a><b/></a>")
    found = printed(match("xpaths.jsonl", "feeds", "--json"))
    assert [(row["event"], row["path"]) for row in found] == [(2, "feeds/2.xml"), (3, "feeds/old/2.xml")]
    assert match("xpaths.jsonl", "feeds/", "--out", "found.csv").exit_code == 0
    assert Path("found.csv").read_text().splitlines()[1].startswith('2,"feeds/2.xml"')
    Path("empty").mkdir()
    assert "no file in it whose name ends in .xml" in match("xpaths.jsonl", "empty").stderr


def test_conditions_ask_for_elements_and_keys_of_json() -> None:
    asked = ["tags[0] = 'a'", "exists(tags, x -> x > 'b')", "m['k'] = 1", "split(symbol, 'C')[0] = 'A'"]
    Path("elements.jsonl").write_text(json_lines([{"id": each, "where": each} for each in asked]))
    events = json_lines([{"symbol": "ACME", "tags": ["a", "c"]}, {"symbol": "INIT", "tags": [], "m": {"k": 1}}])
    answer = match("elements.jsonl", "-", "--json", input=events)
    found = {(row["event"], row["subscription"]) for row in printed(answer)}
    assert found == {(1, asked[0]), (1, asked[1]), (1, asked[3]), (2, asked[2])}


def test_the_summary_counts_and_names_the_most_matched() -> None:
    answer = match("wants.jsonl", "events.jsonl")
    assert answer.exit_code == 0
    lines = [" ".join(line.split()) for line in answer.stdout.splitlines()]
    assert lines[0] == "most matched subscriber matches"
    assert lines[2] == "desk ops 2 ████████████"
    assert lines[3] == "cheap 1 ██████"
    assert any(line.startswith("events 4 from events.jsonl in") for line in lines)
    assert "matches 3, for 3 of the events" in lines
    assert "subscriptions 3, of which 1 never matched: silent" in lines
    assert "Matches were only counted: --out FILE keeps them, --json prints them." in lines
    assert answer.stderr == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("seen.jsonl", '{"price": 1, "quote": {"size": 2}}\n{"tags": [{"a": 1}, {"b": 2}]}\n'),
        ("seen.csv", "price,`quote.size`\n1,\n"),
    ],
)
def test_attributes_that_no_event_has_are_named(name: str, content: str) -> None:
    Path(name).write_text(content)
    asked = ["price", "quote.lot", "Price", "tags.b", *(f"x{number}" for number in range(6))]
    lines = [json.dumps({"id": each, "where": f"{each} = 1"}) for each in asked]
    Path("asking.jsonl").write_text("\n".join(lines))
    said = " ".join(match("asking.jsonl", name).stdout.split())
    named = "Price, quote.lot, x0, x1, x2 and 3 more" if name == "seen.jsonl" else "Price, quote.lot, tags.b, x0, x1"
    assert f"in no event {named}" in said


def test_attributes_of_tables_are_those_that_columns_stand_for() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    inner = pa.struct({"lot": pa.int64(), "by": pa.list_(pa.struct({"who": pa.string()}))})
    table = pa.table(
        {
            "quote": pa.array([{"lot": 1, "by": []}], inner),
            "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    pq.write_table(table, "nested.parquet")
    asked = ["quote.lot", "quote.by.who", "tags.a", "tags.b", "quote"]
    Path("asking.jsonl").write_text("\n".join(json.dumps({"id": each, "where": f"{each} = 1"}) for each in asked))
    said = " ".join(match("asking.jsonl", "nested.parquet").stdout.split())
    assert "in no event quote, tags.b, which subscriptions ask about" in said


def test_no_match_is_an_answer_too() -> None:
    answer = match("wants.jsonl", "-", input="{}\n")
    assert answer.exit_code == 0
    assert "matches  0" in answer.stdout


@pytest.mark.parametrize("name", ["m.jsonl", "m.json", "m.csv", "m.parquet", "m.jsonl.gz", "m.csv.xz", "m.json.zst"])
def test_out_writes_what_the_name_says(name: str) -> None:
    answer = match("wants.jsonl", "events.jsonl", "--out", name)
    assert answer.exit_code == 0
    assert f"in {name}" in answer.stdout
    assert read_matches(Path(name)) == MATCHES


def read_matches(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    compression = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    if path.suffix == ".xz":
        import lzma

        text = lzma.decompress(path.read_bytes()).decode()
    else:
        with pa.input_stream(path, compression=compression) as stream:
            text = stream.read().decode()
    if ".csv" in path.name:
        return [
            {
                "event": int(row["event"]),
                "subscription": row["subscription"],
                "subscriber": row["subscriber"] or None,
            }
            for row in csv.DictReader(io.StringIO(text))
        ]
    whole: list[dict[str, Any]] = (
        json.loads(text) if ".json." in path.name + "." else [json.loads(line) for line in text.splitlines()]
    )
    return whole


def test_json_and_out_do_both() -> None:
    answer = match("wants.jsonl", "events.jsonl", "--json", "--out", "m.jsonl")
    assert answer.stdout == Path("m.jsonl").read_text()
    assert printed(answer) == MATCHES


def test_content_gives_the_event_with_each_match() -> None:
    answer = match("wants.jsonl", "events.jsonl", "--json", "--content")
    assert [row["content"] for row in printed(answer)] == [EVENTS[0], EVENTS[2], EVENTS[3]]


def test_content_of_columnar_files() -> None:
    pq.write_table(pa.Table.from_pylist(EVENTS), "events.parquet")
    answer = match("wants.jsonl", "events.parquet", "--json", "--content")
    assert [row["content"] for row in printed(answer)] == [EVENTS[0], EVENTS[2], EVENTS[3]]


@pytest.mark.parametrize("name", ["events.csv", "events.parquet", "events.json", "events.jsonl.gz"])
def test_events_in_other_formats_give_the_same_matches(name: str) -> None:
    if name.endswith(".csv"):
        Path(name).write_text("symbol,price\n" + "".join(f"{e['symbol']},{e['price']}\n" for e in EVENTS))
    elif name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(EVENTS), name)
    elif name.endswith(".gz"):
        Path(name).write_bytes(gzip.compress(json_lines(EVENTS).encode()))
    else:
        Path(name).write_text(json.dumps(EVENTS))
    assert printed(match("wants.jsonl", name, "--json")) == MATCHES


def test_standard_input_is_json_lines_unless_format_says_otherwise() -> None:
    assert printed(match("wants.jsonl", "-", "--json", input=json_lines(EVENTS))) == MATCHES
    text = "symbol,price\n" + "".join(f"{event['symbol']},{event['price']}\n" for event in EVENTS)
    assert printed(match("wants.jsonl", "-", "--json", "--format", "csv", input=text)) == MATCHES
    assert printed(match("-", "events.jsonl", "--json", input=json_lines(WANTS))) == MATCHES


def test_so_are_subscriptions_with_a_format_of_their_own() -> None:
    text = "id,where,subscriber\n" + "".join(f'{each["id"]},"{each["where"]}",ops\n' for each in WANTS)
    expected = [{**each, "subscriber": "ops"} for each in MATCHES]
    asked = ("events.jsonl", "--json", "--subscriptions-format", "csv")
    assert printed(match("-", *asked, input=text)) == expected
    Path("wants.dat").write_text(text)
    assert printed(match("wants.dat", *asked)) == expected
    Path("wants.dat").write_bytes(gzip.compress(text.encode()))
    assert printed(match("wants.dat", *asked[:-1], "csv.gz")) == expected
    answer = match("wants.dat", *asked[:-1], "tsv")
    assert answer.exit_code == 2
    assert "there is no format 'tsv'" in answer.stderr


def test_both_from_standard_input_is_refused() -> None:
    answer = match("-", "-")
    assert answer.exit_code == 2
    assert "cannot both be standard input" in answer.stderr


def test_bad_events_are_reported_by_line_and_skipped() -> None:
    Path("events.jsonl").write_text(json_lines([EVENTS[0], "oops", EVENTS[1], "[1]", *EVENTS[2:]]))
    answer = match("wants.jsonl", "events.jsonl", "--json")
    assert answer.exit_code == 0
    # An event keeps its number, whether those before it can be read or not.
    assert [row["event"] for row in printed(answer)] == [1, 5, 6]
    assert "events.jsonl:2: skipped: not JSON" in answer.stderr
    assert "events.jsonl:4: skipped: an event is a JSON object" in answer.stderr
    assert "4 events, 3 matches" in answer.stderr
    assert "2 events skipped" in answer.stderr
    assert "skipped  2 events" in match("wants.jsonl", "events.jsonl").stdout


def test_of_many_bad_events_the_first_are_shown_and_all_are_counted() -> None:
    Path("events.jsonl").write_text(json_lines(["oops"] * 100 + EVENTS))
    answer = match("wants.jsonl", "events.jsonl")
    assert answer.exit_code == 0
    assert answer.stderr.count("skipped: not JSON") == 5
    assert "… and 95 more" in answer.stderr
    assert "skipped  100 events" in answer.stdout


BAD_WANTS = [
    WANTS[0],
    {"id": "typo", "where": "price > AND symbol = 'ACME'"},
    {"id": "desk", "where": "price > 1"},
    "not json",
    *WANTS[1:],
    {"id": "tongue", "where": "price > 1", "language": "klingon"},
]


def test_bad_subscriptions_are_reported_with_their_place_and_skipped() -> None:
    Path("wants.jsonl").write_text(json_lines(BAD_WANTS))
    answer = match("wants.jsonl", "events.jsonl", "--json")
    assert answer.exit_code == 0
    assert printed(answer) == MATCHES
    reports = [line for line in answer.stderr.splitlines() if line.startswith("wants.jsonl:")]
    assert [line.split(":")[1] for line in reports] == ["2", "3", "4", "7"]
    assert "skipped: typo: " in reports[0]
    assert "    price > AND symbol = 'ACME'\n            ^\n" in answer.stderr
    assert "the id is taken already, in wants.jsonl:1" in reports[1]
    assert "no condition language 'klingon'" in reports[3]


def test_many_bad_subscriptions_lead_to_check() -> None:
    Path("wants.jsonl").write_text(json_lines([*WANTS, *({"id": str(n), "where": "x >"} for n in range(1200))]))
    answer = match("wants.jsonl", "events.jsonl", "--json")
    assert printed(answer) == MATCHES
    assert "… and 1,195 more; palio check --all wants.jsonl lists them" in answer.stderr


def test_no_subscription_that_can_be_used_is_an_error() -> None:
    Path("wants.jsonl").write_text('{"id": "a", "where": "x >"}\n')
    answer = match("wants.jsonl", "events.jsonl")
    assert answer.exit_code == 2
    assert "no subscription in it that can be used" in answer.stderr


def test_strict_refuses_a_bad_subscription_and_writes_nothing() -> None:
    Path("wants.jsonl").write_text(json_lines(BAD_WANTS))
    answer = match("wants.jsonl", "events.jsonl", "--json", "--strict", "--out", "m.csv")
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert "wants.jsonl:2: error: typo: " in answer.stderr
    assert "nothing was written" in answer.stderr
    assert not Path("m.csv").exists()


def test_strict_refuses_a_bad_event_and_writes_nothing_however_late_it_comes() -> None:
    Path("m.csv").write_text("what was there before\n")
    Path("events.jsonl").write_text(json_lines([*EVENTS * 5000, "oops"]))
    answer = match("wants.jsonl", "events.jsonl", "--json", "--strict", "--out", "m.csv")
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert "events.jsonl:20001: error: not JSON" in answer.stderr
    assert Path("m.csv").read_text() == "what was there before\n"
    assert {path.name for path in Path().iterdir()} == {"m.csv", "events.jsonl", "wants.jsonl"}


def test_strict_prints_all_where_nothing_is_wrong() -> None:
    assert printed(match("wants.jsonl", "events.jsonl", "--json", "--strict")) == MATCHES


def test_a_language_can_be_given_for_all_that_name_none() -> None:
    answer = match("wants.jsonl", "events.jsonl", "--language", "klingon")
    assert answer.exit_code == 2
    assert "no condition language 'klingon'" in answer.stderr


def test_a_name_that_says_nothing_is_refused_with_the_remedy() -> None:
    Path("wants.dat").write_text(json_lines(WANTS))
    answer = match("wants.dat", "events.jsonl")
    assert answer.exit_code == 2
    assert "let it end in .jsonl" in answer.stderr
    assert "--subscriptions-format" in answer.stderr
    assert match("wants.jsonl", "wants.dat").exit_code == 2


def test_an_output_that_cannot_be_written_is_said_before_anything_is_matched() -> None:
    for out in ["nowhere/m.csv", "m.unknown"]:
        answer = match("wants.jsonl", "events.jsonl", "--out", out)
        assert answer.exit_code == 2
        assert answer.stderr.startswith(f"error: {out}: ")


def test_an_event_with_more_choices_than_can_be_tried_costs_nobody_else() -> None:
    many = {**EVENTS[0], **{name: list(range(200)) for name in ("a", "b", "c")}}
    listed = ", ".join(str(number) for number in range(0, 200, 2))
    where = " AND ".join([*(f"{name} IN ({listed})" for name in "abc"), "a < b", "b < c", "a + c > 1000"])
    wants = [{"id": "choosy", "where": where}, *WANTS]
    Path("wants.jsonl").write_text(json_lines(wants))
    Path("events.jsonl").write_text(json_lines([EVENTS[0], many, *EVENTS[1:]]))
    answer = match("wants.jsonl", "events.jsonl", "--json")
    assert answer.exit_code == 0
    assert [(row["event"], row["subscription"]) for row in printed(answer)][:2] == [(1, "desk"), (2, "desk")]
    assert answer.stderr == ""


def test_the_number_of_most_matched_can_be_chosen() -> None:
    assert "cheap" not in match("wants.jsonl", "events.jsonl", "--top", "1").stdout
    assert "most matched" not in match("wants.jsonl", "events.jsonl", "--top", "0").stdout


# Stopped in the middle: real processes, real signals.


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "palio", "match", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, COLUMNS="80"),
        **options,
    )


def test_ctrl_c_on_a_stream_keeps_what_was_done() -> None:
    process = start("wants.jsonl", "-", "--json", "--out", "m.csv")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json_lines(EVENTS).encode())
    process.stdin.flush()
    # A stream is answered as it comes, not when a batch is full or it ends.
    lines = [process.stdout.readline() for _ in MATCHES]
    assert [json.loads(line) for line in lines] == MATCHES
    process.send_signal(signal.SIGINT)
    rest, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert rest == b""
    assert b"4 events, 3 matches" in messages
    assert b"ended by Ctrl-C" in messages
    assert b"Traceback" not in messages
    assert read_matches(Path("m.csv")) == MATCHES


def test_ctrl_c_shows_the_summary_of_what_was_done() -> None:
    os.mkfifo("m.jsonl")
    process = start("wants.jsonl", "-", "--out", "m.jsonl")
    assert process.stdin is not None
    process.stdin.write(json_lines(EVENTS).encode())
    process.stdin.flush()
    with open("m.jsonl", "rb") as matches:
        assert [json.loads(matches.readline()) for _ in MATCHES] == MATCHES
        process.send_signal(signal.SIGINT)
        shown, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert messages == b""
    assert "events  4 from standard input" in shown.decode()
    assert "by Ctrl-C; this is what was done until then" in shown.decode()


def test_ctrl_c_before_the_first_event_leaves_an_old_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object, lines: Iterator[object], *__: object) -> None:
        next(lines)
        raise KeyboardInterrupt

    monkeypatch.setattr("palio.cli.subscription_loader.add_valid_subscriptions", interrupted)
    Path("m.csv").write_text("what was there before\n")
    answer = match("wants.jsonl", "events.jsonl", "--out", "m.csv")
    assert answer.exit_code == 130
    assert answer.stderr == "interrupted before the first event\n"
    assert Path("m.csv").read_text() == "what was there before\n"


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    Path("events.jsonl").write_text(json_lines(EVENTS * 50_000))
    process = start("wants.jsonl", "events.jsonl", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline()) == MATCHES[0]
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141
    assert process.stdin is not None
    process.stdin.close()
    process.stderr.close()


def test_progress_is_drawn_on_a_terminal_and_gone_when_done() -> None:
    Path("events.jsonl").write_text(json_lines(EVENTS * 20_000))
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "palio", "match", "wants.jsonl", "events.jsonl"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=dict(os.environ, COLUMNS="80", TERM="xterm"),
    )
    os.close(theirs)
    drawn = b""
    with (
        suppress(OSError),
        os.fdopen(ours, "rb", buffering=0) as terminal,
    ):  # Linux ends a terminal with an error
        while piece := terminal.read(4096):
            drawn += piece
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"Indexing" in drawn
    assert b"Matching" in drawn
    assert b"events" in drawn
    assert b"\x1b[2K" in drawn  # lines are taken back
    assert b"\x1b" not in shown


@pytest.mark.parametrize("lost", ["wants.jsonl", "events.jsonl", "link.jsonl"])
def test_what_is_read_is_not_written_over(lost: str) -> None:
    Path("link.jsonl").symlink_to("wants.jsonl")
    before = Path(lost).read_text()
    answer = match("wants.jsonl", "events.jsonl", "--out", lost)
    assert answer.exit_code == 2
    assert "would be lost" in answer.stderr
    assert Path(lost).read_text() == before


def test_standard_output_as_a_file_holds_matches_alone() -> None:
    assert printed(match("wants.jsonl", "events.jsonl", "--out", "-")) == MATCHES


def test_conditions_are_read_in_a_time_zone() -> None:
    Path("times.jsonl").write_text(
        '{"id": "here", "where": "hour(CAST(t AS TIMESTAMP)) = 13"}\n'
        '{"id": "there", "where": "hour(CAST(t AS TIMESTAMP)) = 7", "timezone": "America/New_York"}\n'
    )
    Path("noon.jsonl").write_text('{"t": "2024-01-01T12:00:00Z"}\n')
    answer = match("times.jsonl", "noon.jsonl", "--json", "--timezone", "Europe/Oslo")
    assert {each["subscription"] for each in printed(answer)} == {"here", "there"}


def test_a_command_that_is_terminated_keeps_what_it_has_done() -> None:
    command = [sys.executable, "-m", "palio", "match", "wants.jsonl", "-", "--json", "--out", "kept.jsonl"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(Path("events.jsonl").read_text())
        running.stdin.flush()
        first = running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        rest = running.stdout.read()
        assert running.wait() == 143
    assert Path("kept.jsonl").read_text() == first + rest
    assert not list(Path.cwd().glob(".kept.jsonl.*"))


def test_subscriptions_may_have_any_column_beside_their_own() -> None:
    wants = pa.table(
        {
            "id": ["desk", "cheap"],
            "where": ["price > 100", "price < 50"],
            "since": pa.array([date(2024, 1, 1), None], pa.date32()),
            "fee": pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(10, 2)),
            "at": pa.array([datetime(2024, 1, 1), None], pa.timestamp("ns", "UTC")),
            "clock": pa.array([time(1, 2), None], pa.time64("us")),
            "key": pa.array([b"\xff", b""], pa.binary()),
            "nested": pa.array([{"a": [b"x"]}, None], pa.struct([("a", pa.list_(pa.binary()))])),
        }
    )
    pq.write_table(wants, "wants.parquet")
    answer = match("wants.parquet", "events.jsonl", "--json")
    assert answer.exit_code == 0, answer.output
    assert [(row["event"], row["subscription"]) for row in printed(answer)] == [(1, "desk"), (3, "cheap"), (4, "desk")]


def test_a_subscription_that_cannot_be_kept_is_left_out_by_name() -> None:
    lines = [
        *WANTS,
        '{"id": "half", "where": "price > 1", "note": "\\ud800"}',
        '{"id": "\\ud800", "where": "price > 1"}',
    ]
    Path("wants.jsonl").write_text(json_lines(lines))
    answer = match("wants.jsonl", "events.jsonl", "--json")
    assert "Traceback" not in answer.output
    assert answer.exit_code in (0, 1, 2)
