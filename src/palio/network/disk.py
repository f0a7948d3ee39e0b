"""How does what a broker wants written reach its store? What is of a connection only is not written at all.

A subscription that ends with its connection must not be found again after a crash: nobody would take its events. So
records of sessions are answered at once, as if they were written, and only the others go to the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Final

from palio.errors import PalioError
from palio.network.replaying import log_page
from palio.network.store.interface import Store, Writable
from palio.routing.effects import Read, Record
from palio.routing.messages import LogPage

PASSING: Final = "session "  # how the names of clients begin that are connections


class StoreDisk:
    """Writes to a store; the answer, None or why it is not written, comes in the thread of the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    def write(self, entries: Sequence[Writable], answered: Callable[[PalioError | None], None]) -> None:
        lasting = [each for each in entries if not (type(each) is Record and each.client.startswith(PASSING))]
        if not lasting:
            answered(None)
            return

        def answer(error: PalioError | None) -> None:
            if get_ident() == self._thread:
                answered(error)
            else:
                self._loop.call_soon_threadsafe(answered, error)

        self._store.submit(lasting, answer)

    def read(self, read: Read, node: int) -> LogPage | None:
        """A piece of the log; None where it cannot be read. It takes a while."""
        try:
            return log_page(read, self._store.log, node)
        except PalioError:
            return None
