"""Propagation of subscriptions and advertisements from broker to broker."""
