"""`palio publish`: send events to a broker."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from math import inf
from pathlib import Path
from typing import IO, Final

import click

from palio.cli import terminal
from palio.cli.connecting import Place, broker_options, run
from palio.errors import EventError, InputError, InvalidArgument
from palio.events import Event

_SHOWN_EVERY: Final = 1_000
_LONGEST_LINE: Final = 16 * 1024 * 1024
_STDIN: Final = "standard input"


@click.command()
@click.argument("event", required=False, metavar="[EVENT | FILE | -]")
@click.option("--advertise", metavar="WHERE", help="Advertise this first, where the network wants that.")
@click.option("--unconfirmed", is_flag=True, help="Do not wait until the broker has written each event down; faster.")
@broker_options
def publish(
    event: str | None,
    advertise: str | None,
    unconfirmed: bool,
    place: Place,
    as_json: bool,
) -> None:
    """Publish an event, or a file of them.

    EVENT is the text of a JSON object. FILE has one on each line; - and nothing at all is standard input.

    \b
    Examples:
      palio publish '{"symbol": "ACME", "price": 120}'
      palio publish quotes.jsonl --unconfirmed
      tail -f quotes.jsonl | palio publish
    """
    if event is None and sys.stdin.isatty():
        raise click.UsageError("give an event, a file of events, or pipe events in")
    events = _events(event)

    async def doing() -> None:
        count, began, is_whole = 0, time.perf_counter(), False
        async with place.connect() as broker:
            if advertise is not None:
                await broker.advertise(advertise)
            console = terminal.messages()
            if console.is_terminal and broker.events_per_second != inf:
                console.print(f"the broker takes {broker.events_per_second:g} events a second from you", style="quiet")
            with terminal.progress(console, "publishing", None, event is None or not _is_text(event)) as progress:
                task = progress.add_task("", done="")

                def show(done: int) -> None:
                    nonlocal count
                    count = done
                    if done % _SHOWN_EVERY == 0:
                        progress.update(task, done=terminal.plural(done, "event"))

                try:
                    await broker.publish_all(events, confirm=not unconfirmed, show=show)
                    is_whole = True
                finally:
                    _tell(count, time.perf_counter() - began, is_whole, as_json)

    run(doing())


def _tell(count: int, seconds: float, is_whole: bool, as_json: bool) -> None:
    """How many were published: to people who look on, and to everyone where it is not all."""
    if as_json:
        terminal.print_json({"published": count, "whole": is_whole, "seconds": round(seconds, 6)})
    elif not is_whole:
        terminal.messages().print(f"published {terminal.plural(count, 'event')}, and then no more", style="warning")
    elif terminal.messages().is_terminal:
        rate = f", {terminal.rate(count, seconds)} a second" if count > 1 else ""
        terminal.messages().print(f"published {terminal.plural(count, 'event')}{rate}", style="good")


def _is_text(event: str) -> bool:
    return event.lstrip().startswith("{")


def _events(event: str | None) -> Iterable[Event] | AsyncIterable[Event]:
    if event is None or event == "-":
        stream = sys.stdin.buffer
        return _lines(stream, _STDIN) if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else _piped(stream)
    if _is_text(event):
        return [Event.from_json(event)]
    path = Path(event)
    if not path.is_file():
        raise InvalidArgument(f"{event!r} is no JSON object, and no file of them")
    return _lines(path.open("rb"), event)


def _lines(stream: IO[bytes], source: str) -> Iterator[Event]:
    with stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield _read(line, source, number)


async def _piped(stream: IO[bytes]) -> AsyncIterator[Event]:
    """Lines of a pipe, which may be long in coming: nobody is to wait for them but this."""
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    number = 0
    async for line in reader:
        number += 1
        if line.strip():
            yield _read(line, _STDIN, number)


def _read(line: bytes, source: str, number: int) -> Event:
    try:
        return Event.from_json(line)
    except EventError as error:
        raise InputError(source, str(error), number) from None
