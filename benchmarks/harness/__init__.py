"""Benchmark harness: engines on equal work, in one run, on one core, with their answers compared."""
