"""Prefix forwarding (Jerzak chapter 4): an event carries the branches of a shared routing tree that it satisfies."""
