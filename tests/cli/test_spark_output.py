"""Overwriting by `palio spark … --out`: only output that it wrote itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from palio.cli.main import palio
from palio.cli.output_file import OutputError
from palio.cli.spark.output_folder import OutputFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "part-0.parquet").write_text("events")
    (tmp_path / "wants.jsonl").write_text("wants")
    (tmp_path / "link").symlink_to("archive")
    return tmp_path


@pytest.mark.parametrize(
    ("out", "read"),
    [
        ("archive", "archive/*.parquet"),
        ("archive", "archive"),
        ("archive/", "./archive/"),
        (".", "archive/*.parquet"),
        ("archive/hits", "archive"),
        ("archive", "link"),
        ("link", "archive/part-*.parquet"),
        ("archive", "*/part-0.parquet"),
        ("archive/hits", "arch*"),
        ("archive/hits", "{archive,other}"),
        ("wants.jsonl", "wants.jsonl"),
        ("s3://bucket/a", "s3://bucket/a/*.parquet"),
    ],
)
def test_what_is_read_is_not_written_over(folder: Path, out: str, read: str) -> None:
    with pytest.raises(OutputError, match="it is read from as"):
        OutputFolder(out, "other.jsonl", read)


def test_a_file_address_is_the_path_in_it(folder: Path) -> None:
    with pytest.raises(OutputError, match="it is read from as"):
        OutputFolder(f"file://{folder}/archive", "archive/*.parquet")


@pytest.mark.parametrize("out", ["wants.jsonl", "wants.jsonl/hits"])
def test_a_file_is_no_folder(folder: Path, out: str) -> None:
    with pytest.raises(OutputError, match=r"wants\.jsonl is a file"):
        OutputFolder(out, "archive")


@pytest.mark.parametrize("out", ["archive", "link", "."])
def test_what_others_have_written_stays(folder: Path, out: str) -> None:
    with pytest.raises(OutputError, match="would be lost"):
        OutputFolder(out, "elsewhere/*.parquet")


def test_a_new_folder_beside_what_a_pattern_reads_is_fine(folder: Path) -> None:
    with OutputFolder("hits", "*.parquet", "wants.jsonl") as out:
        assert out.address == "hits"
    assert not Path("hits").exists()  # nothing was written


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "--events", "archive/*.parquet", "--subscriptions", "wants.jsonl", "--out", "archive"],
        ["match", "--events", "archive/*.parquet", "--subscriptions", "wants.jsonl", "--out", "wants.jsonl"],
        ["covering", "wants.jsonl", "--out", "archive"],
        ["generate", "mix", "--events", "1", "--out", "wants.jsonl"],
    ],
)
def test_commands_refuse_before_spark_starts(folder: Path, arguments: list[str]) -> None:
    answer = CliRunner().invoke(palio, ["spark", *arguments])
    assert answer.exit_code == 2
    assert "error" in answer.stderr
    assert (folder / "archive" / "part-0.parquet").read_text() == "events"
    assert (folder / "wants.jsonl").read_text() == "wants"


def test_what_was_written_before_is_written_anew_until_something_else_is_in_it(
    folder: Path, spark: SparkSession
) -> None:
    hits = folder / "hits"
    for count in (5, 3):
        OutputFolder(str(hits), "archive/*.parquet").write(spark.range(count))
        assert spark.read.parquet(str(hits)).count() == count
    (hits / "mine.txt").write_text("keep")
    with pytest.raises(OutputError, match=r"mine\.txt"):
        OutputFolder(str(hits))


def test_what_came_since_the_look_stays(folder: Path, spark: SparkSession) -> None:
    out = OutputFolder(str(folder / "hits"))
    (folder / "hits").mkdir()
    (folder / "hits" / "mine.txt").write_text("keep")
    with out, pytest.raises(OutputError, match=r"mine\.txt"):
        out.write(spark.range(1))
    assert os.listdir(folder / "hits") == ["mine.txt"]
    assert (folder / "hits" / "mine.txt").read_text() == "keep"


def test_what_failed_or_was_killed_leaves_what_was_there(folder: Path, spark: SparkSession) -> None:
    hits = folder / "new" / "hits"
    fails = spark.range(3).selectExpr("raise_error('no') AS id")
    with pytest.raises(Exception, match="no"), OutputFolder(str(hits)) as out:
        out.write(fails)
    assert not (folder / "new").exists()
    with OutputFolder(str(hits)) as out:
        out.write(spark.range(3))
    names = sorted(os.listdir(hits))
    (hits / "_draft-of-one-that-was-killed").mkdir()
    with pytest.raises(Exception, match="no"), OutputFolder(str(hits)) as out:
        out.write(fails)
    assert sorted(os.listdir(hits)) == names
    assert spark.read.parquet(str(hits)).count() == 3
