"""Broker process: listeners, client sessions, delivery and the event loop that drives a routing node."""
