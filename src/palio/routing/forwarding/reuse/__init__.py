"""Forwarding by reuse of lookups (Shen chapter 3): an event carries the keys of some or all filters that it matches."""

from palio.routing.forwarding.reuse.forwarding import ReuseForwarding

__all__ = ["ReuseForwarding"]
