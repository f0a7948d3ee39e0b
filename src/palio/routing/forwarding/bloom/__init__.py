"""Bloom forwarding (Jerzak chapter 5): an event carries the bits of the predicates that it satisfies."""
