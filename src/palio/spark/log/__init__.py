"""Subscriptions that change while events are matched: a log of versions, each a file of changes.

    changes/00000000000000000007.jsonl.zst     what version 7 adds, changes and removes, and when
    snapshots/00000000000000000005.jsonl.zst   all subscriptions at version 5

Needs no Spark. Version 0 is the empty log.
"""

from palio.spark.log.log import SubscriptionLog
from palio.spark.log.versions import Change, Snapshot, Version

__all__ = ["Change", "Snapshot", "SubscriptionLog", "Version"]
