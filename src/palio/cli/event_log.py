"""`palio log`: events of a broker's event log, listed, or exported for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from palio.cli import terminal
from palio.cli.common_options import data_option
from palio.errors import InvalidArgument

if TYPE_CHECKING:
    from palio.network.store.interface import Log

_start_option = click.option(
    "--from",
    "start",
    metavar="PLACE",
    help="From an offset, or from a time such as 2026-11-15T08:00; 0 is the oldest event.",
)
_stop_option = click.option("--until", "stop", metavar="PLACE", help="Up to before an offset or a time.")


@click.group()
def log() -> None:
    """List the confirmed events of a broker's event log, or export them for Spark.

    The broker may be running meanwhile. Every event of the log has an offset, which grows by one.

    \b
    Examples:
      palio log list
      palio log list --from 2026-11-15T08:00 --where "symbol = 'ACME'" --json
      palio log export events.parquet
      palio log export --data /var/lib/palio --from 1200 --until 2400 piece.parquet
    """


@log.command(name="list")
@data_option
@_start_option
@_stop_option
@click.option("--where", metavar="CONDITION", help="Only events that match.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of events.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each event, on a line each.")
def list_events(
    directory: Path, start: str | None, stop: str | None, where: str | None, limit: int, as_json: bool
) -> None:
    """List events: the first ones from a place, or the last ones where none is named."""
    from palio.filters.filter import Filter
    from palio.network.store.parquet_export import read_chunks
    from palio.routing.codec import decode_event

    wanted = None if where is None else Filter.parse(where)
    with _open(directory) as log:
        first, last = _range(log, start, stop)
        if start is None and wanted is None:
            first = max(first, last - limit)
        table = terminal.table(terminal.numbers("offset"), "logged", "publisher", "event")
        shown = 0
        for entry in (entry for piece in read_chunks(log, first, last) for entry in piece):
            event = decode_event(entry.event.body)
            if wanted is not None and not wanted.matches(event):
                continue
            when = datetime.fromtimestamp(entry.time, UTC)
            if as_json:
                terminal.print_json(_to_dict(entry.offset, when, entry.publisher, event))
            else:
                table.add_row(f"{entry.offset}", f"{when:%Y-%m-%d %H:%M:%S}Z", entry.publisher, event.to_json())
            shown += 1
            if shown == limit:
                break
    if not as_json:
        terminal.results().print(table)


@log.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@data_option
@_start_option
@_stop_option
@click.option("--identity", default="_palio", show_default=True, metavar="NAME",
              help="The column for offset, time, publisher and id.")  # fmt: skip
def export(file: Path, directory: Path, start: str | None, stop: str | None, identity: str) -> None:
    """Write events to a Parquet file, each attribute in a column of its own type.

    The file appears when it is complete.
    """
    from palio.cli.output_file import OutputFile
    from palio.network.store.parquet_export import export_parquet as write

    with _open(directory) as log:
        first, last = _range(log, start, stop)
        # As private as the log itself: events may be what only the owner of the broker may read.
        output = OutputFile(file, None, mode=0o600)
        try:
            with terminal.status("Exporting"), output.failures():
                written = write(log, output.stream, first, last, identity)
            output.finish()
        finally:
            # Has no effect after `finish`, which leaves no draft.
            output.discard()
    terminal.messages().print(f"{terminal.plural(written, 'event')} written to {file}", soft_wrap=True)


@contextmanager
def _open(directory: Path) -> Iterator[Log]:
    from palio.network.data_directory import DATABASE_FILE
    from palio.network.store.sqlite import SqliteLog, SqliteReader

    reader = SqliteReader(directory / DATABASE_FILE)
    try:
        yield SqliteLog(lambda: reader)
    finally:
        reader.close()


def _range(log: Log, start: str | None, stop: str | None) -> tuple[int, int]:
    oldest, after = log.bounds()
    first = oldest if start is None else _offset(log, start) or oldest  # 0 is the oldest, as in `Broker.read_log`
    return first, (after if stop is None else _offset(log, stop))


def _offset(log: Log, place: str) -> int:
    if place.isascii() and place.isdecimal():
        return int(place)
    try:
        when = datetime.fromisoformat(place)
    except ValueError:
        raise InvalidArgument(f"an offset or a time such as 2026-11-15T08:00 is needed, not {place!r:.40}") from None
    return log.find((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def _to_dict(offset: int, when: datetime, publisher: str, event: Any) -> dict[str, Any]:
    return {
        "offset": offset,
        "logged": when.isoformat(),
        "publisher": publisher,
        "id": event.id,
        "source": event.source,
        "event": terminal.as_json(event),
    }
