"""Every error that Palio raises on purpose, by class.

One `except PalioError` catches them all. A failure that a caller may want to tell apart has a class of its own with
typed fields; its message says what was wrong, where, and what would be right.

    PalioError
      InvalidArgument (ValueError)
      NoTruthValue (TypeError)
      ParseError (ValueError)
      UnknownLanguage
      BrokenLanguage
      MissingExtra
      EventError
        DocumentError
      SubscriptionError
        DuplicateSubscription
        UnknownSubscription (KeyError)
        InvalidSubscription
        LivesElsewhere
        HomeAway
        DurableInUse
      IndexFileError
        IndexFileNotFound (FileNotFoundError)
      SubscriptionLogError
        VersionNotKept
      InputError
      PipelineError
      IllegalCombination (ValueError)
      NotAdvertised
      WireError
        SealError
      AuthenticationFailed
      NotPermitted
      LimitReached
      StoreError
        StoreInUse
        StoreFull
      QueueFull
      ConfirmTimeout
      ExpiredOffset
      ConnectionFailed (ConnectionError)
      NoReply (TimeoutError)
      Refused
"""

from __future__ import annotations

from errno import ENOENT
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping  # not at run time: `palio` exports every class of this module


class PalioError(Exception):
    """The root of all errors of Palio."""


class InvalidArgument(PalioError, ValueError):
    """An argument of the wrong type, or a value outside of the permitted ones."""


class NoTruthValue(PalioError, TypeError):
    """A filter where Python asks for true or false, as in `f and g`; the message names `&`, `|` and `~`."""


class ParseError(PalioError, ValueError):
    """A condition with a syntax error, or with an expression that no subscription may use.

    `position` counts characters from 0; `reason` says what is wrong there; `hint`, if not None, proposes the
    nearest expression that works.
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
        """The line at fault with a caret below the position, cut to the width of a terminal."""
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        line = self.text[start : end if end >= 0 else len(self.text)]
        at = self.position - start
        # At most 60 characters before the position: the caret stays within 80 columns.
        left = max(0, at - 60)
        shown = "".join(c if c.isprintable() else " " for c in line[left : left + 100])
        return f"  {'…' if left else ''}{shown}\n  {' ' * (at - left + bool(left))}^"

    def __reduce__(self) -> tuple[type[ParseError], tuple[str, int, str, str | None]]:
        # By default an exception is unpickled from its message, which is not what `__init__` takes.
        return type(self), (self.text, self.position, self.reason, self.hint)


class UnknownLanguage(PalioError):
    """The name of a condition language that is not registered."""

    def __init__(self, language: str, known: list[str]) -> None:
        self.language = language
        self.known = known
        known_ones = f"known are {', '.join(sorted(known))}" if known else "none is known"
        super().__init__(f"there is no condition language {language!r}; {known_ones}")


class BrokenLanguage(PalioError):
    """A condition language that a package registers and that cannot be loaded."""

    def __init__(self, language: str, reason: str) -> None:
        self.language = language
        self.reason = reason
        super().__init__(f"the condition language {language!r} cannot be loaded: {reason}")


class MissingExtra(PalioError):
    """A feature whose packages are not installed; `extra` is the optional dependency that has them."""

    def __init__(self, what: str, extra: str) -> None:
        self.what = what
        self.extra = extra
        super().__init__(f"{what} need packages that are not installed: pip install 'palio[{extra}]'")


class EventError(PalioError):
    """An event that cannot be read; `path` names the attribute at fault, if it is known."""

    def __init__(self, reason: str, path: str | None = None) -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"{path}: {reason}" if path else reason)


class DocumentError(EventError):
    """An XML document that is malformed or exceeds a limit; `line` and `column` count from 1, None where unknown."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        self.line = line
        self.column = column
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason if self.line is None else f"{self.reason} (line {self.line}, column {self.column})"

    def __reduce__(self) -> tuple[type[DocumentError], tuple[str, int | None, int | None]]:
        return type(self), (self.reason, self.line, self.column)


class SubscriptionError(PalioError):
    """A failure that concerns one subscription, named by its id."""

    def __init__(self, subscription: str, reason: str) -> None:
        self.subscription = subscription
        self.reason = reason
        super().__init__(f"subscription {subscription!r}: {reason}")


class DuplicateSubscription(SubscriptionError):
    """A subscription with this id exists already; `how` names the call that changes it."""

    def __init__(self, subscription: str, how: str = "replace()") -> None:
        super().__init__(subscription, f"there is one with this id already; use {how} to change it")


class UnknownSubscription(SubscriptionError, KeyError):
    """No subscription has this id."""

    def __init__(self, subscription: str) -> None:
        super().__init__(subscription, "there is none with this id")

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0])


class InvalidSubscription(SubscriptionError):
    """A subscription with an unreadable condition (the cause says why), or one that cannot be stored."""


class IndexFileError(PalioError):
    """A saved matcher that cannot be opened: another format or version, truncated, or damaged."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class IndexFileNotFound(IndexFileError, FileNotFoundError):
    """A saved matcher that is not there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.errno = ENOENT  # not `filename`, with which an OSError prints another message


class SubscriptionLogError(PalioError):
    """A subscription log that cannot be read or written: damaged, another format, or no longer available."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class VersionNotKept(SubscriptionLogError):
    """A version of a subscription log that was compacted away, or that does not exist yet."""

    def __init__(self, path: str, version: int, reason: str) -> None:
        self.version = version
        super().__init__(path, f"version {version:,} {reason}")


class InputError(PalioError):
    """A file that is not in the expected format; names the file, the line and the reason."""

    def __init__(self, source: str, reason: str, line: int | None = None) -> None:
        self.source = source
        self.reason = reason
        self.line = line
        super().__init__(f"{self.place}: {reason}")

    @property
    def place(self) -> str:
        """The file, and the line if it is known."""
        return f"{self.source}:{self.line}" if self.line else self.source


class PipelineError(PalioError):
    """A Spark job that cannot be set up as requested."""


class IllegalCombination(PalioError, ValueError):
    """Broker strategies that exclude each other; `reason` says what would go wrong."""

    def __init__(self, choice: str, reason: str) -> None:
        self.choice = choice
        self.reason = reason
        super().__init__(f"{choice} is not possible: {reason}")


class NotAdvertised(PalioError):
    """An event that its publisher did not advertise, in a network that routes by advertisements."""


class WireError(PalioError):
    """Bytes that are not a message of this version of the wire protocol."""


class SealError(WireError):
    """Sealed content that cannot be opened; `problem` says why, and `key` is the fingerprint of the key it names."""

    def __init__(self, problem: str, key: str = "") -> None:
        self.problem = problem
        self.key = key
        super().__init__(f"{problem}: {key}" if key else problem)


class AuthenticationFailed(PalioError):
    """A missing, unknown or expired token or certificate; it does not say which, so that tokens cannot be probed."""


class NotPermitted(PalioError):
    """An operation without a grant; `reason` says which grant is needed."""

    def __init__(self, who: str, what: str, reason: str) -> None:
        self.who = who
        self.what = what
        self.reason = reason
        super().__init__(f"{who} may not {what}: {reason}")


class LimitReached(PalioError):
    """A limit of a broker was exceeded; `limit` names it, `most` is its value."""

    def __init__(self, limit: str, most: float, reason: str) -> None:
        self.limit = limit
        self.most = most
        self.reason = reason
        super().__init__(f"{reason} ({limit} = {most:,})")


class StoreError(PalioError):
    """A broker's store that cannot be opened, read or written: damaged, another version, or another format."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class StoreInUse(StoreError):
    """A data directory that another broker has open."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "another broker is using this directory; give each its own with --data")


class StoreFull(StoreError):
    """A full disk. Nothing of the batch was written; the store continues when there is space again."""


class QueueFull(PalioError):
    """A durable subscription's queue is full. Nothing of the batch was written."""

    def __init__(self, client: str, name: str, waiting: int) -> None:
        self.client = client
        self.name = name
        self.waiting = waiting
        super().__init__(f"{waiting:,} events wait for {name!r} of {client!r}, and no more may")


class ConfirmTimeout(PalioError):
    """An event or a subscription that was not confirmed in time; `reason` says what it waited for.

    An event that waited for room was not accepted. Where the message says that it may still be accepted, publishing the
    same event again is safe: duplicates are known by their id.
    """

    def __init__(self, seconds: float, reason: str) -> None:
        self.seconds = seconds
        self.reason = reason
        super().__init__(f"not confirmed within {seconds:g} seconds: {reason}")


class ExpiredOffset(PalioError):
    """An offset of an event log that retention has removed; `oldest` is the first offset that remains.

    For a replay over several brokers, `broker` is the owner of the log, and `expired` maps each broker whose retention
    has passed the requested offset to its oldest one.
    """

    def __init__(
        self, offset: int, oldest: int, broker: int | None = None, expired: Mapping[int, int] | None = None
    ) -> None:
        self.offset = offset
        self.oldest = oldest
        self.broker = broker
        self.expired = dict(expired or {})
        whose = "the log" if broker is None else f"the log of broker {broker}"
        others = f"; nor have those of {', '.join(str(each) for each in self.expired if each != broker)}"
        message = f"{whose} no longer has offset {offset:,}, retention removed it; the oldest is {oldest:,}"
        super().__init__(message + (others if len(self.expired) > 1 else ""))


class ConnectionFailed(PalioError, ConnectionError):
    """A broker that cannot be reached, or a lost connection; `address` is the broker's."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"{address}: {reason}")


class LivesElsewhere(SubscriptionError):
    """A durable subscription whose queue is at another broker, its home; `homes` are number and address, which is empty
    if unknown."""

    def __init__(self, subscription: str, homes: tuple[tuple[int, str], ...], reason: str = "") -> None:
        self.homes = homes
        where = " and ".join(
            f"broker {number} at {address or 'an address that it does not say'}" for number, address in homes
        )
        super().__init__(subscription, f"it lives at {where}{reason and '; '}{reason}")


class HomeAway(SubscriptionError):
    """A durable subscription whose home may be one of the unreachable `brokers`, so that no broker can serve it now."""

    def __init__(self, subscription: str, brokers: tuple[int, ...]) -> None:
        self.brokers = brokers
        away = ", ".join(map(str, brokers))
        reason = f"it may live at brokers that are away: {away}; `palio forget` gives up one that is not coming back"
        super().__init__(subscription, reason)


class DurableInUse(SubscriptionError):
    """A durable subscription that another `consumer` reads: one at a time may, or the members of one group."""

    def __init__(self, subscription: str, consumer: str, remedy: str) -> None:
        self.consumer = consumer
        super().__init__(subscription, f"the durable subscription is read by {consumer}; {remedy}")


class NoReply(PalioError, TimeoutError):
    """A request that no responder has answered in time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"no reply within {seconds:g} seconds; is there a responder whose condition matches?")


class Refused(PalioError):
    """A request that a broker refused; the message says why."""
