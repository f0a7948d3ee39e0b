"""Storage of small immutable files on a disk or in an object store, created atomically.

The subscription log and the commit journal rest on one operation, `StorageFolder.create`: of all writers that create a
file of one name at the same time exactly one succeeds, and no reader sees a part of it. Its implementation:

- On a disk (NFS included): a draft beside the file, fsynced and then hard-linked to the name; `link` never replaces.
  Rejected: `O_EXCL`, because the file is visible while it is being written; `rename`, because it replaces.
- In S3, Google Cloud Storage and Azure: a conditional put (`If-None-Match: *`). Arrow has none, so it goes through
  `obstore`. Listing after writing is consistent in all three.

Other file systems can be read, and are refused for writing. Reading goes through Arrow, which needs no jar.
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
from palio.files.durable_write import fsync_path
from palio.spark.argument_checks import check_text

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_DRAFT: Final = ".draft-"
_DRAFT_EXPIRY_SECONDS: Final = 3600.0  # the writer of an older draft has died
_OBJECT_STORES: Final = ("s3", "gcs", "abfs")


class StorageFolder:
    """A folder on a disk or in an object store. Names in it are relative, with `/`."""

    def __init__(self, address: str | Path) -> None:
        self.address = absolute(address)
        self._system, self._root = resolve(self.address)

    def __repr__(self) -> str:
        return f"StorageFolder({self.address!r})"

    def __reduce__(self) -> tuple[type[StorageFolder], tuple[str]]:
        return type(self), (self.address,)

    def redacted_address(self, name: str) -> str:
        """The address of a file, for messages."""
        return redact(join_address(self.address, name))

    def names(self, folder: str) -> list[str]:
        """The sorted names of the files in a folder, without drafts; none where there is no folder."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._path(folder), allow_not_found=True)
        try:
            found = self._system.get_file_info(selector)
        except FileNotFoundError:  # Arrow lists in two steps, and the folder appeared between them
            return self.names(folder)
        except OSError as error:
            raise PipelineError(f"{self.redacted_address(folder)} cannot be listed: {error}") from error
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
        """Create a file atomically and durably; False where another writer has created it."""
        if self._system.type_name == "local":
            return _create_on_disk(Path(self._path(name)), data)
        if self._system.type_name in _OBJECT_STORES:
            # The store retries a put whose answer was lost, and then finds its own object.
            return _create_object(self.address, self._path(name), data) or self.read(name) == data
        raise PipelineError(
            f"{self.address}: two writers cannot be kept apart on {self._system.type_name}; "
            "take a disk, S3, Google Cloud Storage or Azure"
        )

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            self._system.delete_file(self._path(name))
        except FileNotFoundError:
            return

    def remove_stale_drafts(self, folder: str) -> None:
        """Remove the drafts of writers that died before they published them."""
        if self._system.type_name != "local" or not Path(self._path(folder)).is_dir():
            return
        for draft in Path(self._path(folder)).glob(f"{_DRAFT}*"):
            with suppress(FileNotFoundError):  # its writer has just published it
                if time.time() - draft.stat().st_mtime > _DRAFT_EXPIRY_SECONDS:
                    draft.unlink()

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}" if name else self._root


def absolute(address: str | Path) -> str:
    """An address independent of the working folder, with Arrow's scheme names in place of Spark's."""
    if not isinstance(address, str | os.PathLike):
        raise PipelineError(f"an address is a text or a Path, not {address!r:.80}")
    text = str(address)
    check_text("an address", text)
    scheme, separator, rest = text.partition("://")
    if separator:
        return f"s3://{rest}" if scheme in ("s3a", "s3n") else text
    if text.startswith("file:"):
        return text.removeprefix("file:")
    return str(Path(text).absolute())


def redact(address: str) -> str:
    """An address for messages: without credentials and options, which may hold secrets."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def join_address(address: str, name: str) -> str:
    """The address of a name within a folder; options of the store are kept."""
    path, mark, query = address.partition("?") if "://" in address else (address, "", "")
    return f"{path.rstrip('/')}/{name}{mark}{query}"


def resolve(address: str) -> tuple[FileSystem, str]:
    """The Arrow file system of an address, and the path in it."""
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
    # Beside the target, because a link cannot cross file systems.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            # NFS may lose the answer to a successful link and repeat it: two links mean that this one succeeded.
            return os.stat(draft).st_nlink == 2
        except OSError as error:
            raise PipelineError(
                f"{path.parent}: this file system has no links ({error.strerror}), without which two writers "
                "cannot be kept apart; take another disk"
            ) from error
    finally:
        os.unlink(draft)
    # The link is durable only after the folder is.
    fsync_path(path.parent)
    return True


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
        # Arrow's path begins with the bucket, which `store` has already.
        obstore.put(store, path.partition("/")[2], data, mode="create")
    except (AlreadyExistsError, PreconditionError):
        return False
    return True


def _store_options(address: str) -> dict[str, Any]:
    """Arrow's options in the query of an address, as options of `obstore`."""
    query = dict(parse_qsl(urlsplit(address).query))
    options: dict[str, Any] = {}
    if "region" in query:
        options["region"] = query["region"]
    if "endpoint_override" in query:
        options["endpoint"] = f"{query.get('scheme', 'https')}://{query['endpoint_override']}"
    if query.get("scheme") == "http":
        options["client_options"] = {"allow_http": True}
    return options
