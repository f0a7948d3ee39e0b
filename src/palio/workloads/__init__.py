"""What events and subscriptions can one test and measure with?

`eq` and `mix` are synthetic and of any size; `palio.workloads.padres` reads the quotes and subscriptions of
the PADRES project from files the caller has; `palio.workloads.flights` carries a small sample of real flights
with subscriptions to them, for a first look without any data of one's own.
"""

from palio.workloads.synthetic import BLOCK, Workload, WorkloadError, eq, mix

__all__ = ["BLOCK", "Workload", "WorkloadError", "eq", "mix"]
