"""Options shared by several commands: the session, durations, and the description of a stream."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from palio.cli.spark.event_source import FORMATS, Source

if TYPE_CHECKING:
    from palio.spark.sinks.sink import Sink

_Command = TypeVar("_Command", bound=Callable[..., Any])
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(ctx: click.Context, param: click.Parameter, given: str | None) -> timedelta | None:
    """Parse a duration: 30s, 10m, 2h, 1d."""
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", given)
    if found is None:
        raise click.BadParameter(f"{given!r} is no duration; write 30s, 10m, 2h or 1d")
    return timedelta(**{_UNITS[found[2]]: float(found[1])})


def session_options(command: _Command) -> _Command:
    """Options of the Spark session."""
    conf = click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", callback=_settings,
                        help="A setting of Spark.")  # fmt: skip
    master = click.option("--master", metavar="URL",
                          help="Spark master: local[4], spark://…, sc://…; by default all cores here.")  # fmt: skip
    return master(conf(command))


@dataclass(frozen=True)
class StreamOptions:
    """Description of a stream: source, subscriptions, sink and checkpoint; shared by `stream` and `backfill`."""

    events: str
    subscriptions: str
    out: str
    checkpoint: str
    schema: str | None
    format: str | None
    columns: list[str] | None
    json: tuple[str, ...]
    key: list[str] | None
    undelivered: str | None
    where: str | None
    token: str | None
    authority: str | None
    master: str | None
    settings: dict[str, str]

    @cached_property
    def source(self) -> Source:
        asked = {} if self.where is None else {"where": self.where}
        return Source(self.events, self.format, self.schema, broker={**self._broker, **asked})

    @cached_property
    def sink(self) -> Sink:
        from palio.cli.spark.match_report import CountingSink
        from palio.spark.sinks.sink import is_push_address, open_sink

        rest = sink_of_files("--undelivered", self.undelivered)
        sink = open_sink(self.out, key=self.key or self.source.key, undelivered=rest, broker=self._broker)
        return CountingSink(sink) if is_push_address(self.out) else sink

    @property
    def _broker(self) -> dict[str, str]:
        """Options of brokers beside their address."""
        options = {"token": self.token, "authority": self.authority}
        return {name: value for name, value in options.items() if value is not None}


def sink_of_files(option: str, address: str | None) -> Sink | None:
    """A sink of dead letters or undelivered matches, which must be kept in files."""
    from palio.spark.sinks.sink import is_push_address, open_sink

    if address is None:
        return None
    if is_push_address(address):
        raise click.BadParameter("this is kept in files: name a folder, or delta:FOLDER", param_hint=option)
    return open_sink(address)


def stream_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a stream, passed to the command together."""

    @wraps(command)
    def gather(**given: Any) -> None:
        stream = StreamOptions(**{each.name: given.pop(each.name) for each in fields(StreamOptions)})
        command(options=stream, **given)

    gathered = session_options(gather)
    options = [
        click.option("--events", required=True, metavar="ADDRESS",
                     help="Events: a folder of files, 'events/*.jsonl', nats://localhost:4222/STREAM, palio://localhost:7420."),
        click.option("--subscriptions", required=True, metavar="LOG", help="The subscription log, see `subscribe`."),
        click.option("--out", required=True, metavar="SINK",
                     help="Sink of matches: a folder (Parquet), delta:FOLDER, nats://…/SUBJECT, https://…, palio://…"),
        click.option("--checkpoint", required=True, metavar="FOLDER", help="The checkpoint of the stream."),
        click.option("--schema", metavar="COLUMNS",
                     help="The events' columns, in SQL: 'id long, price double'; by default those of the files."),
        click.option("--format", type=click.Choice(FORMATS), help="Format of the events, if their names do not say."),
        click.option("--columns", metavar="NAMES", callback=_names,
                     help="Columns of the event to keep, separated by commas; by default all."),
        click.option("--json-column", "json", multiple=True, metavar="NAME", help="A column of JSON texts."),
        click.option("--key", metavar="NAMES", callback=_names,
                     help="Columns that identify an event, for nats://, https:// and palio://."),
        click.option("--undelivered", metavar="SINK", help="Sink for matches that a server refuses."),
        click.option("--where", metavar="CONDITION", help="Read only events that match, from brokers (palio://…)."),
        click.option("--token", envvar="PALIO_TOKEN", metavar="TOKEN",
                     help="Token for authentication at brokers; also read from PALIO_TOKEN."),
        click.option("--authority", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
                     help="Certificate authority to trust, with palio+tls://."),
    ]  # fmt: skip
    for option in reversed(options):
        gathered = option(gathered)
    return gathered


def _settings(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    return dict(split_pair(text, "--conf") for text in given)


def split_pair(text: str, option: str, form: str = "NAME=VALUE") -> tuple[str, str]:
    """The two sides of NAME=VALUE, as an option takes it; BadParameter without a name or an equals sign."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"{text!r} is no pair; write '{form}'", param_hint=option)
    return name.strip(), value.strip()


def _names(ctx: click.Context, param: click.Parameter, given: str | None) -> list[str] | None:
    return None if given is None else [name.strip() for name in given.split(",")]
