"""The Python client of a broker: asynchronous, and blocking for scripts."""
