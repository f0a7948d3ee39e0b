"""Prefix forwarding (Jerzak chapter 4): an event carries the branches of a shared tree that it satisfies."""

from palio.routing.forwarding.prefix.forwarding import PrefixForwarding

__all__ = ["PrefixForwarding"]
