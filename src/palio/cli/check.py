"""`palio check`: faults of subscriptions, before they meet an event.

There are six kinds: errors, conditions that never match, those that always do, those that another one of the same
subscriber makes redundant, those with a date that lacks its quotes, and those that are slow. Only errors fail it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import language_option, timezone_option
from palio.cli.main import INTERRUPTED
from palio.errors import InputError, PalioError, ParseError

if TYPE_CHECKING:
    from rich.console import Console

    from palio.covering.covering_search import Redundancies
    from palio.files import SubscriptionLine
    from palio.filters.explanation import AccessPath
    from palio.filters.filter import Filter
    from palio.matching.access_paths import AccessPaths

_EXIT_ERRORS: Final = 1
_MAX_SHOWN_PER_KIND: Final = 10
_MAX_CONDITION_WIDTH: Final = 100
# The kinds of findings in the order of the summary, with their meaning.
_KINDS: Final = {
    "error": "cannot be read, or asks for what no subscription may",
    "never": "no event can match them",
    "always": "every event matches them",
    "redundant": "equal to, or covered by, another one of the same subscriber",
    "doubtful": "may not mean what they seem to mean",
    "slow": "each costs every event a look of its own",
}

_LABELS: Final = {**{kind: kind for kind in _KINDS}, "never": "never matches", "always": "always matches"}


@dataclass(frozen=True, slots=True)
class _Finding:
    """One finding about one subscription."""

    kind: str
    message: PalioError | str
    by: str | None = None
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"kind": self.kind, "message": str(self.message)}
        if isinstance(self.message, ParseError):
            answer.update(message=self.message.reason, position=self.message.position, hint=self.message.hint)
        if self.by is not None:
            answer["by"] = self.by
        if self.hint is not None:
            answer["hint"] = self.hint
        return answer


@dataclass(slots=True)
class _Entry:
    """One subscription of the file, and the findings about it."""

    line: int
    place: str
    id: str | None = None
    subscriber: str | None = None
    filter: Filter | None = None
    paths: AccessPaths | None = None
    findings: list[_Finding] = field(default_factory=list)


@dataclass(slots=True)
class _Report:
    """The findings about all subscriptions, or those until an interrupt."""

    entries: list[_Entry] = field(default_factory=list)
    cut_short: int = 0
    interrupted: bool = False

    def count(self) -> Counter[str]:
        """The number of subscriptions with each kind of finding."""
        return Counter(kind for entry in self.entries for kind in {each.kind for each in entry.findings})


@click.command()
@click.argument("subscriptions", metavar="SUBSCRIPTIONS")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each subscription, on a line each.")
@click.option("--normal-form", is_flag=True, help="Also show each condition in its normal form.")
@click.option("--index", is_flag=True, help="Also show which part of the index decides each condition.")
@click.option("--all", "show_all", is_flag=True, help=f"Show all findings, not {_MAX_SHOWN_PER_KIND} of each kind.")
@click.option("--format", help="The format of SUBSCRIPTIONS, if its name does not say: jsonl, csv.gz, …")
@language_option()
@timezone_option
@click.pass_context
def check(
    ctx: click.Context,
    subscriptions: str,
    as_json: bool,
    normal_form: bool,
    index: bool,
    show_all: bool,
    format: str | None,
    language: str,
    timezone: str,
) -> None:
    """Check subscriptions: errors with their place, conditions that never match, redundant and slow ones with
    the reason.

    SUBSCRIPTIONS is a file of .jsonl, .json, .csv or .parquet, also .gz, .xz or .zst; - is standard input.
    Each has an id and a condition, `where`, and may have a language and a subscriber. It may also be a folder
    of files that are a condition each: .sql, .yml (Sigma), and .json or .txt in the language that --language
    names.

    \b
    Examples:
      palio check wants.jsonl
      palio check wants.jsonl --normal-form
      palio check wants.csv.gz --json | jq -c 'select(.findings != [])'

    Subscriptions without a subscriber are taken as those of one subscriber. Exit code 0: no errors, whatever
    else was found; 1: errors; 2: the file cannot be read.
    """
    report = _examine(subscriptions, format, language, timezone, index)
    if as_json:
        for entry in report.entries:
            terminal.print_json(_as_dict(entry, normal_form))
    else:
        name = "standard input" if subscriptions == "-" else subscriptions
        _print(name, report, normal_form, None if show_all else _MAX_SHOWN_PER_KIND)
    if report.interrupted:
        ctx.exit(INTERRUPTED)
    ctx.exit(_EXIT_ERRORS if report.count()["error"] else 0)


def _examine(path: str, format: str | None, language: str, timezone: str, index: bool) -> _Report:
    from palio.files.subscriptions import read_subscriptions

    report = _Report()

    def unreadable(error: InputError) -> None:
        finding = _Finding("error", error.reason)
        report.entries.append(_Entry(error.line or 0, error.place, findings=[finding]))

    lines = read_subscriptions(
        path, format or ("jsonl" if path == "-" else None), on_error=unreadable, language=language
    )
    try:
        with closing(lines):
            _parse_all(lines, language, timezone, report)
        _find_slow(report, index)
        _compare_all(report)
    except KeyboardInterrupt:
        report.interrupted = True
    report.entries.sort(key=lambda entry: entry.line)
    return report


def _parse_all(lines: Iterable[SubscriptionLine], language: str, timezone: str, report: _Report) -> None:
    first: dict[str, SubscriptionLine] = {}
    with terminal.progress(terminal.messages(), "Reading", None) as progress:
        task = progress.add_task("", done="")
        for line in lines:
            entry = _Entry(line.line, line.place, line.id, line.subscriber)
            report.entries.append(entry)
            taken = first.setdefault(line.id, line)
            if taken is line:
                _parse(line, language, timezone, entry)
            else:
                entry.findings.append(_Finding("error", f"the id is taken already, in {taken.place}"))
            progress.update(task, done=terminal.plural(len(report.entries), "subscription"))


def _parse(line: SubscriptionLine, language: str, timezone: str, entry: _Entry) -> None:
    from palio.cli.condition_diagnostics import doubtful_dates, why_unsatisfiable
    from palio.filters.filter import Filter

    try:
        found = Filter.parse(line.where, language=line.language or language, timezone=line.timezone or timezone)
    except PalioError as error:
        entry.findings.append(_Finding("error", error))
        return
    entry.filter = found
    doubtful = doubtful_dates(line.where, line.language or language)
    entry.findings += [_Finding("doubtful", reason) for reason in doubtful]
    if found == Filter.nothing:
        reason = why_unsatisfiable(found, line.where, line.language or language)
        entry.findings.append(_Finding("never", terminal.shorten(str(line.where), _MAX_CONDITION_WIDTH), hint=reason))
    elif found == Filter.everything:
        entry.findings.append(_Finding("always", terminal.shorten(str(line.where), _MAX_CONDITION_WIDTH)))


def _find_slow(report: _Report, index: bool) -> None:
    """Find what is slow beside all the others, with which it may share expressions; and by what each is looked up."""
    from palio.cli.condition_diagnostics import why_slow
    from palio.matching.access_paths import AccessPaths
    from palio.matching.columnar.computed_attributes import ExpressionUses

    filters = [(entry, entry.filter) for entry in report.entries if entry.filter is not None]
    uses = ExpressionUses(found.tree for _, found in filters)
    for entry, found in filters:
        entry.findings += [_Finding("slow", each.reason, hint=each.remedy) for each in why_slow(found, uses)]
        entry.paths = AccessPaths(found.tree, uses.indexed(found.tree)) if index else None


def _compare_all(report: _Report) -> None:
    from palio.covering.covering_search import find_redundant

    entries = [entry for entry in report.entries if entry.filter is not None]
    filters = [entry.filter for entry in entries if entry.filter is not None]
    with terminal.progress(terminal.messages(), "Comparing", None) as progress:
        progress.add_task("", done=terminal.plural(len(entries), "subscription"))
        # Only within a subscriber: another one needs its own delivery of an event.
        answer: Redundancies = find_redundant(filters, [entry.subscriber for entry in entries])
    report.cut_short = answer.cut_short
    for number, by, is_equal in answer.found:
        other = entries[by]
        how = "equal to" if is_equal else "covered by"
        message = f"{how} {terminal.shorten(str(other.id), 60)}, in {other.place}"
        entries[number].findings.append(_Finding("redundant", message, other.id))


def _as_dict(entry: _Entry, normal_form: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {"place": entry.place, "line": entry.line, "id": entry.id, "subscriber": entry.subscriber}
    answer["findings"] = [finding.as_dict() for finding in entry.findings]
    if normal_form:
        answer["normal_form"] = None if entry.filter is None else str(entry.filter)
    if entry.paths is not None:
        answer["index"] = [
            {"condition": condition, **path.as_dict(), "meaning": str(path)} for condition, path in _access_paths(entry)
        ]
    return answer


def _access_paths(entry: _Entry) -> list[tuple[str, AccessPath]]:
    """The conditions of a subscription as they were written, and how the index decides each."""
    from palio.filters.explanation import as_written
    from palio.filters.sql_writer import to_sql
    from palio.filters.tree import leaves

    if entry.filter is None or entry.paths is None:
        return []
    zone = entry.filter.timezone
    found = leaves(as_written(entry.filter.written))
    return [(terminal.strip_parentheses(to_sql(each, zone)), entry.paths.of(each)) for each in found]


def _print(name: str, report: _Report, normal_form: bool, most: int | None) -> None:
    from rich.text import Text

    console = terminal.results()
    shown: Counter[str] = Counter()
    for entry in report.entries:
        place = entry.place
        if normal_form and entry.filter is not None:
            subject = (f"{entry.id}: ", "name")
            console.print(Text.assemble((f"{place}: ", "quiet"), subject, str(entry.filter)), soft_wrap=True)
        for condition, path in _access_paths(entry):
            subject = (f"{entry.id}: ", "name")
            console.print(Text.assemble((f"{place}: ", "quiet"), subject, f"{condition}: {path}"), soft_wrap=True)
        for finding in entry.findings:
            shown[finding.kind] += 1
            if most is None or shown[finding.kind] <= most:
                terminal.fault(console, place, _LABELS[finding.kind], entry.id, finding.message, finding.hint)
    left_out = {kind: count - most for kind, count in shown.items() if most is not None and count > most}
    if left_out:
        listed = ", ".join(f"{left_out[kind]:,} × {_LABELS[kind]}" for kind in _KINDS if kind in left_out)
        console.print(Text(f"… and {listed}; --all shows them", style="quiet"), soft_wrap=True)
    if normal_form or shown or any(entry.paths for entry in report.entries):
        console.print()
    _print_summary(console, name, report)


def _print_summary(console: Console, name: str, report: _Report) -> None:
    from rich.text import Text

    counts = report.count()
    many = terminal.plural(len(report.entries), "subscription")
    fine = sum(not entry.findings for entry in report.entries)
    until = ", until Ctrl-C" if report.interrupted else ""
    console.print(Text(f"{name}: {many}{until}", style="title"), soft_wrap=True)
    table = terminal.table("finding", terminal.numbers("count"), "they are")
    table.add_row(Text("fine", style="good"), f"{fine:,}", "nothing to say of them")
    for kind, meaning in _KINDS.items():
        style = "quiet" if not counts[kind] else "bad" if kind == "error" else "warning"
        table.add_row(Text(kind, style=style), f"{counts[kind]:,}", Text(meaning, style="quiet" * (not counts[kind])))
    console.print(table)
    if report.cut_short:
        note = f"For {report.cut_short:,} the search for a wider one was cut short: more may be redundant."
        console.print(Text(note, style="quiet"), soft_wrap=True)
