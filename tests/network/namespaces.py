"""Machines of a network, as the kernel can pretend them: namespaces with addresses of their own, joined by cables.

Each is made for one test and is gone after it; its addresses exist nowhere else. They need the right to make them,
which a container often has not: a test that uses them is skipped then, with the kernel's own reason.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.network.running import run

T = TypeVar("T")
_NETWORK = 0x40000000  # CLONE_NEWNET of sched.h
_numbers = count()


class Machines:
    """A first machine, and others that are each joined to it by a cable; all reach each other through it."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def address(self, number: int) -> str:
        return "10.213.0.1" if number == 0 else f"10.213.{number}.2"

    def command(self, number: int) -> tuple[str, ...]:
        """What goes before a command to run it on one of the machines."""
        return ("ip", "netns", "exec", self._names[number])

    def run_at(self, number: int, doing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a test's own coroutine on one of the machines: a thread can be in another network than its process."""
        failed: list[BaseException] = []

        def inside() -> None:
            try:
                libc = ctypes.CDLL(None, use_errno=True)
                with Path("/run/netns", self._names[number]).open() as place:
                    if libc.setns(place.fileno(), _NETWORK):
                        raise OSError(ctypes.get_errno(), "cannot enter the namespace")
                run(doing)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        for error in failed:
            raise error


@contextmanager
def machines(number: int) -> Iterator[Machines]:
    """So many machines, for as long as they are needed."""
    if shutil.which("ip") is None:
        pytest.skip("there is no command `ip`, with which networks are made")
    names = [f"palio-{os.getpid()}-{next(_numbers)}" for _ in range(number)]
    made: list[str] = []
    try:
        for name in names:
            _ip("netns", "add", name)
            made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", names[0], "addr", "add", "10.213.0.1/32", "dev", "lo")
        for each in range(1, number):
            _lay_cable(names[0], names[each], each)
        yield Machines(names)
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _lay_cable(hub: str, leaf: str, number: int) -> None:
    _ip("-n", hub, "link", "add", f"to{number}", "type", "veth", "peer", "name", "up0", "netns", leaf)
    _ip("-n", hub, "addr", "add", f"10.213.{number}.1/30", "dev", f"to{number}")
    _ip("-n", leaf, "addr", "add", f"10.213.{number}.2/30", "dev", "up0")
    _ip("-n", hub, "link", "set", f"to{number}", "up")
    _ip("-n", leaf, "link", "set", "up0", "up")
    _ip("-n", leaf, "route", "add", "default", "via", f"10.213.{number}.1")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"network namespaces are not permitted here: ip {' '.join(arguments)}: {done.stderr.strip()}")
