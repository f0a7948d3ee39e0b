"""Runner of a module in a process with limits on time and memory.

The time is there to notice a hang, not to judge speed: it is far above what anything here needs.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

_PROJECT = Path(__file__).parent.parent.parent
_MEMORY = 2 * 2**30
_HANGS_AFTER = 300


def run_bounded(module: str, *arguments: str) -> None:
    """Fail unless `python -m module arguments` ends well within the limits."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=_PROJECT,
            env={"PYTHONPATH": "src:.", "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0"},
            preexec_fn=_limit,
            capture_output=True,
            text=True,
            timeout=_HANGS_AFTER,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{module} {arguments} hangs") from None
    assert done.returncode == 0, f"{module} {arguments} ended with {done.returncode}:\n{done.stderr[-3000:]}"


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
