"""Command group `palio spark`: matching, streaming and analyses on Spark."""

from __future__ import annotations

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
    "ring": "Plan a ring of peers for an archive: how subscriptions and events get their keys.",
    "generate": "Generate events and subscriptions for tests and benchmarks.",
}
_MODULES: Final = dict.fromkeys(("estimate", "covering", "generate"), "tools")


class _SparkCommands(LazyGroup):
    """The group `palio spark`: errors of Spark become a `PipelineError` with their cause."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            # By module name: importing the classes would load Spark for every error.
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
                raise
            from palio.spark.error_cause import cause_in

            raise PipelineError(f"Spark failed: {cause_in(str(error))}") from error


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
