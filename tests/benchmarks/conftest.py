"""The benchmarks are scripts with a package beside them; the tests find both as the scripts do."""

from __future__ import annotations

import sys
from pathlib import Path

import sigma.collection  # noqa: F401 - before there is a benchmark of the same name

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
