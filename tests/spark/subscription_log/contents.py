"""Contents of a subscription log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from palio.spark import SubscriptionLog

AT_ONCE = timedelta(0)


def contents(log: SubscriptionLog, version: int | None = None) -> dict[str, Any]:
    return {each.id: each.where for each in log.at(version)}
