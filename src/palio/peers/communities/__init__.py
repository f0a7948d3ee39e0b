"""Semantic communities: peers whose neighbours have close interests, without routing tables (Chand §7–9)."""
