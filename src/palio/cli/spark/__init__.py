"""`palio spark`: the same questions where one machine is not enough."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click

from palio.errors import PipelineError

_COMMANDS: Final = {
    "match": "Find who wants which event, on a cluster or on all cores of this machine.",
    "subscribe": "Put subscriptions into the log that streams follow, change them and remove them.",
    "stream": "Match events as they come, each batch with the latest subscriptions.",
    "backfill": "Tell new subscriptions what happened before the stream had them.",
    "estimate": "Say how often a condition would fire, from a sample of an archive.",
    "covering": "Say which subscriptions another one covers, and which are left.",
    "generate": "Make events and subscriptions to test and measure with.",
}


class _Commands(click.Group):
    """The subcommands by name, each in the module of its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"palio.cli.spark.{cmd_name}"), cmd_name)
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


def cause_in(told: str) -> str:
    """The one line that says what happened, of what Spark tells: the innermost cause, before where it came from."""
    lines = [line for line in told.splitlines() if line.strip()]
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
