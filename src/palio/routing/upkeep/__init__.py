"""Upkeep: how a network stays true, and what a broker knows about that."""
