"""Everything that can go wrong, by name.

Every error Palio raises on purpose is a `PalioError`, so that one `except` is enough for a caller who does
not care which; each failure a caller may want to tell apart has a class of its own with typed fields, and its
message says what was wrong, where, and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping


class PalioError(Exception):
    """The root of every error Palio raises."""


class InvalidArgument(PalioError, ValueError):
    """A call that cannot be made so: an argument of the wrong type, or a value that is none of those there are."""


class ParseError(PalioError):
    """A condition that cannot be read, or that asks for something no subscription may ask.

    `position` counts characters from 0; `reason` says what is wrong there; `hint`, where there is one, the
    nearest thing that works.
    """

    def __init__(self, text: str, position: int, reason: str, hint: str | None = None) -> None:
        self.text = text
        self.position = max(0, min(position, len(text)))
        self.reason = reason
        self.hint = hint
        super().__init__(reason)

    @property
    def line(self) -> int:
        """The line of the position, counted from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """The column of the position, counted from 1."""
        return self.position - self.text.rfind("\n", 0, self.position)

    def __str__(self) -> str:
        message = f"{self.reason} (line {self.line}, column {self.column})\n{self._excerpt()}"
        return f"{message}\n{self.hint}" if self.hint else message

    def _excerpt(self) -> str:
        """The line at fault with a caret below the place, cut to what fits a terminal."""
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        line = self.text[start : end if end >= 0 else len(self.text)]
        at = self.position - start
        left = max(0, at - 60)
        shown = "".join(c if c.isprintable() else " " for c in line[left : left + 100])
        return f"  {'…' if left else ''}{shown}\n  {' ' * (at - left + bool(left))}^"

    def __reduce__(self) -> tuple[type[ParseError], tuple[str, int, str, str | None]]:
        return type(self), (self.text, self.position, self.reason, self.hint)


class UnknownLanguage(PalioError):
    """A condition names a language that nobody registered."""

    def __init__(self, language: str, known: list[str]) -> None:
        self.language = language
        self.known = known
        there_are = f"known are {', '.join(sorted(known))}" if known else "none is known"
        super().__init__(f"there is no condition language {language!r}; {there_are}")


class BrokenLanguage(PalioError):
    """A language that a package announces and that cannot be loaded."""

    def __init__(self, language: str, reason: str) -> None:
        self.language = language
        self.reason = reason
        super().__init__(f"the condition language {language!r} cannot be loaded: {reason}")


class MissingExtra(PalioError):
    """Something that needs packages which are not installed; `extra` is what brings them."""

    def __init__(self, what: str, extra: str) -> None:
        self.what = what
        self.extra = extra
        super().__init__(f"{what} need packages that are not installed: pip install 'palio[{extra}]'")


class EventError(PalioError):
    """An event that cannot be read; `path` names the attribute at fault where one is known."""

    def __init__(self, reason: str, path: str | None = None) -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"{path}: {reason}" if path else reason)


class SubscriptionError(PalioError):
    """Something is wrong with one subscription, named by its id."""

    def __init__(self, subscription: str, reason: str) -> None:
        self.subscription = subscription
        self.reason = reason
        super().__init__(f"subscription {subscription!r}: {reason}")


class DuplicateSubscription(SubscriptionError):
    """A subscription with this id is there already; `replace` changes it, or what `how` says."""

    def __init__(self, subscription: str, how: str = "replace()") -> None:
        super().__init__(subscription, f"there is one with this id already; use {how} to change it")


class UnknownSubscription(SubscriptionError, KeyError):
    """No subscription has this id."""

    def __init__(self, subscription: str) -> None:
        super().__init__(subscription, "there is none with this id")

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidSubscription(SubscriptionError):
    """A subscription that cannot be used: its condition cannot be read, the cause says why; or it cannot be kept."""


class IndexFileError(PalioError):
    """A saved matcher that cannot be opened: not one of ours, of another version, cut short or damaged."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class SubscriptionLogError(PalioError):
    """A subscription log that cannot be read or written: damaged, not one, or not to be had any more."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class VersionNotKept(SubscriptionLogError):
    """A version of a subscription log that was compacted away, or that is not there yet."""

    def __init__(self, path: str, version: int, reason: str) -> None:
        self.version = version
        super().__init__(path, f"version {version:,} {reason}")


class InputError(PalioError):
    """A file that cannot be read as what it should be; names the file, the line and the reason."""

    def __init__(self, source: str, reason: str, line: int | None = None) -> None:
        self.source = source
        self.reason = reason
        self.line = line
        super().__init__(f"{self.place}: {reason}")

    @property
    def place(self) -> str:
        """The file, and the line where one is known."""
        return f"{self.source}:{self.line}" if self.line else self.source


class PipelineError(PalioError):
    """A Spark job that cannot be set up as it was asked for."""


class IllegalCombination(PalioError, ValueError):
    """Choices for a broker that do not go together; `reason` says what would go wrong."""

    def __init__(self, choice: str, reason: str) -> None:
        self.choice = choice
        self.reason = reason
        super().__init__(f"{choice} is not possible: {reason}")


class NotAdvertised(PalioError):
    """An event that its publisher did not advertise, in a network where subscriptions go only where they are served."""


class WireError(PalioError):
    """Bytes that are no message of this version of Palio."""


class AuthenticationFailed(PalioError):
    """Nobody known: no token or certificate, an unknown one, or one that has expired. Which it is stays unsaid."""


class NotPermitted(PalioError):
    """Something that whoever asked for it may not do; `reason` says what would have to be granted."""

    def __init__(self, who: str, what: str, reason: str) -> None:
        self.who = who
        self.what = what
        self.reason = reason
        super().__init__(f"{who} may not {what}: {reason}")


class LimitReached(PalioError):
    """More than a broker takes; `limit` names the limit, `most` is what it admits."""

    def __init__(self, limit: str, most: float, reason: str) -> None:
        self.limit = limit
        self.most = most
        self.reason = reason
        super().__init__(f"{reason} ({limit} = {most:,})")


class StoreError(PalioError):
    """The store of a broker cannot be opened, read or written: damaged, of another version, or not a store."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class StoreInUse(StoreError):
    """Another broker has this directory open."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "another broker is using this directory; give each its own with --data")


class StoreFull(StoreError):
    """There is no room for what was to be written, and nothing of it was; the store goes on when there is."""


class QueueFull(PalioError):
    """A durable subscription has as many events waiting as it may; nothing of what was to be written with it was."""

    def __init__(self, client: str, name: str, waiting: int) -> None:
        self.client = client
        self.name = name
        self.waiting = waiting
        super().__init__(f"{waiting:,} events wait for {name!r} of {client!r}, and no more may")


class ExpiredOffset(PalioError):
    """Events of a log that are not kept any more; `oldest` is the first offset that is.

    `broker` is whose log it is, where several were asked, and `expired` has the oldest offset of each that has let go.
    """

    def __init__(
        self, offset: int, oldest: int, broker: int | None = None, expired: Mapping[int, int] | None = None
    ) -> None:
        self.offset = offset
        self.oldest = oldest
        self.broker = broker
        self.expired = dict(expired or {})
        whose = "the log" if broker is None else f"the log of broker {broker}"
        others = f"; so have those of {', '.join(str(each) for each in self.expired if each != broker)}"
        said = f"{whose} has let go of offset {offset:,}; the oldest that it keeps is {oldest:,}"
        super().__init__(said + (others if len(self.expired) > 1 else ""))


class ConnectionFailed(PalioError, ConnectionError):
    """No connection to a broker, or none any more; `address` is where it was tried."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"{address}: {reason}")


class LivesElsewhere(SubscriptionError):
    """A durable subscription has its events at another broker; `homes` are its number and its address, which is empty
    where it is not known."""

    def __init__(self, subscription: str, homes: tuple[tuple[int, str], ...], reason: str = "") -> None:
        self.homes = homes
        where = " and ".join(
            f"broker {number} at {address or 'an address that it does not say'}" for number, address in homes
        )
        super().__init__(subscription, f"it lives at {where}{reason and '; '}{reason}")


class HomeAway(SubscriptionError):
    """A durable subscription may live at one of the `brokers` that are away, so that it can be had nowhere now."""

    def __init__(self, subscription: str, brokers: tuple[int, ...]) -> None:
        self.brokers = brokers
        away = ", ".join(map(str, brokers))
        reason = f"it may live at brokers that are away: {away}; `palio forget` gives up one that is not coming back"
        super().__init__(subscription, reason)


class Refused(PalioError):
    """Something that a broker did not carry out, and why."""
