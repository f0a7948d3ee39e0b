"""Reuse forwarding (Shen chapter 3): an event carries the keys of some or all filters that it matches."""
