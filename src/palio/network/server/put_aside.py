"""Conditions put aside: durable subscriptions whose conditions cost too much, kept with their queues over restarts.

At the broker such a subscription has a condition that matches nothing. What it was, and why it was put aside, is kept
in a file of the data directory, so that the same condition is refused when its owner subscribes again; another
condition takes its place, and gets the events that wait.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Final, NamedTuple

from palio.errors import LimitReached, Refused
from palio.files.durable_write import replace_private_file
from palio.filters.filter import Filter
from palio.routing.effects import Client

log = logging.getLogger("palio.server")
FILE_NAME: Final = "put-aside.json"
_MAX_CONDITION_CHARACTERS: Final = 1_000  # that are kept to be shown
_MAX_ENTRIES: Final = 10_000


class PutAsideCondition(NamedTuple):
    """A condition that was put aside."""

    digest: str
    condition: str
    reason: str


class PutAside:
    """Conditions put aside, by client and name; in a file where the broker has a data directory."""

    def __init__(self, data: Path | None) -> None:
        self._path = None if data is None else data / FILE_NAME
        self._entries: dict[tuple[Client, str], PutAsideCondition] = {}

    def read(self) -> None:
        """Read the file of an earlier run; one that cannot be read is left out, with a line in the log."""
        if self._path is None or not self._path.exists():
            return
        try:
            for each in json.loads(self._path.read_text(encoding="utf-8")):
                self._entries[each["client"], each["name"]] = PutAsideCondition(
                    each["digest"], each["condition"], each["reason"]
                )
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("cannot read the conditions put aside", extra={"path": str(self._path), "reason": str(error)})

    def add(self, client: Client, name: str, wanted: Filter, error: LimitReached) -> None:
        while len(self._entries) >= _MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        shown = str(wanted)[:_MAX_CONDITION_CHARACTERS]
        self._entries[client, name] = PutAsideCondition(wanted.digest.hex(), shown, str(error))
        self._write()

    def check(self, client: Client, name: str, wanted: Filter) -> None:
        """`Refused` for a condition that was put aside; another one takes its place."""
        found = self._entries.get((client, name))
        if found is None or wanted == Filter.nothing:  # as over HTTP, where a reader states no condition
            return
        if found.digest == wanted.digest.hex():
            raise Refused(f"the condition of {name!r} was put aside: {found.reason}; its events wait for another one")
        self.remove(client, name)

    def remove(self, client: Client, name: str) -> None:
        if self._entries.pop((client, name), None) is not None:
            self._write()

    def describe(self) -> list[dict[str, Any]]:
        return [
            {"client": client, "subscription": name, "condition": each.condition, "reason": each.reason}
            for (client, name), each in self._entries.items()
        ]

    def _write(self) -> None:
        if self._path is None:
            return
        entries = [{"client": client, "name": name, **each._asdict()} for (client, name), each in self._entries.items()]
        try:
            replace_private_file(self._path, json.dumps(entries, ensure_ascii=False, indent=1).encode())
        except OSError as error:  # a full disk: they stand until the broker ends
            log.error("cannot write the conditions put aside", extra={"reason": str(error)})
