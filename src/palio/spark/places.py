"""Where small files are kept that must be there whole or not at all: the subscription log, the journal of a stream.

A place is a folder by its path or its address, read through Arrow's file systems, so that an object store needs no jar.
What the log and the journal rest on is one operation, `create`: of all who create a file of one name at the same time
exactly one succeeds, and nobody ever sees a part of it. How that is had:

- on a disk (NFS included), by a draft beside it that is synchronised and then linked to the name; a link is never made
  over another. An `O_EXCL` file would do without the draft, but be seen half-written, and a rename would replace.
- in S3, Google Cloud Storage and Azure, by a conditional put (`If-None-Match: *` and its like). Arrow has none, so this
  goes through `obstore`. Listing after writing is consistent in all three.

Other file systems are read, and refused for writing.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from palio.errors import PipelineError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_DRAFT: Final = ".draft-"
_DRAFT_SECONDS: Final = 3600.0  # a draft that is older belongs to nobody who lives
_OBJECT_STORES: Final = ("s3", "gcs", "abfs")


class Place:
    """A folder on a disk or in an object store. Names in it are relative, with `/`."""

    def __init__(self, address: str | Path) -> None:
        self.address = absolute(address)
        self._system, self._root = resolve(self.address)

    def __repr__(self) -> str:
        return f"Place({self.address!r})"

    def __reduce__(self) -> tuple[type[Place], tuple[str]]:
        return type(self), (self.address,)

    def shown(self, name: str) -> str:
        """The address of a file, for messages."""
        return public(inside(self.address, name))

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, in order; none where there is no folder. Drafts are not told."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._path(folder), allow_not_found=True)
        try:
            found = self._system.get_file_info(selector)
        except FileNotFoundError:  # it came to be between two steps of Arrow's
            return self.names(folder)
        except OSError as error:
            raise PipelineError(f"{self.shown(folder)} cannot be listed: {error}") from error
        return sorted(
            each.base_name for each in found if each.type == FileType.File and not each.base_name.startswith(".")
        )

    def has(self, name: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self._system.get_file_info(self._path(name)).type == FileType.File)

    def read(self, name: str) -> bytes:
        """The bytes of a file; FileNotFoundError where there is none."""
        with self._system.open_input_stream(self._path(name), compression=None) as stream:
            return bytes(stream.read())

    def create(self, name: str, data: bytes) -> bool:
        """Make a file that is not there yet; whether it is ours. It is there whole, and on disk, or not at all."""
        if self._system.type_name == "local":
            return _create_on_disk(Path(self._path(name)), data)
        if self._system.type_name in _OBJECT_STORES:
            # A put whose answer got lost is made again, and then finds itself there.
            return _create_object(self.address, self._path(name), data) or self.read(name) == data
        raise PipelineError(
            f"{self.address}: nothing is known here about two who write at once on {self._system.type_name}; "
            "a disk, S3, Google Cloud Storage or Azure will do"
        )

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            self._system.delete_file(self._path(name))
        except FileNotFoundError:
            return

    def sweep(self, folder: str) -> None:
        """Remove the drafts in a folder that writers left who did not live to publish them."""
        if self._system.type_name != "local" or not Path(self._path(folder)).is_dir():
            return
        for draft in Path(self._path(folder)).glob(f"{_DRAFT}*"):
            with suppress(FileNotFoundError):  # its writer has just published it
                if time.time() - draft.stat().st_mtime > _DRAFT_SECONDS:
                    draft.unlink()

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}" if name else self._root


def absolute(address: str | Path) -> str:
    """An address that means the same in every working folder; Spark's names of file systems become Arrow's."""
    text = str(address)
    scheme, separator, rest = text.partition("://")
    if separator:
        return f"s3://{rest}" if scheme in ("s3a", "s3n") else text
    if text.startswith("file:"):
        return text.removeprefix("file:")
    return str(Path(text).absolute())


def public(address: str) -> str:
    """An address as it may be shown: without who asks, and without options, among which there may be secrets."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def inside(address: str, name: str) -> str:
    """The address of something in a folder; what an address tells about the store stays with it."""
    path, mark, query = address.partition("?") if "://" in address else (address, "", "")
    return f"{path.rstrip('/')}/{name}{mark}{query}"


def resolve(address: str) -> tuple[FileSystem, str]:
    """The file system of an address, and the path in it."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in address:
        return LocalFileSystem(), address
    try:
        system, path = FileSystem.from_uri(address)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise PipelineError(f"{address} cannot be opened: {error}") from None
    return system, path


def _create_on_disk(path: Path, data: bytes) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / f"{_DRAFT}{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            # NFS may lose the answer to a link that was made, and then finds it there.
            return os.stat(draft).st_nlink == 2
        except OSError as error:
            raise PipelineError(
                f"{path.parent}: this file system has no links ({error.strerror}), without which two writers "
                "cannot be kept apart; take another disk"
            ) from error
    finally:
        os.unlink(draft)
    synchronise(path.parent)
    return True


def synchronise(folder: Path) -> None:
    """Have the names in a folder survive the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create_object(address: str, path: str, data: bytes) -> bool:
    try:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError
        from obstore.store import from_url
    except ImportError:
        raise PipelineError(
            f"{address}: to write there, run: pip install obstore; Arrow alone cannot keep two writers apart"
        ) from None

    parts = urlsplit(address)
    store = from_url(f"{parts.scheme}://{parts.netloc}", **_store_options(address))
    try:
        obstore.put(store, path.partition("/")[2], data, mode="create")
    except (AlreadyExistsError, PreconditionError):
        return False
    return True


def _store_options(address: str) -> dict[str, Any]:
    """What the query of an address tells Arrow, as `obstore` is told it."""
    query = dict(parse_qsl(urlsplit(address).query))
    options: dict[str, Any] = {}
    if "region" in query:
        options["region"] = query["region"]
    if "endpoint_override" in query:
        options["endpoint"] = f"{query.get('scheme', 'https')}://{query['endpoint_override']}"
    if query.get("scheme") == "http":
        options["client_options"] = {"allow_http": True}
    return options
