"""`palio spark estimate`, `covering` and `generate`, as processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from palio.cli.main import palio
from palio.workloads import mix
from tests.network.processes import Peer, command, running

pytestmark = pytest.mark.spark


def run(command: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "palio", "spark", command, "--master", "local[2]", *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def check_page(folder: Path, *shown: str) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert [each for each in shown if each not in page] == []


def test_estimate(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"price": [n % 100 for n in range(5_000)]}), tmp_path / "archive.parquet")
    (tmp_path / "wants.jsonl").write_text('{"id": "dear", "where": "price >= 80"}\n')
    wanted = ["price >= 90", "--over", "archive.parquet", "--subscriptions", "wants.jsonl"]
    ended = run("estimate", *wanted, "--json", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["events"], found["matches"], found["expected"], found["rate"]) == (5_000, 500, 500, 0.1)
    assert found["absent"] == []
    assert found["overlaps"] == [{"id": "dear", "matches": 1_000, "both": 500, "similarity": 0.5}]
    ended = run("estimate", *wanted, "--sample", "1000", "--report", "report.html", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    check_page(tmp_path, "how often price &gt;= 90?", "Share of events", "Fires with", "Time")
    for fact in ["fires with", "dear", "rate", "with 0.95 between", "expected", "of the 5,000 in archive.parquet"]:
        assert fact in ended.stdout


def test_a_peer_founds_the_ring_that_was_planned_for_an_archive(tmp_path: Path) -> None:
    prices = pa.table({"price": [n % 100 for n in range(2_000)]})
    pyarrow.parquet.write_table(prices, tmp_path / "archive.parquet")
    lines = [json.dumps({"id": f"x{n}", "where": f"price BETWEEN {n} AND {n + 2}"}) for n in range(90)]
    (tmp_path / "wants.jsonl").write_text("\n".join(lines))
    ended = run(
        "ring", "wants.jsonl", "--over", "archive.parquet", "--peers", "20", "--out", "ring.plan", folder=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    assert "matches 2.70 of 90 subscriptions" in shown
    assert "2,000 of 2,000 events" in shown
    plan = str(tmp_path / "ring.plan")
    with running(Peer("--plan", plan, "--replicas", "2")) as peer:
        assert isinstance(peer, Peer)
        code, out, said = command("status", "--json", "--connect", peer.url)
        assert code == 0, said
        ring = json.loads(out)["ring"]
        assert ring["mapping"] in shown
        assert ring["replicas"] == 2
    for arguments, reason in (
        (("--plan", plan, "--join", "127.0.0.1:1"), "takes its description"),
        (("--plan", plan, "--peers", "5"), "a plan has that already; leave --peers out"),
        (("--plan", str(tmp_path / "wants.jsonl")), "this is no plan of `palio spark ring`"),
    ):
        code, _, said = command("peer", "--data", "none", *arguments)
        assert code == 2
        assert reason in " ".join(said.split())


def test_covering(tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"x{n}", "where": f"x > {n}"}) for n in range(5)]
    others = ['{"id": "y", "where": "y = 1"}', '{"id": "bad", "where": "y ="}']
    (tmp_path / "wants.jsonl").write_text("\n".join([*lines, *others]))
    ended = run("covering", "wants.jsonl", "--out", "covered", "--json", "--report", "report.html", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    check_page(tmp_path, "covered: 4", "left: 2", "Cover most others", "x0: 4")
    found = json.loads(ended.stdout)
    assert {name: found[name] for name in ("subscriptions", "maximal", "covered", "widest")} == {
        "subscriptions": 6, "maximal": 2, "covered": 4, "widest": {"x0": 4},
    }  # fmt: skip
    assert [each["id"] for each in found["refused"]] == ["bad"]
    assert set(found["seconds"]) == {"starting", "indexing", "comparing", "writing"}
    written = pyarrow.parquet.read_table(tmp_path / "covered").to_pylist()
    assert {row["id"] for row in written if row["covered_by"] is None} == {"x0", "y"}


def test_generate(tmp_path: Path) -> None:
    sizes = ["--events", "300", "--subscriptions", "40", "--seed", "3", "--set", "conditions=[1, 2]"]
    ended = run(
        "generate", "mix", *sizes, "--partitions", "3", "--out", "work", "--report", "report.html", folder=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    check_page(tmp_path, "a workload of mix", "300 in work/events", "Rows of subscriptions", "Time")
    assert "300 in work/events" in ended.stdout
    made = mix(seed=3, conditions=(1, 2))
    events = pyarrow.parquet.read_table(tmp_path / "work" / "events").sort_by("number").drop(["number"])
    assert events.to_pylist() == made.events(300).to_pylist()
    written = pyarrow.parquet.read_table(tmp_path / "work" / "subscriptions").to_pylist()
    assert {row["id"]: row["where"] for row in written} == {
        row["id"]: row["where"] for row in made.subscriptions(40).to_pylist()
    }


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["estimate", "price >", "--over", "x.parquet"], "price >"),
        (["estimate", "x = 1", "--over", "x.parquet", "--language", "latin"], "there is no condition language 'latin'"),
        (["match", "--events", "x", "--subscriptions", "x", "--language", "latin"], "known are cesql, "),
        (["generate", "mix", "--out", "x"], "say how many"),
        (["generate", "mixed", "--events", "1", "--out", "x"], "there is no workload 'mixed'"),
        (["generate", "mix", "--events", "1", "--out", "x", "--set", "colour"], "NAME=VALUE"),
        (["generate", "mix", "--events", "1", "--out", "x", "--set", "colour=red"], "it has profile, seed, attributes"),
    ],
)
def test_what_makes_no_sense_is_said_before_spark_starts(arguments: list[str], told: str) -> None:
    answer = CliRunner().invoke(palio, ["spark", *arguments])
    assert answer.exit_code == 2
    assert told in answer.stderr
