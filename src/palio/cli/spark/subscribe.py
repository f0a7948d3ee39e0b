"""Command `palio spark subscribe`: changes to the subscription log that streams follow."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import language_option, timezone_option
from palio.errors import DuplicateSubscription, PipelineError, UnknownSubscription

if TYPE_CHECKING:
    from palio.matching.subscription import Subscription
    from palio.spark.subscription_log import SubscriptionLog

_REFUSED: Final = 1
_MAX_SHOWN_FAULTS: Final = 5


@click.command()
@click.argument("log", metavar="LOG")
@click.argument("files", nargs=-1, metavar="[FILE]…")
@click.option("--id", metavar="ID", help="Id of one subscription, with --where.")
@click.option("--where", metavar="CONDITION", help="The condition of --id.")
@click.option("--subscriber", metavar="NAME", help="The subscriber of --id.")
@click.option("--remove", multiple=True, metavar="ID", help="Remove a subscription.")
@click.option("--exact", is_flag=True, help="Also remove the subscriptions that are in no FILE.")
@language_option()
@timezone_option
@click.option("--strict", is_flag=True, help="Write nothing if a subscription cannot be used.")
@click.option("--compact", is_flag=True, help="Write a snapshot, and remove versions older than a week.")
@click.option("--list", "list_them", is_flag=True, help="Print the subscriptions, a JSON object on a line each.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.pass_context
def subscribe(
    ctx: click.Context,
    log: str,
    files: tuple[str, ...],
    id: str | None,
    where: str | None,
    subscriber: str | None,
    remove: tuple[str, ...],
    exact: bool,
    language: str,
    timezone: str,
    strict: bool,
    compact: bool,
    list_them: bool,
    as_json: bool,
) -> None:
    """Add, change and remove subscriptions in the log that streams follow.

    LOG is a folder or an address, s3://…; the first call creates it. FILE holds subscriptions, as for `palio match`:
    those with a new id are added, those that differ are changed, the others stay. All changes become one version,
    which streams use from their next batch on. A repeated call changes nothing.

    \b
    Examples:
      palio spark subscribe wants/ wants.jsonl
      palio spark subscribe wants/ wants.jsonl --exact
      palio spark subscribe wants/ --id acme --where "symbol = 'ACME'" --remove desk
      palio spark subscribe wants/ --list
    """
    from palio.matching.subscription import Subscription
    from palio.spark.subscription_log import SubscriptionLog

    if (id is None) != (where is None):
        raise click.UsageError("--id and --where go together.")
    if exact and not files:
        raise click.UsageError("--exact needs a FILE; an empty one removes all.")
    faulty, wanted = _read(files, language, timezone)
    if faulty and strict:
        terminal.error("refused, as --strict asks; nothing was written")
        ctx.exit(_REFUSED)
    if id is not None:
        wanted.append(Subscription(id, where, language, subscriber, {}, timezone))
    target = SubscriptionLog(log)
    asked = bool(files or remove or id is not None)
    made = _commit(target, wanted, remove, exact) if asked else Difference([], [], [], 0)
    if compact:
        target.compact()
    if list_them:
        if not target.exists():
            raise PipelineError(f"there is no subscription log at {target.path}")
        for each in target.at():
            terminal.print_json(_line(each))
    elif as_json:
        terminal.print_json({**_state(target), **made.counts(), "left_out": faulty})
    else:
        _print(target, made, faulty)


@dataclass(frozen=True)
class Difference:
    """Changes that bring a log to the wanted subscriptions."""

    added: list[Subscription]
    changed: list[Subscription]
    removed: list[str]
    unchanged: int

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def counts(self) -> dict[str, int]:
        return {
            "added": len(self.added),
            "changed": len(self.changed),
            "removed": len(self.removed),
            "unchanged": self.unchanged,
        }


def difference(
    now: Mapping[str, Subscription], wanted: Iterable[Subscription], remove: Sequence[str], exact: bool
) -> Difference:
    """Compute the changes; of several subscriptions with one id the last counts."""
    last = {each.id: each for each in wanted}
    for id in remove:
        if id not in now:
            raise UnknownSubscription(id)
        if id in last:
            raise click.UsageError(f"{id!r} is to be added and to be removed.")
    added = [each for id, each in last.items() if id not in now]
    changed = [each for id, each in last.items() if id in now and now[id] != each]
    gone = [id for id in now if id in remove or (exact and id not in last)]
    return Difference(added, changed, gone, len(last) - len(added) - len(changed))


def _commit(log: SubscriptionLog, wanted: list[Subscription], remove: Sequence[str], exact: bool) -> Difference:
    """Commit the changes; where another writer was faster, compute them again."""
    while True:
        made = difference({each.id: each for each in log.at()}, wanted, remove, exact)
        if not made and log.exists():
            return made
        for each in made.added:
            log.add(each.id, each.where, **_rest(each))
        for each in made.changed:
            log.replace(each.id, each.where, **_rest(each))
        for id in made.removed:
            log.remove(id)
        try:
            log.commit()
        except (DuplicateSubscription, UnknownSubscription):
            # Another writer has added or removed one of these ids since the log was read.
            log.discard()
        else:
            return made


def _rest(each: Subscription) -> dict[str, Any]:
    return {
        "language": each.language,
        "subscriber": each.subscriber,
        "metadata": each.metadata,
        "timezone": each.timezone,
    }


def _read(files: Sequence[str], language: str, timezone: str) -> tuple[int, list[Subscription]]:
    """The number of unusable subscriptions, which are reported, and the usable ones."""
    from palio.cli.subscription_loader import Fault, add_valid_subscriptions
    from palio.files import read_subscriptions
    from palio.matching.matcher import Matcher

    console = terminal.messages()
    wanted: list[Subscription] = []
    faults: list[Fault] = []
    for path in files:
        lines = read_subscriptions(
            path,
            "jsonl" if path == "-" else None,
            on_error=lambda error: faults.append((error.line or 0, error.place, None, error.reason)),
            language=language,
        )
        wanted += add_valid_subscriptions(Matcher(), lines, language, timezone, faults, lambda many: None)
    for _, place, id, reason in faults[:_MAX_SHOWN_FAULTS]:
        terminal.fault(console, place, "left out", id, reason)
    if len(faults) > _MAX_SHOWN_FAULTS:
        console.print(f"… and {len(faults) - _MAX_SHOWN_FAULTS:,} more", style="quiet")
    return len(faults), wanted


def _line(each: Subscription) -> dict[str, Any]:
    """A subscription as a line of a file, without default values."""
    fields = (
        ("language", each.language, "sql"),
        ("subscriber", each.subscriber, None),
        ("timezone", each.timezone, "UTC"),
    )
    unusual = {name: value for name, value, usual in fields if value != usual}
    return {"id": each.id, "where": each.where, **unusual, **each.metadata}


def _state(log: SubscriptionLog) -> dict[str, Any]:
    now = log.at()
    return {
        "log": log.path,
        "version": now.version,
        "time": None if now.time is None else now.time.isoformat(timespec="seconds"),
        "subscriptions": len(now),
    }


def _print(log: SubscriptionLog, made: Difference, faulty: int) -> None:
    console = terminal.results()
    state = _state(log)
    if not state["version"]:
        console.print(f"There is no subscription log at {log.path} yet.", soft_wrap=True)
        return
    changes = ", ".join(f"{count:,} {name}" for name, count in made.counts().items() if count)
    facts = [("version", f"{state['version']:,}, of {state['time']}"), ("subscriptions", f"{state['subscriptions']:,}")]
    if changes:
        facts.append(("done", changes))
    if faulty:
        facts.append(("left out", terminal.plural(faulty, "subscription")))
    console.print(terminal.facts(facts))
    if changes and sys.stdout.isatty():
        console.print("\nStreams that follow this log use it from their next batch on.", style="quiet")
