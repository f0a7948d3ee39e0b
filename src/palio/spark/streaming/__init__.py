"""Exactly-once matching over Structured Streaming, with subscriptions that change meanwhile."""
