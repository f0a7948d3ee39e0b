"""`palio demo sigma`: published detection rules over recorded attacks, and which of them fire."""

from __future__ import annotations

import lzma
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from palio.languages.sigma import RefusedRule, SigmaRule
    from palio.matching.matcher import Matcher

_RULES: Final = Path("subscriptions") / "sigma_rules.tar.xz"
_EVENTS: Final = Path("events") / "otrf_windows_956701.jsonl.xz"
_FOLDERS: Final = ("rules", "rules-emerging-threats", "rules-threat-hunting", "rules-compliance")  # of active rules
_BATCH_EVENTS: Final = 8_192
_MAX_ROWS: Final = 20
_STYLE_OF_LEVEL: Final = {"critical": "bad", "high": "bad", "medium": "warning"}
_MAX_WIDTH: Final = 140


@dataclass
class _Result:
    """Counters of the run."""

    events: int = 0
    matches: int = 0
    seconds: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)


@click.command()
@click.option(
    "--events", type=click.IntRange(1), default=100_000, show_default=True, metavar="N",
    help="How many events to match, from the first on.",
)  # fmt: skip
@click.option("--all-products", is_flag=True, help="Take the rules for other products than Windows too.")
def sigma(events: int, all_products: bool) -> None:
    """Thousands of Sigma rules over logs of recorded attacks.

    The rules are SigmaHQ's, the logs those of OTRF's Security-Datasets. Neither ships with Palio: both are looked for
    in the folder that PALIO_DATA names, or in `shared/data` beside the working folder.

    \b
    Examples:
      palio demo sigma
      palio demo sigma --events 956701
    """
    folder = _data_folder()
    rules, refused, reading = _read(folder / _RULES, None if all_products else "windows")
    matcher, building = _index(rules)
    result = _match(matcher, folder / _EVENTS, events)
    console = terminal.results()
    _print_fired(console, rules, result)
    console.print()
    console.print(terminal.facts(_facts(rules, refused, matcher, result, reading, building)))


def _data_folder() -> Path:
    given = os.environ.get("PALIO_DATA")
    folder = Path(given) if given else Path.cwd().parent / "shared" / "data"
    for path in (_RULES, _EVENTS):
        if not (folder / path).is_file():
            raise InputError(
                str(folder / path),
                "the rules and logs for this demonstration do not ship with Palio, and are not here; "
                "set PALIO_DATA to the folder that has them",
            )
    return folder


def _read(path: Path, product: str | None) -> tuple[list[SigmaRule], list[RefusedRule], float]:
    from palio.languages.sigma import SigmaRule
    from palio.languages.sigma.logsources import LogSources
    from palio.languages.sigma.rule_files import rule_files, rules_in

    started = time.perf_counter()
    with terminal.status("Opening the archive of rules"):
        files = [
            file for file in rule_files(path, folders=_FOLDERS) if product is None or f"product: {product}" in file.text
        ]
    rules: list[SigmaRule] = []
    refused: list[RefusedRule] = []
    mapping = LogSources.read(None)
    with terminal.progress(terminal.messages(), "Reading rules", len(files)) as progress:
        task = progress.add_task("", total=len(files), done="")
        for file in files:
            for found in rules_in(file, mapping):
                if isinstance(found, SigmaRule):
                    rules.append(found)
                else:
                    refused.append(found)
            progress.update(task, advance=1, done=f"{len(rules):,} of {len(files):,}")
    return rules, refused, time.perf_counter() - started


def _index(rules: list[SigmaRule]) -> tuple[Matcher, float]:
    from palio.matching.matcher import Matcher
    from palio.matching.subscription import Subscription

    with terminal.status(f"Indexing {len(rules):,} rules"):
        started = time.perf_counter()
        matcher = Matcher()
        matcher.add_subscriptions([Subscription(rule.id, rule.filter, metadata=rule.metadata) for rule in rules])
        building = time.perf_counter() - started
    with terminal.status("Compiling for this machine"):
        matcher.match_batch([{"Channel": "Security"}])
    return matcher, building


def _match(matcher: Matcher, path: Path, limit: int) -> _Result:
    result = _Result()
    with terminal.progress(terminal.messages(), "Matching events", limit) as progress:
        task = progress.add_task("", total=limit, done="")
        for lines in _batches(path, limit):
            started = time.process_time()
            found = matcher.match_batch(lines)
            result.seconds += time.process_time() - started
            result.events += len(lines)
            result.matches += found.num_rows
            result.fired.update(found["subscription"].to_pylist())
            progress.update(task, advance=len(lines), done=f"{result.events:,} events, {result.matches:,} matches")
    return result


def _batches(path: Path, limit: int) -> Iterator[list[bytes]]:
    with lzma.open(path) as file:
        lines = islice(file, limit)
        while batch := list(islice(lines, _BATCH_EVENTS)):
            yield batch


def _print_fired(console: Console, rules: list[SigmaRule], result: _Result) -> None:
    from rich.text import Text

    console.print()
    console.print(
        Text.assemble(
            ("Palio", "bold cyan"), (" · which rules fire", "title"), "\n",
            (f"{result.events:,} events of recorded attacks × {terminal.plural(len(rules), 'Sigma rule')}", "quiet"),
        )
    )  # fmt: skip
    console.print()
    table = _fired(console, {rule.id: rule for rule in rules}, result)
    table.width = min(console.width, _MAX_WIDTH)
    console.print(table)
    if len(result.fired) > _MAX_ROWS:
        console.print(Text(f"and {terminal.plural(len(result.fired) - _MAX_ROWS, 'rule')} more", style="quiet"))


def _fired(console: Console, rules: dict[str, SigmaRule], result: _Result) -> Table:
    from rich.table import Column
    from rich.text import Text

    room = 16 if console.width >= terminal.WIDE_COLUMNS else 8
    table = terminal.table("level", Column("rule", ratio=1), terminal.numbers("fired"), Column("", width=room))
    most = max(result.fired.values(), default=1)
    for id, count in result.fired.most_common(_MAX_ROWS):
        level = rules[id].level or ""
        table.add_row(
            Text(level, style=_STYLE_OF_LEVEL.get(level, "quiet")),
            rules[id].title,
            f"{count:,}",
            terminal.bar(count / most, room),
        )
    return table


def _facts(
    rules: list[SigmaRule],
    refused: list[RefusedRule],
    matcher: Matcher,
    result: _Result,
    reading: float,
    building: float,
) -> Iterator[tuple[str, str]]:
    yield "read", f"{terminal.plural(len(rules), 'rule')} in {terminal.duration(reading)}; {len(refused):,} refused"
    each = f"{matcher.statistics().bytes_per_subscription:,.0f} bytes each"
    yield "indexed", f"in {terminal.duration(building)}, {each}"
    speed: Any = terminal.rate(result.events, result.seconds)
    yield "matched", f"{result.events:,} events in {terminal.duration(result.seconds)} of one core: {speed} events/s"
    fired = f"{terminal.plural(len(result.fired), 'rule')} fired"
    yield (
        "answered",
        f"{terminal.plural(result.matches, 'match', 'matches')}; {fired}, {len(rules) - len(result.fired):,} did not",
    )
