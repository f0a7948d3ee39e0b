"""Classical matchers: the oracle and the indexes of the literature, for tests, benchmarks and experiments only."""
