"""`palio publish` and `palio advertise`: send events to a broker; announce what will be published."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

import click

from palio.cli import terminal
from palio.cli.common_options import BrokerLocation, broker_options, language_option
from palio.errors import EventError, InputError, InvalidArgument, LimitReached, NotAdvertised, NotPermitted
from palio.events import Event
from palio.files.document_files import DocumentFiles, are_documents
from palio.files.events import read_events
from palio.filters.filter import Filter

if TYPE_CHECKING:
    import pyarrow as pa

    from palio.network.client.broker import Broker

_Batch: TypeAlias = "list[Event] | pa.RecordBatch"
_Outcome: TypeAlias = Literal["whole", "cut", "confirmed", "sent"]
_INCOMPLETE: Final = {
    "cut": "published {}, and then no more",  # an event that cannot be read; those before it are published
    "confirmed": "{} confirmed; later ones may have been published too",
    "sent": "{} sent without confirmation; the last of them may be lost, and later ones published",
}
_BATCH_EVENTS: Final = 1_000
_READ_BY_NAME: Final = frozenset(("csv", "parquet"))
_EVENTS_PER_PROGRESS_UPDATE: Final = 1_000
_MAX_LINE_BYTES: Final = 16 * 1024 * 1024  # of a pipe; asyncio's own limit of 64 KiB is too small for events
_STDIN: Final = "standard input"


@click.command()
@click.argument("given", nargs=-1, metavar="[EVENT | FILE… | -]")
@click.option("--advertise", metavar="WHERE", help="Advertise this first, in networks that route by advertisements.")
@click.option("--unconfirmed", is_flag=True, help="Do not wait until the broker confirms the events; faster.")
@broker_options
def publish(
    given: tuple[str, ...],
    advertise: str | None,
    unconfirmed: bool,
    place: BrokerLocation,
    as_json: bool,
) -> None:
    """Publish an event, or files of them.

    EVENT is the text of a JSON object or of an XML document. FILE has a JSON object on each line, rows of Parquet or
    CSV, or is an XML document, by its name; - and nothing at all is standard input. There may be several XML documents,
    and folders of them. The events of files travel in batches, each of which the broker takes as a whole.

    \b
    Examples:
      palio publish '{"symbol": "ACME", "price": 120}'
      palio publish quotes.jsonl --unconfirmed
      palio publish quotes.parquet
      palio publish articles/*.xml
      tail -f quotes.jsonl | palio publish
    """
    event = given[0] if given else None
    if event is None and sys.stdin.isatty():
        raise click.UsageError("give an event, a file of events, or pipe events in")
    batches, events = _read(given)

    async def publish_all() -> None:
        count, began = 0, time.perf_counter()
        outcome: _Outcome = "sent" if unconfirmed else "confirmed"
        async with place.connect() as broker:
            if advertise is not None:
                await broker.advertise(advertise)
            console = terminal.messages()
            if console.is_terminal and broker.events_per_second != inf:
                console.print(f"the broker takes {broker.events_per_second:g} events a second from you", style="quiet")
            with terminal.progress(console, "publishing", None, event is None or not _is_content(event)) as progress:
                task = progress.add_task("", done="")

                def show(done: int) -> None:
                    nonlocal count
                    count = done
                    if done % _EVENTS_PER_PROGRESS_UPDATE == 0:
                        progress.update(task, done=terminal.plural(done, "event"))

                def show_from(before: int, done: int) -> None:
                    show(before + done)

                try:
                    if batches is not None:
                        for batch in batches:
                            await _publish_batch(broker, batch, not unconfirmed, partial(show_from, count))
                            show(count + len(batch))
                    else:
                        await broker.publish_all(events, confirm=not unconfirmed, show=show)
                    outcome = "whole"
                except InputError:
                    outcome = "cut"
                    raise
                finally:  # also on Ctrl-C and errors: a publisher must know from where to continue
                    _report(count, time.perf_counter() - began, outcome, as_json)

    asyncio.run(publish_all())


def _refuse_file(error: InputError) -> NoReturn:
    raise error


def _report(count: int, seconds: float, outcome: _Outcome, as_json: bool) -> None:
    """Report the number of published events: on a terminal, as JSON, and always if some are missing."""
    events = terminal.plural(count, "event")
    if as_json:
        terminal.print_json({"published": count, "whole": outcome == "whole", "seconds": round(seconds, 6)})
    elif outcome != "whole":
        terminal.messages().print(_INCOMPLETE[outcome].format(events), style="warning")
    elif terminal.messages().is_terminal:
        rate = f", {terminal.rate(count, seconds)} a second" if count > 1 else ""
        terminal.messages().print(f"published {events}{rate}", style="good")


def _is_content(event: str) -> bool:
    return event.lstrip().startswith(("{", "<"))  # a file whose name begins so can be given as ./{…


def _read(given: Sequence[str]) -> tuple[Iterator[_Batch] | None, Iterable[Event] | AsyncIterable[Event]]:
    """The batches of files, or the events of an argument or a pipe, which are published as they come."""
    event = given[0] if given else None
    if len(given) > 1 or (event is not None and not _is_content(event) and are_documents(event)):
        return iter(DocumentFiles(given, _refuse_file, path_attribute=None)), ()
    if event is None or event == "-":
        # A pipe is read by the event loop, which refuses regular files.
        stream = sys.stdin.buffer
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return _in_batches(_read_lines(stream, _STDIN)), ()
        return None, _read_pipe(stream)
    if _is_content(event):
        return None, [Event.from_text(event)]
    path = Path(event)
    if not path.is_file():
        raise InvalidArgument(f"{event!r} is no JSON object, no XML document, and no file of them")
    if not _READ_BY_NAME.isdisjoint(path.name.lower().split(".")[1:]):
        return iter(read_events(path, batch_size=_BATCH_EVENTS)), ()
    return _in_batches(_read_lines(path.open("rb"), event)), ()


def _in_batches(events: Iterator[Event]) -> Iterator[list[Event]]:
    """Events in lists; those before an error come first."""
    pending: list[Event] = []
    try:
        for event in events:
            pending.append(event)
            if len(pending) == _BATCH_EVENTS:
                yield pending
                pending = []
    except InputError:
        if pending:
            yield pending
        raise
    if pending:
        yield pending


async def _publish_batch(broker: Broker, batch: _Batch, confirm: bool, show: Callable[[int], None]) -> None:
    try:
        await broker.publish_many(batch, confirm=confirm)
    except (NotPermitted, NotAdvertised, LimitReached):
        if not isinstance(batch, list) or not confirm:
            raise
        # One by one up to the event that is refused: those before it are published, and the error is its own.
        await broker.publish_all(batch, confirm=True, show=show)


def _read_lines(stream: IO[bytes], source: str) -> Iterator[Event]:
    with stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield _parse(line, source, number)


async def _read_pipe(stream: IO[bytes]) -> AsyncIterator[Event]:
    """Events of a pipe, read without blocking the event loop: lines may be long in coming."""
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    number = 0
    async for line in reader:
        number += 1
        if line.strip():
            yield _parse(line, _STDIN, number)


def _parse(line: bytes, source: str, number: int) -> Event:
    try:
        return Event.from_json(line)
    except EventError as error:
        raise InputError(source, str(error), number) from None


@click.command()
@click.argument("where", metavar="WHERE")
@language_option(help="The language of the condition.")
@broker_options
def advertise(where: str, language: str, place: BrokerLocation, as_json: bool) -> None:
    """Advertise what is going to be published, until Ctrl-C.

    In a network with advertisements, subscriptions are routed towards overlapping advertisements only, and events that
    were not advertised are refused: `palio publish --advertise` does both. When this ends, subscribers without another
    publisher are notified.

    \b
    Example:
      palio advertise "symbol = 'ACME'"
    """
    offered = Filter.parse(where, language)

    async def advertise_until_cancelled() -> None:
        async with place.connect() as broker:
            await broker.advertise(offered)
            if as_json:
                terminal.print_json({"advertised": str(offered)}, at_once=True)
            else:
                terminal.messages().print(f"advertised at {broker.address}; Ctrl-C withdraws it", style="good")
            try:
                # Never resolved: only Ctrl-C ends the wait.
                await asyncio.get_running_loop().create_future()
            finally:
                await broker.unadvertise(offered)

    asyncio.run(advertise_until_cancelled())
