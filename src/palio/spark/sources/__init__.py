"""Python data sources of Spark over brokers and NATS, built on any source that numbers its events."""
