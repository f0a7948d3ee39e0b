"""How does Palio run on a Spark cluster, and on Spark's own terms? DataFrames in, DataFrames out.

Needs the extra `spark`. The session is the caller's, and is never stopped here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palio.spark.functions import matches as matches
    from palio.spark.functions import matching_function as matching_function
    from palio.spark.matching import match as match
    from palio.spark.rendezvous.sampling import Rendezvous as Rendezvous
    from palio.spark.wants import Refused as Refused
    from palio.spark.wants import Wants as Wants

_HOMES = {
    "Refused": "palio.spark.wants",
    "Rendezvous": "palio.spark.rendezvous.sampling",
    "Wants": "palio.spark.wants",
    "match": "palio.spark.matching",
    "matches": "palio.spark.functions",
    "matching_function": "palio.spark.functions",
}

__all__ = ["Refused", "Rendezvous", "Wants", "match", "matches", "matching_function"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'palio.spark' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
