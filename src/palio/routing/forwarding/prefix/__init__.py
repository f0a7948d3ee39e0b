"""Prefix forwarding: the first broker writes which branches of a shared tree an event satisfies (Jerzak §4)."""
