"""Who are a broker's own clients, and what did each ask for? The one place where events end."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

from palio.filters.filter import Filter
from palio.routing.effects import Client, Recipient
from palio.routing.messages import Key
from palio.routing.recurring import Recurring
from palio.routing.several import Several

_CLIENT: Final = itemgetter(0)  # of a recipient
_NAMES: Final = itemgetter(1)


class Owned(NamedTuple):
    """A filter of a client, and the key under which neighbours know it."""

    key: Key
    filter: Filter


class LocalTable:
    """Filters of clients by name; several clients may own one key."""

    __slots__ = ("_node", "_of_subscriber", "_owned", "_owners", "_recipients")

    def __init__(self, node: int, of_subscriber: bool) -> None:
        """With `of_subscriber` each name has a key of its own (simple routing); otherwise equal filters share one."""
        self._node = node
        self._of_subscriber = of_subscriber
        self._owned: dict[Client, dict[str, Owned]] = {}
        # Each with itself alone as a recipient: the same object each time, so that others can remember it as well.
        self._owners = Several[Key, Recipient]()
        self._recipients = Recurring[tuple[Key, ...], tuple[Recipient, ...]]()

    def get(self, client: Client, name: str) -> Owned | None:
        return self._owned.get(client, {}).get(name)

    def add(self, client: Client, name: str, filter: Filter) -> Key | None:
        """Keep a filter under a name that is not there yet; its key, where nobody had that before."""
        key = self._key(client, name, filter)
        self._owned.setdefault(client, {})[name] = Owned(key, filter)
        self._recipients.clear()
        return key if self._owners.add(key, Recipient(client, (name,))) == 1 else None

    def remove(self, client: Client, name: str) -> Key | None:
        """Forget a name that is there; its key, where nobody has that any more."""
        self._recipients.clear()
        names = self._owned[client]
        key = names.pop(name).key
        if not names:
            del self._owned[client]
        return None if self._owners.remove(key, Recipient(client, (name,))) else key

    def clients(self) -> list[Client]:
        return list(self._owned)

    def names(self, client: Client) -> list[str]:
        return list(self._owned.get(client, ()))

    def filters(self, client: Client) -> list[Filter]:
        return [owned.filter for owned in self._owned.get(client, {}).values()]

    def keys(self) -> dict[Key, Filter]:
        """Every key once, with its filter."""
        return {owned.key: owned.filter for names in self._owned.values() for owned in names.values()}

    def owners(self, key: Key) -> Iterable[tuple[Client, str]]:
        return [(client, name) for client, (name,) in self._owners.at(key)]

    def recipients(self, keys: tuple[Key, ...]) -> tuple[Recipient, ...]:
        """The clients behind some keys, each once, with all names that are meant."""
        known = self._recipients.get(keys)
        return self._recipients.put(keys, self._find(keys)) if known is None else known

    def _find(self, keys: tuple[Key, ...]) -> tuple[Recipient, ...]:
        alone = self._owners.all_at(keys)
        clients = set(map(_CLIENT, alone))
        if len(clients) == len(alone):
            return tuple(sorted(alone))
        if len(clients) == 1:
            [only] = clients
            return (Recipient(only, tuple(sorted(chain.from_iterable(map(_NAMES, alone))))),)
        together: dict[Client, list[Recipient]] = {}
        for each in alone:
            together.setdefault(each.client, []).append(each)
        return tuple(
            mine[0] if len(mine) == 1 else Recipient(client, tuple(sorted([name for _, (name,) in mine])))
            for client, mine in sorted(together.items())
        )

    def __len__(self) -> int:
        return len(self._owners)

    def _key(self, client: Client, name: str, filter: Filter) -> Key:
        if not self._of_subscriber:
            return filter.digest
        whose = f"{self._node}\n{len(client)}\n{client}\n{name}".encode("utf-8", "surrogatepass")
        return blake2b(filter.digest + whose, digest_size=16).digest()
