"""The index of the version of the subscriptions that a batch needs: built once, then carried from version to version.

The next version is made from the saved index of the one before: its arrays are mapped, not built, and the changes are
added and removed as in any matcher. When much of it is dead weight, or the way there was compacted away, it is built
anew from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palio.errors import VersionNotKept
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.spark.log import SubscriptionLog
from palio.spark.shared_index import SharedIndex
from palio.spark.wants import Wants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Indexes:
    """The indexes of one log, the latest at hand."""

    def __init__(self, log: SubscriptionLog) -> None:
        self._log = log
        self._latest: tuple[int, Wants] | None = None

    def at(self, spark: SparkSession, version: int) -> Wants:
        """What subscribers want at a version, with an index that workers can open."""
        if self._latest is not None and self._latest[0] == version:
            return self._latest[1]
        wants = self._next(version) or Wants.gather(self._log.at(version))
        index = SharedIndex.publish(spark, wants.matcher)
        if self._latest is not None and (old := self._latest[1].index) is not None:
            old.release(spark)
        self._latest = version, Wants(wants.matcher, wants.refused, wants.subscribers, index)
        return self._latest[1]

    def _next(self, version: int) -> Wants | None:
        """The version made from the one at hand; None where that is not possible, or not worth it."""
        if self._latest is None or self._latest[0] > version:
            return None
        old = self._latest[1]
        assert old.index is not None  # it was published
        try:
            touched: dict[str, Subscription | None] = {
                change.id: change.subscription
                for each in self._log.versions(self._latest[0], version)
                for change in each.changes
            }
        except VersionNotKept:
            return None
        figures = old.matcher.statistics()
        if figures.removed + len(touched) > figures.subscriptions:
            return None
        changed = Wants.gather([each for each in touched.values() if each is not None])
        matcher = Matcher.open(old.index.path)
        matcher.remove_many([id for id in touched if id in matcher])
        matcher.add_subscriptions([changed.matcher[id] for id in changed.matcher])
        kept = tuple(each for each in old.refused if each.id not in touched)
        subscribers = {id: who for id, who in old.subscribers.items() if id not in touched}
        return Wants(matcher, (*kept, *changed.refused), {**subscribers, **changed.subscribers})
