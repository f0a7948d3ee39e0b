"""Durable state of a broker: event log, durable queues, duplicate keys and dead letters."""
