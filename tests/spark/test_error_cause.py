"""The innermost cause of a Spark error, from messages as Spark writes them."""

from __future__ import annotations

import pytest

from palio.spark.error_cause import cause_in

PYTHON = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 3, in find
    raise ValueError("no index")
ValueError: no index
\tat org.apache.spark.api.python.BasePythonRunner
"""
JAVA = """An error occurred while calling o59.parquet.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.Errors$.jobAborted(Errors.scala:1)
Caused by: java.io.FileNotFoundException: a.parquet does not exist
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
# As a query reports what happened in its batch: in the driver, in a worker, in the JVM.
BATCH = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
{}

=== Streaming Query ===
Identifier: [id = f6e6d718, runId = 0545f174]
Logical Plan:
~WriteToMicroBatchDataSourceV1 ForeachBatchSink, [checkpointLocation=/checkpoint], Append
"""
WORKER = """pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "parquet.py", line 210, in finish
    raise {}
{}"""


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        (BATCH.format("RuntimeError: not today\nand no more"), "RuntimeError: not today"),
        (BATCH.format("ValueError"), "ValueError"),
        (
            BATCH.format("pyspark.errors.exceptions.captured.SparkRuntimeException: [X] bad"),
            "SparkRuntimeException: [X] bad",
        ),
        (
            BATCH.format(WORKER.format("ArrowInvalid()", "pyarrow.lib.ArrowInvalid: no schema")),
            "ArrowInvalid: no schema",
        ),
        (BATCH.format(WORKER.format("PipelineError()", "palio.errors.PipelineError: it is full")), "it is full"),
        (
            BATCH.format("py4j.protocol.Py4JJavaError: " + JAVA),
            "java.io.FileNotFoundException: a.parquet does not exist",
        ),
        (
            "[STREAM_FAILED] Query terminated: Job aborted. SQLSTATE: XXKST\n=== Streaming Query ===\nId",
            "[STREAM_FAILED] Query terminated: Job aborted. SQLSTATE: XXKST",
        ),
        (PYTHON, "ValueError: no index"),
        (JAVA, "java.io.FileNotFoundException: a.parquet does not exist"),
        (JAVA.partition("Caused")[0], "org.apache.spark.SparkException: Job aborted."),
        ("\n[PATH_ALREADY_EXISTS] Path hits exists.\nJVM stacktrace:", "[PATH_ALREADY_EXISTS] Path hits exists."),
        ("", "it does not say why"),
    ],
)
def test_a_failure_of_spark_is_one_line(told: str, cause: str) -> None:
    assert cause_in(told) == cause
