"""Rendezvous without brokers: stateless mappings from subscriptions and events to keys."""
