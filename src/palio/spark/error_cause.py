"""Innermost cause of a Spark error, in one line.

An error of a task reaches the driver as the text of nested stack traces, Python's within the JVM's.
"""

from __future__ import annotations

import re
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_JVM_ERROR: Final = "py4j.protocol.Py4JJavaError"
# Python names the class of an error with its module: `pyspark.errors.exceptions.captured.AnalysisException: …`.
_MODULE: Final = re.compile(r"^(?:\w+\.)+(?=\w+(?:: |$))")
_PALIO_ERROR: Final = re.compile(r"(?:.*\s)?palio\.errors\.\w+: (.+)")


def cause_in(message: str) -> str:
    """The innermost cause in an error message of Spark's, in one line, without stack traces.

    An error of Palio's is closest to the cause, then what Python raised last, then the last "Caused by" of the JVM.
    """
    # What a query adds to its failure: offsets and the plan.
    lines = [line for line in message.partition("=== Streaming Query ===")[0].splitlines() if line.strip()]
    ours = [found.group(1) for line in lines if (found := _PALIO_ERROR.match(line))]
    if ours:
        return ours[-1]
    traces = [at for at, line in enumerate(lines) if _TRACEBACK in line]
    if traces:
        raised = [at for at in range(traces[-1] + 1, len(lines)) if not lines[at].startswith((" ", "\t"))]
        if raised and _JVM_ERROR not in lines[raised[0]]:
            return _MODULE.sub("", lines[raised[0]])
        # What the JVM reported to Python follows the traceback; the lines before it are Python's.
        lines = lines[raised[0] + 1 :] if raised else lines
    caused = [line.strip().removeprefix("Caused by: ") for line in lines if line.strip().startswith("Caused by: ")]
    if caused:
        return caused[-1]
    named = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter([*named, *lines]), "it does not say why").strip()
