"""Subscriptions: a condition with an id, and many of them as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from palio.errors import EventError, InvalidArgument, InvalidSubscription, PalioError
from palio.filters.filter import Filter
from palio.matching.metadata import copy_value, plain_text


@dataclass(frozen=True, slots=True)
class Subscription:
    """A condition with a name; `where` is text, or JSON for JSON languages, or a Filter.

    `subscriber` names its owner, and `metadata` is any mapping of texts to values: Palio keeps both, as a copy.
    Literals without a zone are read in `timezone`. `InvalidSubscription` where a field cannot be kept.
    """

    id: str
    where: Any
    language: str = "sql"
    subscriber: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        # The common subscription, an ASCII id and an SQL text, passes without a call to the checks below.
        if not self.id or type(self.id) is not str or not self.id.isascii():
            self._set("id", _text(self, "id", "an id"))
        if type(self.where) is not str and not isinstance(self.where, Filter):
            self._set("where", _copy_of(self, "where"))
        if self.subscriber is not None:
            self._set("subscriber", _text(self, "subscriber", "a subscriber"))
        if type(self.metadata) is not dict or self.metadata:
            if not isinstance(self.metadata, Mapping):
                raise _refusal(self, f"metadata is a mapping, not {type(self.metadata).__name__}")
            self._set("metadata", _copy_of(self, "metadata"))
        if type(self.language) is not str or type(self.timezone) is not str:
            self._set("language", _text(self, "language", "a language"))
            self._set("timezone", _text(self, "timezone", "a time zone"))

    def _set(self, field: str, value: Any) -> None:
        # The class is frozen for its users; only `__post_init__` writes.
        object.__setattr__(self, field, value)

    @classmethod
    def of(cls, id: str, where: Any, language: str = "sql", timezone: str = "UTC") -> Subscription:
        """A subscription from its id and what it wants: a condition, or a subscription that gets this id."""
        if isinstance(where, Subscription):
            return where if where.id == id else replace(where, id=id)
        return cls(id, where, language, timezone=timezone)

    @property
    def filter(self) -> Filter:
        """The condition as a filter; the error names the subscription."""
        if isinstance(self.where, Filter):
            return self.where
        try:
            return Filter.parse(self.where, language=self.language, timezone=self.timezone)
        except PalioError as error:
            raise InvalidSubscription(self.id, str(error)) from error

    @property
    def is_bare(self) -> bool:
        """Whether it is an SQL text and nothing else."""
        return (
            self.language == "sql"
            and type(self.where) is str
            and self.subscriber is None
            and not self.metadata
            and self.timezone == "UTC"
        )

    @property
    def want(self) -> Want:
        """As one of many."""
        return self.where if self.is_bare else self


Want: TypeAlias = str | Subscription  # the text of a bare subscription, or all of another


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Many subscriptions as columns. A text costs the garbage collector nothing, and most are just that."""

    ids: list[str]
    wants: list[Want]

    @classmethod
    def of(cls, subscriptions: Sequence[Subscription]) -> Subscriptions:
        for each in subscriptions:
            if not isinstance(each, Subscription):
                raise InvalidArgument(f"a Subscription is needed, not {type(each).__name__}; add_many takes texts")
        return cls([each.id for each in subscriptions], [each.want for each in subscriptions])

    @classmethod
    def of_texts(cls, ids: list[Any], wheres: list[Any], language: str, timezone: str) -> Subscriptions:
        """Subscriptions without subscriber and metadata; `InvalidSubscription` where an id or a condition is none."""
        is_plain = language == "sql" and timezone == "UTC" and set(map(type, wheres)) == set(map(type, ids)) == {str}
        if is_plain and all(ids) and "".join(ids).isascii():
            return cls(ids, wheres)
        return cls.of([Subscription.of(*each, language, timezone) for each in zip(ids, wheres, strict=True)])

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, at: int) -> Subscription:
        want = self.wants[at]
        return Subscription(self.ids[at], want) if isinstance(want, str) else want

    def between(self, start: int, end: int) -> Subscriptions:
        return Subscriptions(self.ids[start:end], self.wants[start:end])

    def at(self, places: Iterable[int]) -> Subscriptions:
        chosen = list(places)
        return Subscriptions([self.ids[each] for each in chosen], [self.wants[each] for each in chosen])


def list_of(given: Any, what: str, call: str = "add_many", call_for_one: str = "add") -> list[Any]:
    """Many ids or conditions. One of them by itself is refused: it would be read as its characters or keys."""
    if isinstance(given, str | bytes | Mapping | Filter | Subscription) or not isinstance(given, Iterable):
        raise InvalidArgument(
            f"{call} takes a list of {what}, not {type(given).__name__}; {call_for_one} takes one subscription"
        )
    return list(given)


def columns_of_pairs(given: Any) -> tuple[list[Any], list[Any]]:
    """Ids and conditions of a mapping of one to the other, or of pairs of both."""
    if isinstance(given, Mapping):
        return list(given), list(given.values())
    pairs = list_of(given, "pairs of an id and a condition, or a mapping")
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidArgument(f"a pair of an id and a condition is needed, not {pair!r:.60}")
    return [id for id, _ in pairs], [where for _, where in pairs]


def _text(subscription: Subscription, field: str, what: str) -> str:
    value = getattr(subscription, field)
    if not isinstance(value, str):
        raise _refusal(subscription, f"{what} is text, not {type(value).__name__}")
    if not value and field == "id":
        raise _refusal(subscription, f"{what} is empty")
    try:
        return plain_text(value, field)
    except EventError as error:
        raise _refusal(subscription, str(error)) from None


def _copy_of(subscription: Subscription, field: str) -> Any:
    try:
        return copy_value(getattr(subscription, field), field)
    except EventError as error:
        raise _refusal(subscription, str(error)) from None


def _refusal(subscription: Subscription, reason: str) -> InvalidSubscription:
    return InvalidSubscription(str(subscription.id), reason)
