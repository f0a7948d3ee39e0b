"""One subscription: who wants what, as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from palio.errors import InvalidSubscription, PalioError
from palio.filters.filter import Filter


@dataclass(frozen=True, slots=True)
class Subscription:
    """A condition with a name; `where` is text, or JSON for JSON languages."""

    id: str
    where: Any
    language: str = "sql"
    subscriber: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    timezone: str = "UTC"  # in which its literals without a zone are read

    @property
    def filter(self) -> Filter:
        """The condition as a filter; the error names the subscription."""
        if isinstance(self.where, Filter):
            return self.where
        try:
            return Filter.parse(self.where, language=self.language, timezone=self.timezone)
        except PalioError as error:
            raise InvalidSubscription(self.id, str(error)) from error
