"""Backup of a data directory, while its broker runs or not, and restore of one.

**Backup.** SQLite's backup API copies pages of one snapshot in steps; in WAL mode neither the broker nor the copy waits
for the other. The read transaction stays open over all steps: without it, each write of the broker would begin the copy
anew, and a busy broker could not be backed up at all. The WAL is not restarted meanwhile, and grows by what is written.
The files beside the database are small and replaced as a whole, so that a copy of each is whole too. The manifest, with
a checksum of each file, is written last, and the folder gets its name when everything is in it and on disk.

**Restore.** A restored broker has its number again, and must not be taken for an earlier state of itself: neighbours
remember incarnations, event ids and standings of after the backup. So a restore begins an incarnation that no life
after the backup can have had. It counts half seconds since 2025, and a broker does not restart twice in one of them.
The numbers of queued events go on beyond those of after the backup likewise, because a client acknowledges by number.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from palio import __version__
from palio.errors import InputError, InvalidArgument, PalioError, StoreError
from palio.files.durable_write import fsync_path
from palio.network.data_directory import DATABASE_FILE, LOCK_FILE, make_private
from palio.network.store.disk_space import RESERVE_FILE
from palio.network.store.schema import VERSION, open_for_reading, translate_errors

MANIFEST_FILE: Final = "manifest.json"
SETTINGS_FILE: Final = "palio.toml"
_FORMAT: Final = 1
_STEP_PAGES: Final = 1_024  # 4 MiB, between two reports of progress
_COPY_BYTES: Final = 1024 * 1024
_MAX_MANIFEST_BYTES: Final = 1024 * 1024
_MAX_SMALL_FILE_BYTES: Final = 256 * 1024 * 1024
_SPARE_BYTES: Final = 16 * 1024 * 1024  # that must stay free beside a copy
_FIRST_YEAR_SECONDS: Final = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
_QUEUE_NUMBERS_PER_INCARNATION: Final = 2**20

OnProgress = Callable[[str, int, int], None]


class FileEntry(msgspec.Struct, frozen=True):
    """Size and checksum of a file."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a backup holds."""

    format: int
    palio: str
    schema: int
    made_at: datetime
    node: int
    incarnation: int
    subscriptions: int
    log_events: int
    queued_events: int
    files: dict[str, FileEntry]


def _ignore_progress(what: str, done: int, total: int) -> None:
    pass


# Backup


def back_up(
    data: Path, target: Path, settings: Path | None = None, progress: OnProgress = _ignore_progress
) -> Manifest:
    """Copy a data directory into a new folder, and verify the copy; `settings` is a file to keep with it."""
    database = data / DATABASE_FILE
    with closing(open_for_reading(database)) as source, _new_folder(target) as folder:
        _check_room(source, folder)
        # Before the database: a token that is added meanwhile has no subscriptions in it yet.
        for each in _small_files(data):
            _copy_file(each, folder / each.name)
        if settings is not None:
            _copy_file(settings, folder / SETTINGS_FILE)
        _copy_database(source, database, folder / DATABASE_FILE, progress)
        manifest = _describe(folder, progress)
        _write_private(folder / MANIFEST_FILE, msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def _small_files(data: Path) -> list[Path]:
    """Tokens and push subscriptions; the lock of the principals file too, which says that there ever was a token."""
    files = (each for each in sorted(data.iterdir()) if each.is_file() and each.suffix != ".new")
    not_kept = (LOCK_FILE, RESERVE_FILE)
    return [each for each in files if not each.name.startswith(DATABASE_FILE) and each.name not in not_kept]


def _check_room(source: sqlite3.Connection, folder: Path) -> None:
    [(pages,)] = source.execute("PRAGMA page_count")
    [(size,)] = source.execute("PRAGMA page_size")
    room = shutil.disk_usage(folder).free
    if room < pages * size + _SPARE_BYTES:
        raise StoreError(str(folder.parent), f"a copy takes {pages * size:,} bytes, and {room:,} are free")


def _copy_database(source: sqlite3.Connection, database: Path, target: Path, progress: OnProgress) -> None:
    _write_private(target, b"")
    with translate_errors(database), closing(sqlite3.connect(target, isolation_level=None)) as copy:
        source.execute("BEGIN")
        source.execute("SELECT * FROM counts").fetchall()  # from here on one snapshot, for all steps
        source.backup(
            copy,
            pages=_STEP_PAGES,
            progress=lambda status, remaining, total: progress("copy", total - remaining, total),
        )
        source.execute("ROLLBACK")
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a WAL beside it
        progress("check", 0, 1)
        _check_integrity(copy, target)
    fsync_path(target)


def _check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    [(answer,)] = connection.execute("PRAGMA integrity_check(1)")
    if answer != "ok":
        raise StoreError(str(path.parent), f"the database is damaged: {answer}")


def _describe(folder: Path, progress: OnProgress) -> Manifest:
    files = {each.name: _entry_of(each, progress) for each in sorted(folder.iterdir())}
    with translate_errors(folder / DATABASE_FILE), closing(open_for_reading(folder / DATABASE_FILE)) as copy:
        node, incarnation = copy.execute("SELECT node, incarnation FROM identity").fetchone() or (0, 0)
        [(schema,)] = copy.execute("PRAGMA user_version")
        [(subscriptions,)] = copy.execute("SELECT count(*) FROM records WHERE kind = 'wants'")
        [(logged,)] = copy.execute("SELECT log_next - log_first FROM counts")
        [(queued,)] = copy.execute("SELECT count(*) FROM queue")
    made = datetime.now(UTC)
    return Manifest(_FORMAT, __version__, schema, made, node, incarnation, subscriptions, logged, queued, files)


# Restore


def verify_backup(backup: Path, progress: OnProgress = _ignore_progress) -> Manifest:
    """The manifest of a backup whose files are all as they were written; `InputError` otherwise."""
    manifest = _read_manifest(backup)
    for name, expected in manifest.files.items():
        path = backup / name
        if Path(name).name != name or not path.is_file() or path.is_symlink():
            raise InputError(str(backup), f"{name} is missing; the backup is not whole")
        if path.stat().st_size != expected.bytes or _entry_of(path, progress) != expected:
            raise InputError(str(path), "its content is not what was backed up; use another backup")
    if DATABASE_FILE not in manifest.files:
        raise InputError(str(backup), f"{DATABASE_FILE} is missing; the backup is not whole")
    return manifest


def restore(backup: Path, data: Path, progress: OnProgress = _ignore_progress) -> Manifest:
    """Make a data directory of a backup, all of it or nothing; the directory must not exist, or be empty."""
    manifest = verify_backup(backup, progress)
    with _new_folder(data) as folder:
        for name in manifest.files:
            if name != SETTINGS_FILE:
                _copy_file(backup / name, folder / name)
        database = folder / DATABASE_FILE
        with translate_errors(database), closing(sqlite3.connect(database, isolation_level=None)) as connection:
            progress("check", 0, 1)
            _check_integrity(connection, database)
            _begin_new_life(connection, manifest)
        fsync_path(database)
    return manifest


def _begin_new_life(connection: sqlite3.Connection, manifest: Manifest) -> None:
    moment = max(time.time(), manifest.made_at.timestamp() + 1.0)  # this machine's clock may be wrong
    incarnation = max(manifest.incarnation, round(2 * (moment - _FIRST_YEAR_SECONDS)))
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE identity SET incarnation = ?", (incarnation,))
    number = incarnation * _QUEUE_NUMBERS_PER_INCARNATION
    connection.execute("UPDATE counts SET queue_next = max(queue_next, ?)", (number,))
    connection.execute("COMMIT")


def _read_manifest(backup: Path) -> Manifest:
    path = backup / MANIFEST_FILE
    if not path.is_file():
        raise InputError(str(backup), f"there is no {MANIFEST_FILE}; a folder that `palio backup` wrote is needed")
    if path.stat().st_size > _MAX_MANIFEST_BYTES:
        raise InputError(str(path), "not the manifest of a backup")
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InputError(str(path), f"not the manifest of a backup: {error}") from None
    if manifest.format != _FORMAT or manifest.schema > VERSION:
        raise InputError(str(path), f"a backup of a newer Palio, version {manifest.palio}")
    return manifest


# Files


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A folder that appears under its name when the block is done, with all that is in it; `path` may be empty."""
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InvalidArgument(f"{path} exists and is not empty; nothing is overwritten: name a new folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise StoreError(str(path), f"cannot make this folder: {error.strerror}") from None
    try:
        make_private(draft)
        yield draft
        fsync_path(draft)
        os.rename(draft, path)  # also onto an empty folder
        fsync_path(path.parent)
    except OSError as error:
        raise StoreError(str(path), f"cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as reading:
        if target.name != DATABASE_FILE and os.fstat(reading.fileno()).st_size > _MAX_SMALL_FILE_BYTES:
            raise InputError(str(source), "too large to be a file of a broker")
        _write_private(target, b"")
        with target.open("wb") as writing:
            shutil.copyfileobj(reading, writing, _COPY_BYTES)
            writing.flush()
            os.fsync(writing.fileno())


def _write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read: it has tokens' hashes, events or settings."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _entry_of(path: Path, progress: OnProgress) -> FileEntry:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    try:
        with path.open("rb") as file:
            while block := file.read(_COPY_BYTES):
                digest.update(block)
                done += len(block)
                progress("verify", done, total)
    except OSError as error:
        raise PalioError(f"{path}: {error.strerror}") from None
    return FileEntry(done, digest.hexdigest())
