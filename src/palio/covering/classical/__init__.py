"""Classical covering structures from the sources: run by tests and benchmarks only, never by a broker."""
