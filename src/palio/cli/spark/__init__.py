"""Command group `palio spark`: matching, streaming and analyses on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click

from palio.errors import PipelineError

# Help texts are here, so that `palio spark --help` loads no command.
_COMMANDS: Final = {
    "match": "Find who wants which event, on a cluster or on all cores of this machine.",
    "subscribe": "Put subscriptions into the log that streams follow, change them and remove them.",
    "stream": "Match events as they come, each batch with the latest subscriptions.",
    "backfill": "Tell new subscriptions what happened before the stream had them.",
    "estimate": "Say how often a condition would fire, from a sample of an archive.",
    "covering": "Say which subscriptions another one covers, and which are left.",
    "generate": "Make events and subscriptions to test and measure with.",
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
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
                raise
            raise PipelineError(f"Spark failed: {cause_in(str(error))}") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def cause_in(message: str) -> str:
    """The line of Spark's error message with the innermost cause, without the stack trace."""
    lines = [line for line in message.splitlines() if line.strip()]
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
    """The data pipeline on Spark: matching in bulk and as events come, on all cores of this machine or on a cluster.

    Needs the extra `spark`: pip install 'palio[spark]'. `palio doctor` says whether Spark can run here.
    """
