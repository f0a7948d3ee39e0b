"""Matching: which subscriptions want an event."""
