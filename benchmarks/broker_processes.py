"""Brokers in processes of their own, and how much of the processor each process has used."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """A running broker."""

    pid: int
    url: str


@contextmanager
def served(*arguments: str) -> Iterator[Served]:
    """`palio serve` on a free port, without a store."""
    command = [sys.executable, "-m", "palio", "serve", "--json", "--data", "none", "--listen", "palio://127.0.0.1:0"]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield Served(process.pid, json.loads(process.stdout.readline())["addresses"][0])
        finally:
            process.send_signal(signal.SIGTERM)


def cpu_of_pid(pid: int) -> float:
    """Seconds of processor time that a process has used so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_tree(pid: int) -> float:
    """Of a process and of all that it has started and that still runs."""
    parents: dict[int, list[int]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parent = int((each / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has just ended
            parents.setdefault(parent, []).append(int(each.name))
    family = [pid]
    for each in family:
        family += parents.get(each, [])
    return sum(map(cpu_of_pid, family))


def cpu_of(brokers: Sequence[Served]) -> float:
    return sum(cpu_of_pid(each.pid) for each in brokers)


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
