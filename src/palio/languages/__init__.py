"""Condition languages: each parses its own conditions and lowers them to a `Filter`."""
