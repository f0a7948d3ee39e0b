"""Which durable subscriptions can be reached from here now, and who must be told so?

"Nobody wants it" means nothing when it comes from a broker that has not been told yet, or not again, what is wanted. So
brokers tell each other of those that have durable subscriptions, *homes*: each broker tells each neighbour which homes
are behind it, after all that these want, and takes it back before anything else when it loses one. Whoever lets an
event in remembers all homes that it was ever told of, on disk, and knows an event to be everywhere only when it could
reach all. Brokers in between remember nothing: one that begins anew has no homes behind it until its neighbours have
told it so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from palio.routing.effects import Effect, Home, Send
from palio.routing.messages import Reach

# What a broker keeps, as bits below the number of its life: both only grow, so that the higher standing is the later.
KINDS: Final = 2
HOME: Final = 1  # it has durable subscriptions
LOG: Final = 2  # it has let in events that were confirmed
ALL: Final = HOME | LOG


class Reachable:
    """The brokers behind each link that keep something, with their standing, and what neighbours were told of them."""

    __slots__ = ("_behind", "_is_touched", "_told", "grown")

    def __init__(self) -> None:
        self._behind: dict[int, dict[int, int]] = {}  # by home: the links by which it is reached, with its standing
        self._told: dict[int, dict[int, int]] = {}
        self._is_touched = False
        self.grown = 0  # how often more could be reached

    def __contains__(self, home: int) -> bool:
        return home in self._behind

    def is_home(self, broker: int) -> bool:
        """Whether a broker can be reached as a home."""
        return any(standing & HOME for standing in self._behind.get(broker, {}).values())

    def standings(self) -> dict[int, int]:
        """All brokers that can be reached, with their standing."""
        return {home: max(links.values()) for home, links in self._behind.items()}

    def homes(self) -> dict[int, int]:
        """Those with durable subscriptions."""
        return {broker: standing for broker, standing in self.standings().items() if standing & HOME}

    def opened(self, link: int) -> None:
        self._told[link] = {}
        self._is_touched = True

    def closed(self, link: int) -> list[Effect]:
        self._told.pop(link, None)
        return self.lost(link)

    def lost(self, link: int) -> list[Effect]:
        """All that was behind a link is not any more, until it is said again."""
        return self.removed(link, [home for home, links in self._behind.items() if link in links])

    def added(self, link: int, homes: Iterable[tuple[int, int]]) -> None:
        """More is behind a link; neighbours are told by `tell`, after what these homes want."""
        for home, standing in homes:
            if self._behind.setdefault(home, {}).get(link) != standing:
                self._behind[home][link] = standing
                self._is_touched = True
                self.grown += 1

    def removed(self, link: int, homes: Iterable[int]) -> list[Effect]:
        """Less is behind a link: neighbours hear it at once, before anything is acknowledged that goes without."""
        for home in homes:
            links = self._behind.get(home, {})
            if links.pop(link, None) is not None and not links:
                del self._behind[home]
        return self._tell(withdrawals=True)

    def tell(self) -> list[Effect]:
        """What neighbours are to be told of homes that came, behind what these want."""
        if not self._is_touched:
            return []
        self._is_touched = False
        return self._tell(withdrawals=False)

    def _tell(self, withdrawals: bool) -> list[Effect]:
        effects: list[Effect] = []
        for link, told in sorted(self._told.items()):
            there = self._there(link)
            gone = tuple(home for home in told if home not in there) if withdrawals else ()
            came = () if withdrawals else tuple((home, life) for home, life in there.items() if told.get(home) != life)
            for home in gone:
                del told[home]
            told.update(came)
            if gone or came:
                effects.append(Send((link,), Reach(came, gone)))
        return effects

    def _there(self, link: int) -> dict[int, int]:
        """What a neighbour reaches by way of this broker."""
        return {
            home: max(life for each, life in links.items() if each != link)
            for home, links in self._behind.items()
            if len(links) > (link in links)
        }


class Awaited:
    """The homes that an event must have been able to reach: all that were ever heard of and are not given up; and the
    brokers that have logs."""

    __slots__ = ("_gone", "_known", "_unwritten")

    def __init__(self, remembered: Iterable[Home]) -> None:
        self._known: dict[int, int] = {}
        self._gone: dict[int, int] = {}
        self._unwritten: dict[int, Home] = {}
        for home in remembered:
            (self._gone if home.gone else self._known)[home.broker] = home.standing

    def learn(self, lives: dict[int, int]) -> None:
        """These are there; what was given up in an earlier life of theirs is waited for again."""
        for home, life in lives.items():
            if life > max(self._known.get(home, -1), self._gone.get(home, -1)):
                self._known[home] = life
                self._gone.pop(home, None)
                self._unwritten[home] = Home(home, life)

    def standing(self, broker: int) -> int | None:
        """What was last heard of a broker; None where it is not waited for."""
        return self._known.get(broker)

    def homes(self) -> list[int]:
        """All brokers that are known to have durable subscriptions, here, away or not."""
        return sorted(broker for broker, standing in self._known.items() if standing & HOME)

    def logs(self) -> list[int]:
        """All that are known to have a log."""
        return sorted(broker for broker, standing in self._known.items() if standing & LOG)

    def give_up(self, home: int, life: int) -> bool:
        """A broker is not coming back with this standing or an earlier one; whether it was waited for."""
        if self._known.get(home, life + 1) > life:
            return False
        del self._known[home]
        self._gone[home] = life
        self._unwritten[home] = Home(home, life, gone=True)
        return True

    def all_in(self, reachable: Reachable) -> bool:
        return all(reachable.is_home(broker) for broker, standing in self._known.items() if standing & HOME)

    def missing(self, reachable: Reachable) -> list[int]:
        """The homes that are waited for and away."""
        return [broker for broker in self.homes() if not reachable.is_home(broker)]

    def unwritten(self) -> list[Home]:
        """What is to be written since the last call."""
        written, self._unwritten = list(self._unwritten.values()), {}
        return written

    def write_again(self, home: Home) -> None:
        """It could not be written."""
        self._unwritten.setdefault(home.broker, home)

    @property
    def has_unwritten(self) -> bool:
        return bool(self._unwritten)
