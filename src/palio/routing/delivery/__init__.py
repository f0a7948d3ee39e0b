"""Durable delivery: at-least-once from publisher to durable subscription, as docs/delivery.md describes it."""
