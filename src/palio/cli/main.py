"""Entry point of the command `palio`: dispatch to subcommands, errors as one line, exit codes.

Subcommands are imported when they are called, so that `palio --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any, Final, NoReturn

import click

from palio import __version__
from palio.cli.lazy_group import LazyGroup
from palio.errors import PalioError

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, as a shell reports it
TERMINATED: Final = 143  # 128 + SIGTERM
READER_GONE: Final = 141  # 128 + SIGPIPE

_READS_JSON: Final = "palio.cli.reads_json"  # key in `ctx.meta`: `--json` was given

_COMMANDS: Final = {
    "match": "Match a stream of events against a file of subscriptions.",
    "check": "Check subscriptions: errors, redundant ones, slow ones.",
    "explain": "Explain why a condition matches an event, or which part of it fails.",
    "convert": "Write subscriptions in another language.",
    "serve": "Run a broker: subscriptions and events over the network.",
    "peer": "Run a peer: a node of a ring that needs no brokers.",
    "subscribe": "Print the events that match a condition, as they come.",
    "unsubscribe": "End a durable subscription, and discard its queue.",
    "publish": "Send events to a broker.",
    "advertise": "Advertise what is going to be published, in networks that route by advertisements.",
    "status": "Show the state of a broker: neighbours, clients, queues.",
    "durable": "Show, limit or delete durable subscriptions.",
    "letters": "List dead letters (events that no sink or consumer took), send them again, or delete them.",
    "forget": "Give up a broker that is not coming back.",
    "drain": "End a broker once its clients have what waits for them.",
    "simulate": "Simulate a network of brokers: the costs of subscriptions and events, by strategy.",
    "log": "List the events of a broker's event log, or export them for Spark.",
    "backup": "Copy the data directory of a broker, while it runs.",
    "restore": "Make a data directory from a backup.",
    "token": "Manage principals of a broker: tokens, and grants to subscribe and publish.",
    "spark": "Match on Spark: on all cores of this machine, or on a cluster.",
    "warm": "Compile the kernels of matching now, as for an image of a container.",
    "doctor": "Check the installation of Palio and Spark, with a remedy for each fault.",
    "demo": "See it work: real flights against thousands of subscriptions.",
}

# Subcommands that live in a module of another name: of their opposite, or of the field's word for them.
_MODULES: Final = {
    "unsubscribe": "subscribe",
    "advertise": "publish",
    "forget": "status",
    "letters": "dead_letters",
    "restore": "backup",
    "log": "event_log",
}


class Palio(LazyGroup):
    """The command `palio`: errors of its subcommands become one line and an exit code."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record first whether `--json` was given: a wrong option may stand before it."""
        options = args[: args.index("--")] if "--" in args else args
        ctx.meta[_READS_JSON] = "--json" in options
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _refuse(ctx, error)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            try:
                answer = super().invoke(ctx)
            finally:  # also on an exit code: a closed pipe must show up here, not at interpreter exit
                sys.stdout.flush()
        except click.UsageError as error:
            _refuse(ctx, error)
        except PalioError as error:
            _fail(ctx, error, type(error).__name__)
        except KeyboardInterrupt as interrupt:
            click.echo(str(interrupt) or "interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _drop_output()
            ctx.exit(READER_GONE)
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            _fail(ctx, message, type(error).__name__)
        return answer


def _refuse(ctx: click.Context, error: click.UsageError) -> NoReturn:
    if not ctx.meta[_READS_JSON]:
        raise error  # shown with the usage
    _fail(ctx, error.format_message(), "UsageError")


def _fail(ctx: click.Context, message: PalioError | str, kind: str) -> NoReturn:
    from palio.cli import terminal

    if ctx.meta[_READS_JSON]:
        terminal.print_json({"error": str(message), "kind": kind}, to=sys.stderr)
    else:
        terminal.error(message)
    ctx.exit(BAD_INPUT)


@click.command(
    cls=Palio,
    package="palio.cli",
    summaries=_COMMANDS,
    modules=_MODULES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has its own --help, with examples. Start with `palio demo`.",
)
@click.version_option(__version__, prog_name="palio")
def palio() -> None:
    """Content-based publish/subscribe: any WHERE clause is a subscription, and a million of them run over
    your stream at once.

    \b
    Exit codes, of every command:
      0    done
      1    done, and the answer is no: not matched, errors found, refused by --strict
      2    wrong usage, or input that cannot be read
      130  ended by Ctrl-C, with what was done until then
      141  the reader of the output went away, as `head` does
      143  ended by SIGTERM, with what was done until then
    """


def main() -> None:
    """The entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # An encoding without ✓ shows a question mark instead of failing.
            stream.reconfigure(errors="replace")
    if os.environ.get("NO_COLOR"):
        os.environ.pop("FORCE_COLOR", None)
    terminated = _handle_sigterm_as_interrupt()
    try:
        palio()
    except SystemExit as ended:
        # SIGTERM was handled as an interrupt; only the exit code tells them apart.
        if ended.code == INTERRUPTED and terminated:
            sys.exit(TERMINATED)
        raise


def _handle_sigterm_as_interrupt() -> list[int]:
    """Handle SIGTERM as Ctrl-C, which keeps partial results; the list gets the signal's number when it comes."""
    received: list[int] = []

    def terminate(number: int, frame: FrameType | None) -> None:
        received.append(number)
        handle = signal.getsignal(signal.SIGINT)  # a handler may defer it until a piece is written
        if callable(handle):
            handle(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    return received


def _drop_output() -> None:
    """After a closed pipe: redirect buffered output to nowhere, so that the interpreter exits without an error."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        return
