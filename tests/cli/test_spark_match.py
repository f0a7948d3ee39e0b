"""`palio spark match`, as a process of its own: a session is started, used and stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from palio.cli.main import palio
from palio.cli.spark.event_source import TEXT, exclusions, format_of, read_events, types_left
from palio.cli.spark.subscription_checks import TypeMismatch, find_type_mismatches
from palio.errors import InputError
from palio.files.csv_reader import _infer_types
from palio.matching.subscription import Subscription
from palio.spark import match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "palio", "spark", "match", "--master", "local[2]", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark")
    events = pa.table(
        {"id": range(20), "price": [7 * each % 20 for each in range(20)], "symbol": ["ACME", "INIT"] * 10}
    )
    pyarrow.parquet.write_table(events, folder / "events.parquet")
    wants: list[dict[str, Any]] = [
        {"id": "dear", "where": "price >= 15", "subscriber": "desk"},
        {"id": "acme", "where": "symbol = 'ACME'"},
        {"id": "never", "where": "prise > 100"},
        {"id": "typo", "where": "price >"},
        {"id": "unlike", "where": "Symbol > 5"},
        {"id": "refused", "where": "price = true"},
    ]
    (folder / "wants.jsonl").write_text("".join(json.dumps(each) + "\n" for each in wants))
    return folder


def test_matches_are_written_and_summed_up(folder: Path) -> None:
    asked = ["--events", "events.parquet", "--subscriptions", "wants.jsonl", "--out", "hits", "--json"]
    ended = run(*asked, "--report", "report.html", folder=folder)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["events"] == 20
    assert summary["matches"] == 15
    assert summary["subscriptions"] == 5
    assert summary["never_matched"] == 3
    assert summary["most_matched"] == {"acme": 10, "dear": 5}
    assert summary["least_matched"] == {"dear": 5, "acme": 10}
    assert [each["id"] for each in summary["refused"]] == ["typo"]
    assert summary["absent"] == ["prise"]
    assert summary["plan"] == "broadcast"
    [compared] = summary["unlike"]
    assert compared == {
        "column": "symbol",
        "type": "string",
        "compared_with": "numbers",
        "subscriptions": ["unlike"],
        "is_cast": True,
    }
    reason = "price is BIGINT; an integer and a boolean do not compare"
    assert summary["conflicts"] == [{"condition": "price = true", "reason": reason}]
    assert ended.stderr.count("left out") == 1
    assert "left out: typo" in ended.stderr
    hits = pyarrow.parquet.read_table(folder / "hits")
    assert hits.column_names == ["id", "price", "symbol", "subscription_id", "subscriber"]
    assert hits.num_rows == 15
    report = (folder / "report.html").read_text(encoding="utf-8")
    for shown in (
        "symbol is string, and compared with numbers by unlike",
        "Spark refuses price = true (price is BIGINT; an integer and a boolean do not compare)",
        "broadcast: one index",
        "acme: 10",
        "<li>never</li>",
        "Matches in each partition",
        "matching",
    ):
        assert shown in report


def test_numeric_ids_are_summed_up_as_texts(folder: Path) -> None:
    wants = pa.table({"id": [7, 8], "where": ["price >= 15", "price > 100"]})
    (folder / "rules").mkdir()
    pyarrow.parquet.write_table(wants, folder / "rules" / "part-0.parquet")
    asked = ["--events", "events.parquet", "--subscriptions", "rules", "--out", "numbered", "--json"]
    ended = run(*asked, folder=folder)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["most_matched"] == {"7": 5}
    assert summary["never_matched"] == 1
    written = pyarrow.parquet.read_table(folder / "numbered")
    assert written["subscription_id"].to_pylist() == [7] * 5


def test_strict_refuses_and_the_table_is_for_people(folder: Path) -> None:
    ended = run("--events", "events.parquet", "--subscriptions", "wants.jsonl", "--strict", folder=folder)
    assert ended.returncode == 2
    assert "typo" in ended.stderr
    (folder / "good.jsonl").write_text('{"id": "all", "where": "TRUE"}\n')
    asked = ["--events", "events.parquet", "--subscriptions", "good.jsonl", "--per-event", "--plan", "rendezvous"]
    ended = run(*asked, folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert "rendezvous: events and subscriptions meet by keys" in ended.stdout
    assert "20 from events.parquet" in ended.stdout
    assert "Matches were only counted" in ended.stdout


def test_csv_is_read_as_it_is_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A number is one although some cells say NA, and a code keeps its zero; what is a text all the same is said."""
    cells = "late,zip,note,at,big,quoted\n" + "".join(
        f"{'NA' if each % 5 == 0 else each},0{each},{'n/a' if each % 2 else each},"
        f'2024-01-{each + 1:02},{each + 1}{"0" * 20},"a ""{each}"""\n'
        for each in range(20)
    )
    conditions = {
        "late": "late > 10",
        "missing": "late IS NULL",
        "code": "zip = '07'",
        "no number": "zip = 7",
        "note": "note > 1",
        "day": "at >= DATE'2024-01-15'",
        "big": "big > 1600000000000000000000",
        "quoted": """quoted = 'a "3"'""",
    }
    events, wants = tmp_path / "cells.csv", tmp_path / "csv.jsonl"
    events.write_text(cells)
    wants.write_text("".join(json.dumps({"id": id, "where": where}) + "\n" for id, where in conditions.items()))
    rows = read_events(spark, str(events), None)
    found = Counter(row.subscription_id for row in match(rows, str(wants)).collect())
    uncast = {"late": 8, "day": 6, "missing": 4, "big": 4, "code": 1, "quoted": 1}
    alone = CliRunner().invoke(palio, ["match", str(wants), str(events), "--json"]).stdout.splitlines()
    assert Counter(json.loads(line)["subscription"] for line in alone) == uncast
    # Spark's columns have types, and those of texts are cast where they are compared with numbers.
    assert found == {**uncast, "no number": 1, "note": 9}
    subscriptions = [
        *(Subscription(id, where) for id, where in conditions.items()),
        Subscription("selector", "note > 1", "jms"),
    ]
    assert find_type_mismatches(rows, subscriptions) == (
        TypeMismatch("note", "string", "numbers", ("selector",), False),
        TypeMismatch("note", "string", "numbers", ("note",), True),
        TypeMismatch("zip", "string", "numbers", ("no number",), True),
    )
    # Who knows better says so.
    said = read_events(spark, str(events), None, "late int, zip int, note int")
    assert Counter(row.subscription_id for row in match(said, str(wants)).collect()) == {
        "late": 8,
        "missing": 4,
        "code": 1,  # a text that is compared with a number is read as one
        "no number": 1,
        "note": 9,
    }


CELLS = (
    """
    1|-7|007|1.5|1e3|NA||null|true|False|2024-02-29|2023-02-29|2024-02-29 10:00|2024-02-29T10:00:00Z|x| 4 |nan|+5|1D
    |99999999999999999999
""".replace("\n    ", "")
    .strip("\n")
    .split("|")
)


@given(st.lists(st.lists(st.sampled_from(CELLS), min_size=2, max_size=2), min_size=1, max_size=8))
def test_columns_of_csv_have_the_types_that_are_found_without_spark(columns: list[list[str]]) -> None:
    names = [f"c{place}" for place in range(len(columns))]
    lines = [",".join(names), *map(",".join, zip(*columns, strict=True))]
    assume("" not in lines)
    alone = _infer_types("\n".join(lines).encode(), "test")
    expected = {name: _OF_ARROW.get(str(kind).partition("[")[0], TEXT) for name, kind in alone.items()}
    cells = [pa.array([cell or None for cell in each], pa.string()) for each in columns]
    [told] = exclusions(iter([pa.RecordBatch.from_arrays(cells, names)]))
    assert types_left(names, {(row["place"], row["excluded"]) for row in told.to_pylist()}) == expected


_OF_ARROW = {
    "int64": "bigint",
    "decimal128(38, 0)": "decimal(38,0)",
    "double": "double",
    "bool": "boolean",
    "date32": "date",
    "timestamp": "timestamp",
}


def test_events_that_nobody_wants_are_counted(folder: Path) -> None:
    (folder / "nobody.jsonl").write_text('{"id": "nobody", "where": "price > 100"}\n')
    ended = run("--events", "events.parquet", "--subscriptions", "nobody.jsonl", "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert (summary["events"], summary["matches"], summary["never_matched"]) == (20, 0, 1)


def test_names_that_differ_in_case_are_explained(folder: Path) -> None:
    (folder / "cases.jsonl").write_text('{"price": 1, "Price": 2}\n')
    ended = run("--events", "cases.jsonl", "--subscriptions", "wants.jsonl", folder=folder)
    assert ended.returncode == 2
    assert "--conf spark.sql.caseSensitive=true" in " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    ("events", "format"),
    [
        ("events/*.parquet", "parquet"),
        ("events.jsonl.gz", "json"),
        ("a/b.CSV", "csv"),
        ("db.orders", None),
        ("orders", None),
    ],
)
def test_the_name_says_what_the_events_are(events: str, format: str | None) -> None:
    assert format_of(events) == format


def test_a_folder_that_does_not_say_is_asked_about() -> None:
    with pytest.raises(InputError, match="--format"):
        format_of("events/today")


def test_an_empty_folder_is_told_what_was_looked_for(tmp_path: Path) -> None:
    looked_for = r"no file in it whose name ends in \.jsonl, \.ndjson, \.json, \.csv, \.parquet, \.orc or \.xml"
    with pytest.raises(InputError, match=looked_for):
        format_of(str(tmp_path))
    (tmp_path / "README").touch()
    with pytest.raises(InputError, match=looked_for):
        format_of(str(tmp_path))


@pytest.mark.parametrize(
    ("names", "format"),
    [
        (["a.parquet", "_SUCCESS", ".a.json.crc"], "parquet"),
        (["day=1/a.jsonl.gz", "day=2/b.json"], "json"),
        (["_delta_log/0.json", "a.parquet"], "delta"),
    ],
)
def test_a_folder_holds_what_its_files_are(
    names: list[str], format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in names:
        place = tmp_path / "archive" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    monkeypatch.chdir(tmp_path)
    for events in ("archive", "archive/", str(tmp_path / "archive")):
        assert format_of(events) == format
    (tmp_path / "archive" / "x.csv").touch()
    if format != "delta":
        with pytest.raises(InputError, match="the files in it are csv and"):
            format_of("archive")


JAVA = """An error occurred while calling o59.parquet.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.Errors$.jobAborted(Errors.scala:1)
Caused by: java.io.FileNotFoundException: a.parquet does not exist
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def test_a_command_that_fails_on_spark_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PySparkException(JAVA)

    monkeypatch.setattr("palio.spark.session.open_session", fail)
    answer = CliRunner().invoke(palio, ["spark", "covering", "wants.jsonl"])
    assert answer.exit_code == 2
    assert len(answer.stderr.splitlines()) <= 2
    assert "a.parquet does not exist" in answer.stderr


def test_a_setting_is_a_name_and_a_value() -> None:
    arguments = ["spark", "match", "--events", "a.parquet", "--subscriptions", "b.jsonl", "--conf", "nonsense"]
    answer = CliRunner().invoke(palio, arguments)
    assert answer.exit_code == 2
    assert "NAME=VALUE" in answer.stderr
