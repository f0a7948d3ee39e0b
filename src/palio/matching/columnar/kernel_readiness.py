"""Readiness of the kernels: whether calling one loads it from disk, or would have to wait for a compiler.

Kernels that were compiled on this machine are on disk, and a file beside them says that all are. Where it is missing, a
process of its own compiles them, at low priority, and goes on when this one ends: so the next process finds them, and a
command of half a second need not wait. Until then kernels are interpreted (`kernel_interpreter`). Of the processes that
start together, one compiles, and the others wait for it (`kernel_cache`).

Kernels that only some conditions need are groups of their own, compiled when one of them is first called: plain
conditions wait for less than half of all code. Indexes are built by plain kernels alone, so nobody who builds one waits
for another group.

Rejected: compiling in a thread. It holds the GIL for ten seconds, and a command that ends before loses its work; it is
left for machines where nothing can be kept on disk.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
from numba.core import codegen

from palio.matching.columnar.kernel_cache import folders, sources

log = logging.getLogger("palio.kernels")
_COMPILER: Final = "palio.matching.precompilation"  # run as a program, it compiles all kernels
PLAIN: Final = "plain"
PATTERNS: Final = "patterns"
EXPRESSIONS: Final = "expressions"
XML: Final = "xml"
_MODULES: Final = {
    PATTERNS: ("pattern_kernels", "pattern_cache_kernels", "program_kernels"),
    EXPRESSIONS: ("expression_kernels",),
    XML: ("automaton_kernels", "join_kernels", "scan_kernels"),
}
"""The modules of each group; all others are plain."""
_GROUPS: Final = {module: group for group, modules in _MODULES.items() for module in modules}
_CACHE_SUFFIXES: Final = (".nbi", ".nbc")  # of Numba's index of a kernel, and of its code
_codegen: Any = codegen  # without types
_llvm: Any = llvm


class KernelReadiness:
    """Whether the kernels of a group may be called compiled here; starts a compiler when first asked, if need be."""

    def __init__(self, group: str = PLAIN) -> None:
        self.group = group
        self._ready = threading.Event()
        self._ended = threading.Event()  # compiling has ended, well or not
        self._is_started = False
        self._lock = threading.Lock()
        self._here = threading.local()  # whether this thread compiles what it calls
        os.register_at_fork(after_in_child=self._forget_compiler)

    def are_ready(self) -> bool:
        """Whether kernels are compiled, or this thread is the one that compiles them."""
        if self._ready.is_set() or getattr(self._here, "compiles", False):
            return True
        with self._lock:
            if not self._is_started:
                self._start()
        return self._ready.is_set()

    def wait_until_ready(self) -> None:
        """Wait until kernels are compiled, for work that would take longer without them; or until they cannot be."""
        if not self.are_ready():
            self._ended.wait()

    @contextmanager
    def compiling_here(self) -> Iterator[None]:
        """Have the kernels that this thread calls compiled, whatever others do."""
        before = getattr(self._here, "compiles", False)
        self._here.compiles = True
        try:
            yield
        finally:
            self._here.compiles = before

    def record_compiled(self) -> None:
        """Record for this process and for those to come that all kernels of the group are on disk."""
        for folder in self._folders()[:1]:
            with suppress(OSError):  # a full disk: the next process looks at every kernel
                (folder / self._record_name).touch()
        self._ready.set()
        self._ended.set()

    def are_recorded(self) -> bool:
        """Whether all kernels of the group are on disk."""
        return any((folder / self._record_name).exists() for folder in self._folders())

    @property
    def archive_name(self) -> str:
        """The name of an archive that serves this machine."""
        return f"{_kind_of_machine()}-{self.group}.zip"

    @property
    def _record_name(self) -> str:
        return f"{_kind_of_machine()}-{self.group}.ready"

    def _folders(self) -> list[Path]:
        if self.group == XML:
            import_module("palio.matching.xml_kernels")  # defines them
            return folders("xml")
        return folders()

    def write_archive(self, folder: Path) -> Path | None:
        """Write the compiled kernels into a file, for machines of this kind; None where they are not compiled."""
        if not self.are_ready() or not self._folders():
            return None
        path = folder / self.archive_name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(self._folders()[0].iterdir()):
                # Numba names a file after the function, with its module.
                if file.suffix in _CACHE_SUFFIXES and group_of(file.name.partition(".")[0]) == self.group:
                    archive.write(file, file.name)
        return path

    def install_archive(self, path: Path) -> None:
        """Take over the kernels of an archive of this name's kind, unless they are here already.

        Whoever wrote it can run code here: it must come from the program that this process belongs to.
        """
        if self.are_recorded() or not self._folders():
            return
        folder = self._folders()[0]
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                # Written beside and renamed: another process may be loading or installing the same.
                beside = folder / f".{os.getpid()}-{Path(name).name}"
                beside.write_bytes(archive.read(name))
                beside.replace(folder / Path(name).name)
        self.record_compiled()

    def _start(self) -> None:
        self._is_started = True
        if self.are_recorded():
            self._ready.set()
        else:
            threading.Thread(target=self._compile, name="palio-kernels", daemon=True).start()

    def _compile(self) -> None:
        try:
            self._compile_somewhere()
        finally:
            self._ended.set()

    def _compile_somewhere(self) -> None:
        """Compile in another process, or here where that fails or its work cannot be kept."""
        options = compiler_process(self.group)
        if options is not None:
            subprocess.run(**options, check=False)
            if self.are_recorded():
                self._ready.set()
                return
        try:
            import_module(_COMPILER).compile_kernels((self.group,))
        except Exception:
            # A fault of this installation: everything works on, interpreted.
            log.exception("kernels (%s) cannot be compiled; matching stays slow", self.group)

    def _forget_compiler(self) -> None:
        """In a forked process no thread waits for the compiler: it starts one of its own, which waits for the other."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_started = self._ready.is_set()


def compiler_process(*arguments: str) -> dict[str, Any] | None:
    """Options of `subprocess` for a process that compiles; None where none can be started, or its work be kept."""
    if not folders() or "python" not in Path(sys.executable or "").name:
        return None
    path = os.pathsep.join(path for path in sys.path if path)
    return {
        "args": [sys.executable, "-m", _COMPILER, *arguments],
        "env": {**os.environ, "PYTHONPATH": path},
        # Output goes nowhere: a compiler that fails is noticed by what it did not leave.
        **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL),
        "start_new_session": True,  # Ctrl-C is for the user's process
    }


@cache
def _kind_of_machine() -> str:
    """A name made of all that compiled code depends on: another version or processor has another."""
    config: Any = numba.config
    parts = (
        sources(),
        sys.version,
        numba.__version__,
        llvmlite.__version__,
        config.CPU_NAME or _llvm.get_host_cpu_name(),
        config.CPU_FEATURES or _codegen.get_host_cpu_features(),
    )
    return f"palio-kernels-{sha256(repr(parts).encode()).hexdigest()[:16]}"


def group_of(module: str) -> str:
    """The group of the kernels of a module."""
    return _GROUPS.get(module.rpartition(".")[2], PLAIN)


def wait_until_all_are_ready() -> None:
    """Wait until the kernels of all groups are compiled, or cannot be."""
    for each in readiness.values():
        each.wait_until_ready()


readiness: Final = {group: KernelReadiness(group) for group in (PLAIN, *_MODULES)}
kernel_readiness: Final = readiness[PLAIN]
"""That of the kernels that every index needs."""
