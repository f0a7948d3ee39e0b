"""Covering: which filters are made redundant by wider ones. What only tests and benchmarks use is in `classical`."""
