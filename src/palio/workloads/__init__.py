"""Workloads: events and subscriptions for tests and measurements.

`eq` and `mix` are synthetic and of any size; `palio.workloads.padres` reads the quotes and subscriptions of the PADRES
project from files that the caller has; `palio.workloads.flights` carries a small sample of real flights with
subscriptions to them, for a first look without data of one's own.
"""

from palio.workloads.generated import WorkloadError
from palio.workloads.synthetic import BLOCK, Workload, eq, mix

__all__ = ["BLOCK", "Workload", "WorkloadError", "eq", "mix"]
