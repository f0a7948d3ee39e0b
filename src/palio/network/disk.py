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
from palio.network.store.interface import Store
from palio.routing.effects import Entry, Read, Record
from palio.routing.messages import LogPage

PASSING: Final = "session "  # how the names of clients begin that are connections


class StoreDisk:
    """Writes to a store. `failed` hears why something could not be written; it is tried again until it is."""

    def __init__(self, store: Store, failed: Callable[[PalioError], None]) -> None:
        self._store = store
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    def write(self, records: Sequence[Entry], written: Callable[[], None]) -> None:
        lasting = [each for each in records if not (type(each) is Record and each.client.startswith(PASSING))]
        if not lasting:
            written()
            return

        def answer(error: PalioError | None) -> None:
            if get_ident() == self._thread:
                self._answered(error, lasting, written)
            else:
                self._loop.call_soon_threadsafe(self._answered, error, lasting, written)

        self._store.submit(lasting, answer)

    def read(self, read: Read, node: int) -> LogPage | None:
        """A piece of the log; None where it cannot be read. It takes a while."""
        try:
            return log_page(read, self._store.log, node)
        except PalioError:
            return None

    def _answered(self, error: PalioError | None, records: Sequence[Entry], written: Callable[[], None]) -> None:
        if error is None:
            written()
            return
        self._failed(error)
        self._loop.call_later(1.0, self.write, records, written)
