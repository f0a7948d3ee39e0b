"""`palio match`: a file of subscriptions against a stream of events."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import language_option, timezone_option
from palio.cli.main import INTERRUPTED
from palio.cli.match_statistics import MatchStatistics
from palio.errors import EventError, InputError, PalioError
from palio.events.names import list_first

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.progress import Progress

    from palio.cli.match_writer import MatchWriter
    from palio.cli.subscription_loader import Fault
    from palio.events import Event
    from palio.files import DocumentFiles, EventReader, SubscriptionLine
    from palio.matching.matcher import Matcher
    from palio.matching.subscription import Subscription

_EXIT_REFUSED: Final = 1
_MAX_SHOWN_FAULTS: Final = 5  # of events, and of subscriptions
_MAX_NAMED_ATTRIBUTES: Final = 5
_MIN_MEASURED_EVENTS: Final = 1_000  # with fewer, starting takes most of the time
_COLUMNS: Final = ("event", "subscription", "subscriber")
_DOCUMENT_COLUMNS: Final = ("event", "path", "subscription", "subscriber")


class _Refused(PalioError):
    """An unreadable event or subscription with --strict; it was reported."""


@click.command()
@click.argument("subscriptions", metavar="SUBSCRIPTIONS")
@click.argument("events", metavar="EVENTS", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print each match as a JSON object, on a line each.")
@click.option("--out", metavar="FILE", help="Write the matches to FILE: .jsonl .json .csv .parquet, also .gz …")
@click.option("--content", is_flag=True, help="Add the event itself to each match.")
@click.option("--strict", is_flag=True, help="Refuse unreadable lines instead of skipping them.")
@click.option("--format", help="The format of EVENTS, if its name does not say: jsonl, csv, parquet.gz, …")
@click.option("--subscriptions-format", metavar="TEXT", help="The format of SUBSCRIPTIONS, likewise.")
@language_option()
@timezone_option
@click.option(
    "--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
    help="How many of the most matched subscriptions the summary shows.",
)  # fmt: skip
@click.pass_context
def match(
    ctx: click.Context,
    subscriptions: str,
    events: tuple[str, ...],
    as_json: bool,
    out: str | None,
    content: bool,
    strict: bool,
    format: str | None,
    subscriptions_format: str | None,
    language: str,
    timezone: str,
    top: int,
) -> None:
    """Match a stream of events against a file of subscriptions.

    SUBSCRIPTIONS and EVENTS are files of .jsonl, .json, .csv or .parquet, also .gz, .xz or .zst; - is
    standard input. EVENTS may also be any number of .xml files and of folders with them, each file an event
    with its document as the attribute xml and its name as the attribute path. A subscription has an id and a
    condition, `where`, and may have a language and a subscriber. SUBSCRIPTIONS may also be a folder of files
    that are a condition each: .sql, .yml (Sigma), and .json or .txt in the language that --language names.

    \b
    Examples:
      palio match wants.jsonl events.jsonl
      palio match wants.jsonl flights.csv.gz --out matches.parquet
      palio match rules/ windows.jsonl.xz --json
      palio match xpaths.jsonl articles/
      tail -f events.jsonl | palio match wants.jsonl - --json

    A match is the number of an event, counted from 1, with a subscription and its subscriber, and the path of
    an XML file. Without --json and --out matches are only counted. Unreadable lines are reported and skipped.

    \b
    Exit codes:
      0    done, with or without skipped lines
      1    --strict, and something cannot be read: nothing is written
      2    wrong usage, or a file that cannot be read
      130  Ctrl-C: what was done until then is there, and whole
    """
    if subscriptions == "-" and "-" in events:
        raise click.UsageError("SUBSCRIPTIONS and EVENTS cannot both be standard input.")
    from palio.cli.match_writer import refuse_inputs

    if out == "-":
        as_json, out = True, None
    refuse_inputs(out, subscriptions, *events)

    console = terminal.messages()
    faults = _Faults(console, strict)
    has_documents = _have_documents(events, format)
    columns = (*(_DOCUMENT_COLUMNS if has_documents else _COLUMNS), *(("content",) if content else ()))
    try:
        # The files are opened first: whatever can be refused is refused before a million subscriptions are read.
        with (
            _open_events(events, format, faults, has_documents) as reader,
            _writers(as_json, out, strict, columns) as writers,
        ):
            matcher, statistics = _index(console, subscriptions, subscriptions_format, language, timezone, strict)
            statistics.unseen = set(matcher.attributes)
            _compile(matcher, has_documents)
            bar_is_seen = not (as_json and sys.stdout.isatty())  # between lines of JSON it would spoil both
            with terminal.progress(console, "Matching", reader.size, bar_is_seen) as progress:
                _run(matcher, reader, _MatchOutput(statistics, writers, columns), faults, progress)
    except _Refused:
        terminal.error("refused, as --strict asks; nothing was written")
        ctx.exit(_EXIT_REFUSED)
    faults.conclude("--strict stops at the first")
    if as_json:
        _print_line(statistics)
    else:
        _print_summary(statistics, reader.name, out, top)
    if statistics.interrupted:
        ctx.exit(INTERRUPTED)


def _have_documents(paths: Sequence[str], format: str | None) -> bool:
    """Whether the events are XML files, or folders with them."""
    from palio.files import are_documents

    return len(paths) > 1 or (format is None and are_documents(paths[0]))


def _open_events(
    paths: Sequence[str], format: str | None, faults: _Faults, has_documents: bool
) -> EventReader | DocumentFiles:
    """The reader of one file of events, or of XML documents."""
    from palio.files import DocumentFiles, read_events

    if has_documents:
        if format is not None:
            raise click.UsageError("--format is that of one file; several files of events are XML documents.")
        return DocumentFiles(paths, faults.event)
    return read_events(paths[0], format or ("jsonl" if paths[0] == "-" else None), on_error=faults.event)


def _index(
    console: Console, path: str, format: str | None, language: str, timezone: str, strict: bool
) -> tuple[Matcher, MatchStatistics]:
    """A matcher of the valid subscriptions; the others are reported."""
    from palio.files import read_subscriptions

    format = format or ("jsonl" if path == "-" else None)
    _check_name(path, format)
    name = "standard input" if path == "-" else path
    found: list[Fault] = []
    lines = read_subscriptions(
        path,
        format,
        on_error=lambda error: found.append((error.line or 0, error.place, None, error.reason)),
        language=language,
    )
    try:
        matcher, usable = _add_all(console, lines, language, timezone, found)
    except KeyboardInterrupt:
        console.print("interrupted before the first event")
        raise click.exceptions.Exit(INTERRUPTED) from None
    faults = _Faults(console, strict)
    for _, place, id, reason in sorted(found, key=lambda fault: fault[0]):
        faults.report(place, id, reason)
    faults.conclude(f"palio check --all {path} lists them")
    if strict and found:
        raise _Refused
    if not usable:
        raise InputError(name, "there is no subscription in it that can be used")
    return matcher, MatchStatistics(usable, faults.count)


def _add_all(
    console: Console, lines: Iterator[SubscriptionLine], language: str, timezone: str, faults: list[Fault]
) -> tuple[Matcher, list[Subscription]]:
    from palio.cli.subscription_loader import add_valid_subscriptions
    from palio.matching.matcher import Matcher

    matcher = Matcher()
    with terminal.progress(console, "Indexing", None) as progress:
        task = progress.add_task("", done="")

        def show(many: int) -> None:
            progress.update(task, done=terminal.plural(many, "subscription"))

        return matcher, add_valid_subscriptions(matcher, lines, language, timezone, faults, show)


def _compile(matcher: Matcher, has_documents: bool) -> None:
    """Compile the kernels, which takes seconds once per machine, before the first match."""
    import pyarrow as pa

    from palio.matching.columnar.kernel_readiness import XML, readiness

    with terminal.status("Compiling for this machine"):
        if has_documents:  # a long one takes seconds without them
            readiness[XML].wait_until_ready()
        matcher.match({})
        matcher.match_batch(pa.record_batch({"nothing": [None]}))


def _check_name(path: str, format: str | None) -> None:
    """InputError for an unknown file name that names the right option: --format is for events here."""
    from palio.files import is_condition_path, kind_of

    if format is not None or is_condition_path(path):
        return
    try:
        kind_of(path, None)
    except InputError:
        known = ".jsonl, .json, .csv or .parquet, also .gz, .xz or .zst, or say it with --subscriptions-format"
        raise InputError(path, f"its name does not say what it holds; let it end in {known}") from None


def _run(
    matcher: Matcher, reader: EventReader | DocumentFiles, matches: _MatchOutput, faults: _Faults, progress: Progress
) -> None:
    """Match all events, or those until Ctrl-C; the statistics have the number."""
    from palio.cli.output_file import defer_interrupt

    statistics = matches.statistics
    task = progress.add_task("", total=reader.size, done="0 events")
    started = time.perf_counter()
    try:
        for batch in reader:
            found = _match(matcher, batch, reader, faults)
            with defer_interrupt():
                matches.take(batch, reader.numbers, found)
            statistics.elapsed = time.perf_counter() - started
            speed = f"{terminal.rate(statistics.events, statistics.elapsed)}/s"
            hits = terminal.plural(statistics.matches, "match", "matches")
            progress.update(task, completed=reader.position, done=f"{statistics.events:,} events  {speed}  {hits}")
    except KeyboardInterrupt:
        statistics.interrupted = True
    statistics.faulty_events = faults.count


@dataclass(frozen=True, slots=True)
class _MatchOutput:
    """The destination of matches: counters, and the requested files."""

    statistics: MatchStatistics
    writers: list[MatchWriter]
    columns: tuple[str, ...]

    def take(self, batch: Any, numbers: Sequence[int], found: pa.Table) -> None:
        """Take the matches of one batch."""
        import numpy as np

        from palio.cli.match_statistics import attribute_names

        rows = found["row"].to_numpy()
        subscriptions = found["subscription"].combine_chunks()
        self.statistics.add(len(batch), rows, subscriptions)
        if self.statistics.unseen:
            self.statistics.unseen.difference_update(attribute_names(batch))
        if not self.writers or not len(rows):
            return
        content = paths = None
        if "content" in self.columns:
            events = _events(batch)
            content = [events[row] for row in rows.tolist()]
        if "path" in self.columns:
            paths = [str(batch[row]["path"]) for row in rows.tolist()]
        of_events = np.asarray(numbers, np.int64)[rows]
        subscribers = self.statistics.subscribers_of(subscriptions)
        for writer in self.writers:
            writer.write(of_events, subscriptions, subscribers, content, paths)


@contextmanager
def _writers(as_json: bool, out: str | None, strict: bool, columns: tuple[str, ...]) -> Iterator[list[MatchWriter]]:
    """The writers of matches: none, a file, standard output, or both."""
    from palio.cli.match_writer import open_writer

    with ExitStack() as stack:
        writers: list[MatchWriter] = []
        if as_json and strict:
            # Standard output cannot be taken back, so matches wait in a file for the end.
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="palio-")))
            # Entered before the writer, so that it runs after the writer has completed the file.
            stack.enter_context(_copy_to_output_at_end(folder / "matches.jsonl"))
            writers.append(stack.enter_context(open_writer(folder / "matches.jsonl", columns=columns)))
        elif as_json:
            writers.append(stack.enter_context(open_writer(None, columns=columns)))
        if out is not None:
            writers.append(stack.enter_context(open_writer(out, columns=columns)))
        yield writers


@contextmanager
def _copy_to_output_at_end(path: Path) -> Iterator[None]:
    """Copy a file to standard output once it is complete."""
    try:
        yield
    finally:
        # After a refusal the writer has removed its file.
        if path.exists():
            with open(path, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)


def _match(matcher: Matcher, batch: Any, reader: EventReader | DocumentFiles, faults: _Faults) -> pa.Table:
    """The matches of a batch; an event that cannot be matched is reported and left out."""
    try:
        return matcher.match_batch(batch)
    except EventError:
        return _match_one_by_one(matcher, batch, reader, faults)


def _match_one_by_one(matcher: Matcher, batch: Any, reader: EventReader | DocumentFiles, faults: _Faults) -> pa.Table:
    """The matches of a batch with faulty events; the error of a whole batch does not name its row."""
    import pyarrow as pa

    # With an empty table first, whose columns the result has where no event can be matched.
    kept = [matcher.match_batch([])]
    for row, event in enumerate(_events(batch)):
        try:
            found = matcher.match_batch([event])
        except EventError as error:
            faults.event(InputError(reader.name, f"event {reader.numbers[row]}: {error}"))
            continue
        kept.append(found.set_column(0, "row", pa.array([row] * len(found), pa.int64())))
    return pa.concat_tables(kept).unify_dictionaries()


def _events(batch: Any) -> list[Event]:
    from palio.events import Event

    return batch if isinstance(batch, list) else list(Event.from_arrow(batch))


class _Faults:
    """Reports the first faults, and counts all."""

    def __init__(self, console: Console, strict: bool) -> None:
        self.count = 0
        self._console = console
        self._strict = strict

    def event(self, error: InputError) -> None:
        """Report an event; with --strict this ends the run."""
        self.report(error.place, None, error.reason)
        if self._strict:
            raise _Refused

    def report(self, place: str, id: str | None, reason: PalioError | str) -> None:
        self.count += 1
        if self.count <= _MAX_SHOWN_FAULTS:
            terminal.fault(self._console, place, "error" if self._strict else "skipped", id, reason)

    def conclude(self, advice: str) -> None:
        """Report the number of faults that were not shown, and how to see them."""
        if self.count > _MAX_SHOWN_FAULTS:
            more = f"… and {self.count - _MAX_SHOWN_FAULTS:,} more; {advice}"
            self._console.print(more, soft_wrap=True, style="quiet")


def _skipped_text(statistics: MatchStatistics) -> str:
    faulty = [(statistics.faulty_events, "event"), (statistics.faulty_subscriptions, "subscription")]
    return " and ".join(terminal.plural(count, noun) for count, noun in faulty if count)


def _print_line(statistics: MatchStatistics) -> None:
    """One line on standard error: on a terminal, and always after skipped lines or an interrupt."""
    skipped = _skipped_text(statistics)
    if sys.stderr.isatty() or skipped or statistics.interrupted:
        matches = terminal.plural(statistics.matches, "match", "matches")
        summary = f"{terminal.plural(statistics.events, 'event')}, {matches} in {terminal.duration(statistics.elapsed)}"
        summary += f", {skipped} skipped" if skipped else ""
        summary += ", ended by Ctrl-C" if statistics.interrupted else ""
        terminal.messages().print(summary, soft_wrap=True, style="quiet")


def _print_summary(statistics: MatchStatistics, name: str, out: str | None, top: int) -> None:
    from rich.table import Column
    from rich.text import Text

    console = terminal.results()
    most = statistics.most_matched(top)
    if most:
        room = 24 if console.width >= terminal.WIDE_COLUMNS else 12
        table = terminal.table(
            "most matched", Column("subscriber"), terminal.numbers("matches"), Column("", width=room)
        )
        for subscription, count in most:
            table.add_row(
                Text(subscription.id, style="name"),
                subscription.subscriber or "",
                f"{count:,}",
                terminal.bar(count / most[0][1], room),
            )
        console.print(table)
        console.print()
    console.print(terminal.facts(_facts(statistics, name, out)))
    if out is None and statistics.matches:
        console.print("\nMatches were only counted: --out FILE keeps them, --json prints them.", style="quiet")


def _facts(statistics: MatchStatistics, name: str, out: str | None) -> Iterator[tuple[str, str]]:
    taken = f"in {terminal.duration(statistics.elapsed)}"
    if statistics.events >= _MIN_MEASURED_EVENTS:
        taken += f", {terminal.rate(statistics.events, statistics.elapsed)} a second"
    yield "events", f"{statistics.events:,} from {name} {taken}"
    share = f", for {statistics.wanted_events:,} of the events" if statistics.matches else ""
    yield "matches", f"{statistics.matches:,}{share}" + (f", in {out}" if out else "")
    silent = statistics.never_matched()
    listed = f": {', '.join(silent)}" if 0 < len(silent) <= 5 else ""
    yield "subscriptions", f"{statistics.subscriptions:,}, of which {len(silent):,} never matched{listed}"
    if statistics.unseen and statistics.events:
        named = list_first(sorted(statistics.unseen), _MAX_NAMED_ATTRIBUTES)
        yield "in no event", f"{named}, which subscriptions ask about"
    if skipped := _skipped_text(statistics):
        yield "skipped", skipped
    if statistics.interrupted:
        yield "ended", "by Ctrl-C; this is what was done until then"
