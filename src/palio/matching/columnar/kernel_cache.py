"""Disk cache of compiled kernels, shared by the processes of a machine.

Compiling the kernels of matching takes some ten seconds of a processor, loading them from disk a fraction of one. Numba
keeps compiled functions on disk, and this adds what processes that start together need, such as the workers of Spark:

- One process compiles a kernel, and the others wait for its file. Each kernel has a lock file; a process that dies
  leaves its lock free, and nobody waits longer than `LOCK_TIMEOUT_SECONDS`: then it compiles for itself.
- The cache beside the source is read even where it cannot be written. An image that was warmed by root serves users
  without rights; Numba alone would look into their home folder only.
- Where neither the package nor a home folder can be written, as for `nobody` on a cluster, kernels are kept in a
  temporary folder that only this user can write to: whoever can write a cache can run code in the readers.
- A cached kernel is tied to the content of all files it may be made of. Numba looks at the time and size of one file,
  which would refuse kernels that were compiled on another machine from equal sources.

`NUMBA_CACHE_DIR` overrides all of this: then that folder is the only one.
"""

from __future__ import annotations

import copy
import fcntl
import os
import pickle
import stat
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from numba.core import caching
from numba.core import config as numba_config

_caching: Any = caching  # without types
_config: Any = numba_config
LOCK_TIMEOUT_SECONDS: Final = 60.0  # the slowest kernel takes three seconds of a processor that may be shared by many
_LOCK_INTERVAL_SECONDS: Final = 0.02

_PALIO: Final = Path(__file__).parents[2]
_folders: dict[str, dict[Path, None]] = {}  # of the kernels of a package, in the order in which they are looked into


def folders(package: str = "columnar") -> list[Path]:
    """The folders that kernels of a package are kept in: the first is written; none where they can be kept nowhere."""
    return list(_folders.get(package, ()))


def keep_on_disk(dispatcher: Any) -> None:
    """Give a dispatcher of Numba a cache on disk, where there is a place for one."""
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # Numba has found no folder that can be written
        if not _enable_in_temporary_folder(dispatcher):
            return
    try:
        dispatcher._cache = shared = SharedCache(dispatcher._cache)
    except AttributeError:  # a Numba that is made otherwise: its own cache has to do
        return
    package = Path(dispatcher.py_func.__code__.co_filename).parent
    if package.is_relative_to(_PALIO):
        _folders.setdefault(package.name, {}).update(dict.fromkeys(shared.folders))
    compile = dispatcher.compile

    def compile_once(signature: Any) -> Any:
        try:
            return compile(signature)
        finally:
            shared.release()  # held still where compiling has failed

    dispatcher.compile = compile_once


class SharedCache:
    """A function cache of Numba in which one process at a time compiles, in the place of Numba's own."""

    def __init__(self, own: Any) -> None:
        self._own = own
        _tie_to_sources(own._cache_file, own._py_func.__code__.co_filename)
        _ignore_unreadable(own._cache_file)
        self._beside_source = _cache_beside_source(own)
        self._lock: int | None = None
        self._holder = 0

    @property
    def cache_path(self) -> str:
        """The folder of the cache."""
        return str(self._own.cache_path)

    @property
    def index_path(self) -> Path | None:
        """The file that is written when a kernel is compiled, if there is one."""
        path = Path(self._own._cache_file._index_path)
        return path if path.exists() else None

    @property
    def folders(self) -> list[Path]:
        """All folders it looks into."""
        return [Path(each.cache_path) for each in (self._own, self._beside_source) if each is not None]

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled kernel, or None if this process has to compile it; then it holds the lock."""
        found = self._load(signature, context)
        if found is None:
            self._acquire()
            found = self._load(signature, context)  # another process may have compiled it meanwhile
            if found is not None:
                self.release()
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled kernel, and release the lock."""
        with suppress(OSError):  # a full disk: the kernel works, and the next process compiles again
            self._own.save_overload(signature, result)
        self.release()

    def release(self) -> None:
        """Release the lock, if this thread holds it."""
        if self._lock is not None and self._holder == threading.get_ident():
            descriptor, self._lock = self._lock, None
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # explicitly: a fork may have a copy of the descriptor
            os.close(descriptor)

    def enable(self) -> None:
        self._own.enable()

    def disable(self) -> None:
        self._own.disable()

    def flush(self) -> None:
        self._own.flush()

    def _load(self, signature: Any, context: Any) -> Any:
        for each in (self._own, self._beside_source):
            found = None if each is None else each.load_overload(signature, context)
            if found is not None:
                return found
        return None

    def _acquire(self) -> None:
        """Take the lock, or go on without it: after the timeout, and where there are no locks."""
        path = Path(self._own._cache_file._index_path).with_suffix(".lock")
        end = time.monotonic() + LOCK_TIMEOUT_SECONDS
        descriptor = None
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            while not try_lock(descriptor):
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(_LOCK_INTERVAL_SECONDS)
        except OSError:  # the time is over, the folder went away, or the file system has no locks
            if descriptor is not None:
                os.close(descriptor)
        else:
            self._lock, self._holder = descriptor, threading.get_ident()


def try_lock(descriptor: int) -> bool:
    """Lock an open file, until it is closed; False where another process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _cache_beside_source(own: Any) -> Any:
    """The cache in the folder of the source, for reading; None where `own` is that, or the only one that is allowed."""
    source = getattr(own._impl.locator, "_py_file", None)
    if source is None or _config.CACHE_DIR:
        return None
    folder = os.path.join(os.path.dirname(source), "__pycache__")
    if os.path.realpath(folder) == os.path.realpath(own.cache_path):
        return None
    beside = copy.copy(own)
    beside._cache_path = folder
    beside._cache_file = _caching.IndexDataCacheFile(folder, own._impl.filename_base, own._cache_file._source_stamp)
    _ignore_unreadable(beside._cache_file)
    return beside


def _enable_in_temporary_folder(dispatcher: Any) -> bool:
    folder = _temporary_folder()
    if folder is None or _config.CACHE_DIR:
        return False
    _config.CACHE_DIR = folder
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        return False
    finally:
        _config.CACHE_DIR = ""  # the functions of others go where Numba puts them
    return True


@cache
def _temporary_folder() -> str | None:
    """A folder of this user, which no other user can have made or can write to."""
    folder = os.path.join(tempfile.gettempdir(), f"palio-kernels-{os.getuid()}")
    try:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError:
        return None
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return folder if is_private else None


def _tie_to_sources(file: Any, source: str) -> None:
    with suppress(OSError):  # a zipped package: Numba's own stamp has to do
        file._source_stamp = (sha256(Path(source).read_bytes()).hexdigest(), sources())


def _ignore_unreadable(file: Any) -> None:
    """Take an index of cached kernels that cannot be unpickled for an empty one.

    Numba unpickles the whole index before it looks at the stamp of the sources. One that an older version has left may
    name types that are gone.
    """
    load = file._load_index

    def load_index() -> Any:
        try:
            return load()
        except (AttributeError, EOFError, ImportError, IndexError, pickle.UnpicklingError):
            return {}

    file._load_index = load_index


@cache
def sources() -> str:
    """A digest of all that compiled kernels are made of."""
    folder = Path(__file__).parent
    others = [folder / name for name in ("native.py", "layout.py", "kernel_compiler.py", "kernel_readiness.py")]
    xml = folder.parents[1] / "xml"  # compiled by `palio.matching.xml_kernels`
    files = [*others, *sorted(folder.glob("*kernels.py")), *sorted(xml.glob("*kernels.py"))]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
