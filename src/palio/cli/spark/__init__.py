"""Command group `palio spark`: matching, streaming and analyses on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click

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


_TOOLS: Final = ("estimate", "covering", "generate")


class _Commands(click.Group):
    """Subcommands, loaded when they are run; each is in the module of its name or in `tools`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = "tools" if cmd_name in _TOOLS else cmd_name
        command: click.Command = getattr(import_module(f"palio.cli.spark.{module}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            # By module name: importing the classes would load Spark for every error.
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
                raise
            raise PipelineError(f"Spark failed: {cause_in(str(error))}") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def cause_in(message: str) -> str:
    """The line of Spark's error message with the innermost cause, without the stack trace."""
    lines = [line for line in message.splitlines() if line.strip()]
    # A Python traceback within Spark's message is closest to the cause, then the last "Caused by" of the JVM.
    traces = [at for at, line in enumerate(lines) if line.strip().startswith("Traceback (most recent call last)")]
    if traces:
        for line in lines[traces[-1] + 1 :]:
            if not line.startswith((" ", "\t")):
                return line
    caused = [line.strip().removeprefix("Caused by: ") for line in lines if line.strip().startswith("Caused by: ")]
    if caused:
        return caused[-1]
    named = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter([*named, *lines]), "it does not say why").strip()


@click.command(cls=_Commands, epilog="Every command has its own --help, with examples.")
def spark() -> None:
    """The data pipeline on Spark: matching of archives and of streams, on all cores of this machine or on a cluster.

    Needs the extra `spark`: pip install 'palio[spark]'. `palio doctor` says whether Spark can run here.
    """
