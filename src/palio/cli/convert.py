"""`palio convert`: subscriptions rewritten in another language."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import language_option
from palio.cli.main import INTERRUPTED
from palio.errors import InputError, PalioError

if TYPE_CHECKING:
    from palio.files import SubscriptionLine

_EXIT_REFUSED: Final = 1
_MAX_SHOWN_FAULTS: Final = 10


@click.command()
@click.argument("subscriptions", metavar="SUBSCRIPTIONS")
@language_option("--from")
@click.option("--to", "target", type=click.Choice(["sql"]), default="sql", show_default=True,
              help="The language to write.")  # fmt: skip
@click.option("--out", metavar="FILE", help="Write to FILE: .jsonl, also .gz, .xz or .zst.")
@click.option("--strict", is_flag=True, help="Fail where something cannot be written, after writing the rest.")
@click.option("--format", help="The format of SUBSCRIPTIONS, if its name does not say: jsonl, csv.gz, …")
@click.pass_context
def convert(
    ctx: click.Context,
    subscriptions: str,
    language: str,
    target: str,
    out: str | None,
    strict: bool,
    format: str | None,
) -> None:
    """Write subscriptions in another language, as many of them as it can express.

    SUBSCRIPTIONS is a file of .jsonl, .json, .csv or .parquet, also .gz, .xz or .zst; - is standard input. It
    may also be a folder of files that are a condition each: .sql, .yml (Sigma), and .json or .txt in the
    language that --from names. What comes out is a file of subscriptions again, one JSON object on a line.

    \b
    Examples:
      palio convert --from sigma --to sql rules/ > rules.jsonl
      palio convert --from eventbridge patterns.jsonl --out wants.jsonl.zst
      palio convert wants.jsonl | jq -r .where

    A condition is written in its normal form, and means the same to Palio. Some use functions that only Palio
    has, such as any_value_ilike(); the summary says how many. Exit code 0: done; 1: --strict, and something
    could not be written; 2: a file that cannot be read.
    """
    from palio.cli.match_writer import refuse_inputs
    from palio.cli.output_file import open_json_lines

    refuse_inputs(out, subscriptions)
    from palio.files import read_subscriptions

    faults: list[tuple[str, str | None, PalioError | str]] = []
    own = written = 0
    interrupted = False
    with open_json_lines(out) as write:
        lines = read_subscriptions(
            subscriptions,
            format or ("jsonl" if subscriptions == "-" else None),
            on_error=lambda error: faults.append((error.place, None, error.reason)),
            language=language,
        )
        try:
            for record, needs_palio in _convert_all(lines, language, faults):
                write(record)
                written += 1
                own += needs_palio
        except KeyboardInterrupt:
            interrupted = True
    _report(faults, written, own, out)
    if not written and not faults:
        raise InputError(subscriptions, "there is no subscription in it")
    if interrupted:
        ctx.exit(INTERRUPTED)
    ctx.exit(_EXIT_REFUSED if strict and faults else 0)


def _convert_all(
    lines: Iterable[SubscriptionLine], language: str, faults: list[tuple[str, str | None, PalioError | str]]
) -> Iterable[tuple[dict[str, Any], bool]]:
    """The converted subscriptions, each with whether it uses a function that only Palio has."""
    from palio.filters.filter import Filter

    first: dict[str, str] = {}
    with terminal.progress(terminal.messages(), "Converting", None) as progress:
        task = progress.add_task("", done="")
        for count, line in enumerate(lines, start=1):
            if line.id in first:
                faults.append((line.place, line.id, f"the id is taken already, in {first[line.id]}"))
                continue
            first[line.id] = line.place
            try:
                zone = line.timezone or "UTC"
                condition = Filter.parse(line.where, language=line.language or language, timezone=zone)
            except PalioError as error:
                faults.append((line.place, line.id, error))
                continue
            record: dict[str, Any] = {"id": line.id, "where": str(condition)}
            if line.subscriber is not None:
                record["subscriber"] = line.subscriber
            if condition.timezone != "UTC":
                record["timezone"] = condition.timezone
            yield {**record, **line.metadata}, not condition.is_plain_sql
            progress.update(task, done=terminal.plural(count, "subscription"))


def _report(faults: list[tuple[str, str | None, PalioError | str]], written: int, own: int, out: str | None) -> None:
    from rich.text import Text

    console = terminal.messages()
    for place, id, reason in faults[:_MAX_SHOWN_FAULTS]:
        terminal.fault(console, place, "not written", id, reason)
    if len(faults) > _MAX_SHOWN_FAULTS:
        console.print(Text(f"… and {len(faults) - _MAX_SHOWN_FAULTS:,} more", style="quiet"), soft_wrap=True)
    summary = f"{terminal.plural(written, 'subscription')} written{f' to {out}' if out else ''}"
    summary += f", {len(faults):,} not" if faults else ""
    summary += f"; {own:,} with functions that only Palio has" if own else ""
    console.print(Text(summary, style="title"), soft_wrap=True)
