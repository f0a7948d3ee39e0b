"""Publish/subscribe without brokers: peers on a Chord ring, and the rendezvous mappings that Spark partitions by."""
