"""Source of another commit, to measure it beside the present one in the same run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def checkout(commit: str) -> Iterator[Path | None]:
    """The source of a commit in a temporary folder; None where there is no such commit, or no git."""
    git = shutil.which("git")
    if git is None:
        print("no baseline: there is no git here", file=sys.stderr)
        yield None
        return
    # An archive, because a work tree would be written down in the repository, and stay there after a crash.
    done = subprocess.run([git, "archive", commit, "src"], cwd=REPOSITORY, capture_output=True, check=False)
    if done.returncode:
        print(f"no baseline: {done.stderr.decode().strip()}", file=sys.stderr)
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="palio-bench-") as name:
        with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
            archive.extractall(name, filter="data")
        yield Path(name) / "src"
