"""Forwarding by Bloom digests (Jerzak chapter 5): an event carries the bits of the predicates that it satisfies."""

from palio.routing.forwarding.bloom.forwarding import BloomForwarding

__all__ = ["BloomForwarding"]
