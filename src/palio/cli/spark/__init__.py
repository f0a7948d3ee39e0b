"""Command group `palio spark`: matching, streaming and analyses on Spark."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from palio.cli.lazy_group import LazyGroup
from palio.errors import PipelineError

# Help texts are here, so that `palio spark --help` loads no command.
_COMMANDS: Final = {
    "match": "Match events against subscriptions, on all cores of this machine or on a cluster.",
    "subscribe": "Add, change and remove subscriptions in the log that streams follow.",
    "stream": "Match events as they arrive, each batch with the latest subscriptions.",
    "backfill": "Match new subscriptions with the events before their first batch of the stream.",
    "estimate": "Estimate how often a condition matches, from a sample of an archive.",
    "covering": "Find the subscriptions that another one covers.",
    "generate": "Generate events and subscriptions for tests and benchmarks.",
}
_MODULES: Final = dict.fromkeys(("estimate", "covering", "generate"), "tools")


_TRACEBACK: Final = "Traceback (most recent call last):"
_JVM_ERROR: Final = "py4j.protocol.Py4JJavaError"
# Python names the class of an error with its module: `pyspark.errors.exceptions.captured.AnalysisException: …`.
_MODULE: Final = re.compile(r"^(?:\w+\.)+(?=\w+(?:: |$))")
_PALIO_ERROR: Final = re.compile(r"(?:.*\s)?palio\.errors\.\w+: (.+)")


class _SparkCommands(LazyGroup):
    """The group `palio spark`: errors of Spark become a `PipelineError` with their cause."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            # By module name: importing the classes would load Spark for every error.
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
                raise
            raise PipelineError(f"Spark failed: {cause_in(str(error))}") from error


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


@click.command(
    cls=_SparkCommands,
    package="palio.cli.spark",
    summaries=_COMMANDS,
    modules=_MODULES,
    epilog="Every command has its own --help, with examples.",
)
def spark() -> None:
    """The data pipeline on Spark: matching of archives and of streams, on all cores of this machine or on a cluster.

    Needs the extra `spark`: pip install 'palio[spark]'. `palio doctor` says whether Spark can run here.
    """
