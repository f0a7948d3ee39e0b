"""DataFrame whose plan is made at its first use.

What a match job reads of its events, and which of two plans it runs, depends on all conditions of the subscriptions, so
a plan needs them read. PySpark plans every call on a DataFrame at once, and a plan has no place for a part that is
known later. So the plan waits as a whole: the DataFrame is a class of PySpark's own, classic or Connect, without the
plan that PySpark keeps in an attribute, and the first access to that attribute makes it. From then on it is a DataFrame
like any other.

Rejected: subscriptions as a part of the plan. They would reach the rows of events by a join that copies the index to
every task and shuffles the events, or by a subquery that is in every row; and all columns of the events would have to
travel with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING, Any

from palio.spark.shared_index import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def defer(spark: SparkSession, make: Callable[[], DataFrame]) -> DataFrame:
    """The DataFrame that `make` gives, which is called at the first use. If it fails, so does each use.

    It runs with the context variables of now, on the thread of the use.
    """
    found: DataFrame = _deferred_class(is_connect(spark))(spark, make)
    return found


@cache
def _deferred_class(connect: bool) -> Any:
    """The subclass for sessions through Connect, or others; PySpark may be installed with the libraries of one."""
    if connect:
        from pyspark.sql.connect.dataframe import DataFrame
    else:
        from pyspark.sql.classic.dataframe import DataFrame  # type: ignore[assignment]
    plan = "_plan" if connect else "_jdf"

    class DeferredFrame(DataFrame):
        def __init__(self, spark: SparkSession, make: Callable[[], DataFrame]) -> None:
            placeholder: Any = make  # Connect refuses None
            super().__init__(placeholder, spark)  # type: ignore[arg-type]
            delattr(self, plan)
            self._palio_make = make
            self._palio_context = copy_context()
            self._palio_lock = threading.RLock()

        def __getattr__(self, name: str) -> Any:
            """The plan while there is none; otherwise a column, as in every DataFrame."""
            if name == plan:
                with self._palio_lock:
                    if plan not in vars(self):  # another thread may have made it meanwhile
                        setattr(self, plan, getattr(self._palio_context.run(self._palio_make), plan))
                return vars(self)[plan]
            if name.startswith("_") and plan not in vars(self):
                # Python and notebooks look for optional methods; that is no use.
                raise AttributeError(name)
            return super().__getattr__(name)

    return DeferredFrame
