"""Interest in events: from an event to the links and keys that want it, and from keys to the clients that own them.

`InterestIndex` holds the distinct filters of all interfaces, so that one search finds all links and local keys.
`ClientTable` holds the filters of this broker's clients by name, and resolves local keys to recipients. Both memoise
by the set of matches, because few distinct sets occur, and often.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Iterable, Sequence
from hashlib import blake2b
from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.effects import Client, Job, Recipient
from palio.routing.forwarding.filter_index import FilterIndex, Ints32, Ints64, NumberedFilters
from palio.routing.memo import IdentityMemo, Memo
from palio.routing.messages import LOCAL, Key

if TYPE_CHECKING:
    import pyarrow as pa

_Place = TypeVar("_Place", bound=Hashable)
_Item = TypeVar("_Item", bound=Hashable)
_CLIENT_OF: Final = itemgetter(0)  # of a recipient
_NAMES_OF: Final = itemgetter(1)


class Multimap(Generic[_Place, _Item]):
    """Sets of items by place: mostly of one, which is a tuple, and a dictionary where there are more.

    A lookup of a hundred places reads half as much memory as where each has a dictionary.

    >>> items = Multimap()
    >>> items.add("a", 1), items.add("a", 2), items.add("b", 3), items.all_at("abc")
    (1, 2, 1, [1, 2, 3])
    >>> items.remove("a", 1), items.remove("b", 3), "b" in items, items.all_at("abc")
    (1, 0, False, [2])
    """

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at: dict[_Place, tuple[_Item, ...] | dict[_Item, None]] = {}

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, place: object) -> bool:
        return place in self._at

    def at(self, place: _Place) -> Collection[_Item]:
        return self._at.get(place, ())

    def all_at(self, places: Iterable[_Place]) -> list[_Item]:
        """The items of all places, one place after the other."""
        return list(chain.from_iterable(map(self._at.get, places, repeat(()))))

    def add(self, place: _Place, item: _Item) -> int:
        """Add an item; the number of items at its place now."""
        held = self._at.get(place, ())
        if not held:
            self._at[place] = (item,)
            return 1
        if not isinstance(held, dict):
            held = self._at[place] = dict.fromkeys(held)
        held[item] = None
        return len(held)

    def remove(self, place: _Place, item: _Item) -> int:
        """Remove an item that is there; the number of items left at its place."""
        held = self._at[place]
        if not isinstance(held, dict) or len(held) == 1:
            del self._at[place]
            return 0
        del held[item]
        return len(held)


class Interested(NamedTuple):
    """The links that want an event, in order, and the keys of local clients that do, in none."""

    links: tuple[int, ...]
    local: tuple[Key, ...]


_NOBODY: Final = Interested((), ())


class InterestIndex:
    """Filters under keys, by interface; equal filters are matched once."""

    def __init__(self, filters: NumberedFilters | None = None) -> None:
        self._filters: NumberedFilters = FilterIndex() if filters is None else filters
        self._number_of: dict[bytes, int] = {}  # by the digest of the filter
        # By the number of a filter: the keys of local clients, and those of each link.
        self._local = Multimap[int, Key]()
        self._links: dict[int, dict[int, dict[Key, None]]] = {}
        self._digests: dict[int, dict[Key, bytes]] = {}
        # By the set of filters that an event matches. Its tuples are the keys of `ClientTable`'s memo by identity.
        self._memo = Memo[bytes, Interested]()

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        digest = wanted.digest
        self._digests.setdefault(interface, {})[key] = digest
        number = self._number_of.get(digest)
        if number is None:
            number = self._number_of[digest] = self._filters.add(wanted)
        self._memo.clear()
        if interface == LOCAL:
            self._local.add(number, key)
        else:
            self._links.setdefault(number, {}).setdefault(interface, {})[key] = None

    def remove(self, interface: int, key: Key) -> None:
        digest = self._digests[interface].pop(key)
        number = self._number_of[digest]
        self._memo.clear()
        if interface == LOCAL:
            self._local.remove(number, key)
        else:
            keys_of = self._links[number]
            del keys_of[interface][key]
            if not keys_of[interface]:
                del keys_of[interface]
            if not keys_of:
                del self._links[number]
        if number not in self._local and number not in self._links:
            del self._number_of[digest]
            self._filters.remove(number)

    def __len__(self) -> int:
        return len(self._number_of)

    def work(self) -> Job | None:
        """Background work that makes the index faster, if there is any."""
        return self._filters.work()

    def find_interested(self, events: Sequence[Event]) -> list[Interested]:
        """For each event the interfaces that want it."""
        found = self._filters.find_each(events)
        # `or` is safe: an `Interested` has two fields and is never false. An event without a match is not looked up.
        known = self._memo.found.get
        return [(known(matched) or self._look_up(matched)) if matched else _NOBODY for matched in found]

    def find_columns(self, columns: pa.RecordBatch) -> tuple[Ints64, Ints32] | None:
        """All matches of a batch, as rows and numbers of filters; None where the matcher takes no columns."""
        return self._filters.find_columns(columns) if isinstance(self._filters, FilterIndex) else None

    def interested_in(self, numbers: bytes) -> Interested:
        """The interfaces that have any of some filters, given as the bytes of their numbers."""
        return self._memo.found.get(numbers) or self._look_up(numbers)

    def _look_up(self, numbers: bytes) -> Interested:
        """The interfaces that have any of some filters, given as the bytes of their numbers."""
        matched = array("i", numbers)
        links = {link for number in matched if number in self._links for link in self._links[number]}
        interested = Interested(tuple(sorted(links)), tuple(self._local.all_at(matched)))
        return self._memo.put(numbers, interested, len(matched))


class ClientFilter(NamedTuple):
    """A filter of a client, and the key under which neighbours know it."""

    key: Key
    filter: Filter


class ClientTable:
    """Filters of clients by name; several clients may own one key."""

    __slots__ = ("_has_home_keys", "_node", "_owned", "_owners", "_per_subscription", "_recipients")

    def __init__(self, node: int, per_subscription: bool, has_home_keys: bool = False) -> None:
        """With `per_subscription` each name has a key of its own (simple routing); else equal filters share one: those
        of all brokers, or with `has_home_keys` those of this one."""
        self._node = node
        self._has_home_keys = has_home_keys
        self._per_subscription = per_subscription
        self._owned: dict[Client, dict[str, ClientFilter]] = {}
        # Recipients of one name each, always the same object: memos by identity depend on that.
        self._owners = Multimap[Key, Recipient]()
        self._recipients = IdentityMemo[tuple[Key, ...], tuple[Recipient, ...]]()

    def get(self, client: Client, name: str) -> ClientFilter | None:
        return self._owned.get(client, {}).get(name)

    def add(self, client: Client, name: str, filter: Filter) -> Key | None:
        """Add a filter under a new name; its key, where that is new as well."""
        key = self._key(client, name, filter)
        self._owned.setdefault(client, {})[name] = ClientFilter(key, filter)
        self._recipients.clear()  # also for a known key: it has one more owner now
        return key if self._owners.add(key, Recipient(client, (name,))) == 1 else None

    def remove(self, client: Client, name: str) -> Key | None:
        """Remove a name; its key, where no other name has it."""
        self._recipients.clear()
        names = self._owned[client]
        key = names.pop(name).key
        if not names:
            del self._owned[client]
        return None if self._owners.remove(key, Recipient(client, (name,))) else key

    def entries(self) -> dict[tuple[Client, str], Filter]:
        """The filter of each client and name: all that the rest of this table is made of."""
        return {(client, name): each.filter for client, names in self._owned.items() for name, each in names.items()}

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
        """The clients behind some keys, each once, with all their names that have one of the keys."""
        known = self._recipients.entries.get(id(keys))
        return self._recipients.put(keys, self._group_by_client(keys)) if known is None else known[1]

    def _group_by_client(self, keys: tuple[Key, ...]) -> tuple[Recipient, ...]:
        alone = self._owners.all_at(keys)
        # The common cases first: each client once, or one client alone.
        clients = set(map(_CLIENT_OF, alone))
        if len(clients) == len(alone):
            return tuple(sorted(alone))
        if len(clients) == 1:
            [only] = clients
            return (Recipient(only, tuple(sorted(chain.from_iterable(map(_NAMES_OF, alone))))),)
        by_client: dict[Client, list[Recipient]] = {}
        for each in alone:
            by_client.setdefault(each.client, []).append(each)
        return tuple(
            several[0] if len(several) == 1 else Recipient(client, tuple(sorted([name for _, (name,) in several])))
            for client, several in sorted(by_client.items())
        )

    def __len__(self) -> int:
        return len(self._owners)

    def _key(self, client: Client, name: str, filter: Filter) -> Key:
        if not self._per_subscription:
            return home_key(self._node, filter.digest) if self._has_home_keys else filter.digest
        # Lengths as in `event_identity`: no two owners make one text.
        owner = f"{self._node}\n{len(client)}\n{client}\n{name}".encode("utf-8", "surrogatepass")
        return blake2b(filter.digest + owner, digest_size=16).digest()


def home_key(node: int, key: Key) -> Key:
    """The key that a filter has for one home broker, where others have it under keys of their own."""
    return blake2b(key, digest_size=16, key=str(node).encode()).digest()
