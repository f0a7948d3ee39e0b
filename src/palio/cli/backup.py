"""`palio backup` and `palio restore`: a copy of a broker's data directory, and a data directory from one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from palio.cli import terminal
from palio.cli.common_options import data_option
from palio.errors import InvalidArgument

if TYPE_CHECKING:
    from palio.network.store.backup import Manifest, OnProgress

_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_STEPS: Final = {"copy": "Copying", "check": "Checking", "verify": "Verifying"}


@click.command()
@click.argument("target", metavar="DIR", type=_FOLDER)
@data_option
@click.option("--config", type=_FILE, metavar="FILE",
              help="Settings file: it names the data directory, and is kept with the backup.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The manifest as one JSON object.")
def backup(target: Path, directory: Path, config: Path | None, as_json: bool) -> None:
    """Copy the data directory of a broker into the new folder DIR, while the broker runs or not.

    The copy is one moment of the broker: subscriptions, event log, queues, dead letters, tokens, push subscriptions and
    the broker's identity. It is checked, and has a manifest with checksums. It does not contain certificates, keys of
    TLS and of sealed events, events in memory that no durable subscription waits for, nor what other brokers keep.

    \b
    Examples:
      palio backup /backups/hub-monday --data /var/lib/palio
      palio backup /backups/hub-monday --config /etc/palio/palio.toml
    """
    from palio.network.store.backup import back_up

    data = directory if config is None else _data_of(config)
    with _progress() as progress:
        made = back_up(data, target, config, progress)
    _report(made, f"{data} is backed up in {target}", as_json)


@click.command()
@click.argument("source", metavar="DIR", type=_FOLDER)
@data_option
@click.option("--verify", is_flag=True, help="Only verify the backup; restore nothing.")
@click.option("--json", "as_json", is_flag=True, help="The manifest as one JSON object.")
def restore(source: Path, directory: Path, verify: bool, as_json: bool) -> None:
    """Make a data directory from the backup in DIR. The directory must not exist yet, or be empty.

    The backup is verified first. The broker is the same one for its neighbours, in a new life: what it did after the
    backup is lost here, events that were acknowledged since then come again, and neighbours go on. Never run the broker
    and a restored copy of it at the same time.

    \b
    Examples:
      palio restore /backups/hub-monday --data /var/lib/palio
      palio restore /backups/hub-monday --verify
    """
    from palio.network.store.backup import restore as restore_backup
    from palio.network.store.backup import verify_backup

    with _progress() as progress:
        found = verify_backup(source, progress) if verify else restore_backup(source, directory, progress)
    _report(found, f"{source} is whole" if verify else f"{source} is restored in {directory}", as_json)


def _data_of(config: Path) -> Path:
    from palio.network.data_directory import DEFAULT_PATH
    from palio.network.server.settings import Settings
    from palio.network.server.settings_file import read_settings

    data = read_settings(config, Settings(data=DEFAULT_PATH)).data
    if data is None:
        raise InvalidArgument(f"{config}: data is none; a broker that keeps everything in memory has no backup")
    return data


def _report(manifest: Manifest, done: str, as_json: bool) -> None:
    import msgspec

    if as_json:
        terminal.print_json(msgspec.to_builtins(manifest))
        return
    made = f"{manifest.made_at:%Y-%m-%d %H:%M:%S}Z"
    size = sum(each.bytes for each in manifest.files.values())
    terminal.results().print(done, soft_wrap=True)
    kept = (
        terminal.plural(manifest.subscriptions, "durable subscription"),
        terminal.plural(manifest.queued_events, "queued event"),
        terminal.plural(manifest.log_events, "logged event"),
    )
    rows = [
        ("broker", f"{manifest.node}, life {manifest.incarnation:,}, palio {manifest.palio}"),
        ("made", f"{made}, {size:,} bytes in {terminal.plural(len(manifest.files), 'file')}"),
        ("holds", ", ".join(kept)),
    ]
    terminal.results().print(terminal.facts(rows))


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """A bar for the step under way, on a terminal."""
    with terminal.progress(terminal.messages(), "{task.description}", 1.0) as shown:
        task = shown.add_task("", total=1, done="")

        def report(what: str, done: int, total: int) -> None:
            text = "" if total <= 1 else terminal.percent(done / total)
            shown.update(task, description=_STEPS[what], completed=done, total=max(1, total), done=text)

        yield report
